// createLimits(): ends sessions that are idle for too long, are too old, or exceed the maximum number.
import { invalidOption } from "../core/errors.ts";
import type { EndReason } from "../core/event.ts";
import type { Filter, Store } from "../core/store.ts";
import { createKeyedQueue } from "../io/keyed-queue.ts";
import type { OpenLog } from "./open-log.ts";

export interface Limits {
  /** Milliseconds without a commit after which a session ends. Must exceed its longest call. Default: never. */
  idle?: number;
  /** Milliseconds after opening at which a session ends. Default: never. */
  age?: number;
  /** Maximum number of open sessions in the environment. One more ends the longest idle session. Default: unlimited. */
  sessions?: number;
}

/** Maximum number of surplus sessions that are ended when one session is opened. This takes tens of milliseconds. */
const piece = 100;

export function createLimits(
  options: Limits & { store: Store; environment: string; end(session: string, reason: EndReason): Promise<boolean> },
) {
  const { idle = Infinity, age = Infinity, sessions = Infinity, store, environment, end } = options;
  for (const [name, value] of Object.entries({ idle, age, sessions })) {
    if (!(value > 0)) throw invalidOption(`the limit \`${name}\` must be a number greater than 0`);
  }
  const readClock = createSteadyClock();
  const inTurn = createKeyedQueue();
  /** Set while surplus sessions are ended in the background, which starts after a first batch of `piece` sessions. */
  let clearing: Promise<void> | undefined;
  const cleared = (): void => void (clearing = undefined);

  async function endAll(filter: Filter, reason: EndReason, atMost = Infinity, spared?: string): Promise<number> {
    let ended = 0;
    if (atMost <= 0) return 0;
    for await (const { session } of store.list({ ...filter, environment, open: true })) {
      if (session !== spared && (await end(session, reason))) ended++;
      if (ended >= atMost) break;
    }
    return ended;
  }

  /**
   * Ends one batch of surplus sessions. The batch is small, because opening a session waits for it. Batches run one
   * after another. Otherwise, two batches would count the same surplus and end too many sessions.
   */
  function makeRoom(spared?: string): Promise<number> {
    return inTurn("room", async () => {
      const surplus = (await store.count(environment)) - sessions;
      return endAll({ idleBefore: Infinity }, "capacity", Math.min(surplus, piece), spared);
    });
  }

  /** Ends all surplus sessions in batches. A session that opens in the meantime waits for one batch, not for all. */
  async function makeAllRoom(): Promise<number> {
    let ended = 0;
    for (;;) {
      const more = await makeRoom();
      ended += more;
      if (more < piece) return ended;
    }
  }

  async function endAllOver(): Promise<number> {
    let ended = 0;
    const now = readClock();
    if (idle < Infinity) ended += await endAll({ idleBefore: now - idle }, "idle");
    if (age < Infinity) ended += await endAll({ openedBefore: now - age }, "age");
    if (sessions < Infinity) ended += await makeAllRoom();
    return ended;
  }

  return {
    /** Returns the reason to end a session now, if there is one. */
    over({ session, committedAt = -Infinity }: OpenLog): EndReason | undefined {
      if (idle === Infinity && age === Infinity) return undefined;
      const now = readClock();
      // Checks the monotonic clock too, because `touched` may come from a process whose wall clock was behind.
      if (now - session.touched > idle && performance.now() - committedAt > idle) return "idle";
      return now - session.opened > age ? "age" : undefined;
    },
    /** The interval at which calling `expire` is useful, in milliseconds; undefined if there are no time limits. */
    interval: Math.min(idle, age) < Infinity ? Math.min(Math.max(Math.min(idle, age) / 10, 100), 30_000) : undefined,
    /**
     * Ends all sessions over a limit. A second call waits for the first. Otherwise, it would skip sessions that the
     * first is ending, and return too early.
     */
    expire: (): Promise<number> => inTurn("sweep", endAllOver),
    /** Called after a session was opened. Ends a surplus session, unless all others are busy. */
    async opened(session: string): Promise<void> {
      // If ending another session fails, the failure is ignored, because the new session is already open.
      if (sessions === Infinity) return;
      const ended = await makeRoom(session).catch(() => 0);
      if (ended === piece) clearing ??= makeAllRoom().then(cleared, cleared);
    },
  };
}

/** A change of the wall clock by at most this many milliseconds is accepted immediately. */
const correction = 1_000;

/** A larger change is accepted after it has lasted this many milliseconds. */
const lasting = 60_000;

/**
 * Creates a clock that returns the wall-clock time. After the wall clock jumps, it continues as before the jump for one
 * minute of the monotonic clock. So a wrong wall clock ends sessions only if it stays wrong for a minute.
 */
function createSteadyClock(): () => number {
  let offset = Date.now() - performance.now();
  let jump: { offset: number; since: number } | undefined;
  return () => {
    const now = performance.now();
    const seen = Date.now() - now;
    if (Math.abs(seen - offset) <= correction) {
      [offset, jump] = [seen, undefined];
    } else if (!jump || Math.abs(seen - jump.offset) > correction) {
      jump = { offset: seen, since: now };
    } else if (now - jump.since >= lasting) {
      [offset, jump] = [seen, undefined];
    }
    return now + offset;
  };
}
