// The tiered store: busy sessions in one store, idle sessions in a slower and cheaper one.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Appended, Commit, Entry, Store } from "../core/store.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { isSameMark } from "./front/mark.ts";
import { assertDifferentSessions, assertHeading, hasTwins } from "./front/unit.ts";
import { createListing } from "./tiered/listing.ts";
import { createPlaces } from "./tiered/places.ts";
import { createSweep } from "./tiered/sweep.ts";
import { createTurns } from "./tiered/turns.ts";
import type { LogEnd, Place, Ticket } from "./tiered/tickets.ts";
import {
  coldEnd,
  copyTo,
  fromLog,
  isLog,
  leaving,
  logOf,
  lostLog,
  newLog,
  placeAfter,
  ticketCommit,
  toLog,
} from "./tiered/tickets.ts";

export interface TieredStoreOptions {
  /** The store for sessions in use. It also has a small ticket for every session. */
  hot: Store;
  /** The store for idle sessions. */
  cold: Store;
  /** Milliseconds without a commit after which a session moves to the cold store. Checked four times in that period. */
  idle: number;
}

/** `close` closes both stores. */
export interface TieredStore extends Store {
  /** Moves idle sessions out now. Returns the number of sessions that were moved. */
  sweep(): Promise<number>;
}

/** One commit of an append, and the commits to the hot store that it becomes. */
interface Part {
  commit: Commit;
  commits: Commit[];
  /** The session's place once the part is stored. */
  next: Place;
  /** The cold log that is obsolete if the part is stored. */
  old?: string;
  /** The hot log that is obsolete if the part is not stored. */
  copy?: string;
}

/** The session's place must be looked up again. */
type Unready = "again";

/** Milliseconds for which a commit retries while other processes move its session. */
const followLimit = 5000;
/** Maximum milliseconds between two sweeps. */
const longestWait = 3_600_000;

/**
 * Combines two stores. Each session has a ticket in the hot store, which names its store and its log. Each log id is
 * used only once. A move is one atomic append to the session's ticket and to its log in the hot store. So its place is
 * never ambiguous, even if a process dies while it moves the session.
 *
 * @example
 * const store = tieredStore({ hot: sqliteStore({ file: "hot.db" }), cold: s3Store({ url: "s3://bucket/cold" }), idle: 3_600_000 });
 */
