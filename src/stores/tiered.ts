// The tiered store: busy sessions in one store, idle ones in another that is slower and cheaper.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../core/errors.ts";
import type { Appended, Commit, Entry, Heading, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import { copyLog } from "./tiered/copy.ts";
import { createListing } from "./tiered/listing.ts";
import type { Place, Ticket } from "./tiered/wrap.ts";
import { copyOf, hidden, isLog, leaving, newLog, sessionOf, ticketIn, unwrap, unwrapAll, wrap } from "./tiered/wrap.ts";

export interface TieredStoreOptions {
  /** Where sessions are while they are used. It also keeps a line about each that is not. */
  hot: Store;
  /** Where they are once they were idle. */
  cold: Store;
  /** After how many milliseconds without a commit a session moves out of the hot store. Looked for four times in that time. */
  idle: number;
}

/** `close` closes both stores. */
export interface TieredStore extends Store {
  /** Moves out what is idle now, without waiting for the next time. Gives the number of sessions that were moved. */
  sweep(): Promise<number>;
}

/** A part of what is appended to the hot store. */
interface Part {
  commit: Commit;
  place: Place | undefined;
  commits: Commit[];
  /** What holds if it is stored. */
  next: Place | undefined;
  /** What is to be removed if it is stored, from the cold store; if it is not, from the hot one. */
  old?: string;
  copy?: string;
}

const remembered = 50_000;
/** How long one that was deleted may take to go, in milliseconds, before whoever opens it again takes its ticket. */
const goingTime = 3000;
/** What it waits at most from one sweep to the next, in milliseconds. */
const longestWait = 3_600_000;
/** How many sessions are moved at once. */
const movedAtOnce = 8;

/**
 * Two stores as one. Each session has a ticket in the hot store, which says in which log of which store it is. Logs have
 * ids that are used once, and a session changes its place in one append to the ticket and to the log that it leaves or
 * takes, all or none of it: so there is one truth at any moment, whichever processes move it and wherever they die.
 *
 * @example
 * const store = tieredStore({ hot: sqliteStore({ file: "hot.db" }), cold: s3Store({ url: "s3://bucket/cold" }), idle: 3_600_000 });
 */
export function tieredStore({ hot, cold, idle }: TieredStoreOptions): TieredStore {
  if (!(idle >= 0)) throw new HoldfastError("invalid_option", "`idle` must be a number of milliseconds");
  const places = new Map<string, Place>();
  const turns = new Map<string, Promise<void>>();
  let sweeping: Promise<number> | undefined;
  let closing: Promise<void> | undefined;
  const timer = setInterval(
    () => void sweep().catch(() => undefined),
    Math.min(Math.max(idle / 4, 1000), longestWait),
  ).unref();

  function assertOpen(): void {
    if (closing !== undefined) throw new HoldfastError("store_closed", "the tiered store was closed");
  }

  function remember(session: string, place: Place | undefined): void {
    places.delete(session);
    if (place?.ticket.place !== "hot") return;
    if (places.size >= remembered) places.delete(places.keys().next().value!);
    places.set(session, place);
  }

  /** Where a session is now. */
  async function find(session: string): Promise<Place | undefined> {
    if (isLog(session)) return undefined;
    const [last] = (await hot.load(session))?.entries.slice(-1) ?? [];
    const ticket = last && ticketIn(last.body);
    const place = ticket && { ticket, version: ticket.place === "plain" ? 0 : last.version };
    remember(session, place);
    return place;
  }

  /** Reads from where the session is, and again if it was moved meanwhile. Undefined if there is none. */
  async function reading<T>(
    session: string,
    read: (store: Store, log: string, opened: (entries: Entry[]) => Entry[]) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    assertOpen();
    for (let before = -1; ;) {
      const place = await find(session);
      if (!place || place.ticket.place === "gone") return undefined;
      const { ticket, version } = place;
      if (ticket.place === "plain") return read(hot, session, (entries) => entries);
      const result = await read(ticket.place === "hot" ? hot : cold, ticket.log, unwrapAll);
      if (result !== undefined) return result;
      if (version === before)
        throw new HoldfastError("store_corrupt", `the log of session ${session} is not where its ticket says`);
      before = version;
    }
  }

  const ticketCommit = (
    session: string,
    place: Place | undefined,
    ticket: Ticket,
    at: number,
    shown?: Heading,
  ): Commit => ({
    session,
    version: place?.version ?? 0,
    entries: [{ body: JSON.stringify(ticket), at }],
    heading: shown ?? { ...("heading" in ticket ? ticket.heading : { opened: 0 }), environment: hidden },
  });

  const nextOf = (place: Place | undefined, ticket: Ticket): Place => ({ ticket, version: (place?.version ?? 0) + 1 });

  /** What has to be appended to the hot store for a commit; "gone" if that has to wait, an answer if it is refused already. */
  async function partOf(commit: Commit, place: Place | undefined): Promise<Part | Appended | "gone"> {
    const { session, version, heading } = commit;
    const [first] = commit.entries;
    const entries = commit.entries.map(wrap) as Commit["entries"];
    const { seen, snapshot } = commit;
    const rest = {
      version,
      entries,
      ...(seen !== undefined && { seen }),
      ...(snapshot && { snapshot: { ...snapshot } }),
    };
    if (hasTwins(commit)) return "duplicate";
    if (place?.ticket.place === "gone" && version === 0 && Date.now() - place.ticket.since < goingTime) return "gone";
    if (!place || place.ticket.place === "gone") {
      if (version !== 0) return "conflict";
      const ticket: Ticket = { place: "hot", log: newLog(session), heading: copyOf(heading!) };
      const opening = ticketCommit(session, place, ticket, first.at);
      const log = { ...rest, session: ticket.log, heading: ticket.heading };
      return { commit, place, commits: [opening, log], next: nextOf(place, ticket) };
    }
    const { ticket } = place;
    if (ticket.place === "plain") return { commit, place, commits: [commit], next: undefined };
    if (ticket.place === "hot") {
      const log = { ...rest, session: ticket.log, ...(heading && { heading: copyOf(heading) }) };
      if (!heading) return { commit, place, commits: [log], next: place };
      // A log that exists is not opened again, whatever its ticket says.
      const changed: Ticket = { ...ticket, heading: copyOf(heading) };
      return {
        commit,
        place,
        commits: [log, ticketCommit(session, place, changed, first.at)],
        next: nextOf(place, changed),
      };
    }
    if (version !== ticket.version) {
      const keys = commit.entries.flatMap(({ key }) => key ?? []);
      const found = await Promise.all(keys.map((key) => cold.find(ticket.log, key)));
      return found.some(Boolean) ? "duplicate" : "conflict";
    }
    const copy = newLog(session);
    const back: Ticket = { place: "hot", log: copy, heading: copyOf(heading ?? ticket.heading) };
    if ((await copyLog(cold, ticket.log, hot, copy)) === undefined) return "gone";
    const log = { ...rest, session: copy, heading: back.heading };
    const commits = [log, ticketCommit(session, place, back, first.at)];
    return { commit, place, commits, next: nextOf(place, back), old: ticket.log, copy };
  }

  async function append(commits: Commit[]): Promise<Appended> {
    let known = commits.map(({ session }) => places.get(session));
    const deadline = Date.now() + 2 * goingTime;
    known = await Promise.all(commits.map(({ session }, at) => known[at] ?? find(session)));
    for (;;) {
      const parts = await Promise.all(commits.map((commit, at) => partOf(commit, known[at])));
      const ready = parts.filter((part): part is Part => typeof part === "object");
      const all = ready.flatMap((part) => part.commits) as [Commit, ...Commit[]];
      const answer = ready.length === parts.length ? await hot.append(...all) : "conflict";
      await Promise.all(
        ready.flatMap(({ old, copy }) =>
          answer === "ok" ? (old ? [cold.delete(old)] : []) : copy ? [hot.delete(copy)] : [],
        ),
      );
      if (answer === "ok") {
        for (const { commit, next } of ready) remember(commit.session, next);
        return "ok";
      }
      const fresh = await Promise.all(commits.map(({ session }) => find(session)));
      const moved = fresh.some(
        (place, at) => place?.version !== known[at]?.version || logOf(place) !== logOf(known[at]),
      );
      const going = parts.includes("gone");
      if (!moved && !going && ready.length === parts.length) return answer;
      if (!moved && !going) return judged(parts, commits, fresh);
      if (Date.now() > deadline)
        throw new HoldfastError("store_busy", "sessions of a tiered store are moved by others all the time");
      // Whoever deletes it has only to remove what is left.
      if (going) await delay(5 + Math.random() * 20);
      known = fresh;
    }
  }

  /** The answer where some were refused before they were asked for: a repeat anywhere says more. */
  async function judged(
    parts: (Part | Appended | "gone")[],
    commits: Commit[],
    fresh: (Place | undefined)[],
  ): Promise<Appended> {
    const repeats = await Promise.all(
      parts.map(async (part, at) => {
        if (typeof part !== "object") return part === "duplicate";
        const ticket = fresh[at]?.ticket;
        if (!ticket || ticket.place === "gone") return false;
        const keys = commits[at]!.entries.flatMap(({ key }) => key ?? []);
        const log = ticket.place === "plain" ? commits[at]!.session : ticket.log;
        const store = ticket.place === "cold" ? cold : hot;
        return (await Promise.all(keys.map((key) => store.find(log, key)))).some(Boolean);
      }),
    );
    return repeats.includes(true) ? "duplicate" : "conflict";
  }

  /** Moves a session to the cold store, unless somebody commits to it meanwhile. */
  async function moveOut(session: string): Promise<boolean> {
    const place = await find(session);
    if (place?.ticket.place !== "hot") return false;
    const { log, heading } = place.ticket;
    const copy = newLog(session);
    const made = await copyLog(hot, log, cold, copy);
    if (!made) return false;
    const ticket: Ticket = { place: "cold", log: copy, heading, ...made };
    const left = { session: log, version: made.version, entries: [leaving(made.touched)] as Commit["entries"] };
    const moved = ticketCommit(session, place, ticket, made.touched, heading);
    const answer = await hot.append({ ...left, heading: { ...heading, environment: hidden } }, moved);
    if (answer !== "ok") await cold.delete(copy);
    else {
      remember(session, undefined);
      await hot.delete(log);
    }
    return answer === "ok";
  }

  async function sweepOnce(): Promise<number> {
    let moved = 0;
    const moving = new Set<Promise<void>>();
    let failure: unknown;
    for await (const { session: log, environment } of hot.list({ idleBefore: Date.now() - idle + 1 })) {
      if (closing !== undefined || failure !== undefined) break;
      if (!isLog(log)) continue;
      const session = sessionOf(log);
      const work = environment === hidden ? removeIfLeft(log) : inTurn([session], () => moveOut(session));
      const done: Promise<void> = work
        .then((wasMoved) => void (moved += Number(wasMoved)))
        .catch((thrown: unknown) => void (failure = thrown))
        .finally(() => moving.delete(done));
      moving.add(done);
      if (moving.size >= movedAtOnce) await Promise.race(moving);
    }
    await Promise.all(moving);
    if (failure !== undefined) throw failure;
    return moved;
  }

  /** Removes a log that was left by a process that died before it could. Copies that are being made are not touched. */
  async function removeIfLeft(log: string): Promise<boolean> {
    const last = (await hot.load(log))?.entries.at(-1);
    if (last && unwrap(last) === undefined) await hot.delete(log);
    return false;
  }

  function sweep(): Promise<number> {
    sweeping ??= sweepOnce().finally(() => (sweeping = undefined));
    return sweeping;
  }

  async function remove(session: string): Promise<boolean> {
    for (;;) {
      const place = await find(session);
      if (!place || place.ticket.place === "gone") return false;
      const { ticket } = place;
      if (ticket.place === "plain") return hot.delete(session);
      const gone = { place: "gone", since: Date.now() } as const;
      const end = ticket.place === "hot" ? await endOf(ticket.log) : { version: 0, touched: ticket.touched };
      if (!end) continue;
      const commits = [ticketCommit(session, place, gone, end.touched)];
      if (ticket.place === "hot") {
        const entries: Commit["entries"] = [leaving(end.touched)];
        commits.push({
          session: ticket.log,
          version: end.version,
          entries,
          heading: { ...ticket.heading, environment: hidden },
        });
      }
      if ((await hot.append(...(commits as [Commit, ...Commit[]]))) !== "ok") continue;
      remember(session, undefined);
      await (ticket.place === "hot" ? hot : cold).delete(ticket.log);
      // If this took long, somebody may have taken the ticket for a new session by now.
      if (Date.now() - gone.since < goingTime / 2) await hot.delete(session);
      return true;
    }
  }

  const { listing, endOf } = createListing({ hot, find, assertOpen });

  /** Runs after all that was asked for before it on any of these sessions, in this process. `close` waits for it. */
  function inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T> {
    const before = sessions.flatMap((session) => turns.get(session) ?? []);
    const work = before.length === 0 ? run() : Promise.all(before).then(run);
    const done: Promise<void> = work.then(
      () => undefined,
      () => undefined,
    );
    for (const session of sessions) turns.set(session, done);
    void done.then(() => {
      for (const session of sessions) if (turns.get(session) === done) turns.delete(session);
    });
    return work;
  }

  return {
    persistent: hot.persistent && cold.persistent,

    async append(commit, ...together) {
      assertOpen();
      const commits = [commit, ...together].map(prepared);
      if (together.length > 0) assertDifferentSessions(commits);
      return inTurn(
        commits.map(({ session }) => session),
        () => append(commits),
      );
    },

    read: (session, after, limit) =>
      reading(session, async (store, log, opened) => {
        const entries = await store.read(log, after, limit);
        return entries && opened(entries);
      }),

    load: (session, version) =>
      reading(session, async (store, log, opened) => {
        const found = await store.load(log, version);
        return found && { ...found, entries: opened(found.entries) };
      }),

    async find(session, key) {
      const found = await reading(session, async (store, log, opened) => {
        const entry = await store.find(log, key);
        // Nothing found may mean that the log is gone.
        return entry ? opened([entry]) : (await store.read(log, 0, 1)) && [];
      });
      return found?.[0];
    },

    list: (filter = {}) => listing({ ...filter }),

    async count(environment) {
      assertOpen();
      return hot.count(environment);
    },

    async delete(session) {
      assertOpen();
      return inTurn([session], () => remove(session));
    },

    async sweep() {
      assertOpen();
      return sweep();
    },

    close() {
      clearInterval(timer);
      closing ??= (async () => {
        await Promise.allSettled([...turns.values(), sweeping]);
        await Promise.all(turns.values());
        await Promise.all([hot.close(), cold.close()]);
      })();
      return closing;
    },
  };
}

/** A copy of a commit: the caller may do with the one it gave what it likes. */
function prepared({ session, version, seen, entries, heading, snapshot }: Commit): Commit {
  if (version === 0 && !heading) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  if (isLog(session))
    throw new HoldfastError("invalid_option", `the id ${session} is one that the tiered store itself uses`);
  const copy = entries.map((entry) => ({ ...entry })) as Commit["entries"];
  return {
    session,
    version,
    ...(seen !== undefined && { seen }),
    entries: copy,
    ...(heading && { heading: copyOf(heading) }),
    ...(snapshot && { snapshot: { ...snapshot } }),
  };
}

function hasTwins({ entries }: Commit): boolean {
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

function logOf(place: Place | undefined): string | undefined {
  return place && "log" in place.ticket ? place.ticket.log : undefined;
}
