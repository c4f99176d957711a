// The sweep of the tiered store: moves idle sessions to the cold store, and deletes abandoned logs.
import type { Listed, Store } from "../../core/store.ts";
import type { Places } from "./places.ts";
import type { Turns } from "./turns.ts";
import type { LogEnd, Ticket } from "./tickets.ts";
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
} from "./tickets.ts";

export interface Sweeping {
  hot: Store;
  cold: Store;
  idle: number;
  places: Places;
  turns: Turns;
  isClosing(): boolean;
}

/** Maximum number of sessions that are moved concurrently. */
const movedAtOnce = 8;
/** Milliseconds for which a deleted session's ticket, or a log without a ticket, is kept. */
const anHour = 3_600_000;
/** Milliseconds between two searches of the cold store for logs of dead processes. Each costs a request per session. */
const aDay = 24 * anHour;
/** Minimum milliseconds that a cold log is kept after its session moved back: a crash may lose hot commits. */
const leastGrace = 600_000;

export function createSweep({ hot, cold, idle, places, turns, isClosing }: Sweeping) {
  const { find, remember, endOf } = places;
  const { inTurn, inBackground } = turns;
  /** Logs that no ticket seems to need, and when to delete them, by this process's clock. */
  const waste = new Map<string, { store: Store; due: number }>();
  // The first search is at a random time, so that processes do not search together. Short-lived processes search too.
  let coldListed = performance.now() - Math.random() * aDay;
  let sweeping: Promise<number> | undefined;

  function noteWaste(store: Store, log: string, wait: number): void {
    if (!waste.has(log)) waste.set(log, { store, due: performance.now() + wait });
  }

  /** Deletes a cold log whose session moved back, once that move is certain to be permanent. */
  function leaveCold(log: string): void {
    noteWaste(cold, log, Math.max(leastGrace, idle));
  }

  /** Deletes an unused log. If the delete fails, a later sweep repeats it. */
  async function discard(store: Store, log: string, end?: LogEnd): Promise<void> {
    try {
      await store.delete(log, end && { version: end.version, seen: end.mark });
      waste.delete(log);
    } catch {
      waste.set(log, { store, due: performance.now() });
    }
  }

  /** Returns the unused logs of a session that this process knows. */
  function wasteOf(session: string): { store: Store; log: string }[] {
    return [...waste].flatMap(([log, { store }]) => (sessionOf(log) === session ? [{ store, log }] : []));
  }

  /** Moves a session to the cold store, unless it receives a commit meanwhile. Calls wait only for the last step. */
  async function moveOut(log: string): Promise<boolean> {
    const session = sessionOf(log);
    const place = await find(session);
    // The session may have moved to a different log after it was listed, and be busy in that log.
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
      // It is unknown whether the session was moved. Its ticket will show its current place.
      noteWaste(cold, copy, anHour);
      throw thrown;
    }
  }

  /** Deletes an abandoned log of a dead process. Other logs may be copies in progress, and are checked in an hour. */
  async function removeIfLeft(log: string): Promise<void> {
    if (waste.has(log)) return;
    const found = await hot.load(log);
    if (found && !fromLog(log, found.entries)) await hot.delete(log);
    else noteWaste(hot, log, anHour);
  }

  /** Deletes the ticket of a session that was deleted long ago, unless the session was opened again. */
  async function removeGone(session: string): Promise<void> {
    const place = await find(session);
    if (place?.ticket.place !== "gone" || Date.now() - place.at < anHour) return;
    await hot.delete(session, { version: place.version, seen: place.mark });
  }

  /** Deletes a log without a ticket, unless a slow process may still create a ticket for it. */
  async function removeIfUnused(store: Store, log: string): Promise<void> {
    const end = store === hot ? await endOf(log) : undefined;
    const named = logOf(await find(sessionOf(log)));
    if (named === log) waste.delete(log);
    else if (!isCopyOf(log, named)) await discard(store, log);
    // A process that names a hot log also commits to it in the same step. A cold log is kept until its session moves.
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
        // A session that cannot be moved does not block other sessions.
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
