// Limits: ends sessions that are idle for too long, too old, or too many.
import { HoldfastError } from "../core/errors.ts";
import type { EndReason } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import type { Filter, Store } from "../core/store.ts";

export interface Limits {
  /** Milliseconds without a call after which a session ends. */
  idle?: number;
  /** Milliseconds after its opening at which a session ends. */
  age?: number;
  /** Open sessions of the environment; opening one more ends the one that was idle for longest. */
  sessions?: number;
}

export function createLimits(
  options: Limits & { store: Store; environment: string; end(session: string, reason: EndReason): Promise<boolean> },
) {
  const { idle = Infinity, age = Infinity, sessions = Infinity, store, environment, end } = options;
  for (const [name, value] of Object.entries({ idle, age, sessions })) {
    if (!(value > 0)) throw new HoldfastError("invalid_option", `the limit \`${name}\` must be a number above 0`);
  }
  /** Open sessions as far as this process knows; others may have opened and ended some since it was counted. */
  let open: number | undefined;

  async function endAll(filter: Filter, reason: EndReason, atMost = Infinity, spared?: string): Promise<number> {
    let ended = 0;
    if (atMost <= 0) return 0;
    for await (const { session } of store.list({ ...filter, environment, open: true })) {
      if (session !== spared && (await end(session, reason))) ended++;
      if (ended >= atMost) break;
    }
    return ended;
  }

  return {
    /** Why a session has to end now, if it has to. */
    over(session: Session): EndReason | undefined {
      const now = Date.now();
      if (now - session.touched > idle) return "idle";
      return now - session.opened > age ? "age" : undefined;
    },
    /** How often `expire` is worth while, in milliseconds; undefined if never. */
    interval: Math.min(idle, age) < Infinity ? Math.min(Math.max(Math.min(idle, age) / 10, 100), 30_000) : undefined,
    async expire(): Promise<number> {
      let ended = 0;
      const now = Date.now();
      if (idle < Infinity) ended += await endAll({ idleBefore: now - idle }, "idle");
      if (age < Infinity) ended += await endAll({ openedBefore: now - age }, "age");
      if (sessions < Infinity) {
        open = await store.count(environment);
        ended += await endAll({ idleBefore: Infinity }, "capacity", open - sessions);
      }
      return ended;
    },
    /** Makes room after a session was opened. Where all others are being called there is one too many for a while. */
    async opened(session: string): Promise<void> {
      if (sessions === Infinity) return;
      open = open === undefined ? await store.count(environment) : open + 1;
      await endAll({ idleBefore: Infinity }, "capacity", open - sessions, session);
    },
    ended(): void {
      if (open !== undefined) open--;
    },
  };
}
