// Logs: loads, folds, refreshes and commits sessions, and caches them. To fold is to apply events to a session in
// order. Only this code commits events to sessions.
import { isConversation, resting } from "../core/conversation.ts";
import { HoldfastError, unlessCoded } from "../core/errors.ts";
import type { Event, EventOf, NumberedEvent } from "../core/event.ts";
import { eventKey } from "../core/event-key.ts";
import { decode, fold, isSessionId, type Session } from "../core/session.ts";
import type { Appended, Commit, Entry, Heading, NewEntry, Store } from "../core/store.ts";
import { isSameMark, markAfter as hashAfter, timeAfter } from "../stores/front/mark.ts";
import { createCache, type Cache, type CacheLimits } from "./cache.ts";
import { rejectWaiters, type Caller } from "./exclusive.ts";
import { inDoubt } from "./in-doubt.ts";
import { createOpenLog, type OpenLog } from "./open-log.ts";

/** A snapshot is stored when a log has grown by this many bytes, or by twice the size of its state if that is more. */
const leastGrowth = 16 * 1024;

/** A log is read in pages: entries in the first page and in the largest page, and approximate bytes per page. */
const firstPage = 100;
const largestPage = 2000;
const pageBytes = 4 * 1024 * 1024;

/** Number of times a commit is attempted before it fails with `version_conflict`. */
const attempts = 200;

/** An event for one of several logs that are appended to together. */
export interface Part {
  log: OpenLog;
  event: Event;
  /** The event's size in the log, once appended. */
  bytes?: number;
}

type Make = (session: Session) => Event | undefined | Promise<Event | undefined>;

export interface Logs {
  /** Runs a function with the log open in this process. */
  use<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T>;
  /** Like `use`; returns undefined if the session does not exist or is deleted in the meantime. */
  useIfThere<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T | undefined>;
  /** Loads the session at a version, by default the newest, from the store. The result is separate from the open log. */
  load(id: string, version?: number): Promise<OpenLog>;
  /** Like `load`; returns undefined if the session does not exist. */
  peek(id: string, version?: number): Promise<OpenLog | undefined>;
  /** Reads new events from other processes. Needs exclusive access, because a running call reads the same state. */
  refresh(log: OpenLog): Promise<void>;
  /**
   * Appends the event that `make` returns for the session. If another writer commits first, `make` runs again on the
   * new session. Returns "duplicate" if the log has an event with the same key, and "nothing" if `make` returned none.
   *
   * `allow` throws to refuse the commit. The session in memory may be outdated, so a refusal or a duplicate is final
   * only once a refresh has found no newer event.
   */
  commit(log: OpenLog, allow: () => void, make: Make): Promise<"ok" | "duplicate" | "nothing">;
  /** Tries once to append to several logs atomically. Does not retry. */
  appendAll(parts: [Part, ...Part[]]): Promise<Appended>;
  create(id: string, events: Event[]): Promise<Session>;
  /** Creates a log and appends to others atomically; returns undefined if an append was refused. */
  createWith(id: string, events: Event[], others: Part[]): Promise<Session | undefined>;
  /** Reads the events after a version, in pages. */
  events(id: string, after?: number): AsyncGenerator<NumberedEvent, void, undefined>;
  /** Reads the entries between two versions, in pages of about the same size in bytes. */
  pages(id: string, after: number, upTo?: number): AsyncGenerator<Entry[], void, undefined>;
  find(id: string, key: string, caller?: Caller): Promise<NumberedEvent | undefined>;
  /** Drops a log from the cache. Its users keep it. */
  forget(log: OpenLog): void;
  /** Stops all running handlers. */
  stopAll(reason: HoldfastError): void;
  readonly counts: { readonly hits: number; readonly misses: number; readonly bytes: number };
}

/** Creates the cache for logs. To free memory, it drops a log's views before it drops the log itself. */
export function createLogCache(limits?: CacheLimits): Cache<OpenLog> {
  return createCache<OpenLog>(limits, {
    sizeOf: (log) => log.snapshotBytes + log.bytesSinceSnapshot + (log.views?.bytes ?? 0),
    shrink: (log) => (log.views = undefined),
  });
}

