// Serves the items of one session in order of arrival, one group at a time. Waiting items form the next group.

/** An item that waits to be served with other items of its session. */
interface Waiting<T> {
  item: T;
}

type Job<T> = Waiting<T> | { alone(): Promise<void> };

/** `serve` gets up to `most` waiting items for one session. It never rejects. */
export function createSessionQueue<T>(most: number, serve: (items: T[]) => void | Promise<void>) {
  const queues = new Map<string, Job<T>[]>();

  function push(session: string, job: Job<T>): void {
    const queue = queues.get(session);
    if (queue) return void queue.push(job);
    const first = [job];
    queues.set(session, first);
    void drain(session, first);
  }

  async function drain(session: string, queue: Job<T>[]): Promise<void> {
    // Waits for simultaneous items, to serve them together.
    await Promise.resolve();
    while (queue.length > 0) {
      const first = queue[0]!;
      if ("alone" in first) {
        await first.alone();
        queue.shift();
        continue;
      }
      const end = queue.slice(0, most).findIndex((job) => "alone" in job);
      const group = queue.slice(0, end < 0 ? most : end) as Waiting<T>[];
      await serve(group.map(({ item }) => item));
      queue.splice(0, group.length);
    }
    queues.delete(session);
  }

  return {
    /** Queues an item of a session. */
    join(session: string, item: T): void {
      push(session, { item });
    },

    /** Waits in the queues of several sessions, and runs when it is first in all of them. */
    alone<R>(sessions: readonly string[], run: () => Promise<R>): Promise<R> {
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
  };
}
