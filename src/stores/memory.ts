// The in-memory store, for tests and for sessions that need not survive the process.
import type { Appended, Heading, NewEntry, Snapshot, Store } from "../core/store.ts";
import { createStore } from "./front.ts";
import type { Driver, End, Entry, Listing, Row, Rows, Unit, Write } from "./front.ts";

/** One session: a flat object with links to its neighbours, so that an idle session needs little memory. */
interface Log {
  readonly session: string;
  /** The session's place in the order of opening. Places are never reused. */
  readonly place: number;
  heading: Heading;
  /** Entry n is at index n - 1. Arrays of strings and numbers take half the memory of one object per entry. */
  bodies: string[];
  times: number[];
  /** The keys of entries, up to the newest entry with a key. */
  keys: (string | undefined)[] | undefined;
  /** The version for each key, once the log is too long to search. */
  versions: Map<string, number> | undefined;
  snapshots: Snapshot[] | undefined;
  touched: number;
  /** The number of the newest commit, counted over all sessions. It orders commits with the same timestamp. */
  turn: number;
  mark: string;
  lane: Lane;
  idler: Log | undefined;
  fresher: Log | undefined;
}

/** One environment's open sessions or its ended sessions, the longest idle first. */
interface Lane {
  readonly environment: string;
  readonly open: boolean;
  size: number;
  first: Log | undefined;
  last: Log | undefined;
  /** False after a commit with an earlier timestamp than the previous commit. The next listing by idle time sorts. */
  sorted: boolean;
}

/** A log up to this length is searched for keys, and its arrays are copied, because `push` would reserve 16 slots. */
const shortLog = 8;

/**
 * Creates an in-memory store. Its sessions end with the process.
 *
 * @example
 * const sessions = createSessions({ environment, store: memoryStore() });
 */
export function memoryStore(): Store {
  return createStore(memoryDriver());
}