export interface LogsOptions {
  /** Several `Logs` may share one cache. */
  cache: Cache<OpenLog>;
  /** True if callers get the state itself rather than a copy. A commit then copies the parts that it changes. */
  isHandedOut?: boolean;
}

export function createLogs(store: Store, environment: string, options: LogsOptions): Logs {
  const { cache, isHandedOut = false } = options;
  const loading = new Map<string, Promise<OpenLog | undefined>>();
  // A store that is not persistent uses timestamps as marks.
  const markAfter = store.persistent ? hashAfter : timeAfter;
  const counts = {
    hits: 0,
    misses: 0,
    get bytes() {
      return cache.bytes;
    },
  };

  function missing(id: string): never {
    throw new HoldfastError("session_not_found", `there is no session ${id} in environment ${environment}`);
  }

  const load = async (id: string, version?: number): Promise<OpenLog> => (await peek(id, version)) ?? missing(id);

  async function peek(id: string, version?: number): Promise<OpenLog | undefined> {
    // Ids that start with `holdfast:` belong to the server's own logs, which are not sessions.
    const isForeign = !isSessionId(id) || (id.startsWith("holdfast:") && !environment.startsWith("holdfast:"));
    // An invalid version is not passed to the store. After the load, it is reported as missing.
    const asked = version !== undefined && Number.isSafeInteger(version) && version >= 0 ? version : undefined;
    const found = isForeign ? undefined : await store.load(id, asked);
    if (!found) return undefined;
    const snapshot = found.snapshot && decode<Session>(found.snapshot.body, id);
    let session = snapshot && isWhole(snapshot) ? snapshot : undefined;
    let whole = session ? (found.snapshot?.body.length ?? 0) : 0;
    let tail = 0;
    for await (const page of snapshot && !session ? pages(id, 0, asked) : [found.entries]) {
      for (const { body } of page) {
        const event = decode<Event>(body, id);
        session = fold(session, event.type === "session.rewound" ? await completed(id, session, event) : event);
        tail += body.length;
        if (event.delta?.[0]?.path === "") whole = Math.max(whole, body.length);
      }
    }
    // A session of another environment is reported as missing, whatever the version.
    const whose = session?.environment ?? (await environmentOf(id));
    if (whose !== environment) return undefined;
    if (!session || (version !== undefined && session.version !== version)) {
      const message = `session ${id} has no version ${version}`;
      throw new HoldfastError("version_not_found", message, { detail: { version } });
    }
    return createOpenLog(id, session, found.mark, tail, whole);
  }

  /** Adds the fields that older versions did not write to a conversation's rewind event. */
  async function completed(
    id: string,
    session: Session | undefined,
    event: EventOf<"session.rewound">,
  ): Promise<EventOf<"session.rewound">> {
    if (!session?.conversation || event.conversation) return event;
    const { conversation } = (await load(id, event.to)).session;
    return { ...event, conversation: resting(conversation) };
  }

  async function* pages(id: string, after: number, upTo = Infinity): AsyncGenerator<Entry[], void, undefined> {
    let limit = firstPage;
    for (let from = after; from < upTo; limit = Math.min(4 * limit, largestPage)) {
      const page = await store.read(id, from, Math.min(limit, upTo - from), pageBytes);
      if (!page) missing(id);
      const last = page.at(-1);
      if (!last) return;
      yield page;
      from = last.version;
    }
  }

  /** Returns the environment in a log's first event. Version 0 has no session that could name it. */
  async function environmentOf(id: string): Promise<string | undefined> {
    const [first] = (await store.read(id, 0, 1)) ?? [];
    const event = first && decode<Event>(first.body, id);
    return event?.type === "session.opened" ? event.environment : undefined;
  }

  async function acquire(id: string): Promise<OpenLog | undefined> {
    counts.misses++;
    let pending = loading.get(id);
    if (!pending) {
      pending = peek(id).finally(() => loading.delete(id));
      loading.set(id, pending);
    }
    const log = await pending;
    return log && cache.put(log);
  }

  /** Runs a function with the log, or with undefined if there is none. */
  async function using<T>(id: string, run: (log: OpenLog | undefined) => Promise<T>): Promise<T> {
    const known = cache.take(id);
    if (known) counts.hits++;
    const since = known ? 0 : performance.now();
    const log = known ?? (await acquire(id));
    if (!log) return run(undefined);
    try {
      log.loading = known ? 0 : performance.now() - since;
      const running = run(log);
      log.loading = 0;
      return await running;
    } finally {
      cache.release(log);
    }
  }

  const use: Logs["use"] = (id, run) => using(id, (log) => run(log ?? missing(id)));

  const useIfThere: Logs["useIfThere"] = (id, run) =>
    using(id, async (log) => log && (await run(log).catch(unlessCoded("session_not_found"))));

  async function refresh(log: OpenLog): Promise<void> {
    const { version } = log.session;
    const since = performance.now();
    const loading = store.load(log.id, undefined, version, log.waited).catch((thrown: unknown) => {
      rejectWaiters(log, thrown);
      throw thrown;
    });
    const found = await loading.finally(() => (log.storeTime += performance.now() - since));
    log.waited += performance.now() - since;
    if (!found) {
      cache.drop(log);
      missing(log.id);
    }
    const { entries, mark } = found;
    // After a failover to a replica, the log may have lost commits and accepted others. The session is then wrong.
    const isKnown = found.version === version + entries.length && isSameMark(found.seen ?? log.mark, log.mark);
    if (!isKnown || !isSameMark(markAfter(log.mark, entries), mark)) {
      cache.drop(log);
      const message = `the store has lost committed events of session ${log.id}; the next call continues from the remaining events`;
      throw new HoldfastError("store_failed", message, { detail: { version } });
    }
    for (const { body } of entries) {
      const event = decode<Event>(body, log.id);
      advance(log, event.type === "session.rewound" ? await completed(log.id, log.session, event) : event, body.length);
    }
    log.mark = mark;
  }

  function advance(log: OpenLog, event: Event, length: number): void {
    log.session = fold(log.session, event, isHandedOut ? new Set() : log.owned);
    if (event.type === "session.rewound") log.views = undefined;
    log.bytesSinceSnapshot += length;
    if (event.delta?.[0]?.path === "") log.snapshotBytes = length;
  }

  function commitOf(log: OpenLog, event: Event, body: string): Commit {
    const { version } = log.session;
    const snapshot =
      log.bytesSinceSnapshot > Math.max(leastGrowth, 2 * log.snapshotBytes) ? JSON.stringify(log.session) : undefined;
    const { mark: seen, waited } = log;
    log.waited = 0;
    const entries: Commit["entries"] = [entryOf(event, body)];
    const commit: Commit = { session: log.id, version, seen, mark: markAfter(seen, entries), entries, waited };
    if (snapshot !== undefined) commit.snapshot = { version, body: snapshot };
    if (event.type === "session.closed") commit.heading = { ...headingOf(log.session), ended: event.reason };
    return commit;
  }

  function accepted(log: OpenLog, event: Event, { entries: [{ body }], mark, snapshot }: Commit): void {
    log.mark = mark as string;
    log.committedAt = performance.now();
    if (snapshot !== undefined) {
      log.bytesSinceSnapshot = 0;
      log.snapshotBytes = snapshot.body.length;
    }
    advance(log, event, body.length);
  }

  async function appendAll(parts: [Part, ...Part[]]): Promise<Appended> {
    const commits = parts.map(({ log, event }) => commitOf(log, event, JSON.stringify(event)));
    const [first, ...together] = commits as [Commit, ...Commit[]];
    let result: Appended;
    try {
      result = await store.append(first, ...together);
    } catch (thrown) {
      for (const { log } of parts) rejectWaiters(log, thrown);
      throw inDoubt(thrown, first);
    }
    if (result !== "ok") return result;
    for (const [at, part] of parts.entries()) {
      const commit = commits[at] as Commit;
      accepted(part.log, part.event, commit);
      part.bytes = commit.entries[0].body.length;
    }
    return result;
  }

  async function commit(log: OpenLog, allow: () => void, make: Make): Promise<"ok" | "duplicate" | "nothing"> {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const seen = log.session.version;
      try {
        allow();
      } catch (thrown) {
        await refresh(log);
        if (log.session.version === seen) throw thrown;
        continue;
      }
      const made = make(log.session);
      const event = made instanceof Promise ? await made : made;
      if (!event) return "nothing";
      const commit = commitOf(log, event, JSON.stringify(event));
      const since = performance.now();
      let result: Appended;
      try {
        result = await store.append(commit);
      } catch (thrown) {
        rejectWaiters(log, thrown);
        throw inDoubt(thrown, commit);
      } finally {
        log.storeTime += performance.now() - since;
      }
      if (result === "ok") {
        accepted(log, event, commit);
        return result;
      }
      log.waited = (commit.waited ?? 0) + performance.now() - since;
      // Pauses for a random time after the second lost race, so that one of many writers soon succeeds.
      if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempt, 20)));
      await refresh(log);
      if (result === "duplicate" && log.session.version === seen) return result;
    }
    throw new HoldfastError(
      "version_conflict",
      `other writers changed session ${log.id} ${attempts} times in a row; retry`,
    );
  }

  async function createWith(id: string, events: Event[], others: Part[]): Promise<Session | undefined> {
    let session: Session | undefined;
    const bodies = events.map((event) => JSON.stringify(event));
    // With an empty set, `fold` copies objects before it changes them, so the events stay unchanged.
    const owned = new Set<object>();
    for (const event of events) session = fold(session, event, owned);
    const heading = headingOf(session as Session);
    const entries = events.map((event, at) => entryOf(event, bodies[at] as string)) as [NewEntry, ...NewEntry[]];
    const mark = markAfter("", entries);
    const commit: Commit = { session: id, version: 0, mark, entries, heading };
    const together = others.map(({ log, event }) => commitOf(log, event, JSON.stringify(event)));
    const result = await store.append(commit, ...together).catch((thrown: unknown) => {
      throw inDoubt(thrown, commit);
    });
    if (result !== "ok") {
      if (others.length > 0 && (await store.read(id, 0, 1)) === undefined) return undefined;
      throw new HoldfastError("session_exists", `session ${id} already exists`);
    }
    others.forEach(({ log, event }, at) => accepted(log, event, together[at] as Commit));
    const length = bodies.reduce((sum, body) => sum + body.length, 0);
    const log = createOpenLog(id, session as Session, mark, length, length);
    log.committedAt = performance.now();
    cache.release(cache.put(log));
    return session as Session;
  }

  return {
    use,
    useIfThere,
    load,
    peek,
    refresh,
    commit,
    appendAll,
    create: async (id, events) => (await createWith(id, events, [])) as Session,
    createWith,
    counts,
    pages,
    async *events(id: string, after = 0): AsyncGenerator<NumberedEvent, void, undefined> {
      for await (const page of pages(id, after)) {
        for (const { version, body } of page) yield { ...decode<Event>(body, id), version };
      }
    },
    async find(id, key, caller) {
      const since = performance.now();
      const entry = await store.find(id, key, caller?.waited);
      if (caller) caller.waited += performance.now() - since;
      return entry && { ...decode<Event>(entry.body, id), version: entry.version };
    },
    stopAll(reason) {
      for (const { running } of cache.used()) for (const stop of running ?? []) stop(reason);
    },
    forget: (log: OpenLog) => cache.drop(log),
  };
}

/** Returns whether a snapshot has all current fields. Snapshots from older Holdfast versions lack the conversation. */
function isWhole({ environment, conversation, version }: Session): boolean {
  return !isConversation({ environment }) || conversation?.version === version;
}

/** Returns the time for a new event, which is never earlier than that of the previous event. */
export function timeNow(session: Session): number {
  return Math.max(Date.now(), session.touched);
}

export function headingOf({ environment, opened, parent, ended }: Session): Heading {
  return { environment, opened, ...(parent && { parent: { ...parent } }), ...(ended && { ended }) };
}

function entryOf(event: Event, body: string): NewEntry {
  const entry: NewEntry = { body, at: event.at };
  const key = eventKey(event);
  if (key !== undefined) entry.key = key;
  return entry;
}
