// The order of work in a tiered store: calls on one session run one by one, clean-up runs concurrently.
export function createTurns() {
  const turns = new Map<string, Promise<void>>();
  const aside = new Set<Promise<void>>();

  /** Runs after all earlier work of this process on any of these sessions. */
  function inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T> {
    const before = sessions.flatMap((session) => turns.get(session) ?? []);
    const work = before.length === 0 ? run() : Promise.all(before).then(run);
    const done: Promise<void> = work.then(
      () => undefined,
      () => undefined,
    );
    for (const session of sessions) turns.set(session, done);
    void done.then(() => {
      for (const session of sessions) if (turns.get(session) === done) turns.delete(session);
    });
    return work;
  }

  /** Starts clean-up. Only `close` waits for it. If it fails, a later sweep does it. */
  function inBackground(work: Promise<unknown>): void {
    const done: Promise<void> = work
      .then(
        () => undefined,
        () => undefined,
      )
      .finally(() => aside.delete(done));
    aside.add(done);
  }

  /** Resolves when nothing is running. */
  async function settled(): Promise<void> {
    while (turns.size + aside.size > 0) {
      await Promise.all([...turns.values(), ...aside]);
      await Promise.resolve();
    }
  }

  return { inTurn, inBackground, settled };
}
