// The store that lives and dies with the process: for tests, and for sessions that need not outlive it.
import { HoldfastError } from "../core/errors.ts";
import type { EndReason } from "../core/event.ts";
import type { Appended, Commit, Entry, Filter, Heading, Listed, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import type { Keys } from "./memory/keys.ts";
import { isRepeat, versionOf, withKey } from "./memory/keys.ts";

/**
 * One session. Flat, and linked through itself, because it is what an idle session costs: two lists with a node per
 * session would double it.
 */
interface Log {
  readonly session: string;
  /** Grows with every session opened: a listing stops at the newest one it knew of. */
  readonly number: number;
  opened: number;
  parent: { session: string; version: number } | undefined;
  ended: EndReason | undefined;
  /** Entry n is at n - 1. */
  bodies: string[];
  keys: Keys | undefined;
  snapshots: { versions: number[]; bodies: string[] } | undefined;
  touched: number;
  /** Grows with every commit: tells whether the session was touched since a listing began. */
  turn: number;
  /** Undefined once the session was deleted. */
  lane: Lane | undefined;
  idler: Log | undefined;
  fresher: Log | undefined;
  previous: Log | undefined;
  next: Log | undefined;
}

/** The open or the ended sessions of one environment, the longest idle first. */
interface Lane {
  readonly environment: string;
  readonly open: boolean;
  size: number;
  first: Log | undefined;
  last: Log | undefined;
  /** False after a commit that was dated before the one ahead of it; the next listing by idle time sorts. */
  sorted: boolean;
}

/** Up to this length a list of bodies is copied, not pushed to: `push` reserves 16 places, a lot for an idle session. */
const exactLength = 8;

/** How many sessions a listing by idle time looks up at first; twice as many each time after that. */
const firstPage = 16;

/** A store in memory. What it holds is gone with the process. */
export function memoryStore(): Store {
  const logs = new Map<string, Log>();
  const lanes = new Map<string, { open: Lane; ended: Lane }>();
  let oldest: Log | undefined;
  let newest: Log | undefined;
  let opened = 0;
  let turn = 0;
  let closed = false;

  function assertOpen(): void {
    if (closed) throw new HoldfastError("store_closed", "the memory store was closed");
  }

  function laneOf(heading: Heading): Lane {
    const { environment } = heading;
    let pair = lanes.get(environment);
    if (pair === undefined) {
      pair = { open: emptyLane(environment, true), ended: emptyLane(environment, false) };
      lanes.set(environment, pair);
    }
    return heading.ended === undefined ? pair.open : pair.ended;
  }

  function lanesOf({ environment, open }: Filter): Lane[] {
    const pairs = environment === undefined ? [...lanes.values()] : [lanes.get(environment)];
    return pairs
      .flatMap((pair) => (pair ? [pair.open, pair.ended] : []))
      .filter((lane) => lane.open === (open ?? lane.open));
  }

  function dropIfEmpty({ environment }: Lane): void {
    const pair = lanes.get(environment);
    if (pair?.open.size === 0 && pair.ended.size === 0) lanes.delete(environment);
  }

  function create(session: string): Log {
    const log: Log = {
      session,
      number: ++opened,
      opened: 0,
      parent: undefined,
      ended: undefined,
      bodies: [],
      keys: undefined,
      snapshots: undefined,
      touched: 0,
      turn: 0,
      lane: undefined,
      idler: undefined,
      fresher: undefined,
      previous: newest,
      next: undefined,
    };
    if (newest === undefined) oldest = log;
    else newest.next = log;
    newest = log;
    logs.set(session, log);
    return log;
  }

  function forget(log: Log): void {
    logs.delete(log.session);
    if (log.lane !== undefined) {
      unlink(log, log.lane);
      dropIfEmpty(log.lane);
      log.lane = undefined;
    }
    if (log.previous === undefined) oldest = log.next;
    else log.previous.next = log.next;
    if (log.next === undefined) newest = log.previous;
    else log.next.previous = log.previous;
    // `previous` stays: a listing that stands on this log finds its way on through it.
    log.next = undefined;
    log.bodies = [];
    log.keys = undefined;
    log.snapshots = undefined;
  }

  /** Stores what was judged to be ok, whole: nothing in here fails. */
  function write({ session, entries, heading, snapshot }: Commit, known: Log | undefined): void {
    const log = known ?? create(session);
    for (const { body, key } of entries) {
      // Reading a character makes V8 join the pieces that JSON.stringify may have left the text in: a third less memory.
      body.charCodeAt(0);
      if (log.bodies.length < exactLength) log.bodies = log.bodies.concat([body]);
      else log.bodies.push(body);
      if (key !== undefined) log.keys = withKey(log.keys, key, log.bodies.length);
    }
    if (snapshot !== undefined) {
      log.snapshots ??= { versions: [], bodies: [] };
      log.snapshots.versions.push(snapshot.version);
      log.snapshots.bodies.push(snapshot.body);
    }
    if (heading !== undefined) {
      log.opened = heading.opened;
      log.parent = heading.parent && { session: heading.parent.session, version: heading.parent.version };
      log.ended = heading.ended;
    }

    const from = log.lane;
    const to = heading === undefined ? from! : laneOf(heading);
    if (from !== undefined) unlink(log, from);
    log.touched = entries[entries.length - 1]!.at;
    log.turn = ++turn;
    link(log, to);
    if (from !== undefined && from !== to) dropIfEmpty(from);
  }

  /** The session opened next after one that may have been deleted meanwhile. */
  function following(log: Log): Log | undefined {
    let at: Log | undefined = log;
    while (at !== undefined && at.lane === undefined) at = at.previous;
    return at === undefined ? oldest : at.next;
  }

  function* inOrderOfOpening(filter: Filter): Generator<Log> {
    const last = opened;
    let log = oldest;
    if (filter.after !== undefined) {
      const after = logs.get(filter.after);
      if (after === undefined) {
        throw new HoldfastError(
          "session_not_found",
          `there is no session ${JSON.stringify(filter.after)} to list after`,
        );
      }
      log = after.next;
    }
    while (log !== undefined && log.number <= last) {
      if (log.lane !== undefined && matches(log, log.lane, filter)) yield log;
      log = following(log);
    }
  }

  /**
   * Sessions touched since the listing began are left out: they moved to the end and would come twice. For the same
   * reason there is no place in the list to stand on between two pages; each page starts at the front again. As the
   * pages double, that costs no more than the listing itself, and taking only the first few stays cheap.
   */
  function* inOrderOfIdleness(filter: Filter, idleBefore: number): Generator<Log> {
    const lastTurn = turn;
    let behind: { touched: number; turn: number } | undefined;
    for (let size = firstPage; ; size *= 2) {
      const page: Log[] = [];
      for (const lane of lanesOf(filter)) {
        if (!lane.sorted) sort(lane);
        let left = size;
        for (let log = lane.first; log !== undefined && left > 0 && log.touched < idleBefore; log = log.fresher) {
          if (log.turn > lastTurn || (behind !== undefined && byIdleness(log, behind) <= 0)) continue;
          page.push(log);
          left--;
        }
      }
      page.sort(byIdleness);
      page.length = Math.min(page.length, size);
      const end = page.at(-1);
      if (end === undefined) return;
      behind = { touched: end.touched, turn: end.turn };
      for (const log of page) {
        if (log.turn <= lastTurn && log.lane !== undefined && matches(log, log.lane, filter)) yield log;
      }
    }
  }

  async function* listing(filter: Filter): AsyncGenerator<Listed> {
    assertOpen();
    if (filter.idleBefore !== undefined && filter.after !== undefined) {
      throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
    }
    const order =
      filter.idleBefore === undefined ? inOrderOfOpening(filter) : inOrderOfIdleness(filter, filter.idleBefore);
    for (const log of order) {
      if (log.lane !== undefined) yield listed(log, log.lane);
      assertOpen();
    }
  }

  return {
    persistent: false,

    async append(commit, ...together) {
      assertOpen();
      if (together.length === 0) {
        const log = logs.get(commit.session);
        const answer = judge(commit, log);
        if (answer === "ok") write(commit, log);
        return answer;
      }
      const commits = [commit, ...together];
      assertDifferentSessions(commits);
      const answers = new Set(commits.map((each) => judge(each, logs.get(each.session))));
      if (answers.has("duplicate")) return "duplicate";
      if (answers.has("conflict")) return "conflict";
      for (const each of commits) write(each, logs.get(each.session));
      return "ok";
    },

    async read(session, after, limit = Infinity) {
      assertOpen();
      const log = logs.get(session);
      return log && slice(log.bodies, after, after + limit);
    },

    async load(session, version = Infinity) {
      assertOpen();
      const log = logs.get(session);
      if (log === undefined) return undefined;
      const index = log.snapshots === undefined ? 0 : countUpTo(log.snapshots.versions, version);
      if (log.snapshots === undefined || index === 0) return { entries: slice(log.bodies, 0, version) };
      const snapshot = { version: log.snapshots.versions[index - 1]!, body: log.snapshots.bodies[index - 1]! };
      return { snapshot, entries: slice(log.bodies, snapshot.version, version) };
    },

    async find(session, key) {
      assertOpen();
      const log = logs.get(session);
      const version = log && versionOf(log.keys, key);
      return version === undefined ? undefined : { version, body: log!.bodies[version - 1]! };
    },

    list: (filter = {}) => listing({ ...filter }),

    async count(environment) {
      assertOpen();
      return lanes.get(environment)?.open.size ?? 0;
    },

    async delete(session, end) {
      assertOpen();
      const log = logs.get(session);
      if (log === undefined) return false;
      if (end && (log.bodies.length !== end.version || log.touched !== (end.seen ?? log.touched))) return false;
      forget(log);
      return true;
    },

    async close() {
      closed = true;
      logs.clear();
      lanes.clear();
      oldest = newest = undefined;
    },
  };
}

/** The answer to a commit. Changes nothing. */
function judge({ version, seen, entries, heading }: Commit, log: Log | undefined): Appended {
  if (isRepeat(entries, log?.keys)) return "duplicate";
  if ((log?.bodies.length ?? 0) !== version) return "conflict";
  if (log !== undefined && seen !== undefined && log.touched !== seen) return "conflict";
  if (log === undefined && heading === undefined) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  return "ok";
}

function emptyLane(environment: string, open: boolean): Lane {
  return { environment, open, size: 0, first: undefined, last: undefined, sorted: true };
}

function link(log: Log, lane: Lane): void {
  const last = lane.last;
  log.lane = lane;
  log.idler = last;
  if (last === undefined) lane.first = log;
  else {
    last.fresher = log;
    if (last.touched > log.touched) lane.sorted = false;
  }
  lane.last = log;
  lane.size++;
}

function unlink(log: Log, lane: Lane): void {
  if (log.idler === undefined) lane.first = log.fresher;
  else log.idler.fresher = log.fresher;
  if (log.fresher === undefined) lane.last = log.idler;
  else log.fresher.idler = log.idler;
  log.idler = log.fresher = undefined;
  lane.size--;
}

/** Only a clock that was set back makes this necessary, so that commits need not look for their place. */
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

/** How many of the ascending numbers are not above the limit. */
function countUpTo(ascending: number[], limit: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function slice(bodies: string[], after: number, upTo: number): Entry[] {
  const entries: Entry[] = [];
  const end = Math.min(upTo, bodies.length);
  for (let index = Math.max(after, 0); index < end; index++) entries.push({ version: index + 1, body: bodies[index]! });
  return entries;
}

function matches(log: Log, lane: Lane, filter: Filter): boolean {
  if (filter.environment !== undefined && lane.environment !== filter.environment) return false;
  if (filter.open !== undefined && lane.open !== filter.open) return false;
  return filter.openedBefore === undefined || log.opened < filter.openedBefore;
}

function listed(log: Log, lane: Lane): Listed {
  return {
    session: log.session,
    version: log.bodies.length,
    touched: log.touched,
    environment: lane.environment,
    opened: log.opened,
    ...(log.parent && { parent: { ...log.parent } }),
    ...(log.ended && { ended: log.ended }),
  };
}
