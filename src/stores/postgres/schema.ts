// The tables and functions of a Postgres store, and their migration, which many processes may start at the same time.
import { HoldfastError } from "../../core/errors.ts";
import { functionsOf } from "./functions.ts";
import { stateOf } from "./failures.ts";

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/**
 * Settings of all functions. A connection plans a query once, perhaps while the tables are empty, so the plans are
 * forced to use indexes and nested loops. A function that waits for a lock gives up before its client does.
 */
const settings = `SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '4s'`;

/**
 * Migration n migrates a schema from version n to version n + 1. A released migration never changes.
 *
 * The version of a session is the version of its newest event. `sessions.touched` is never later than the time of that
 * event: commits only lock the row of `sessions`, and a listing by idle time updates outdated rows. The index of keys
 * holds hashes, which are smaller and allow keys of any length; a duplicate key is found while the session is locked.
 * The count of an environment's open sessions is split over several rows: with one row, all openings would wait for it.
 */
const migrations: ((schema: string) => string)[] = [
  (schema) => `
    CREATE SEQUENCE ${schema}.session_numbers;
    CREATE TABLE ${schema}.sessions (
      n bigint PRIMARY KEY,
      id text COLLATE "C" NOT NULL UNIQUE,
      environment text COLLATE "C" NOT NULL,
      opened double precision NOT NULL,
      parent text COLLATE "C",
      parent_version integer,
      ended text COLLATE "C",
      touched double precision NOT NULL
    );
    CREATE INDEX sessions_open ON ${schema}.sessions (environment, touched, n) WHERE ended IS NULL;
    CREATE INDEX sessions_touched ON ${schema}.sessions (touched, n);
    CREATE TABLE ${schema}.events (
      session bigint NOT NULL,
      at double precision NOT NULL,
      version integer NOT NULL,
      key text COLLATE "C",
      body text COLLATE "C" NOT NULL,
      PRIMARY KEY (session, version)
    );
    CREATE INDEX events_key ON ${schema}.events (session, hashtextextended(key, 0)) WHERE key IS NOT NULL;
    CREATE TABLE ${schema}.snapshots (
      session bigint NOT NULL,
      version integer NOT NULL,
      body text COLLATE "C" NOT NULL,
      PRIMARY KEY (session, version)
    );
    CREATE TABLE ${schema}.counts (
      environment text COLLATE "C" NOT NULL,
      share integer NOT NULL,
      open bigint NOT NULL,
      PRIMARY KEY (environment, share)
    ) WITH (fillfactor = 50);`,
  // The log's mark after an event; null if the mark is the event's time. Functions from older versions are left in
  // place.
  (schema) => `
    ALTER TABLE ${schema}.events ADD COLUMN chain text COLLATE "C";
    ${functionsOf(schema, settings)}`,
];

/** Errors that the block in `migrating` raises. They roll the block back. */
const foreign = "HF001";
const newer = "HF002";
const unreadable = "HF003";

/** Creates or migrates a schema. One statement, so that a pooler cannot separate its parts. */
function migrating(name: string): string {
  const schema = quoted(name);
  const steps = migrations.map(
    (migration, index) => `IF found <= ${index} THEN EXECUTE $migration$${migration(schema)}$migration$; END IF;`,
  );
  return `DO $block$
    DECLARE
      found integer := 0;
      name text;
    BEGIN
      PERFORM set_config('lock_timeout', '4s', true), set_config('client_min_messages', 'warning', true);
      PERFORM pg_advisory_xact_lock(hashtextextended(${literal(`holdfast ${name}`)}, 0));
      IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING ERRCODE = '${unreadable}', MESSAGE = current_setting('server_encoding');
      END IF;
      IF to_regnamespace(${literal(schema)}) IS NULL THEN
        CREATE SCHEMA ${schema};
      END IF;
      IF to_regclass(${literal(`${schema}.holdfast`)}) IS NULL THEN
        FOREACH name IN ARRAY ARRAY['sessions', 'events', 'snapshots', 'counts', 'session_numbers'] LOOP
          IF to_regclass(${literal(schema)} || '.' || name) IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = '${foreign}', MESSAGE = name;
          END IF;
        END LOOP;
        CREATE TABLE ${schema}.holdfast (version integer NOT NULL);
        INSERT INTO ${schema}.holdfast VALUES (0);
      END IF;
      EXECUTE ${literal(`SELECT version FROM ${schema}.holdfast`)} INTO found;
      IF found IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '${foreign}', MESSAGE = 'holdfast';
      END IF;
      IF found > ${migrations.length} THEN
        RAISE EXCEPTION USING ERRCODE = '${newer}', MESSAGE = found;
      END IF;
      ${steps.join("\n")}
      UPDATE ${schema}.holdfast SET version = ${migrations.length} WHERE version < ${migrations.length};
    END $block$`;
}

/** Migrates a schema to the current version. Refuses newer and foreign schemas, and leaves them unchanged. */
export async function prepareSchema(
  query: (sql: string) => Promise<{ version: unknown }[]>,
  schema: string,
  store: string,
): Promise<void> {
  try {
    // Check first. Unlike a migration, this also works on a standby.
    const found = await query(`SELECT version FROM ${quoted(schema)}.holdfast`).catch((cause: unknown) => {
      if (/^(42P01|3F000)$/.test(stateOf(cause))) return [];
      throw cause;
    });
    if (found.length === 1 && found[0]!.version === migrations.length) return;
    await query(migrating(schema));
  } catch (cause) {
    const { message } = cause as Error;
    switch (stateOf(cause)) {
      case foreign:
      case "42703": // A table `holdfast` without a version.
        throw new HoldfastError(
          "store_corrupt",
          `the Postgres store ${store} contains tables from another program (${message}); nothing was changed. Choose another schema with ?schema=NAME in the URL`,
          { cause },
        );
      case newer:
        throw new HoldfastError(
          "store_newer",
          `the Postgres store ${store} was written by a newer Holdfast (its schema is ${message}, this version reads up to ${migrations.length}); nothing was changed`,
          { cause },
        );
      case unreadable:
        throw new HoldfastError(
          "store_failed",
          `the Postgres store ${store} is in a database with the encoding ${message}; use a database with ENCODING 'UTF8'`,
          { cause },
        );
      default:
        throw cause;
    }
  }
}