export function tieredStore(options: TieredStoreOptions): TieredStore {
  const { hot, cold, idle } = options;
  refuseUnknown("tieredStore", options, { hot, cold, idle }, invalidOption);
  if (!(idle >= 0)) throw invalidOption("`idle` must be a number of milliseconds");
  const [places, turns] = [createPlaces(hot), createTurns()];
  const { find, known, remember, endOf } = places;
  const { inTurn, inBackground, settled } = turns;
  const isClosing = (): boolean => closing !== undefined;
  const { sweep, leaveCold, discard, wasteOf, swept } = createSweep({ hot, cold, idle, places, turns, isClosing });
  let closing: Promise<void> | undefined;
  const timer = setInterval(
    () => void sweep().catch(() => undefined),
    Math.min(Math.max(idle / 4, 1000), longestWait),
  ).unref();

  function assertOpen(): void {
    if (closing !== undefined) throw new HoldfastError("store_closed", "the tiered store was closed");
  }

  /**
   * Reads a session from the store that holds it. Retries if the session was moved in the meantime. Returns undefined
   * if it does not exist.
   */
  async function reading<T>(
    session: string,
    read: (store: Store, log: string, given: (entries: Entry[]) => Entry[] | undefined) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    assertOpen();
    for (let before: string | undefined; ;) {
      const place = await find(session);
      if (!place || place.ticket.place === "gone") return undefined;
      const { ticket } = place;
      if (ticket.place === "plain") return read(hot, session, (entries) => entries);
      const given = (entries: Entry[]): Entry[] | undefined => fromLog(ticket.log, entries);
      const result = await read(ticket.place === "hot" ? hot : cold, ticket.log, given);
      if (result !== undefined) return result;
      if (ticket.log === before) throw lostLog(session);
      before = ticket.log;
    }
  }

  /** Converts a commit to commits for the hot store. Returns the answer if the commit is refused. */
  async function partOf(commit: Commit, place: Place | undefined): Promise<Part | Appended | Unready> {
    const { session, version, seen, heading } = commit;
    const [first] = commit.entries;
    if (hasTwins(commit)) return "duplicate";
    if (version !== 0 && (!place || place.ticket.place === "gone")) return "conflict";
    if (place?.ticket.place === "gone") {
      // A session that is opened again is listed as the newest, so it needs a new ticket.
      await hot.delete(session, { version: place.version, seen: place.mark });
      return "again";
    }
    if (!place) {
      const ticket: Ticket = { place: "hot", log: newLog(session), heading: heading! };
      const opening = ticketCommit(session, place, ticket, first.at);
      const log = toLog(ticket.log, commit);
      return { commit, commits: [opening, log], next: placeAfter(opening, ticket) };
    }
    const { ticket } = place;
    // A commit on version 0 opens a session, but this session exists.
    if (version === 0) return (await isRepeat(commit, place)) ? "duplicate" : "conflict";
    if (ticket.place === "plain") return { commit, commits: [commit], next: place };
    if (ticket.place === "hot") {
      const log = toLog(ticket.log, commit);
      if (!heading) return { commit, commits: [log], next: place };
      const changed: Ticket = { ...ticket, heading };
      const change = ticketCommit(session, place, changed, first.at);
      return { commit, commits: [log, change], next: placeAfter(change, changed) };
    }
    if (version !== ticket.version || !isSame(seen, coldEnd(ticket)))
      return (await isRepeat(commit, place)) ? "duplicate" : "conflict";
    const copy = newLog(session, ticket.log);
    const back: Ticket = { place: "hot", log: copy, heading: heading ?? ticket.heading, cold: ticket.log };
    if ((await copyTo(hot, copy, cold, ticket.log)) === undefined) return "again";
    const log = { ...toLog(copy, commit), heading: back.heading };
    const change = ticketCommit(session, place, back, first.at);
    return { commit, commits: [log, change], next: placeAfter(change, back), old: ticket.log, copy };
  }

  async function isRepeat({ session, entries }: Commit, { ticket }: Place): Promise<boolean> {
    if (ticket.place === "gone") return false;
    const keys = entries.flatMap(({ key }) => key ?? []);
    const log = ticket.place === "plain" ? session : ticket.log;
    const store = ticket.place === "cold" ? cold : hot;
    return (await Promise.all(keys.map((key) => store.find(log, key)))).some(Boolean);
  }

  async function append(commits: Commit[]): Promise<Appended> {
    const started = performance.now();
    // Openings do not use the cache, because a session that is not cached may exist.
    let places = await Promise.all(
      commits.map(({ session, version }) => (version > 0 ? known(session) : undefined) ?? find(session)),
    );
    for (;;) {
      const parts = await Promise.all(commits.map((commit, at) => partOf(commit, places[at])));
      const ready = parts.filter((part): part is Part => typeof part === "object");
      const all = ready.flatMap((part) => part.commits) as [Commit, ...Commit[]];
      const since = performance.now();
      const answer = ready.length === parts.length ? await hot.append(...all) : "conflict";
      for (const { old, copy } of ready) {
        if (answer === "ok" && old !== undefined) leaveCold(old);
        else if (answer !== "ok" && copy !== undefined) inBackground(discard(hot, copy));
      }
      if (answer === "ok") {
        for (const { commit, next } of ready) remember(commit.session, next, since);
        return "ok";
      }
      const fresh = await Promise.all(commits.map(({ session }) => find(session)));
      const moved = fresh.some(
        (place, at) => place?.version !== places[at]?.version || logOf(place) !== logOf(places[at]),
      );
      const again = parts.indexOf("again");
      if (!moved && again < 0) return ready.length === parts.length ? answer : judged(parts, commits, fresh);
      if (!moved && fresh[again]?.ticket.place === "cold") throw lostLog(commits[again]!.session);
      if (performance.now() - started > followLimit)
        throw new HoldfastError("store_busy", "other processes kept moving the session between tiers; retry");
      places = fresh;
    }
  }

  /** Returns the answer to a refused append: "duplicate" if a commit is a duplicate, otherwise "conflict". */
  async function judged(
    parts: (Part | Appended | Unready)[],
    commits: Commit[],
    fresh: (Place | undefined)[],
  ): Promise<Appended> {
    const repeats = await Promise.all(
      parts.map(async (part, at) => {
        if (typeof part !== "object") return part === "duplicate";
        const place = fresh[at];
        return place !== undefined && isRepeat(commits[at]!, place);
      }),
    );
    return repeats.includes(true) ? "duplicate" : "conflict";
  }

  async function remove(session: string, end?: Pick<Commit, "version" | "seen">): Promise<boolean> {
    for (let missed: string | undefined; ;) {
      const place = await find(session);
      if (!place || place.ticket.place === "gone") return false;
      const { ticket } = place;
      if (ticket.place === "plain") {
        const isDeleted = await hot.delete(session, end ?? { version: ticket.version });
        if (isDeleted || end) return isDeleted;
        continue;
      }
      const last = ticket.place === "hot" ? await endOf(ticket.log) : coldEnd(ticket);
      if (!last && ticket.log !== missed) {
        missed = ticket.log;
        continue;
      }
      // A session whose log was lost can be deleted as well.
      if (end && (last?.version !== end.version || !isSame(end.seen, last))) return false;
      const gone = ticketCommit(session, place, { place: "gone" }, Math.max(last?.touched ?? 0, Date.now()));
      const left = wasteOf(session);
      const commits = ticket.place === "hot" && last ? [leaving(ticket.log, last, ticket.heading)] : [];
      const since = performance.now();
      if ((await hot.append(gone, ...commits)) !== "ok") continue;
      remember(session, placeAfter(gone, { place: "gone" }), since);
      // The sweep removes its ticket later, because another process may use the ticket for a new session at any moment.
      await discard(ticket.place === "hot" ? hot : cold, ticket.log);
      if (ticket.place === "hot" && ticket.cold !== undefined) await discard(cold, ticket.cold);
      for (const { store, log } of left) await discard(store, log);
      return true;
    }
  }

  const listing = createListing(hot, places, assertOpen);

  return {
    persistent: hot.persistent && cold.persistent,

    async append(commit, ...together) {
      assertOpen();
      const commits = structuredClone([commit, ...together]);
      commits.forEach(assertValid);
      assertDifferentSessions(commits);
      return inTurn(
        commits.map(({ session }) => session),
        () => append(commits),
      );
    },

    read: (session, ...range) =>
      reading(session, async (store, log, given) => {
        const entries = await store.read(log, ...range);
        return entries && given(entries);
      }),

    load: (session, ...asked) =>
      reading(session, async (store, log, given) => {
        const found = await store.load(log, ...asked);
        const entries = found && given(found.entries);
        return entries && { ...found, entries };
      }),

    async find(session, key) {
      const found = await reading(session, async (store, log, given) => {
        const entry = await store.find(log, key);
        // If the log does not have the key, checks that the log still exists.
        return entry ? given([entry]) : (await store.read(log, 0, 1)) && [];
      });
      return found?.[0];
    },

    list: (filter = {}) => listing({ ...filter }),

    async count(environment) {
      assertOpen();
      return hot.count(environment);
    },

    async delete(session, end) {
      assertOpen();
      const given = end && { ...end };
      return inTurn([session], () => remove(session, given));
    },

    async sweep() {
      assertOpen();
      return sweep();
    },

    close() {
      clearInterval(timer);
      closing ??= (async () => {
        await Promise.allSettled([swept()]);
        await settled();
        await Promise.all([hot.close(), cold.close()]);
      })();
      return closing;
    },
  };
}

function assertValid(commit: Commit): void {
  assertHeading(commit);
  if (isLog(commit.session)) throw invalidOption(`the id ${commit.session} is reserved by the tiered store`);
}

/** Returns whether the mark that a writer saw is the mark of this log. */
function isSame(seen: string | undefined, { mark }: LogEnd): boolean {
  return seen === undefined || isSameMark(seen, mark);
}
