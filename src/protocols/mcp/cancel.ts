// Running calls of clients that cancel by a notification, which names only the id of a request.
import type { Id } from "./message.ts";

/**
 * Finds running calls of this process by session and request id. Clients number their requests alike, so if two clients of one
 * session run a call with the same id, neither is cancelled.
 */
export function createCancellation() {
  const running = new Map<string, Set<AbortController>>();
  const keyOf = (session: string, id: Id): string => `${session} ${JSON.stringify(id)}`;

  return {
    /** Runs a call with a signal that `cancel` aborts. */
    async run<T>(session: string, id: Id, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
      const key = keyOf(session, id);
      const controller = new AbortController();
      const calls = running.get(key) ?? new Set();
      running.set(key, calls.add(controller));
      try {
        return await call(controller.signal);
      } finally {
        calls.delete(controller);
        if (calls.size === 0) running.delete(key);
      }
    },
    cancel(session: string, id: unknown): void {
      if (typeof id !== "string" && typeof id !== "number") return;
      const calls = [...(running.get(keyOf(session, id)) ?? [])];
      if (calls.length === 1) calls[0]?.abort();
    },
  };
}