function memoryDriver(): Driver {
  const logs = new Map<string, Log>();
  const lanes = new Map<string, Lane>();
  /** All sessions, in the order of opening. Deleted sessions are removed once they are half of the list. */
  let byPlace: Log[] = [];
  let opened = 0;
  let turn = 0;

  function laneOf({ environment, ended }: Heading): Lane {
    const open = ended === undefined;
    const name = laneName(environment, open);
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = { environment, open, size: 0, first: undefined, last: undefined, sorted: true };
      lanes.set(name, lane);
    }
    return lane;
  }

  function leaveLane(log: Log): void {
    const { lane } = log;
    unlink(log);
    if (lane.size === 0) lanes.delete(laneName(lane.environment, lane.open));
  }

  function create(session: string, heading: Heading): Log {
    const log: Log = {
      session,
      place: ++opened,
      heading,
      bodies: [],
      times: [],
      keys: undefined,
      versions: undefined,
      snapshots: undefined,
      touched: 0,
      turn: 0,
      mark: "",
      lane: laneOf(heading),
      idler: undefined,
      fresher: undefined,
    };
    logs.set(session, log);
    byPlace.push(log);
    return log;
  }

  /** Stores an accepted write. Cannot fail. */
  function store({ session, entries, mark, heading, snapshot }: Write): void {
    const log = logs.get(session) ?? create(session, heading!);
    for (const entry of entries) add(log, entry);
    if (snapshot && snapshot.version > (log.snapshots?.at(-1)?.version ?? 0)) {
      log.snapshots = [...(log.snapshots ?? []), snapshot];
    }
    if (log.bodies.length > entries.length) {
      if (heading) leaveLane(log);
      else unlink(log);
    }
    if (heading) {
      log.heading = heading;
      log.lane = laneOf(heading);
    }
    log.touched = entries[entries.length - 1]!.at;
    log.turn = ++turn;
    log.mark = mark;
    link(log);
  }

  function append(unit: Unit): Appended {
    if (unit.length === 1) {
      const answer = judge(unit[0], logs.get(unit[0].session));
      if (answer === "ok") store(unit[0]);
      return answer;
    }
    const answers = new Set(unit.map((write) => judge(write, logs.get(write.session))));
    if (answers.has("duplicate")) return "duplicate";
    if (answers.has("conflict")) return "conflict";
    unit.forEach(store);
    return "ok";
  }

  function forget(log: Log): void {
    leaveLane(log);
    logs.delete(log.session);
    log.bodies = log.times = [];
    log.keys = log.versions = log.snapshots = undefined;
    if (byPlace.length > 2 * logs.size + 16) byPlace = byPlace.filter(isThere);
  }

  function listByPlace({ after, limit }: Listing): Rows {
    const found: Log[] = [];
    let at = countUpTo(byPlace, Number(after ?? 0), ({ place }) => place);
    for (; at < byPlace.length && found.length < limit; at++) {
      if (isThere(byPlace[at]!)) found.push(byPlace[at]!);
    }
    const page: Rows = { rows: found.map(toRow), newest: placeText(opened) };
    if (at < byPlace.length) page.next = placeText(found.at(-1)!.place);
    return page;
  }

  /**
   * Lists sessions by idle time. Commits move sessions, so each page searches from the front again. This is fast in a
   * sweep, because it ends the sessions of each page, which removes them from the front.
   */
  function listByIdleness({ environment, open, idleBefore = Infinity, after, limit }: Listing): Rows {
    const [touched = -Infinity, turn = 0] = after?.split(" ").map(Number) ?? [];
    const found: Log[] = [];
    for (const lane of lanes.values()) {
      if (environment !== undefined && lane.environment !== environment) continue;
      if (open !== undefined && lane.open !== open) continue;
      if (!lane.sorted) sort(lane);
      let left = limit;
      for (let log = lane.first; log !== undefined && left > 0 && log.touched < idleBefore; log = log.fresher) {
        if (byIdleness(log, { touched, turn }) <= 0) continue;
        found.push(log);
        left--;
      }
    }
    found.sort(byIdleness);
    found.length = Math.min(found.length, limit);
    const page: Rows = { rows: found.map(toRow), newest: placeText(opened) };
    const last = found.at(-1);
    if (last && found.length === limit) page.next = `${last.touched} ${last.turn}`;
    return page;
  }

  return {
    name: "the memory store",
    persistent: false,
    together: true,
    text: "any",
    // This store cannot fail over to an older copy, so times are enough. Hashes would make a call a quarter slower.
    marks: "time",
    idle: true,
    groups: { of: "unit" },

    append: (units) => units.map(append),

    read(session, { after, upTo, limit, bytes, snapshot: fromSnapshot }) {
      const log = logs.get(session);
      if (!log) return undefined;
      const page = { end: endOf(log), place: placeText(log.place), entries: [] as Entry[] };
      const snapshots = fromSnapshot && log.snapshots ? log.snapshots : [];
      const snapshot = snapshots[countUpTo(snapshots, upTo, ({ version }) => version) - 1];
      const isAhead = snapshot !== undefined && snapshot.version > after;
      const start = isAhead ? snapshot.version : after;
      const end = Math.min(upTo, log.bodies.length, start + limit);
      for (let [at, left] = [start, bytes]; at < end && left > 0; at++) {
        page.entries.push(entryOf(log, at + 1));
        left -= log.bodies[at]!.length;
      }
      return isAhead ? { ...page, snapshot: { ...snapshot } } : page;
    },

    find(session, key) {
      const log = logs.get(session);
      const version = log && versionOf(log, key);
      return version === undefined ? undefined : entryOf(log!, version);
    },

    list: (listing) => (listing.order === "opened" ? listByPlace(listing) : listByIdleness(listing)),

    count: (environment) => lanes.get(laneName(environment, true))?.size ?? 0,

    delete(session, end) {
      const log = logs.get(session);
      if (!log || (end && !endsAt(log, end))) return false;
      forget(log);
      return true;
    },

    close() {
      logs.clear();
      lanes.clear();
      byPlace = [];
    },
  };
}

