// What is not to be kept: the sessions of rollouts that are over, where they are gone with the process anyway.
import type { Store } from "../core/store.ts";

export type Forget = (sessions: string[]) => Promise<void>;

/** Forgets sessions of a store that does not outlive the process. Of others nothing is forgotten. */
export function forgetIn(store: Store): Forget | undefined {
  if (store.persistent) return undefined;
  return async (sessions) => {
    for (const session of sessions) await store.delete(session);
  };
}

/** An episode that was forked. Its sessions last until all of its continuations are over. */
export interface Lasting {
  sessions: string[];
  /** How many of them are not over yet. */
  left: number;
  parent: Lasting | undefined;
}

/** One that has these sessions is over, and with it the episodes that it was the last continuation of. */
export async function overWith(
  forget: Forget | undefined,
  parent: Lasting | undefined,
  sessions: string[] = [],
): Promise<void> {
  if (!forget) return;
  await forget(sessions);
  for (let at = parent; at && --at.left === 0; at = at.parent) await forget(at.sessions);
}
