// The SQLite store: all logs in one file, shared safely by processes on one machine.
import { resolve } from "node:path";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Appended, Heading, NewEntry, Snapshot, Store } from "../core/store.ts";
import { refuseUnknown } from "../core/suggest.ts";
import type { Driver, End, Entry, Page, Range, Unit, Write } from "./front.ts";
import { createStore } from "./front.ts";
import { timeMark, timeOfMark } from "./front/mark.ts";
import { faultOf, openFile, type Value } from "./sqlite/file.ts";
import { createLister, placeText } from "./sqlite/listing.ts";
import { anyText, toText, toValue, wholeText } from "./sqlite/text.ts";

export interface SqliteStoreOptions {
  /** The database file. It is created if it is missing. Its folder must exist. */
  file: string;
  /**
   * "process" (default): an answered commit survives the end of any process, even by kill -9, but a power loss may lose
   * the last commits. "power": an answered commit also survives a power loss. Each group of commits then waits for the
   * disk. That costs a single session most of its speed, but a thousand busy sessions only a little, because they wait
   * together.
   */
  durability?: "process" | "power";
}

/** The newest event of a session. */
interface Newest {
  n: number;
  version: number;
  at: number;
  chain: string | null;
}

/** Maximum commits and characters per transaction. Larger transactions save nothing. */
const groups = { of: "store", commits: 4096, bytes: 64 * 1024 * 1024 } as const;
/** Maximum number of cached session numbers. */
const rememberedSessions = 20_000;

/**
 * Opens a store in a SQLite file. Simultaneous commits of any sessions are written in one transaction. Any number of
 * processes on one machine may use the file. It must not be on a network file system.
 *
 * @example
 * const store = sqliteStore({ file: "sessions.db" });
 */
export function sqliteStore(options: SqliteStoreOptions): Store {
  const { file, durability = "process" } = options;
  refuseUnknown("sqliteStore", options, { file, durability }, invalidOption);
  if (typeof file !== "string" || file === "" || file === ":memory:") {
    const message = "`file` must be the path of a file; use memoryStore for a store in memory";
    throw new HoldfastError("invalid_option", message);
  }
  if (durability !== "process" && durability !== "power") {
    throw new HoldfastError("invalid_option", '`durability` must be "process" or "power"');
  }
  // The path is absolute, so that SQLite does not read a name such as "file:x" as a URI.
  return createStore(sqliteDriver(resolve(file), durability));
}

