// The sweep of the tiered store: moves idle sessions out, and removes logs that were left behind.
import type { Listed, Store } from "../../core/store.ts";
import type { LogEnd, Place, Ticket } from "./wrap.ts";
import {
  copyTo,
  fromLog,
  hidden,
  isCopyOf,
  isLog,
  leaving,
  logOf,
  newLog,
  placeAfter,
  sessionOf,
  ticketCommit,
} from "./wrap.ts";

export interface Sweeping {
  hot: Store;
  cold: Store;
  idle: number;
  find(session: string): Promise<Place | undefined>;
  remember(session: string, place: Place | undefined, since: number): void;
  endOf(log: string): Promise<LogEnd | undefined>;
  inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T>;
  inBackground(work: Promise<unknown>): void;
  isClosing(): boolean;
}

/** How many sessions are moved at once. */
const movedAtOnce = 8;
/** How long the ticket of a deleted session stays, and a log that no ticket names, in milliseconds. */
const anHour = 3_600_000;
/** How often the cold store is looked through for what processes that died have left there: it costs a request a session. */
const aDay = 24 * anHour;
/** How long a cold log stays at least after its session came back: the hot store may lose its newest commits in a crash. */
const leastGrace = 600_000;

export function createSweep({ hot, cold, idle, find, remember, endOf, inTurn, inBackground, isClosing }: Sweeping) {
  /** Logs that no ticket seems to need, and when they may go by the clock of this process: those of others may differ. */
  const waste = new Map<string, { store: Store; due: number }>();
  // Not by all at once, and some time also if none of them runs for a day.
  let coldListed = performance.now() - Math.random() * aDay;
  let sweeping: Promise<number> | undefined;

  function noteWaste(store: Store, log: string, wait: number): void {
    if (!waste.has(log)) waste.set(log, { store, due: performance.now() + wait });
  }

  /** A log in the cold store whose session came back. It goes when that is certain to last. */
  function leaveCold(log: string): void {
    noteWaste(cold, log, Math.max(leastGrace, idle));
  }

  /** Removes a log that is not used any more; if that fails, a later sweep does. */
  async function discard(store: Store, log: string, end?: LogEnd): Promise<void> {
    try {
      await store.delete(log, end && { version: end.version, seen: end.mark });
      waste.delete(log);
    } catch {
      waste.set(log, { store, due: performance.now() });
    }
  }

  /** What this process knows to be left of a session. */
  function wasteOf(session: string): { store: Store; log: string }[] {
    return [...waste].flatMap(([log, { store }]) => (sessionOf(log) === session ? [{ store, log }] : []));
  }

  /** Moves a session to the cold store, unless somebody commits to it meanwhile. Calls wait only for the last step. */
  async function moveOut(log: string): Promise<boolean> {
    const session = sessionOf(log);
    const place = await find(session);
    // It may have left this log since it was listed, and be busy in another.
    if (place?.ticket.place !== "hot" || place.ticket.log !== log) return false;
    const { heading, cold: before } = place.ticket;
    const copy = newLog(session, log);
    try {
      const made = await copyTo(cold, copy, hot, log);
      if (!made) return false;
      const ticket: Ticket = { place: "cold", log: copy, heading, ...made };
      const moved = ticketCommit(session, place, ticket, made.touched, heading);
      const isMoved = await inTurn([session], async () => {
        const since = performance.now();
        const answer = await hot.append(leaving(log, made, heading), moved);
        if (answer === "ok") remember(session, placeAfter(moved, ticket), since);
        return answer === "ok";
      });
      inBackground(isMoved ? discard(hot, log) : discard(cold, copy));
      if (isMoved && before !== undefined) {
        if (idle < leastGrace) leaveCold(before);
        else inBackground(discard(cold, before));
      }
      return isMoved;
    } catch (thrown) {
      // Whether it was moved is not known: the ticket will say.
      noteWaste(cold, copy, anHour);
      throw thrown;
    }
  }

  /** Removes a log that was left by a process that died before it could. A copy may be one that is being made. */
  async function removeIfLeft(log: string): Promise<void> {
    if (waste.has(log)) return;
    const found = await hot.load(log);
    if (found && !fromLog(log, found.entries)) await hot.delete(log);
    else noteWaste(hot, log, anHour);
  }

  /** Removes the ticket of a session that was deleted long ago, and none of one that was opened again meanwhile. */
  async function removeGone(session: string): Promise<void> {
    const place = await find(session);
    if (place?.ticket.place !== "gone" || Date.now() - place.at < anHour) return;
    await hot.delete(session, { version: place.version, seen: place.mark });
  }

  /** Removes a log that no ticket names, if no ticket can come to name it, however late its maker continues. */
  async function removeIfUnused(store: Store, log: string): Promise<void> {
    const end = store === hot ? await endOf(log) : undefined;
    const named = logOf(await find(sessionOf(log)));
    if (named === log) waste.delete(log);
    else if (!isCopyOf(log, named)) await discard(store, log);
    // Whoever has it named commits to it in the same step. In the cold store it stays until the session moves.
    else if (end) await discard(hot, log, end);
    else waste.set(log, { store, due: performance.now() + anHour });
  }

  async function removeWaste(): Promise<void> {
    for (const [log, { store, due }] of Array.from(waste)) {
      if (isClosing()) return;
      if (due <= performance.now()) await removeIfUnused(store, log);
    }
  }

  async function sweepOnce(): Promise<number> {
    let moved = 0;
    const failures: unknown[] = [];
    const working = new Set<Promise<void>>();
    async function forEach(rows: AsyncIterable<Listed>, work: (row: Listed) => Promise<unknown> | undefined) {
      for await (const row of rows) {
        if (isClosing()) break;
        // One that cannot be moved does not hold up the others.
        const done: Promise<void> | undefined = work(row)
          ?.then(
            (wasMoved) => void (moved += Number(wasMoved === true)),
            (thrown: unknown) => void failures.push(thrown),
          )
          .finally(() => working.delete(done!));
        if (done) working.add(done);
        if (working.size >= movedAtOnce) await Promise.race(working);
      }
      await Promise.all(working);
    }

    await forEach(hot.list({ idleBefore: Date.now() - idle + 1 }), ({ session, environment, opened }) => {
      const isHidden = environment === hidden;
      if (isLog(session)) return isHidden ? removeIfLeft(session) : moveOut(session);
      return isHidden && opened === 0 ? removeGone(session) : undefined;
    });
    if (performance.now() - coldListed >= aDay) {
      coldListed = performance.now();
      await forEach(cold.list(), ({ session: log }) => {
        if (!isLog(log) || waste.has(log)) return undefined;
        return find(sessionOf(log)).then((place) => void (logOf(place) === log || noteWaste(cold, log, anHour)));
      });
    }
    await removeWaste();
    if (failures.length > 0) throw failures[0];
    return moved;
  }

  function sweep(): Promise<number> {
    sweeping ??= sweepOnce().finally(() => (sweeping = undefined));
    return sweeping;
  }

  return { sweep, leaveCold, discard, wasteOf, swept: () => sweeping };
}
