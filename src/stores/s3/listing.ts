// Listings of the S3 store: the order of opening from the names of the index, everything else from the heads.
import type { Call, Listing, Row, Rows } from "../front.ts";
import { inParallel, parallel } from "./chunks.ts";
import type { Client } from "./client.ts";
import { backgroundCall } from "./client.ts";
import type { Summary } from "./head.ts";
import { endOf, nameOf } from "./head.ts";
import type { Heads } from "./head-cache.ts";
import { isOwnAndAfter, nextOrder, parseIndexKey, placeOf } from "./opening-index.ts";

/** How many rows are remembered. */
const mostRows = 100_000;
/** How old an index entry without a log is before it is removed, in milliseconds: its log may be on its way. */
const grace = 3_600_000;
/** How far the times of a listing and of an opening may be apart and be the same moment, as servers give whole seconds. */
const sameMoment = 2000;

interface Known {
  etag: string | undefined;
  summary: Summary | undefined;
}

/** A session to be looked at, and what must still be true of it. */
interface Candidate {
  name: string;
  fits(summary: Summary): boolean;
}

export interface ListingParts {
  client: Client;
  heads: Heads;
  background(task: () => Promise<unknown>): void;
}

export function createLister({ client, heads, background }: ListingParts) {
  const rows = new Map<string, Known>();

  /** A session as it is now. */
  async function rowOf(name: string, call: Call): Promise<Known> {
    const known = rows.get(name);
    const found = await heads.peek(name, call, known?.etag);
    if (found === "same") return known!;
    const row = { etag: found.etag, summary: found.summary?.version === 0 ? undefined : found.summary };
    rows.delete(name);
    if (found.etag !== undefined && found.isFinal) {
      rows.set(name, row);
      if (rows.size > mostRows) rows.delete(rows.keys().next().value!);
    }
    return row;
  }

  /**
   * Rows as they were at one moment: all are asked for at once, and then once more. Rows from the first that changed in
   * between are left out but for that one. `done` is how many candidates it is about.
   */
  async function atOneMoment(candidates: Candidate[], call: Call): Promise<{ rows: Row[]; done: number }> {
    const look = (): Promise<Known[]> => inParallel(candidates, parallel, ({ name }) => rowOf(name, call));
    const first = await look();
    const second = candidates.length <= 1 ? first : await look();
    const changed = second.findIndex((row, at) => !isSame(row, first[at]!));
    const done = changed < 0 ? candidates.length : changed + 1;
    const found = second.slice(0, done).flatMap(({ summary }, at) => {
      return summary && candidates[at]!.fits(summary) ? toRow(summary) : [];
    });
    return { rows: found, done };
  }

  /** The cursor is a place; after the first page also where the listing ends, by this process's places and the server's clock. */
  async function byOpening({ after, limit }: Listing, call: Call): Promise<Rows> {
    const [place, until = nextOrder(), ending] = after?.split(" ") ?? [];
    const from = place === undefined ? undefined : `index/${place}`;
    const { objects, more, date } = await client.list("index/", from, call, limit);
    // Sessions opened since then are left out, so that the listing has an end.
    const end = ending === undefined ? date + sameMoment : Number(ending);
    const isOld = ({ key, modified }: (typeof objects)[number]): boolean =>
      !isOwnAndAfter(parseIndexKey(key).order, until) && modified <= end;
    const entries = objects.filter(isOld).map(({ key }) => ({ key, ...parseIndexKey(key) }));
    const { rows, done } = await atOneMoment(
      entries.map(({ name, order }) => ({ name, fits: (summary) => summary.order === order })),
      call,
    );
    for (const { key, modified } of objects) if (modified < date - grace) removeIfUnused(key);
    const isWhole = done === entries.length;
    if (isWhole && !more) return { rows };
    const last = isWhole ? objects.at(-1)!.key : entries[done - 1]!.key;
    return { rows, next: `${last.slice("index/".length)} ${until} ${end}` };
  }

  /** Removes an old index entry that no log belongs to: its writer was refused, or ended before it had opened the log. */
  function removeIfUnused(key: string): void {
    const { order, name } = parseIndexKey(key);
    if (rows.get(name)?.summary?.order === order) return;
    background(async () => {
      const { summary } = await rowOf(name, backgroundCall());
      if (summary?.order !== order) await client.remove(key, backgroundCall());
    });
  }

  /** All sessions there are. Heads that are as they were last time are not asked for. */
  async function all(call: Call): Promise<Summary[]> {
    const found: Summary[] = [];
    let after: string | undefined;
    for (;;) {
      const { objects, more } = await client.list("heads/", after, call);
      const page = await inParallel(objects, parallel, async ({ key, etag }) => {
        const name = key.slice("heads/".length);
        const known = rows.get(name);
        return known && known.etag === etag ? known : rowOf(name, call);
      });
      for (const { summary } of page) if (summary) found.push(summary);
      if (!more) return found;
      after = objects.at(-1)!.key;
    }
  }

  async function byIdleness(
    { after, limit, environment, open, idleBefore = Infinity }: Listing,
    call: Call,
  ): Promise<Rows> {
    const [touched = "-Infinity", order = ""] = after?.split(" ") ?? [];
    const wanted = (await all(call))
      .filter((summary) => summary.touched < idleBefore && matches(summary, environment, open))
      .filter((summary) => byTouched(summary, { touched: Number(touched), order }) > 0)
      .sort(byTouched);
    const page = wanted.slice(0, limit);
    // Those touched since are left out: they are not where they were in this order.
    const { rows, done } = await atOneMoment(
      page.map(({ session, order, touched }) => ({
        name: nameOf(session),
        fits: (now) => now.order === order && now.touched === touched,
      })),
      call,
    );
    const last = page[done - 1];
    return last && done < wanted.length ? { rows, next: `${last.touched} ${last.order}` } : { rows };
  }

  return {
    list: (listing: Listing, call: Call): Promise<Rows> =>
      listing.order === "opened" ? byOpening(listing, call) : byIdleness(listing, call),

    count: async (environment: string, call: Call): Promise<number> =>
      (await all(call)).filter((summary) => matches(summary, environment, true)).length,
  };
}

function isSame(a: Known, b: Known): boolean {
  return a.etag === b.etag && a.summary?.version === b.summary?.version && a.summary?.life === b.summary?.life;
}

function matches({ heading }: Summary, environment: string | undefined, open: boolean | undefined): boolean {
  if (environment !== undefined && heading.environment !== environment) return false;
  return open === undefined || (heading.ended === undefined) === open;
}

type Place = Pick<Summary, "touched" | "order">;

function byTouched(a: Place, b: Place): number {
  return a.touched - b.touched || (a.order === b.order ? 0 : a.order < b.order ? -1 : 1);
}

function toRow(summary: Summary): Row {
  const { session, touched, heading } = summary;
  return { ...heading, session, touched, ...endOf(summary), place: placeOf(summary) };
}
