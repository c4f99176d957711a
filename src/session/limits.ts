// Limits: ends sessions that are idle for too long, too old, or too many.
import { HoldfastError } from "../core/errors.ts";
import type { EndReason } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import type { Filter, Store } from "../core/store.ts";

export interface Limits {
  /** Milliseconds without a commit after which a session ends; more than its longest call takes. */
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
  let room: Promise<unknown> = Promise.resolve();
  let sweep: Promise<unknown> = Promise.resolve();

  async function endAll(filter: Filter, reason: EndReason, atMost = Infinity, spared?: string): Promise<number> {
    let ended = 0;
    if (atMost <= 0) return 0;
    for await (const { session } of store.list({ ...filter, environment, open: true })) {
      if (session !== spared && (await end(session, reason))) ended++;
      if (ended >= atMost) break;
    }
    return ended;
  }

  /** One after the other: each counts what the one before has ended. */
  function makeRoom(spared?: string): Promise<number> {
    const making = room.then(async () => {
      const surplus = (await store.count(environment)) - sessions;
      return endAll({ idleBefore: Infinity }, "capacity", surplus, spared);
    });
    room = making.catch(() => 0);
    return making;
  }

  async function endAllOver(): Promise<number> {
    let ended = 0;
    const now = Date.now();
    if (idle < Infinity) ended += await endAll({ idleBefore: now - idle }, "idle");
    if (age < Infinity) ended += await endAll({ openedBefore: now - age }, "age");
    if (sessions < Infinity) ended += await makeRoom();
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
    /** One after the other: what one is about to end the next would take for being called, and be done before it is. */
    expire(): Promise<number> {
      const sweeping = sweep.then(endAllOver);
      sweep = sweeping.catch(() => 0);
      return sweeping;
    },
    /** After a session was opened. Where all others are being called there is one too many until the next time. */
    async opened(session: string): Promise<void> {
      // It is open, whatever becomes of the others.
      if (sessions < Infinity) await makeRoom(session).catch(() => 0);
    },
  };
}
