// The SQLite store's file: its driver, its owner, its schema, and the classification of its failures.
import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { HoldfastError, isHoldfastError, messageOf } from "../../core/errors.ts";
import { privateFile } from "../../io/private-files.ts";
import type { Fault } from "../front.ts";
import { createFileCheck } from "./file-check.ts";

export type Value = string | number | null | Uint8Array;

/** The parts of node:sqlite that the store uses. */
export interface Statement {
  run(...values: Value[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
  iterate(...values: Value[]): Iterable<unknown>;
}

export interface Database {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
  close(): unknown;
}

/** "hold", the application id in the header of each file, by which SQLite identifies a file's application. */
const applicationId = 0x686f6c64;
/** Milliseconds to wait for other processes while the file is opened. */
const timeLimit = 5000;
/**
 * Migration n migrates a file from version n to version n + 1. A released migration never changes.
 *
 * Events are stored in the order of writing, not by session. A group of commits then fills whole pages, and only the
 * two small indexes have scattered writes. The index of keys has `mark`, a quarter of the size of a key; duplicate keys
 * are checked within the transaction. With AUTOINCREMENT, a cached number never refers to another session.
 * `sessions.touched` is never later than the session's newest event: commits do not change it, and a listing by idle
 * time updates outdated rows.
 */
const migrations = [
  `CREATE TABLE sessions (
     n INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL UNIQUE,
     environment TEXT NOT NULL,
     opened INTEGER NOT NULL,
     parent TEXT,
     parentVersion INTEGER,
     ended TEXT,
     touched INTEGER NOT NULL
   );
   CREATE INDEX sessionsOpen ON sessions (environment, touched) WHERE ended IS NULL;
   CREATE INDEX sessionsTouched ON sessions (touched);
   CREATE TABLE events (
     seq INTEGER PRIMARY KEY,
     session INTEGER NOT NULL,
     version INTEGER NOT NULL,
     at INTEGER NOT NULL,
     mark INTEGER,
     key TEXT,
     body TEXT NOT NULL,
     UNIQUE (session, version)
   );
   CREATE INDEX eventsMarked ON events (session, mark) WHERE mark IS NOT NULL;
   CREATE TABLE snapshots (
     session INTEGER NOT NULL,
     version INTEGER NOT NULL,
     body TEXT NOT NULL,
     PRIMARY KEY (session, version)
   ) WITHOUT ROWID;
   CREATE TABLE counts (environment TEXT PRIMARY KEY, open INTEGER NOT NULL) WITHOUT ROWID;
   CREATE TRIGGER countOpened AFTER INSERT ON sessions WHEN new.ended IS NULL BEGIN
     INSERT INTO counts VALUES (new.environment, 1) ON CONFLICT DO UPDATE SET open = open + 1;
   END;
   CREATE TRIGGER countChanged AFTER UPDATE OF environment, ended ON sessions BEGIN
     UPDATE counts SET open = open - 1 WHERE environment = old.environment AND old.ended IS NULL;
     INSERT INTO counts SELECT new.environment, 1 WHERE new.ended IS NULL ON CONFLICT DO UPDATE SET open = open + 1;
   END;
   CREATE TRIGGER countDeleted AFTER DELETE ON sessions WHEN old.ended IS NULL BEGIN
     UPDATE counts SET open = open - 1 WHERE environment = old.environment;
   END;`,
  // The log's mark after this event; NULL if the mark is the event's time.
  "ALTER TABLE events ADD COLUMN chain TEXT;",
];

const readVersion = `SELECT (SELECT count(*) FROM sqlite_schema) AS tables, a.application_id AS application,
  v.user_version AS version FROM pragma_application_id a, pragma_user_version v`;

/** Opens a file and migrates it. Refuses damaged, newer and foreign files, and leaves them unchanged. */
export function openFile(path: string, durability: "process" | "power") {
  try {
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined && !existsSync(dirname(path))) {
      const message = `cannot create ${path}: its folder does not exist; create ${dirname(path)} first`;
      throw new HoldfastError("store_failed", message);
    }
    if (size === undefined) create(path);
    // First checks the file read-only, because closing a file that was opened for writing could change it. A journal
    // next to the file means that another process is creating it, or was killed while creating it. Only opening it for
    // writing can repair that.
    if (size !== undefined && size > 0 && !existsSync(`${path}-journal`)) {
      const database = connect(path, true);
      try {
        insistently(() => versionOf(database, path));
      } finally {
        database.close();
      }
    }
    const database = connect(path, false);
    try {
      prepare(database, path, durability);
      const assertVersion = (): void => {
        if (versionOf(database, path) === 0) throw new HoldfastError("store_corrupt", `${path} was emptied`);
      };
      return { database, assertSound: createFileCheck(path, applicationId, assertVersion) };
    } catch (cause) {
      database.close();
      throw cause;
    }
  } catch (cause) {
    if (isHoldfastError(cause)) throw cause;
    const { code, message } = faultOf(cause);
    throw new HoldfastError(code, `the SQLite store ${path} ${message}`, { cause });
  }
}

/** Creates an empty file that only its owner may read. SQLite gives its `-wal` and `-shm` files the same mode. */
function create(path: string): void {
  try {
    closeSync(openSync(path, "wx", privateFile));
  } catch {
    // Either another process has created it, or SQLite will report the reason.
  }
}

/** Returns the schema version of a file. The file must be empty or a file of Holdfast. */
function versionOf(database: Database, path: string): number {
  // One statement, because another process may create the schema between two statements.
  const { tables, application, version } = database.prepare(readVersion).get() as Record<string, number>;
  if (tables === 0 && application === 0 && version === 0) return 0;
  if (application !== applicationId) {
    const message = `${path} is a database from another program; nothing was changed. Choose another file`;
    throw new HoldfastError("store_corrupt", message);
  }
  if (version! > migrations.length) {
    throw new HoldfastError(
      "store_newer",
      `${path} was written by a newer Holdfast (its schema is ${version}, this version reads up to ${migrations.length}); nothing was changed`,
    );
  }
  return version!;
}

function prepare(database: Database, path: string, durability: "process" | "power"): void {
  database.exec(`PRAGMA busy_timeout = ${timeLimit}`);
  insistently(() => {
    if (versionOf(database, path) === migrations.length) return;
    database.exec("BEGIN IMMEDIATE");
    try {
      for (const migration of migrations.slice(versionOf(database, path))) database.exec(migration);
      database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${migrations.length}; COMMIT`);
    } catch (cause) {
      database.exec("ROLLBACK");
      throw cause;
    }
  });
  // WAL mode starts after the migration, because the application id must be in the file itself, not in its log.
  const { journal_mode: mode } = insistently(() => database.prepare("PRAGMA journal_mode = WAL").get()) as {
    journal_mode: string;
  };
  if (mode !== "wal") {
    const message = `${path} is on a file system that does not support SQLite's WAL mode; use a local disk`;
    throw new HoldfastError("store_failed", message);
  }
  // Checkpoints are rare, so that busy pages are written back once for many commits. SQLite waits only briefly for
  // locks, because the wait blocks the thread.
  database.exec(`PRAGMA synchronous = ${durability === "power" ? "FULL" : "NORMAL"};
    PRAGMA wal_autocheckpoint = 16000; PRAGMA journal_size_limit = 134217728; PRAGMA cache_size = -65536;
    PRAGMA busy_timeout = 2`);
}

/** Retries while other processes hold locks, because SQLite itself does not wait for all of its locks. */
function insistently<T>(work: () => T): T {
  const deadline = Date.now() + timeLimit;
  for (;;) {
    try {
      return work();
    } catch (cause) {
      if (!hasCode(cause, busy) || Date.now() > deadline) throw cause;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

interface Sqlite {
  DatabaseSync: new (path: string, options: { readOnly: boolean }) => Database;
}

function connect(path: string, readOnly: boolean): Database {
  const { DatabaseSync } = loadSqlite();
  return new DatabaseSync(path, { readOnly });
}

/** Loads Node's SQLite, or before Node 22.13 a package with the same API and error numbers. */
function loadSqlite(): Sqlite {
  const builtin = process.getBuiltinModule?.("node:sqlite") as Sqlite | undefined;
  if (builtin !== undefined) return builtin;
  try {
    return createRequire(import.meta.url)("@photostructure/sqlite") as Sqlite;
  } catch (cause) {
    const message = "sqliteStore needs Node 22.13 or newer, or `npm install @photostructure/sqlite@2`";
    throw new HoldfastError("missing_dependency", message, { cause });
  }
}

/** Returns whether a failure has one of these result codes of SQLite. A primary code includes its extended codes. */
function hasCode(thrown: unknown, codes: number[]): boolean {
  const { errcode } = (thrown ?? {}) as { errcode?: unknown };
  return typeof errcode === "number" && (codes.includes(errcode) || codes.includes(errcode & 255));
}

// SQLITE_BUSY, SQLITE_LOCKED
const busy = [5, 6];

const faults: [codes: number[], fault: Omit<Fault, "effect">][] = [
  [busy, { code: "store_busy", message: "is locked by another process", passing: true, pause: 6 }],
  // SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE. SQLite reports a quota or a size limit as a failed write.
  [[13, 778, 4874], { code: "store_full", message: "has no space left; nothing was written" }],
  // SQLITE_CORRUPT, SQLITE_NOTADB
  [[11, 26], { code: "store_corrupt", message: "is damaged or not a database" }],
];
const otherwise: Omit<Fault, "effect"> = { code: "store_failed", message: "failed", single: true };

/** Classifies a SQLite failure. Every operation that writes is a transaction, which was rolled back. */
export function faultOf(cause: unknown): Fault {
  const [, fault] = faults.find(([codes]) => hasCode(cause, codes)) ?? [[], otherwise];
  return { ...fault, message: `${fault.message}: ${messageOf(cause)}`, effect: "nothing", cause };
}
