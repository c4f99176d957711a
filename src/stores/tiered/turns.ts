// Orders the work of a tiered store: calls on one session run one by one, and clean-up runs concurrently.
import { createSessionQueue } from "../front/session-queue.ts";

export type Turns = ReturnType<typeof createTurns>;

export function createTurns() {
  const { alone } = createSessionQueue<never>(0, () => undefined);
  const running = new Set<Promise<unknown>>();

  /** Starts clean-up. Only `close` waits for it. If the clean-up fails, a later sweep repeats it. */
  function inBackground(work: Promise<unknown>): void {
    const done: Promise<unknown> = work.catch(() => undefined).finally(() => running.delete(done));
    running.add(done);
  }

  /** Runs after all earlier work of this process on any of these sessions. */
  function inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T> {
    const work = alone(sessions, run);
    inBackground(work);
    return work;
  }

  /** Resolves when nothing is running. */
  async function settled(): Promise<void> {
    while (running.size > 0) await Promise.all(running);
  }

  return { inTurn, inBackground, settled };
}
