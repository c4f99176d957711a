// The order of work in a tiered store: calls on the same session run one after the other, clean-up beside them.
export function createTurns() {
  const turns = new Map<string, Promise<void>>();
  const aside = new Set<Promise<void>>();

  /** Runs after all that was asked for before it on any of these sessions, in this process. */
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

  /** Clean-up that nobody waits for but `close`. If it fails, a later sweep does it. */
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
