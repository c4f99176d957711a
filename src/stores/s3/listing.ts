// Lists sessions of the S3 store: the order comes from the names of index objects, the rest from the heads.
import { dropOldest } from "../../core/drop-oldest.ts";
import type { Call, Listing, Row, Rows } from "../front.ts";
import { inParallel, parallel } from "./chunks.ts";
import { backgroundCall } from "./client.ts";
import type { WritingParts } from "./commit.ts";
import { endOf, nameOf, type Summary } from "./head.ts";
import { isOwnAndAfter, nextOrder, parseIndexKey, placeOf } from "./opening-index.ts";

/** Maximum number of cached rows. */
const mostRows = 100_000;
/** Milliseconds after which an index entry without a log is deleted. Until then, its log may still be written. */
const grace = 3_600_000;
/** Tolerance between the times of a listing and an opening, because servers report whole seconds. */
const sameMoment = 2000;

interface Known {
  etag: string | undefined;
  summary: Summary | undefined;
}

export function createLister({ client, heads, background }: WritingParts) {
  const rows = new Map<string, Known>();

  /** Reads the current row of a session. */
  async function rowOf(name: string, call: Call): Promise<Known> {
    const known = rows.get(name);
    const found = await heads.peek(name, call, known?.etag);
    if (found === "same") return known!;
    const row = { etag: found.etag, summary: found.summary?.version === 0 ? undefined : found.summary };
    rows.delete(name);
    if (found.etag !== undefined && found.isFinal) {
      rows.set(name, row);
      dropOldest(rows, mostRows);
    }
    return row;
  }

  /**
   * Reads the candidates that still fit, as of one moment: reads all of them twice. The first row that changed in
   * between is kept, and the rows after it are omitted. `done` is the number of candidates used.
   */
  async function atOneMoment(
    candidates: { name: string; fits(summary: Summary): boolean }[],
    call: Call,
  ): Promise<{ rows: Row[]; done: number }> {
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

  /**
   * The cursor is a place. From the second page on, the cursor also has the last place and the last server time to
   * list.
   */
  async function byOpening({ after, limit }: Listing, call: Call): Promise<Rows> {
    const [place, until = nextOrder(), ending] = after?.split(" ") ?? [];
    const from = place === undefined ? undefined : `index/${place}`;
    const { objects, more, date } = await client.list("index/", from, call, limit);
    // Sessions opened later are omitted, so that the listing ends.
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

  /** Deletes an old index entry without a log: its writer was refused, or died before it opened the log. */
  function removeIfUnused(key: string): void {
    const { order, name } = parseIndexKey(key);
    if (rows.get(name)?.summary?.order === order) return;
    background(async () => {
      const { summary } = await rowOf(name, backgroundCall());
      if (summary?.order !== order) await client.remove(key, backgroundCall());
    });
  }

  /** Reads all sessions. Unchanged heads are not read again. */
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
    // Sessions touched in the meantime are omitted, because their place in this order has changed.
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
