// Logs: loads sessions, keeps hot ones folded, gives each its turns, and commits. The only code that writes a log.
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import { eventKey, type Event, type NumberedEvent } from "../core/event.ts";
import { decode, fold, type Session } from "../core/session.ts";
import type { Appended, Commit, Heading, NewEntry, Store } from "../core/store.ts";
import { createCache, type Cached, type CacheLimits } from "./cache.ts";

/** A session in the process: the fold of its log as far as this process has seen it. */
export interface Hot extends Cached {
  session: Session;
  /** Bytes in the log since the newest snapshot, and how many the whole state took when it was last written. */
  tail: number;
  whole: number;
  /** Whether someone has the turn, and who waits for it. */
  busy: boolean;
  waiting: Waiting[] | undefined;
  /** How many hold the state as it is and must not see it change; `owned` are the parts that none of them holds. */
  holders: number;
  owned: WeakSet<object> | undefined;
  /** Stops what is running on this session. */
  running: Set<(reason: HoldfastError) => void> | undefined;
  /** Set while the session is being ended: whoever has not begun by then does not begin. */
  ending: HoldfastError | undefined;
  /** Calls that run beside others, by call id, for repeats that arrive meanwhile. */
  beside: Map<string, Promise<unknown>> | undefined;
}

interface Waiting {
  since: number;
  next(): void;
  fail(error: HoldfastError): void;
}

/** A snapshot is stored once a log has grown by this much, or by twice the size of its state if that is more. */
const snapshotBytes = 16 * 1024;

/** How often a commit is tried before it is given up as `version_conflict`. */
const attempts = 200;

/** How long one may have waited for a turn and still wait on when the store does not answer, in milliseconds. */
const longWait = 500;

/** An event for a log, where several are appended to at once. */
export interface Part {
  hot: Hot;
  event: Event;
}

type Make = (session: Session) => Event | undefined | Promise<Event | undefined>;

export type Logs = ReturnType<typeof createLogs>;