function add(log: Log, { body, at, key }: NewEntry): void {
  // Reading a character makes V8 join the pieces of the string from JSON.stringify, which saves a third of the memory.
  body.charCodeAt(0);
  if (log.bodies.length < shortLog) {
    log.bodies = log.bodies.concat(body);
    log.times = log.times.concat(at);
  } else {
    log.bodies.push(body);
    log.times.push(at);
  }
  if (key === undefined) return;
  log.keys ??= [];
  log.keys[log.bodies.length - 1] = key;
  if (log.versions) log.versions.set(key, log.bodies.length);
  else if (log.keys.length > shortLog) {
    log.versions = new Map();
    for (const [at, each] of log.keys.entries()) if (each !== undefined) log.versions.set(each, at + 1);
  }
}

function entryOf({ bodies, times, keys }: Log, version: number): Entry {
  const [body, at, key] = [bodies[version - 1]!, times[version - 1]!, keys?.[version - 1]];
  return key === undefined ? { version, body, at } : { version, body, at, key };
}

function versionOf({ versions, keys }: Log, key: string): number | undefined {
  if (versions) return versions.get(key);
  const at = keys ? keys.indexOf(key) : -1;
  return at < 0 ? undefined : at + 1;
}

function isThere({ bodies }: Log): boolean {
  return bodies.length > 0;
}

/** Returns the answer to a write, without storing it. */
function judge({ seen, entries }: Write, log: Log | undefined): Appended {
  if (!log) return seen.version === 0 ? "ok" : "conflict";
  for (const { key } of entries) if (key !== undefined && versionOf(log, key) !== undefined) return "duplicate";
  return endsAt(log, seen) ? "ok" : "conflict";
}

function endsAt(log: Log, { version, mark }: End): boolean {
  return log.bodies.length === version && (mark === "" || log.mark === mark);
}

function endOf({ bodies, mark }: Log): End {
  return { version: bodies.length, mark };
}

function laneName(environment: string, open: boolean): string {
  return `${open ? "open" : "ended"} ${environment}`;
}

/** Formats a place as a string that sorts like the number. */
function placeText(place: number): string {
  return String(place).padStart(16, "0");
}

function link(log: Log): void {
  const { lane } = log;
  const { last } = lane;
  log.idler = last;
  if (last === undefined) lane.first = log;
  else {
    last.fresher = log;
    if (last.touched > log.touched) lane.sorted = false;
  }
  lane.last = log;
  lane.size++;
}

function unlink(log: Log): void {
  const { lane } = log;
  if (log.idler === undefined) lane.first = log.fresher;
  else log.idler.fresher = log.fresher;
  if (log.fresher === undefined) lane.last = log.idler;
  else log.fresher.idler = log.idler;
  log.idler = log.fresher = undefined;
  lane.size--;
}

/** Sorts a lane after a clock was set back, so that commits do not have to search for their place. */
function sort(lane: Lane): void {
  const all: Log[] = [];
  for (let log = lane.first; log !== undefined; log = log.fresher) all.push(log);
  all.sort(byIdleness);
  for (const [index, log] of all.entries()) {
    log.idler = all[index - 1];
    log.fresher = all[index + 1];
  }
  lane.first = all[0];
  lane.last = all.at(-1);
  lane.sorted = true;
}

function byIdleness(a: Pick<Log, "touched" | "turn">, b: Pick<Log, "touched" | "turn">): number {
  return a.touched - b.touched || a.turn - b.turn;
}

/** Counts the items with numbers up to a limit. The items are in ascending order. */
function countUpTo<T>(items: readonly T[], limit: number, numberOf: (item: T) => number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numberOf(items[middle]!) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function toRow({ session, bodies, mark, touched, place, heading }: Log): Row {
  return { session, version: bodies.length, mark, touched, place: placeText(place), ...heading };
}
