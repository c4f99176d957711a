// The Postgres store: all logs in one schema of a database, shared safely by any number of processes and machines.
import type { Appended, Store } from "../core/store.ts";
import { createStore, type Driver, type Entry, type Page, type Unit } from "./front.ts";
import { timeMark, timeOfMark } from "./front/mark.ts";
import { createConnections, keptReady, type Target } from "./postgres/connections.ts";
import { faultOf } from "./postgres/failures.ts";
import { createLister, placeText } from "./postgres/listing.ts";
import { quoted } from "./postgres/schema.ts";
import { toInteger, doubleArray, integerArray, textArray } from "./postgres/wire.ts";
import { invalidOption } from "../core/errors.ts";
import { refuseUnknown } from "../core/suggest.ts";

export interface PostgresStoreOptions {
  /**
   * `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Its query may have `schema`, the schema of the logs, created if
   * missing (default `holdfast`), and `connections`, the maximum number of connections (default 4). Other parameters,
   * such as `sslmode`, are passed to pg.
   */
  url: string;
}

/**
 * A row of `read_page`. Part 0 is the end of the log, with the mark in `key` and the session's number in `content`.
 * Part 1 is a snapshot, part 2 an entry.
 */
interface Part {
  part: number;
  number: number;
  at: number;
  key: string | null;
  content: string;
}

const answers: Appended[] = ["ok", "conflict", "duplicate"];

/**
 * Opens a store in a Postgres database. Simultaneous commits to any sessions are written in one transaction. It
 * connects on first use and reconnects after a lost connection. It also works through PgBouncer in transaction mode.
 *
 * @example
 * const store = postgresStore({ url: "postgres://holdfast:secret@db.internal:5432/holdfast" });
 */
export function postgresStore(options: PostgresStoreOptions): Store {
  const { url } = options;
  refuseUnknown("postgresStore", options, { url }, invalidOption);
  return createStore(postgresDriver(url));
}

function postgresDriver(url: string): Driver {
  const target = targetOf(url);
  const { run, end } = createConnections(target);
  const schema = quoted(target.schema);

  const append = keptReady(appendStatement(schema));
  const read = keptReady(
    `SELECT * FROM ${schema}.read_page($1::text, $2::integer, $3::integer, $4::integer, $5::integer, $6::boolean)`,
  );
  const find = keptReady(`SELECT * FROM ${schema}.find_key($1::text, $2::text)`);
  const count = keptReady(`SELECT coalesce(sum(open), 0)::float8 AS open FROM ${schema}.counts WHERE environment = $1`);
  const forget = keptReady(
    `SELECT ${schema}.delete_log($1::text, $2::integer, $3::text, $4::double precision) AS deleted`,
  );

  return {
    name: `the Postgres store ${target.name}`,
    persistent: true,
    together: true,
    text: "utf8",
    idle: true,
    // Two groups run concurrently: while one waits for the disk, the other is processed. Larger groups save nothing.
    groups: { of: "sessions", commits: 500, bytes: 4_000_000, lanes: 2 },
    fault: faultOf,

    async append(units, call) {
      const [row] = await run<{ answers: string }>(append, appendValues(units), call);
      let place = 0;
      return units.map(({ length }) => {
        const answer = answers[Number(row!.answers[place])]!;
        place += length;
        return answer;
      });
    },

    async read(session, { after, upTo, limit, bytes, snapshot }, call) {
      const values = [session, ...[after, upTo, limit, bytes].map(toInteger), snapshot];
      const [log, ...parts] = await run<Part>(read, values, call);
      if (log === undefined) return undefined;
      const end = { version: log.number, mark: log.key ?? timeMark(log.at) };
      const page: Page = { end, place: placeText(log.content), entries: [] };
      for (const part of parts) {
        if (part.part === 1) page.snapshot = { version: part.number, body: part.content };
        else page.entries.push(toEntry(part));
      }
      return page;
    },

    async find(session, key, call) {
      const [part] = await run<Part>(find, [session, key], call);
      return part && toEntry(part);
    },

    list: createLister(run, schema),

    async count(environment, call) {
      const [row] = await run<{ open: number }>(count, [environment], call);
      return row!.open;
    },

    async delete(session, end, call) {
      const mark = end?.mark ?? "";
      const time = timeOfMark(mark) ?? null;
      const values = [session, end?.version ?? null, mark === "" || time !== null ? null : mark, time];
      const [row] = await run<{ deleted: boolean }>(forget, values, call);
      return row!.deleted;
    },

    close: end,
  };
}