export function createLogs(store: Store, environment: string, limits?: CacheLimits) {
  const cache = createCache<Hot>(limits, ({ whole, tail }) => whole + tail);
  const loading = new Map<string, Promise<Hot>>();
  const counts = { hits: 0, misses: 0 };

  const notFound = (id: string): HoldfastError =>
    new HoldfastError("session_not_found", `there is no session ${id} in environment ${environment}`);

  /** The session at a version, by default the newest, folded from the store. The caller is its only holder. */
  async function load(id: string, version?: number): Promise<Hot> {
    // What the server keeps in a store of its own is no session of anybody.
    const isForeign = id.startsWith("holdfast:") && !environment.startsWith("holdfast:");
    // What is no version is not there either, and is nothing to ask a store for.
    const asked = version !== undefined && Number.isSafeInteger(version) && version >= 0 ? version : undefined;
    const found = isForeign ? undefined : await store.load(id, asked);
    if (!found) throw notFound(id);
    let session = found.snapshot && decode<Session>(found.snapshot.body, id);
    let whole = found.snapshot?.body.length ?? 0;
    let tail = 0;
    for (const { body } of found.entries) {
      const event = decode<Event>(body, id);
      session = fold(session, event);
      tail += body.length;
      if (event.delta?.[0]?.path === "") whole = Math.max(whole, body.length);
    }
    // Not a word about a session of another environment, not even how long it is.
    const whose = session?.environment ?? (await environmentOf(id));
    if (whose !== environment) throw notFound(id);
    if (!session || (version !== undefined && session.version !== version)) {
      const message = `session ${id} has no version ${version}`;
      throw new HoldfastError("version_not_found", message, { detail: { version } });
    }
    return hotOf(id, session, tail, whole);
  }

  /** Asked by version 0, of which there is nothing to fold. */
  async function environmentOf(id: string): Promise<string | undefined> {
    const [first] = (await store.read(id, 0, 1)) ?? [];
    const event = first && decode<Event>(first.body, id);
    return event?.type === "session.opened" ? event.environment : undefined;
  }

  async function acquire(id: string): Promise<Hot> {
    counts.misses++;
    let pending = loading.get(id);
    if (!pending) {
      pending = load(id).finally(() => loading.delete(id));
      loading.set(id, pending);
    }
    return cache.put(await pending);
  }

  /** Runs with the session in the process. */
  async function use<T>(id: string, run: (hot: Hot) => Promise<T>): Promise<T> {
    let hot = cache.take(id);
    if (hot) counts.hits++;
    else hot = await acquire(id);
    try {
      return await run(hot);
    } finally {
      cache.release(hot);
    }
  }

  /** Folds what others have committed since. Only in a turn: the draft of a running call reads this very state. */
  async function refresh(hot: Hot): Promise<void> {
    const { version, touched } = hot.session;
    const entries = await store.read(hot.id, version - 1).catch((thrown: unknown) => {
      sendAway(hot, thrown);
      throw thrown;
    });
    if (!entries) {
      cache.drop(hot);
      throw notFound(hot.id);
    }
    const [known, ...newer] = entries.map(({ body }) => ({ event: decode<Event>(body, hot.id), length: body.length }));
    // A store that went over to a copy of itself may have lost what it had answered, and have written on from there. What
    // this process has folded is then a session that never was.
    if (known?.event.at !== touched) {
      cache.drop(hot);
      const message = `the store has lost what it had answered of session ${hot.id}; the next call goes on with what it has`;
      throw new HoldfastError("store_failed", message, { detail: { version } });
    }
    for (const { event, length } of newer) advance(hot, event, length);
  }

  function advance(hot: Hot, event: Event, length: number): void {
    hot.session = fold(hot.session, event, hot.owned);
    hot.tail += length;
    if (event.delta?.[0]?.path === "") hot.whole = length;
  }

  function commitOf(hot: Hot, event: Event, body: string): Commit {
    const { version, touched } = hot.session;
    const snapshot = hot.tail > Math.max(snapshotBytes, 2 * hot.whole) ? JSON.stringify(hot.session) : undefined;
    const commit: Commit = { session: hot.id, version, seen: touched, entries: [entryOf(event, body)] };
    if (snapshot !== undefined) commit.snapshot = { version, body: snapshot };
    if (event.type === "session.closed") commit.heading = { ...headingOf(hot.session), ended: event.reason };
    return commit;
  }

  function accepted(hot: Hot, event: Event, { entries: [{ body }], snapshot }: Commit): void {
    if (snapshot !== undefined) {
      hot.tail = 0;
      hot.whole = snapshot.body.length;
    }
    advance(hot, event, body.length);
  }

  /** One try to append. Folds the event if it was accepted. */
  async function append(hot: Hot, event: Event): Promise<Appended> {
    const commit = commitOf(hot, event, JSON.stringify(event));
    let result: Appended;
    try {
      result = await store.append(commit);
    } catch (thrown) {
      sendAway(hot, thrown);
      throw inDoubt(thrown, commit);
    }
    if (result === "ok") accepted(hot, event, commit);
    return result;
  }

  /** One try to append to several logs, all or none of them. */
  async function appendAll(parts: [Part, ...Part[]]): Promise<Appended> {
    const commits = parts.map(({ hot, event }) => commitOf(hot, event, JSON.stringify(event)));
    const [first, ...together] = commits as [Commit, ...Commit[]];
    let result: Appended;
    try {
      result = await store.append(first, ...together);
    } catch (thrown) {
      for (const { hot } of parts) sendAway(hot, thrown);
      throw inDoubt(thrown, first);
    }
    if (result === "ok") parts.forEach(({ hot, event }, at) => accepted(hot, event, commits[at] as Commit));
    return result;
  }

  /**
   * Appends what `make` makes of the session as it is now; where another writer was faster, of the session as it is
   * then. Gives "duplicate" if the log has an event with the same key, "nothing" if none was made.
   *
   * `allow` throws if it should not be done at all. That, and a duplicate, may come from a session that others have
   * changed since it was read: both count only once it is known that there is nothing newer.
   */
  async function commit(hot: Hot, allow: () => void, make: Make): Promise<"ok" | "duplicate" | "nothing"> {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const seen = hot.session.version;
      try {
        allow();
      } catch (thrown) {
        await refresh(hot);
        if (hot.session.version === seen) throw thrown;
        continue;
      }
      const made = make(hot.session);
      const event = made instanceof Promise ? await made : made;
      if (!event) return "nothing";
      const result = await append(hot, event);
      if (result === "ok") return result;
      // Whoever lost twice waits a moment, each a different one, so that one of many writers is soon through.
      if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempt, 20)));
      await refresh(hot);
      if (result === "duplicate" && hot.session.version === seen) return result;
    }
    throw new HoldfastError("version_conflict", `session ${hot.id} was changed by others ${attempts} times in a row`);
  }

  /** Creates a log. */
  async function create(id: string, events: Event[]): Promise<Session> {
    return (await createWith(id, events, [])) as Session;
  }

  /** Creates a log and appends to others, all or none of them. Undefined if one of the others was refused. */
  async function createWith(id: string, events: Event[], others: Part[]): Promise<Session | undefined> {
    let session: Session | undefined;
    const bodies = events.map((event) => JSON.stringify(event));
    // The events stay as they are.
    const owned = new WeakSet();
    for (const event of events) session = fold(session, event, owned);
    const heading = headingOf(session as Session);
    const entries = events.map((event, at) => entryOf(event, bodies[at] as string)) as [NewEntry, ...NewEntry[]];
    const commit: Commit = { session: id, version: 0, entries, heading };
    const together = others.map(({ hot, event }) => commitOf(hot, event, JSON.stringify(event)));
    const result = await store.append(commit, ...together).catch((thrown: unknown) => {
      throw inDoubt(thrown, commit);
    });
    if (result !== "ok") {
      if (others.length > 0 && (await store.read(id, 0, 1)) === undefined) return undefined;
      throw new HoldfastError("session_exists", `there is a session ${id} already`);
    }
    others.forEach(({ hot, event }, at) => accepted(hot, event, together[at] as Commit));
    const length = bodies.reduce((sum, body) => sum + body.length, 0);
    cache.release(cache.put(hotOf(id, session as Session, length, length)));
    return session as Session;
  }

  return {
    use,
    load,
    refresh,
    commit,
    appendAll,
    create,
    createWith,
    counts,
    /** The events after a version, in pages. */
    async *events(id: string, after = 0): AsyncGenerator<NumberedEvent, void, undefined> {
      for (let from = after; ;) {
        const page = await store.read(id, from, 500);
        if (!page) throw notFound(id);
        if (page.length === 0) return;
        for (const { version, body } of page) yield { ...decode<Event>(body, id), version };
        from = page.at(-1)?.version ?? from;
      }
    },
    /** The event that has a key. */
    async find(id: string, key: string): Promise<NumberedEvent | undefined> {
      const entry = await store.find(id, key);
      return entry && { ...decode<Event>(entry.body, id), version: entry.version };
    },
    forget: (hot: Hot) => cache.drop(hot),
  };
}

