// The Postgres store: all logs in one schema of a database, shared safely by any number of processes and machines.
import { HoldfastError } from "../core/errors.ts";
import type { Commit, Entry, Snapshot, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import { createConnections, keptReady } from "./postgres/connections.ts";
import { patience } from "./postgres/failures.ts";
import { createGroups } from "./postgres/groups.ts";
import { listingOf } from "./postgres/listing.ts";
import { quoted } from "./postgres/schema.ts";
import { targetOf } from "./postgres/url.ts";
import { fromText, toText } from "./front/utf8-escape.ts";
import { toInteger } from "./postgres/wire.ts";

export interface PostgresStoreOptions {
  /**
   * `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. In its query, `schema` is where the logs are (default `holdfast`; it
   * is made if it is not there) and `connections` how many to open at most (default 4); all else is for pg, such as
   * `sslmode`.
   */
  url: string;
}

/** Part 0 says that there is a log, 1 is a snapshot, 2 an entry. */
interface Part {
  part: number;
  number: number;
  content: string;
}

/**
 * A store in a Postgres database. Commits of the same moment are written in one transaction, whichever sessions they
 * are of. It connects when it is first used, also through PgBouncer in transaction mode, and again when it was cut off.
 *
 * @example
 * const store = postgresStore({ url: "postgres://holdfast:secret@db.internal:5432/holdfast" });
 */
export function postgresStore({ url }: PostgresStoreOptions): Store {
  const target = targetOf(url);
  const { name } = target;
  const connections = createConnections(target);
  const schema = quoted(target.schema);
  const append = createGroups(connections, schema, name);

  const load = keptReady(`SELECT * FROM ${schema}.load_log($1::text, $2::integer)`);
  const read = keptReady(`SELECT * FROM ${schema}.read_log($1::text, $2::integer, $3::integer)`);
  const find = keptReady(`SELECT * FROM ${schema}.find_entry($1::text, $2::text)`);
  const count = keptReady(`SELECT coalesce(sum(open), 0)::float8 AS open FROM ${schema}.counts WHERE environment = $1`);
  const forget = keptReady(`SELECT ${schema}.delete_session($1::text, $2::integer, $3::float8) AS deleted`);

  const underWay = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  /** What a verb does, unless the store is closed; close waits for it. */
  async function verb<T>(work: (deadline: number) => Promise<T>): Promise<T> {
    if (closing !== undefined) throw new HoldfastError("store_closed", `the Postgres store ${name} was closed`);
    const promise = work(performance.now() + patience);
    underWay.add(promise);
    try {
      return await promise;
    } finally {
      underWay.delete(promise);
    }
  }

  const listing = listingOf(
    (sql, values) => verb((deadline) => connections.run({ text: sql }, values, deadline, true)),
    schema,
  );

  return {
    persistent: true,

    append: (commit, ...together) =>
      verb(async () => {
        const commits = [commit, ...together];
        if (commits.some(({ version, heading }) => version === 0 && heading === undefined)) {
          throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
        }
        assertDifferentSessions(commits);
        return commits.some(hasTwins) ? "duplicate" : append(commits);
      }),

    read: (session, after, limit) =>
      verb(async (deadline) => {
        const most = limit === undefined ? null : toInteger(limit);
        const parts = await connections.run<Part>(read, [toText(session), toInteger(after), most], deadline, true);
        return parts.length === 0 ? undefined : parts.slice(1).map(entryOf);
      }),

    load: (session, version = Infinity) =>
      verb(async (deadline) => {
        const values = [toText(session), toInteger(version)];
        const parts = await connections.run<Part>(load, values, deadline, true);
        if (parts.length === 0) return undefined;
        const snapshot: Snapshot | undefined = parts[1]?.part === 1 ? entryOf(parts[1]) : undefined;
        const entries = parts.slice(snapshot ? 2 : 1).map(entryOf);
        return snapshot ? { snapshot, entries } : { entries };
      }),

    find: (session, key) =>
      verb(async (deadline) => {
        const [part] = await connections.run<Part>(find, [toText(session), toText(key)], deadline, true);
        return part && entryOf(part);
      }),

    list: (filter = {}) => listing({ ...filter }),

    count: (environment) =>
      verb(async (deadline) => {
        const [row] = await connections.run<{ open: number }>(count, [toText(environment)], deadline, true);
        return row!.open;
      }),

    delete: (session, end) =>
      verb(async (deadline) => {
        const values = [toText(session), end?.version ?? null, end?.seen ?? null];
        const [row] = await connections.run<{ deleted: boolean }>(forget, values, deadline, false);
        return row!.deleted;
      }),

    close() {
      closing ??= Promise.allSettled(underWay).then(() => connections.end());
      return closing;
    },
  };
}

/** Whether two entries of a commit have the same key. */
function hasTwins({ entries }: Commit): boolean {
  if (entries.length === 1) return false;
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

function entryOf({ number, content }: Part): Entry {
  return { version: number, body: fromText(content) };
}
