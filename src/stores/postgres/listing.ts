// The listings of the Postgres store, page by page: nothing is held open between two rows.
import { HoldfastError } from "../../core/errors.ts";
import type { EndReason } from "../../core/event.ts";
import type { Filter, Listed } from "../../core/store.ts";
import { fromText, toText } from "../front/utf8-escape.ts";
import { doubleArray } from "./wire.ts";

interface Row {
  n: string;
  session: string;
  version: number;
  environment: string;
  opened: number;
  parent: string | null;
  parent_version: number | null;
  ended: EndReason | null;
  touched: number;
  bound: number;
}

const largestPage = 256;

/** How a listing asks: each time within the time of a verb. */
type Ask = <Answer>(sql: string, values: unknown[]) => Promise<Answer[]>;

/** The store's `list`. */
export function listingOf(ask: Ask, schema: string): (filter: Filter) => AsyncGenerator<Listed> {
  // Whoever takes several locks takes them by id, as those do who append.
  const move = `UPDATE ${schema}.sessions s SET touched = m.touched
    FROM (SELECT l.n, v.touched FROM (
      SELECT n FROM ${schema}.sessions WHERE n = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE) l
      JOIN unnest($1::bigint[], $2::double precision[]) v (n, touched) ON v.n = l.n) m
    WHERE s.n = m.n AND s.touched < m.touched`;

  /** A page of rows: of the sessions that fit the filter and a condition, in an order. */
  function rows(filter: Filter, condition: string, order: string, values: unknown[], limit: number): Promise<Row[]> {
    const { environment, open, openedBefore } = filter;
    const conditions = [condition];
    const all = [...values];
    if (environment !== undefined) conditions.push(`s.environment = $${all.push(toText(environment))}`);
    if (openedBefore !== undefined) conditions.push(`s.opened < $${all.push(openedBefore)}`);
    if (open !== undefined) conditions.push(open ? "s.ended IS NULL" : "s.ended IS NOT NULL");
    return ask<Row>(
      `SELECT s.n, s.id AS session, s.environment, s.opened, s.parent, s.parent_version, s.ended,
        s.touched AS bound, e.version, e.at AS touched
      FROM ${schema}.sessions s CROSS JOIN LATERAL (
        SELECT version, at FROM ${schema}.events WHERE session = s.n ORDER BY version DESC LIMIT 1) e
      WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ${limit}`,
      all,
    );
  }

  async function* inOrderOfOpening(filter: Filter): AsyncGenerator<Row> {
    const { after = null } = filter;
    const [ends] = await ask<{ first: string | null; last: string | null }>(
      `SELECT (SELECT n FROM ${schema}.sessions WHERE id = $1) AS first, (SELECT max(n) FROM ${schema}.sessions) AS last`,
      [after === null ? null : toText(after)],
    );
    if (after !== null && ends!.first === null) {
      const name = JSON.stringify(after);
      throw new HoldfastError("session_not_found", `there is no session ${name} to list after`);
    }
    const last = BigInt(ends!.last ?? 0);
    let n = ends!.first ?? "0";
    for (;;) {
      // Where it ends is not said to Postgres, which would expect a few rows only, and sort all of them for each page.
      const page = await rows(filter, "s.n > $1", "s.n", [n], largestPage);
      yield* page.filter((row) => BigInt(row.n) <= last);
      if (page.length < largestPage || BigInt(page.at(-1)!.n) >= last) return;
      n = page.at(-1)!.n;
    }
  }

  /**
   * Takes sessions in the order of `sessions.touched` and brings up to date what is behind. Those whose true time lies
   * within the page are given; the others come again later, at their new place. One that is behind again by then was
   * touched since the listing began, and is left out: nothing is chased, and none comes twice. Pages start small, for
   * those who only want the first.
   */
  async function* inOrderOfIdleness(filter: Filter, idleBefore: number): AsyncGenerator<Row> {
    const met = new Map<number, "given" | "moved">();
    let [touched, n] = [-Infinity, "0"];
    for (let size = 4; ; size = Math.min(size * 4, largestPage)) {
      const condition = "s.touched < $1 AND (s.touched, s.n) > ($2, $3)";
      const page = await rows(filter, condition, "s.touched, s.n", [idleBefore, touched, n], size);
      const isBehind = (row: Row): boolean => row.bound !== row.touched;
      const fresh = page.filter((row) => {
        const state = met.get(Number(row.n));
        return state === undefined || (state === "moved" && !isBehind(row));
      });
      const behind = fresh.filter(isBehind);
      if (behind.length > 0) {
        const times = doubleArray(behind.map((row) => row.touched));
        await ask(move, [`{${behind.map((row) => row.n).join()}}`, times]);
        for (const row of behind) met.set(Number(row.n), "moved");
      }
      const last = page.length < size ? undefined : page.at(-1)!;
      const inPage = (row: Row): boolean =>
        last === undefined ||
        row.touched < last.bound ||
        (row.touched === last.bound && BigInt(row.n) <= BigInt(last.n));
      const given = fresh.filter((row) => row.touched < idleBefore && inPage(row));
      for (const row of given) met.set(Number(row.n), "given");
      yield* given.sort((a, b) => a.touched - b.touched || Number(a.n) - Number(b.n));
      if (last === undefined) return;
      [touched, n] = [last.bound, last.n];
    }
  }

  return async function* listing(filter: Filter): AsyncGenerator<Listed> {
    const { idleBefore, after } = filter;
    if (idleBefore !== undefined && after !== undefined) {
      throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
    }
    const order = idleBefore === undefined ? inOrderOfOpening(filter) : inOrderOfIdleness(filter, idleBefore);
    for await (const row of order) yield listed(row);
  };
}

function listed({ session, version, environment, opened, parent, parent_version, ended, touched }: Row): Listed {
  return {
    session: fromText(session),
    version,
    touched,
    environment: fromText(environment),
    opened,
    ...(parent !== null &&
      parent_version !== null && { parent: { session: fromText(parent), version: parent_version } }),
    ...(ended !== null && { ended }),
  };
}
