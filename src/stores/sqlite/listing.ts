// The listings of the SQLite store, page by page: nothing is held open between two rows.
import { HoldfastError } from "../../core/errors.ts";
import type { EndReason } from "../../core/event.ts";
import type { Filter, Listed } from "../../core/store.ts";
import type { Database, Value } from "./file.ts";

/** Names are read as bytes, because the node:sqlite of Node 22 ends a text at its first NUL. */
interface Row {
  n: number;
  seq: number;
  session: Uint8Array;
  version: number;
  environment: Uint8Array;
  opened: number;
  parent: Uint8Array | null;
  parentVersion: number | null;
  ended: EndReason | null;
  touched: number;
  bound: number;
}

const largestPage = 256;

/** What a listing needs of the store: its file, and how to read and write there. */
export interface Access {
  database: Database;
  reading<T>(work: () => T): Promise<T>;
  writing<T>(work: () => T): Promise<T>;
}

/** The store's `list`. */
export function listingOf({ database, reading, writing }: Access): (filter: Filter) => AsyncGenerator<Listed> {
  const numberById = database.prepare("SELECT n FROM sessions WHERE id = ?");
  const ends = database.prepare("SELECT (SELECT max(n) FROM sessions) AS n, (SELECT max(seq) FROM events) AS seq");
  const touch = database.prepare("UPDATE sessions SET touched = ? WHERE n = ?");

  /** A page of rows: of the sessions that fit the filter and a condition, in an order. */
  function rows(filter: Filter, condition: string, order: string, values: Value[], limit: number): Row[] {
    const { environment, open, openedBefore } = filter;
    const conditions = [condition];
    const all = [...values];
    if (environment !== undefined) {
      conditions.push("s.environment = ?");
      all.push(environment);
    }
    if (openedBefore !== undefined) {
      conditions.push("s.opened < ?");
      all.push(openedBefore);
    }
    if (open !== undefined) conditions.push(open ? "s.ended IS NULL" : "s.ended IS NOT NULL");
    // CROSS JOIN keeps SQLite from starting with the events.
    const sql = `SELECT s.n, CAST(s.id AS BLOB) AS session, CAST(s.environment AS BLOB) AS environment, s.opened,
        CAST(s.parent AS BLOB) AS parent, s.parentVersion, s.ended,
        s.touched AS bound, e.seq, e.version, e.at AS touched
      FROM sessions s CROSS JOIN events e
      ON e.session = s.n AND e.version = (SELECT max(version) FROM events WHERE session = s.n)
      WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    return database.prepare(sql).all(...all, limit) as Row[];
  }

  async function* inOrderOfOpening(filter: Filter, end: number): AsyncGenerator<Row> {
    let n = 0;
    if (filter.after !== undefined) {
      const after = await reading(() => numberById.get(filter.after!) as { n: number } | undefined);
      if (after === undefined) {
        const name = JSON.stringify(filter.after);
        throw new HoldfastError("session_not_found", `there is no session ${name} to list after`);
      }
      n = after.n;
    }
    for (;;) {
      const page = await reading(() => rows(filter, "s.n > ? AND s.n <= ?", "s.n", [n, end], largestPage));
      yield* page;
      if (page.length < largestPage) return;
      n = page.at(-1)!.n;
    }
  }

  /**
   * Takes sessions in the order of `sessions.touched` and brings up to date what is behind. Those whose true time lies
   * within the page are given; the others come again later, at their new place. Sessions touched since the listing
   * began are left out, so that none comes twice. Pages start small, for those who only want the first.
   */
  async function* inOrderOfIdleness(filter: Filter, idleBefore: number, end: number): AsyncGenerator<Row> {
    let [touched, n] = [-Infinity, 0];
    for (let size = 4; ; size = Math.min(size * 4, largestPage)) {
      const condition = "s.touched < ? AND (s.touched, s.n) > (?, ?)";
      const page = await reading(() => rows(filter, condition, "s.touched, s.n", [idleBefore, touched, n], size));
      const behind = page.filter((row) => row.bound !== row.touched);
      if (behind.length > 0)
        await writing(() => {
          for (const row of behind) touch.run(row.touched, row.n);
        });
      const last = page.length < size ? undefined : page.at(-1)!;
      const inPage = (row: Row): boolean =>
        last === undefined || row.touched < last.bound || (row.touched === last.bound && row.n <= last.n);
      yield* page
        .filter((row) => row.seq <= end && row.touched < idleBefore && inPage(row))
        .sort((a, b) => a.touched - b.touched || a.n - b.n);
      if (last === undefined) return;
      [touched, n] = [last.bound, last.n];
    }
  }

  return async function* listing(filter: Filter): AsyncGenerator<Listed> {
    const { idleBefore, after } = filter;
    const end = await reading(() => ends.get() as { n: number | null; seq: number | null });
    if (idleBefore !== undefined && after !== undefined) {
      throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
    }
    const order =
      idleBefore === undefined
        ? inOrderOfOpening(filter, end.n ?? 0)
        : inOrderOfIdleness(filter, idleBefore, end.seq ?? 0);
    for await (const row of order) yield listed(row);
  };
}

function listed({ session, version, environment, opened, parent, parentVersion, ended, touched }: Row): Listed {
  return {
    session: textOf(session),
    version,
    touched,
    environment: textOf(environment),
    opened,
    ...(parent !== null && parentVersion !== null && { parent: { session: textOf(parent), version: parentVersion } }),
    ...(ended !== null && { ended }),
  };
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}
