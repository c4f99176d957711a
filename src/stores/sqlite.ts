// The SQLite store: all logs in one file, shared safely by the processes of one machine.
import { resolve } from "node:path";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../core/errors.ts";
import type { Appended, Commit, Entry, Heading, NewEntry, Snapshot, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import type { Statement, Value } from "./sqlite/file.ts";
import { coded, openFile, patience } from "./sqlite/file.ts";
import { listingOf } from "./sqlite/listing.ts";

export interface SqliteStoreOptions {
  /** The database file. It is made if it is not there; its folder must be. */
  file: string;
  /**
   * What an answered commit survives. "process" (default): the end of any process, kill -9 too, but power loss may
   * take the last moments. "power": power loss too; each group of commits then waits for the disk, which costs a lone
   * session most of its speed and a thousand busy ones little, as they wait together.
   */
  durability?: "process" | "power";
}

/** A commit on its way. The caller may do with the one it gave what it likes. */
interface Prepared {
  session: string;
  version: number;
  seen: number | null;
  head: NewEntry;
  rest: NewEntry[];
  heading: Value[] | undefined;
  snapshot: Snapshot | undefined;
}

interface Job {
  work(): unknown;
  resolve(result: never): void;
  reject(error: HoldfastError): void;
}

/** The most commits in one transaction: beyond it waiting longer saves nothing. */
const groupSize = 4096;
/** The most session numbers to remember. */
const rememberedSessions = 20_000;

/**
 * A store in a SQLite file. Commits of the same moment are written in one transaction, whichever sessions they are
 * of. Any number of processes on one machine may have the file open; it must not be on a network file system.
 *
 * @example
 * const store = sqliteStore({ file: "sessions.db" });
 */
export function sqliteStore({ file, durability = "process" }: SqliteStoreOptions): Store {
  if (typeof file !== "string" || file === "" || file === ":memory:") {
    throw new HoldfastError(
      "invalid_option",
      "`file` must be the path of a file; for a store in memory use memoryStore",
    );
  }
  if (durability !== "process" && durability !== "power") {
    throw new HoldfastError("invalid_option", '`durability` must be "process" or "power"');
  }
  // Also keeps a name such as "file:x" from being read as anything but a name.
  const path = resolve(file);
  const database = openFile(path, durability);

  const begin = database.prepare("BEGIN");
  const beginWriting = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
  const numberById = database.prepare("SELECT n FROM sessions WHERE id = ?");
  const openSession = database.prepare(
    `INSERT INTO sessions (id, environment, opened, parent, parentVersion, ended, touched)
     VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const changeSession = database.prepare(
    `UPDATE sessions SET environment = ?, opened = ?, parent = ?, parentVersion = ?, ended = ?, touched = ?
     WHERE n = ?`,
  );
  const first = database.prepare(
    "INSERT INTO events (session, version, at, mark, key, body) VALUES (?, 1, ?, ?, ?, ?)",
  );
  // The whole of a common commit. It asks nothing that the indexes alone cannot answer.
  const next = database.prepare(
    `INSERT INTO events (session, version, at, mark, key, body)
     SELECT e.session, e.version + 1, ?, ?, ?, ? FROM events e WHERE e.session = ? AND e.version = ? AND e.at = ifnull(?, e.at)
     AND NOT EXISTS (SELECT 1 FROM events k WHERE k.session = e.session AND k.mark = ? AND k.key = ?)
     ON CONFLICT DO NOTHING`,
  );
  const nextKeyless = database.prepare(
    `INSERT INTO events (session, version, at, body)
     SELECT e.session, e.version + 1, ?, ? FROM events e WHERE e.session = ? AND e.version = ? AND e.at = ifnull(?, e.at)
     ON CONFLICT DO NOTHING`,
  );
  const keyed = database.prepare("SELECT version, body FROM events WHERE session = ? AND mark = ? AND key = ?");
  const newestOf = database.prepare("SELECT version, at FROM events WHERE session = ? ORDER BY version DESC LIMIT 1");
  // Two processes may find the same snapshot due; a second one must not fail the group that it is in.
  const keep = database.prepare("INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  // One statement, so that a session opened or deleted meanwhile by another process is seen whole or not at all.
  const tail = database.prepare(
    `SELECT e.version, e.body FROM sessions s LEFT JOIN events e ON e.session = s.n AND e.version > ?
     WHERE s.id = ? ORDER BY e.version LIMIT ?`,
  );
  const found = database.prepare(
    `SELECT e.version, e.body FROM sessions s JOIN events e ON e.session = s.n WHERE s.id = ? AND e.mark = ? AND e.key = ?`,
  );
  const between = database.prepare(
    "SELECT version, body FROM events WHERE session = ? AND version > ? AND version <= ? ORDER BY version",
  );
  const snapshotBefore = database.prepare(
    "SELECT version, body FROM snapshots WHERE session = ? AND version <= ? ORDER BY version DESC LIMIT 1",
  );
  const countOf = database.prepare("SELECT open FROM counts WHERE environment = ?");
  const deletes = ["events WHERE session = ?", "snapshots WHERE session = ?", "sessions WHERE n = ?"].map((what) =>
    database.prepare(`DELETE FROM ${what}`),
  );

  // A wrong number does no harm: there are no events under it, and then it is looked up again.
  const numbers = new Map<string, number>();
  const queue: Job[] = [];
  let groups: Promise<void> | undefined;
  let closing: Promise<void> | undefined;

  function assertOpen(): void {
    if (closing !== undefined) throw new HoldfastError("store_closed", `the SQLite store ${path} was closed`);
  }

  function transaction<T>(start: Statement, work: () => T): T {
    start.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (cause) {
      // Numbers given out in this transaction will be given out again.
      numbers.clear();
      try {
        rollback.run();
      } catch {
        // After some failures SQLite has rolled back already.
      }
      throw cause;
    }
  }

  /** Waits for other processes without blocking this one. */
  async function patiently<T>(work: () => T): Promise<T> {
    const deadline = Date.now() + patience;
    for (;;) {
      try {
        return work();
      } catch (cause) {
        const error = coded(cause, path);
        if (error.code !== "store_busy" || Date.now() > deadline) throw error;
        await delay(1 + Math.random() * 5);
      }
    }
  }

  function reading<T>(work: () => T): Promise<T> {
    return patiently(() => {
      assertOpen();
      return work();
    });
  }

  function writing<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      assertOpen();
      queue.push({ work, resolve, reject });
      groups ??= writeGroups();
    });
  }

  async function writeGroups(): Promise<void> {
    while (queue.length > 0) {
      await nextTurn();
      const group = queue.splice(0, groupSize);
      try {
        const results = await patiently(() => transaction(beginWriting, () => group.map(({ work }) => work())));
        for (const [index, job] of group.entries()) job.resolve(results[index] as never);
      } catch (error) {
        // One that cannot be written must not take the others with it: each on its own then.
        const alone = group.length > 1 && (error as HoldfastError).code === "store_failed";
        if (alone) await Promise.all(group.map(writeAlone));
        else for (const job of group) job.reject(error as HoldfastError);
      }
    }
    groups = undefined;
  }

  async function writeAlone({ work, resolve, reject }: Job): Promise<void> {
    await patiently(() => transaction(beginWriting, work)).then(resolve as (result: unknown) => void, reject);
  }

  function numberOf(session: string): number | undefined {
    const row = numberById.get(session) as { n: number } | undefined;
    if (row === undefined) {
      numbers.delete(session);
      return undefined;
    }
    if (numbers.size >= rememberedSessions) numbers.clear();
    numbers.set(session, row.n);
    return row.n;
  }

  const hasKey = (n: number, { key }: NewEntry): boolean =>
    key !== undefined && keyed.get(n, markOf(key), key) !== undefined;

  /** Appends one entry if the log ends at that version, with an entry of that time, and has no such key. */
  function extend(n: number, version: number, seen: number | null, { at, key, body }: NewEntry): boolean {
    if (key === undefined) return Number(nextKeyless.run(at, body, n, version, seen).changes) === 1;
    const mark = markOf(key);
    return Number(next.run(at, mark, key, body, n, version, seen, mark, key).changes) === 1;
  }

  function put(commit: Prepared): Appended {
    const { session, version, seen, head, rest, heading, snapshot } = commit;
    const touched = (rest.at(-1) ?? head).at;
    let n: number | undefined;
    if (version === 0) {
      const { changes } = openSession.run(session, ...heading!, touched);
      n = numberOf(session)!;
      if (Number(changes) === 0)
        return hasKey(n, head) || rest.some((entry) => hasKey(n!, entry)) ? "duplicate" : "conflict";
      first.run(n, head.at, markOf(head.key), head.key ?? null, head.body);
    } else {
      n = numbers.get(session) ?? numberOf(session);
      if (n === undefined) return "conflict";
      // Asked before anything is written, so that there is nothing to undo.
      const repeats = rest.some((entry) => hasKey(n!, entry));
      if (repeats || !extend(n, version, seen, head)) {
        const now = numberOf(session);
        if (now !== n) return put(commit);
        return repeats || hasKey(n, head) ? "duplicate" : "conflict";
      }
      if (heading !== undefined) changeSession.run(...heading, touched, n);
    }
    for (const [index, entry] of rest.entries()) extend(n, version + 1 + index, null, entry);
    if (snapshot !== undefined) keep.run(n, snapshot.version, snapshot.body);
    return "ok";
  }

  /** What `put` would answer. Changes nothing. */
  function judge({ session, version, seen, head, rest }: Prepared): Appended {
    const n = numberOf(session);
    if (n === undefined) return version === 0 ? "ok" : "conflict";
    if (hasKey(n, head) || rest.some((entry) => hasKey(n, entry))) return "duplicate";
    const newest = newestOf.get(n) as { version: number; at: number } | undefined;
    return newest?.version === version && (seen === null || newest.at === seen) ? "ok" : "conflict";
  }

  /** Puts all of them or none. Asked first, as with a savepoint a refusal costs four times as much, and each ok more. */
  function putTogether(commits: Prepared[]): Appended {
    const answers = new Set(commits.map(judge));
    if (answers.has("duplicate")) return "duplicate";
    if (answers.has("conflict")) return "conflict";
    for (const each of commits) {
      // Never so, as nobody else writes meanwhile. If it were, the transaction must not leave the ones before it.
      if (put(each) !== "ok")
        throw new HoldfastError("store_failed", `${path} refused what it had found to be in order`);
    }
    return "ok";
  }

  function forget(session: string, version: number | undefined, seen: number | undefined): boolean {
    const n = numberOf(session);
    if (n === undefined) return false;
    if (version !== undefined) {
      const newest = newestOf.get(n) as { version: number; at: number };
      if (newest.version !== version || newest.at !== (seen ?? newest.at)) return false;
    }
    for (const statement of deletes) statement.run(n);
    numbers.delete(session);
    return true;
  }

  const listing = listingOf({ database, reading, writing });

  return {
    persistent: true,

    async append(commit, ...together) {
      assertOpen();
      if (together.length === 0) {
        const prepared = prepare(commit);
        return hasTwins(commit) ? "duplicate" : writing(() => put(prepared));
      }
      const commits = [commit, ...together];
      assertDifferentSessions(commits);
      const prepared = commits.map(prepare);
      return commits.some(hasTwins) ? "duplicate" : writing(() => putTogether(prepared));
    },

    read: (session, after, limit) =>
      reading(() => {
        const entries = tail.all(after, session, limit === undefined ? -1 : Math.max(limit, 1)) as Entry[];
        if (entries.length === 0) return undefined;
        return limit === 0 || entries[0]!.version === null ? [] : entries.map(entryOf);
      }),

    load: (session, version = Number.MAX_SAFE_INTEGER) =>
      reading(() =>
        transaction(begin, () => {
          const n = numberOf(session);
          if (n === undefined) return undefined;
          const row = snapshotBefore.get(n, version) as Snapshot | undefined;
          const entries = (between.all(n, row?.version ?? 0, version) as Entry[]).map(entryOf);
          return row === undefined ? { entries } : { snapshot: entryOf(row), entries };
        }),
      ),

    find: (session, key) =>
      reading(() => {
        const row = found.get(session, markOf(key), key) as Entry | undefined;
        return row && entryOf(row);
      }),

    list: (filter = {}) => listing({ ...filter }),

    count: (environment) => reading(() => (countOf.get(environment) as { open: number } | undefined)?.open ?? 0),

    delete(session, end) {
      const [version, seen] = [end?.version, end?.seen];
      return writing(() => forget(session, version, seen));
    },

    close() {
      closing ??= (groups ?? Promise.resolve()).then(() => void database.close());
      return closing;
    },
  };
}

/** A copy of a commit, as it is written later. */
function prepare({ session, version, seen, entries, heading, snapshot }: Commit): Prepared {
  if (version === 0 && heading === undefined) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  const [head, ...rest] = entries.map((entry) => ({ ...entry })) as [NewEntry, ...NewEntry[]];
  return {
    session,
    version,
    seen: seen ?? null,
    head,
    rest,
    heading: heading && valuesOf(heading),
    snapshot: snapshot && { ...snapshot },
  };
}

/** Whether two entries of a commit have the same key. */
function hasTwins({ entries }: Commit): boolean {
  if (entries.length === 1) return false;
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

/** 32 bits of a key. Keys with the same ones are told apart by their text. */
function markOf(key: string | undefined): number | null {
  if (key === undefined) return null;
  let mark = 0;
  for (let index = 0; index < key.length; index++) {
    mark = Math.imul(mark ^ key.charCodeAt(index), 0x9e3779b1);
    mark ^= mark >>> 15;
  }
  return mark;
}

function valuesOf({ environment, opened, parent, ended }: Heading): Value[] {
  return [environment, opened, parent?.session ?? null, parent?.version ?? null, ended ?? null];
}

function entryOf({ version, body }: Entry): Entry {
  return { version, body };
}
