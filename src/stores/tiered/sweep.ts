// The sweep of the tiered store: moves out what is idle, and removes what was left behind.
import type { Commit, Listed, Store } from "../../core/store.ts";
import { copyLog } from "./copy.ts";
import type { Place, Ticket } from "./wrap.ts";
import { hidden, isLog, leaving, logOf, newLog, sessionOf, ticketCommit, unwrap } from "./wrap.ts";

export interface Sweeping {
  hot: Store;
  cold: Store;
  idle: number;
  find(session: string): Promise<Place | undefined>;
  remember(session: string, place: Place | undefined): void;
  inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T>;
  inBackground(work: Promise<unknown>): void;
  isClosing(): boolean;
}

/** How many sessions are moved at once. */
const movedAtOnce = 8;
/** How long the ticket of a deleted session stays, and a log that no ticket names, in milliseconds. */
const anHour = 3_600_000;
/** How long a session may take to be copied: then the copy may be taken for one that nobody needs. */
const copyTime = anHour / 2;
/** How long a cold log stays at least after its session came back: the hot store may lose its newest commits in a crash. */
const leastGrace = 600_000;
/** How late the ticket of a deleted session may be removed after it says so, far below what who opens it again waits. */
const removalTime = 1000;

export function createSweep({ hot, cold, idle, find, remember, inTurn, inBackground, isClosing }: Sweeping) {
  /** Logs that no ticket seems to need, and when they may go by the clock of this process: those of others may differ. */
  const waste = new Map<string, { store: Store; due: number }>();
  let coldListed = performance.now();
  let sweeping: Promise<number> | undefined;

  function noteWaste(store: Store, log: string, wait: number): void {
    if (!waste.has(log)) waste.set(log, { store, due: performance.now() + wait });
  }

  /** A log in the cold store whose session came back. It goes when that is certain to last. */
  function leaveCold(log: string): void {
    noteWaste(cold, log, Math.max(leastGrace, idle));
  }

  /** Removes a log that is not used any more; if that fails, a later sweep does. */
  async function discard(store: Store, log: string): Promise<void> {
    try {
      await store.delete(log);
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
    const started = performance.now();
    const copy = newLog(session);
    let isMoved = false;
    try {
      const made = await copyLog(hot, log, cold, copy);
      if (!made) return false;
      const ticket: Ticket = { place: "cold", log: copy, heading, ...made };
      const left = { session: log, version: made.version, entries: [leaving(made.touched)] as Commit["entries"] };
      const moved = ticketCommit(session, place, ticket, made.touched, heading);
      isMoved = await inTurn([session], async () => {
        if (performance.now() - started > copyTime) return false;
        const answer = await hot.append({ ...left, heading: { ...heading, environment: hidden } }, moved);
        if (answer === "ok") remember(session, undefined);
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
    const last = (await hot.load(log))?.entries.at(-1);
    if (last && unwrap(last) === undefined) await hot.delete(log);
    else noteWaste(hot, log, anHour);
  }

  /** Removes the ticket of a session that was deleted long ago. Who opens it again meanwhile waits until it is gone. */
  async function removeGone(session: string, touched: number): Promise<void> {
    const place = await find(session);
    if (place?.ticket.place !== "gone" || Date.now() - place.ticket.since < anHour) return;
    await removeTicket(session, place, touched);
  }

  /** Removes the ticket of a deleted session, which says so first: whoever sees that waits. True if it is gone. */
  async function removeTicket(session: string, place: Place, at: number): Promise<boolean> {
    const started = performance.now();
    const removed = ticketCommit(session, place, { place: "gone", since: Date.now(), removed: true }, at);
    if ((await hot.append(removed)) !== "ok" || performance.now() - started > removalTime) return false;
    await hot.delete(session);
    return true;
  }

  async function isNamed(log: string): Promise<boolean> {
    return logOf(await find(sessionOf(log))) === log;
  }

  async function removeWaste(): Promise<void> {
    for (const [log, { store, due }] of waste) {
      if (isClosing()) return;
      if (due > performance.now()) continue;
      if (await isNamed(log)) waste.delete(log);
      else await discard(store, log);
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

    await forEach(hot.list({ idleBefore: Date.now() - idle + 1 }), ({ session, environment, opened, touched }) => {
      const isHidden = environment === hidden;
      if (isLog(session)) return isHidden ? removeIfLeft(session) : moveOut(session);
      return isHidden && opened === 0 ? removeGone(session, touched) : undefined;
    });
    if (performance.now() - coldListed >= anHour) {
      coldListed = performance.now();
      await forEach(cold.list(), ({ session: log }) => {
        if (!isLog(log) || waste.has(log)) return undefined;
        return isNamed(log).then((named) => void (named || noteWaste(cold, log, anHour)));
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

  return { sweep, leaveCold, discard, wasteOf, removeTicket, swept: () => sweeping };
}
