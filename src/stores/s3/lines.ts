// Who writes to a session when, within one process: in the order of asking, and single commits that wait in groups.

/** Something that is done to one session with others of its kind. */
export interface Waiting<T> {
  item: T;
  resolve(result: never): void;
  reject(error: unknown): void;
}

type Job<T> = Waiting<T> | { alone(): Promise<void> };

/** The most of a group. */
const groupSize = 256;

export type Lines<T> = ReturnType<typeof createLines<T>>;

/** `serve` gets a group of items of one session and settles each of them. */
export function createLines<T>(serve: (session: string, group: Waiting<T>[]) => Promise<void>) {
  const lines = new Map<string, Job<T>[]>();
  const running = new Set<Promise<void>>();

  function push(session: string, job: Job<T>): void {
    const line = lines.get(session);
    if (line) return void line.push(job);
    lines.set(session, [job]);
    const run = drain(session, lines.get(session)!).finally(() => running.delete(run));
    running.add(run);
  }

  async function drain(session: string, line: Job<T>[]): Promise<void> {
    // What is asked for in the same moment goes together.
    await Promise.resolve();
    while (line.length > 0) {
      const first = line[0]!;
      if ("alone" in first) {
        await first.alone();
        line.shift();
        continue;
      }
      const end = line.slice(0, groupSize).findIndex((job) => "alone" in job);
      const group = line.slice(0, end < 0 ? groupSize : end) as Waiting<T>[];
      try {
        await serve(session, group);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
      line.splice(0, group.length);
    }
    lines.delete(session);
  }

  return {
    /** Waits in a session's line, to be served with those around it. */
    join<R>(session: string, item: T): Promise<R> {
      return new Promise<R>((resolve, reject) => push(session, { item, resolve, reject }));
    },

    /** Waits in the lines of several sessions and runs when it is first in all of them. */
    alone<R>(sessions: string[], run: () => Promise<R>): Promise<R> {
      let missing = sessions.length;
      let start!: () => void;
      const done = new Promise<void>((resolve) => (start = resolve)).then(run);
      const settled = done.then(
        () => undefined,
        () => undefined,
      );
      for (const session of sessions) {
        push(session, {
          alone() {
            if (--missing === 0) start();
            return settled;
          },
        });
      }
      return done;
    },

    /** Waits until nobody waits. */
    async idle(): Promise<void> {
      while (running.size > 0) await Promise.all(running);
    },
  };
}