function toEntry({ number, at, key, content }: Part): Entry {
  const entry: Entry = { version: number, at, body: content };
  if (key !== null) entry.key = key;
  return entry;
}

const types = `integer[], text[], integer[], text[], double precision[], integer[], integer[], double precision[], text[], text[], text[],
  integer[], text[], text[], double precision[], text[], integer[], text[], double precision[], integer[], integer[], text[]`;

function appendStatement(schema: string): string {
  const values = types.split(",").map((type, index) => `$${index + 1}::${type.trim()}`);
  return `SELECT ${schema}.append_units(${values.join(", ")}) AS answers`;
}

/** Returns the arguments of `append_units`. Writes are numbered within the group, from 1. */
function appendValues(units: readonly Unit[]): Buffer[] {
  const writes = units.flat();
  const alone = writes.length === units.length;
  const unitOf = alone ? [] : units.flatMap((unit, index) => unit.map(() => index));
  const entries = writes.flatMap(({ seen, entries, mark }, index) =>
    entries.map((entry, at) => ({
      place: index + 1,
      version: seen.version + 1 + at,
      entry,
      chain: at === entries.length - 1 && timeOfMark(mark) === undefined ? mark : null,
    })),
  );
  const headings = writes.flatMap(({ session, entries, heading }, index) =>
    heading ? { place: index + 1, session, heading, touched: entries.at(-1)!.at } : [],
  );
  const snapshots = writes.flatMap(({ snapshot }, index) => (snapshot ? { place: index + 1, ...snapshot } : []));
  return [
    integerArray(unitOf),
    textArray(writes.map(({ session }) => session)),
    integerArray(writes.map(({ seen }) => seen.version)),
    textArray(writes.map(({ seen: { mark } }) => (timeOfMark(mark) === undefined ? mark : ""))),
    // NaN stands for a missing value, because lookups in arrays with nulls are slow.
    doubleArray(writes.map(({ seen: { mark } }) => timeOfMark(mark) ?? Number.NaN)),
    integerArray(entries.map(({ place }) => place)),
    integerArray(entries.map(({ version }) => version)),
    doubleArray(entries.map(({ entry }) => entry.at)),
    textArray(entries.map(({ entry }) => entry.key ?? null)),
    textArray(entries.map(({ entry }) => entry.body)),
    textArray(entries.map(({ chain }) => chain)),
    integerArray(headings.map(({ place }) => place)),
    textArray(headings.map(({ session }) => session)),
    textArray(headings.map(({ heading }) => heading.environment)),
    doubleArray(headings.map(({ heading }) => heading.opened)),
    textArray(headings.map(({ heading }) => heading.parent?.session ?? null)),
    integerArray(headings.map(({ heading }) => heading.parent?.version ?? null)),
    textArray(headings.map(({ heading }) => heading.ended ?? null)),
    doubleArray(headings.map(({ touched }) => touched)),
    integerArray(snapshots.map(({ place }) => place)),
    integerArray(snapshots.map(({ version }) => version)),
    textArray(snapshots.map(({ body }) => body)),
  ];
}

const shape = "postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME&connections=NUMBER";

/** Parses a URL. Error messages do not show the URL, because it may contain a password. */
function targetOf(given: string): Target {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw invalidOption(`\`url\` is not a URL; it should look like ${shape}`);
  }
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") {
    throw invalidOption(`\`url\` must begin with postgres:// and look like ${shape}`);
  }
  const schema = url.searchParams.get("schema") ?? "holdfast";
  const connections = Number(url.searchParams.get("connections") ?? 4);
  if (schema === "" || Buffer.byteLength(schema) > 63 || schema.includes("\0") || schema.includes("$")) {
    throw invalidOption("`schema` in the URL must be a name of 1 to 63 bytes, without $");
  }
  if (!Number.isInteger(connections) || connections < 1) {
    throw invalidOption("`connections` in the URL must be a whole number, at least 1");
  }
  url.searchParams.delete("schema");
  url.searchParams.delete("connections");
  return { url: url.href, name: `${url.host}${url.pathname}, schema ${schema},`, schema, connections };
}
