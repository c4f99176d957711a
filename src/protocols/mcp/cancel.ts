// Running calls from clients that cancel with a notification, which names only a request id.
import type { Id } from "../http/json-rpc.ts";

/**
 * Finds this process's running calls by session and request id. Two clients of one session may use the same request id.
 * In that case, neither call is cancelled.
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
