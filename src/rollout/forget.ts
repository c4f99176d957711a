// Deletes finished rollouts' sessions from stores that do not outlive the process.
import type { Store } from "../core/store.ts";

export type Forget = (sessions: string[]) => Promise<void>;

/** Returns a function that deletes sessions, or undefined for a persistent store, which keeps them. */
export function forgetIn(store: Store): Forget | undefined {
  if (store.persistent) return undefined;
  return async (sessions) => {
    for (const session of sessions) await store.delete(session);
  };
}

/** A forked episode. Its sessions are kept until all its continuations are finished. */
export interface Lasting {
  sessions: string[];
  /** Number of unfinished continuations. */
  left: number;
  parent: Lasting | undefined;
}

/** Deletes a finished rollout's sessions, and the sessions of each ancestor whose last continuation this was. */
export async function overWith(
  forget: Forget | undefined,
  parent: Lasting | undefined,
  sessions: string[] = [],
): Promise<void> {
  if (!forget) return;
  await forget(sessions);
  for (let at = parent; at && --at.left === 0; at = at.parent) await forget(at.sessions);
}