function hotOf(id: string, session: Session, tail: number, whole: number): Hot {
  // One literal, so that all have one shape: with parts spread into it each would have a hidden class of its own.
  return {
    id,
    session,
    tail,
    whole,
    uses: 0,
    older: undefined,
    newer: undefined,
    busy: false,
    holders: 0,
    waiting: undefined,
    owned: undefined,
    running: undefined,
    ending: undefined,
    beside: undefined,
  };
}

/** The failure of a commit that may have been made all the same, with what tells whether it was. */
function inDoubt(thrown: unknown, { version, entries }: Commit): HoldfastError {
  const { code, message, detail } = isHoldfastError(thrown)
    ? thrown
    : new HoldfastError("store_failed", `the store failed: ${messageOf(thrown)}`);
  const error = new HoldfastError(code, message, { detail: { ...detail }, cause: thrown });
  // Not for clients.
  Object.defineProperty(error.detail, "doubt", { value: { version: version + entries.length, at: entries[0].at } });
  return error;
}

/** The time of an event that is made now: never before the event ahead of it. */
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

/** Runs alone on a session in this process: those who ask are served one at a time, in the order of asking. */
export async function turn<T>(hot: Hot, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> {
  if (hot.busy) await wait(hot, signal);
  hot.busy = true;
  try {
    return await run();
  } finally {
    endTurn(hot);
  }
}

/** Hands the turn to who waits next. */
export function endTurn(hot: Hot): void {
  const first = hot.waiting?.shift();
  if (first) first.next();
  else hot.busy = false;
}

/**
 * Refuses those who have waited for long where the store does not answer. With a turn each they would wait for it one
 * after the other, and the last would hear of it minutes later.
 */
function sendAway({ waiting }: Hot, thrown: unknown): void {
  if (!waiting || !isHoldfastError(thrown) || thrown.code !== "store_busy") return;
  const early = Date.now() - longWait;
  while (waiting[0] && waiting[0].since <= early) {
    const message = `the call was not begun, as one before it did not get through: ${thrown.message}`;
    waiting.shift()?.fail(new HoldfastError("store_busy", message));
  }
}

export function wait(hot: Hot, signal: AbortSignal | undefined): Promise<void> {
  hot.waiting ??= [];
  const { waiting } = hot;
  if (signal?.aborted) return Promise.reject(cancelled(signal));
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      waiting.splice(waiting.indexOf(each), 1);
      reject(cancelled(signal));
    };
    const each: Waiting = {
      since: Date.now(),
      next() {
        signal?.removeEventListener("abort", cancel);
        resolve();
      },
      fail(error) {
        signal?.removeEventListener("abort", cancel);
        reject(error);
      },
    };
    signal?.addEventListener("abort", cancel, { once: true });
    waiting.push(each);
  });
}

export function cancelled(signal: AbortSignal | undefined): HoldfastError {
  return new HoldfastError("call_cancelled", "the call was cancelled before it was committed", {
    cause: signal?.reason,
  });
}

/** Runs with the state as it is now: commits that others make meanwhile do not show in it. */
export async function hold<T>(hot: Hot, run: (session: Session) => Promise<T>): Promise<T> {
  hot.holders++;
  // Each holder starts anew: what was copied for an earlier one is what this one holds.
  hot.owned = new WeakSet();
  try {
    return await run({ ...hot.session });
  } finally {
    if (--hot.holders === 0) hot.owned = undefined;
  }
}