function sqliteDriver(path: string, durability: "process" | "power"): Driver {
  const { database, assertSound } = openFile(path, durability);

  const beginWriting = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
  const numberById = database.prepare(`SELECT n FROM sessions WHERE id = ${anyText}`);
  const openSession = database.prepare(
    `INSERT INTO sessions (id, environment, opened, parent, parentVersion, ended, touched)
     VALUES (${anyText}, ${anyText}, ?, ${anyText}, ?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const changeSession = database.prepare(
    `UPDATE sessions SET environment = ${anyText}, opened = ?, parent = ${anyText}, parentVersion = ?, ended = ?, touched = ?
     WHERE n = ?`,
  );
  // Appends to a session that was opened in the same transaction, so nothing is checked.
  const add = database.prepare(
    `INSERT INTO events (session, version, at, mark, key, body, chain) VALUES (?, ?, ?, ?, ${anyText}, ?, ?)`,
  );
  // Stores the most common commit, a single entry, in one statement. `chain` is NULL if the mark is the event's time.
  const atEnd = "e.session = ? AND e.version = ? AND (e.chain IS ? OR ?) AND e.at = ifnull(?, e.at)";
  const next = database.prepare(
    `INSERT INTO events (session, version, at, mark, key, body, chain)
     SELECT e.session, e.version + 1, ?, ?, ${anyText}, ?, ? FROM events e WHERE ${atEnd}
     AND NOT EXISTS (SELECT 1 FROM events k WHERE k.session = e.session AND k.mark = ? AND k.key = ${anyText})
     ON CONFLICT DO NOTHING`,
  );
  const nextKeyless = database.prepare(
    `INSERT INTO events (session, version, at, body, chain)
     SELECT e.session, e.version + 1, ?, ?, ? FROM events e WHERE ${atEnd} ON CONFLICT DO NOTHING`,
  );
  const keyed = database.prepare(`SELECT version FROM events WHERE session = ? AND mark = ? AND key = ${anyText}`);
  const newestOf = database.prepare(
    "SELECT session AS n, version, at, chain FROM events WHERE session = ? ORDER BY version DESC LIMIT 1",
  );
  // Ignores an existing snapshot: two processes may write the same snapshot, and the second must not fail its group.
  const keep = database.prepare("INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  const newestById = database.prepare(
    `SELECT s.n, e.version, e.at, e.chain FROM sessions s JOIN events e ON e.session = s.n
     WHERE s.id = ${anyText} ORDER BY e.version DESC LIMIT 1`,
  );
  const entry = `e.version, e.at, ${wholeText("e.key")} AS key, e.body`;
  const between = database.prepare(
    `SELECT ${entry} FROM events e WHERE e.session = ? AND e.version > ? AND e.version <= ? ORDER BY e.version`,
  );
  const found = database.prepare(
    `SELECT ${entry} FROM sessions s JOIN events e ON e.session = s.n
     WHERE s.id = ${anyText} AND e.mark = ? AND e.key = ${anyText}`,
  );
  const snapshotBefore = database.prepare(
    "SELECT version, body FROM snapshots WHERE session = ? AND version > ? AND version <= ? ORDER BY version DESC LIMIT 1",
  );
  const countOf = database.prepare(`SELECT open FROM counts WHERE environment = ${anyText}`);
  const deletes = ["events WHERE session = ?", "snapshots WHERE session = ?", "sessions WHERE n = ?"].map((what) =>
    database.prepare(`DELETE FROM ${what}`),
  );

  const list = createLister(database, transaction);
  // The numbers of sessions. An outdated number is harmless: it has no events, so the session is looked up again.
  const numbers = new Map<string, number>();

  function transaction<T>(work: () => T): T {
    assertSound();
    beginWriting.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (cause) {
      // The rollback frees the numbers assigned in this transaction, and they will be reused.
      numbers.clear();
      try {
        rollback.run();
      } catch {
        // After some failures SQLite has already rolled back.
      }
      throw cause;
    }
  }

  function numberOf(session: string): number | undefined {
    const row = numberById.get(toValue(session)) as { n: number } | undefined;
    if (row === undefined) {
      numbers.delete(session);
      return undefined;
    }
    remember(session, row.n);
    return row.n;
  }

  function remember(session: string, n: number): void {
    if (numbers.size >= rememberedSessions) numbers.clear();
    numbers.set(session, n);
  }

  const hasKey = (n: number, { key }: NewEntry): boolean =>
    key !== undefined && keyed.get(n, hashOf(key), toValue(key)) !== undefined;

  /** Appends one entry if the log ends at its version and lacks its key. */
  function extend(n: number, seen: End, { at, key, body }: NewEntry, chain: string | null): boolean {
    const end = [n, seen.version, chainOf(seen.mark), seen.mark === "" ? 1 : 0, timeOfMark(seen.mark) ?? null];
    if (key === undefined) return Number(nextKeyless.run(at, body, chain, ...end).changes) === 1;
    const [hash, text] = [hashOf(key), toValue(key)];
    return Number(next.run(at, hash, text, body, chain, ...end, hash, text).changes) === 1;
  }

  function put(write: Write): Appended {
    const { session, seen, entries, mark, heading, snapshot } = write;
    const [head, ...rest] = entries;
    const touched = entries.at(-1)!.at;
    // Only the newest entry of a commit has a mark.
    const chainAt = (index: number): string | null => (index === rest.length ? chainOf(mark) : null);
    let n: number | undefined;
    if (seen.version === 0) {
      const { changes, lastInsertRowid } = openSession.run(toValue(session), ...valuesOf(heading!), touched);
      if (Number(changes) === 0) {
        n = numberOf(session)!;
        return entries.some((entry) => hasKey(n!, entry)) ? "duplicate" : "conflict";
      }
      n = Number(lastInsertRowid);
      remember(session, n);
      for (const [index, { at, key, body }] of entries.entries()) {
        add.run(n, index + 1, at, hashOf(key), toValue(key), body, chainAt(index));
      }
    } else {
      n = numbers.get(session) ?? numberOf(session);
      if (n === undefined) return "conflict";
      // Keys are checked before the first write, so that there is nothing to undo.
      const repeats = rest.some((entry) => hasKey(n!, entry));
      if (repeats || !extend(n, seen, head, chainAt(0))) {
        const now = numberOf(session);
        if (now !== n) return put(write);
        return repeats || hasKey(n, head) ? "duplicate" : "conflict";
      }
      if (heading !== undefined) changeSession.run(...valuesOf(heading), touched, n);
      for (const [index, entry] of rest.entries()) {
        extend(n, { version: seen.version + 1 + index, mark: "" }, entry, chainAt(index + 1));
      }
    }
    if (snapshot !== undefined) keep.run(n, snapshot.version, snapshot.body);
    return "ok";
  }

  /** Returns the answer that `put` would return. Changes nothing. */
  function judge({ session, seen, entries }: Write): Appended {
    const n = numberOf(session);
    if (n === undefined) return seen.version === 0 ? "ok" : "conflict";
    if (entries.some((entry) => hasKey(n, entry))) return "duplicate";
    return endsAt(newestOf.get(n) as Newest | undefined, seen) ? "ok" : "conflict";
  }

  /**
   * Stores all writes or none. Checks first: savepoints would make refusals four times slower, and successes slower.
   */
  function putUnit(unit: Unit): Appended {
    if (unit.length === 1) return put(unit[0]);
    const answers = new Set(unit.map(judge));
    if (answers.has("duplicate")) return "duplicate";
    if (answers.has("conflict")) return "conflict";
    for (const each of unit) {
      // Cannot happen, because nothing else writes in the meantime. If it does, the transaction must be rolled back.
      if (put(each) !== "ok") throw new Error("the append was refused after its check had passed");
    }
    return "ok";
  }

  function forget(session: string, end: End | undefined): boolean {
    const n = numberOf(session);
    if (n === undefined || (end && !endsAt(newestOf.get(n) as Newest | undefined, end))) return false;
    for (const statement of deletes) statement.run(n);
    numbers.delete(session);
    return true;
  }

  /** Reads part of a log. The entries and snapshots of a session number never change, and are only deleted together. */
  function pageOf({ n, version, ...newest }: Newest, { after, upTo, limit, bytes, snapshot }: Range): Page {
    const last = Math.min(version, upTo);
    const state = snapshot ? (snapshotBefore.get(n, after, last) as Snapshot | undefined) : undefined;
    const start = state?.version ?? after;
    const page: Page = { end: { version, mark: markOf(newest) }, place: placeText(n), entries: [] };
    if (state) page.snapshot = { version: state.version, body: state.body };
    if (start >= last || limit <= 0) return page;
    let left = bytes;
    for (const row of between.iterate(n, start, Math.min(last, start + limit)) as Iterable<Entry>) {
      page.entries.push(toEntry(row));
      left -= row.body.length;
      if (left <= 0) break;
    }
    return page;
  }

  return {
    name: `the SQLite store ${path}`,
    persistent: true,
    together: true,
    text: "any",
    idle: true,
    groups,
    fault: faultOf,

    append: (units) => transaction(() => units.map(putUnit)),

    read(session, range) {
      assertSound();
      for (;;) {
        const newest = newestById.get(toValue(session)) as Newest | undefined;
        if (!newest) return undefined;
        const page = pageOf(newest, range);
        const start = page.snapshot?.version ?? range.after;
        const isEmpty = page.entries.length === 0 && start < Math.min(newest.version, range.upTo) && range.limit > 0;
        // Another process has deleted the session, and perhaps opened it again.
        if (!isEmpty || (newestById.get(toValue(session)) as Newest | undefined)?.n === newest.n) return page;
      }
    },

    find(session, key) {
      assertSound();
      const row = found.get(toValue(session), hashOf(key), toValue(key)) as Entry | undefined;
      return row && toEntry(row);
    },

    list(listing) {
      assertSound();
      return list(listing);
    },

    count(environment) {
      assertSound();
      return (countOf.get(toValue(environment)) as { open: number } | undefined)?.open ?? 0;
    },

    delete: (session, end) => transaction(() => forget(session, end)),

    close() {
      try {
        assertSound();
      } catch {
        // Ignored, because nothing more is written. The check has repaired the shared memory, which `close` reads.
      }
      database.close();
    },
  };
}

function endsAt(newest: Newest | undefined, { version, mark }: End): boolean {
  return newest?.version === version && (mark === "" || markOf(newest) === mark);
}

function markOf({ at, chain }: Pick<Newest, "at" | "chain">): string {
  return chain ?? timeMark(at);
}

/** Returns the stored form of a mark: null if it is the time of its entry. */
function chainOf(mark: string): string | null {
  return mark === "" || timeOfMark(mark) !== undefined ? null : mark;
}

/** Returns 32 bits of a key's hash. Keys with equal hashes are compared by text. */
function hashOf(key: string | undefined): number | null {
  if (key === undefined) return null;
  let hash = 0;
  for (let index = 0; index < key.length; index++) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash;
}

function valuesOf({ environment, opened, parent, ended }: Heading): Value[] {
  return [toValue(environment), opened, toValue(parent?.session), parent?.version ?? null, ended ?? null];
}

function toEntry({ version, at, key, body }: { version: number; at: number; key?: unknown; body: string }): Entry {
  return key === null ? { version, at, body } : { version, at, body, key: toText(key as string | Uint8Array) };
}
