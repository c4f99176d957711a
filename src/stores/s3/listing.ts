// Listings of the S3 store: the order of opening from the names of the index, everything else from the heads.
import { HoldfastError } from "../../core/errors.ts";
import type { Filter, Listed } from "../../core/store.ts";
import type { Client } from "./client.ts";
import { deadlineFor } from "./client.ts";
import type { Summary } from "./head.ts";
import { nameOf } from "./head.ts";
import type { Heads } from "./heads.ts";
import { inParallel, parallel } from "./ladder.ts";
import { indexKey, isOwnAndAfter, nextOrder, parseIndexKey } from "./order.ts";

/** How many sessions are looked at together: few at first, for those who only want the first. */
const firstBatch = 8;
const largestBatch = 64;
/** How many rows are remembered. */
const mostRows = 100_000;
/** What an index entry without a log is given before it is removed, in milliseconds: its log may be on its way. */
const grace = 3_600_000;
/** How far the times of a listing and of an opening may be apart and be the same moment, as servers give whole seconds. */
const sameMoment = 2000;

interface Row {
  etag: string | undefined;
  summary: Summary | undefined;
}

/** A session to be looked at, and what has to be true of it still. */
interface Place {
  name: string;
  fits(summary: Summary): boolean;
}

export interface Access {
  client: Client;
  heads: Heads;
  assertOpen(): void;
  background(task: () => Promise<unknown>): void;
}

export function createListing({ client, heads, assertOpen, background }: Access) {
  const rows = new Map<string, Row>();

  /** What a session is now. */
  async function rowOf(name: string): Promise<Row> {
    assertOpen();
    const known = rows.get(name);
    const found = await heads.peek(name, deadlineFor(), known?.etag);
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
   * Gives each as it was at some time, a later one at no earlier time. Many are asked for at once, and then once more:
   * what is the same both times was so at one and the same moment. Where something changed, from there on again.
   */
  async function* inStep(places: AsyncIterable<Place[]>): AsyncGenerator<Summary> {
    let size = firstBatch;
    for await (const page of places) {
      for (let start = 0; start < page.length;) {
        const batch = page.slice(start, start + size);
        const first = await inParallel(batch, parallel, ({ name }) => rowOf(name));
        const second = batch.length === 1 ? first : await inParallel(batch, parallel, ({ name }) => rowOf(name));
        const changed = second.findIndex((row, at) => !isSame(row, first[at]!));
        // The one that changed is given as it was the second time, and the others after it are asked for again.
        const end = changed < 0 ? batch.length : changed + 1;
        for (const [at, { summary }] of second.slice(0, end).entries()) {
          if (summary && batch[at]!.fits(summary)) yield summary;
        }
        start += end;
        size = changed < 0 ? Math.min(size * 2, largestBatch) : Math.max(Math.ceil(size / 4), 1);
      }
    }
  }

  async function* indexed(filter: Filter): AsyncGenerator<Place[]> {
    const until = nextOrder();
    let after: string | undefined;
    if (filter.after !== undefined) {
      const { summary } = await rowOf(nameOf(filter.after));
      if (!summary) {
        const message = `there is no session ${JSON.stringify(filter.after)} to list after`;
        throw new HoldfastError("session_not_found", message);
      }
      after = indexKey(summary.order, nameOf(filter.after));
    }
    let began: number | undefined;
    for (;;) {
      assertOpen();
      const { objects, more, date } = await client.list("index/", after, deadlineFor());
      began ??= date;
      // What was opened since then is left out, so that the listing has an end.
      const end = began + sameMoment;
      const places = objects.flatMap(({ key, modified }): Place[] => {
        const { order, name } = parseIndexKey(key);
        if (isOwnAndAfter(order, until) || modified > end) return [];
        return [{ name, fits: (summary) => summary.order === order }];
      });
      yield places;
      for (const { key, modified } of objects) if (modified < date - grace) removeIfUnused(key);
      if (!more) return;
      after = objects.at(-1)!.key;
    }
  }

  /** Removes an old index entry that no log belongs to: its writer was refused, or ended before it had opened the log. */
  function removeIfUnused(key: string): void {
    const { order, name } = parseIndexKey(key);
    const { summary } = rows.get(name) ?? {};
    if (summary?.order === order) return;
    background(async () => {
      const { summary } = await rowOf(name);
      if (summary?.order !== order) await client.remove(key, deadlineFor());
    });
  }

  /** All sessions there are. Heads that are as they were last time are not asked for. */
  async function all(): Promise<Summary[]> {
    const found: Summary[] = [];
    let after: string | undefined;
    for (;;) {
      assertOpen();
      const { objects, more } = await client.list("heads/", after, deadlineFor());
      const page = await inParallel(objects, parallel, async ({ key, etag }) => {
        const name = key.slice("heads/".length);
        const known = rows.get(name);
        return known && known.etag === etag ? known : rowOf(name);
      });
      for (const { summary } of page) if (summary) found.push(summary);
      if (!more) return found;
      after = objects.at(-1)!.key;
    }
  }

  async function* idle(filter: Filter, idleBefore: number): AsyncGenerator<Place[]> {
    const wanted = (await all()).filter((summary) => summary.touched < idleBefore && matches(summary, filter));
    wanted.sort((a, b) => a.touched - b.touched || (a.order < b.order ? -1 : 1));
    // Those touched since are left out: they are not where they were in this order.
    yield wanted.map(({ session, order, touched }) => ({
      name: nameOf(session),
      fits: (now) => now.order === order && now.touched === touched,
    }));
  }

  return {
    async *list(filter: Filter): AsyncGenerator<Listed> {
      assertOpen();
      if (filter.idleBefore !== undefined && filter.after !== undefined) {
        throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
      }
      const places = filter.idleBefore === undefined ? indexed(filter) : idle(filter, filter.idleBefore);
      for await (const summary of inStep(places)) {
        if (matches(summary, filter)) yield listed(summary);
        assertOpen();
      }
    },

    async count(environment: string): Promise<number> {
      return (await all()).filter((summary) => matches(summary, { environment, open: true })).length;
    },
  };
}

function isSame(a: Row, b: Row): boolean {
  return a.etag === b.etag && a.summary?.version === b.summary?.version && a.summary?.life === b.summary?.life;
}

function matches({ heading }: Summary, { environment, open, openedBefore }: Filter): boolean {
  if (environment !== undefined && heading.environment !== environment) return false;
  if (open !== undefined && (heading.ended === undefined) !== open) return false;
  return openedBefore === undefined || heading.opened < openedBefore;
}

function listed({ session, version, touched, heading }: Summary): Listed {
  const { parent, ...rest } = heading;
  return { session, version, touched, ...rest, ...(parent && { parent: { ...parent } }) };
}
