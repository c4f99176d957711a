// The tables of the example, on the SQLite of Node (22.13 and newer) or of a package with the same API.
import { createRequire } from "node:module";

type Value = string | number | null;
interface Statement {
  run(...values: Value[]): { lastInsertRowid: number | bigint };
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
}
interface Database {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
  close(): unknown;
}

/** All columns; a query returns some of them. */
export interface Row {
  n: number;
  id: string;
  version: number;
  touched: number;
  heading: string;
  body: string;
  at: number | null;
  key: string | null;
  seq: number;
}

// `turn` is the `seq` of the session's newest entry. It tells a listing whether the session was touched after its start.
// AUTOINCREMENT never reuses the number of a deleted row. NORMAL: answered commits survive kill -9.
// With FULL they survive power loss too, and each commit waits for the disk.
const tables = `
  PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 4000;
  CREATE TABLE IF NOT EXISTS sessions (
    n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, version INTEGER, touched REAL, turn INTEGER,
    environment TEXT, opened REAL, ended INTEGER, heading TEXT);
  CREATE INDEX IF NOT EXISTS sessionsTouched ON sessions (touched, n);
  CREATE INDEX IF NOT EXISTS sessionsOpen ON sessions (environment) WHERE ended = 0;
  CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, version INTEGER NOT NULL, key TEXT,
    body TEXT NOT NULL, at REAL, UNIQUE (session, version), UNIQUE (session, key));
  CREATE TABLE IF NOT EXISTS snapshots (
    session INTEGER NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, version));`;

function open(file: string): Database {
  const { DatabaseSync } = (process.getBuiltinModule?.("node:sqlite") ??
    createRequire(import.meta.url)("@photostructure/sqlite")) as { DatabaseSync: new (file: string) => Database };
  return new DatabaseSync(file);
}

export function openDatabase(file: string) {
  const database = open(file);
  database.exec(tables);
  const columns = database.prepare("SELECT name FROM pragma_table_info('entries')").all() as { name: string }[];
  // Adds the column to files that an older version wrote.
  if (!columns.some(({ name }) => name === "at")) database.exec("ALTER TABLE entries ADD COLUMN at REAL");
  const statements = new Map<string, Statement>();
  const statement = (sql: string): Statement => {
    const known = statements.get(sql) ?? database.prepare(sql);
    statements.set(sql, known);
    return known;
  };
  return {
    one: (sql: string, ...values: Value[]): Row | undefined => statement(sql).get(...values) as Row | undefined,
    all: (sql: string, ...values: Value[]): Row[] => statement(sql).all(...values) as Row[],
    /** Returns the number of the inserted row. */
    run: (sql: string, ...values: Value[]): number => Number(statement(sql).run(...values).lastInsertRowid),
    /** Runs the work as one transaction: all of it or nothing, without other writers in between. */
    transaction<T>(work: () => T): T {
      database.exec("BEGIN IMMEDIATE");
      try {
        const result = work();
        database.exec("COMMIT");
        return result;
      } catch (thrown) {
        database.exec("ROLLBACK");
        throw thrown;
      }
    },
    close: () => void database.close(),
  };
}
