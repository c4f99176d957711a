// The listings of the Redis store: pages of the indexes of all buckets, merged, and then the sessions as they are.
import { HoldfastError } from "../../core/errors.ts";
import type { Filter, Heading, Listed } from "../../core/store.ts";
import { bucketKey, bucketOf, laneOf } from "./commits.ts";
import type { Connection } from "./connection.ts";
import { patience } from "./deadlines.ts";
import type { Intents } from "./intents.ts";
import { fromText, toText } from "../front/utf8-escape.ts";

/** A session as a script gives it. */
interface Row {
  session: string;
  version: number;
  touched: number;
  heading: string;
  /** Its place in the order of opening. */
  place: number;
  /** The clock of its bucket when it was opened, and when it was last written. */
  opened: number;
  written: number;
}

/** One index of one bucket, as far as it was read. */
interface Lane {
  bucket: number;
  index: string;
  /** Places from here on, and those of this very place that were read before. */
  from: string;
  known: Set<string>;
  to: string;
  /** Of the first place only what comes after this session. */
  after: string | undefined;
  ahead: { session: string; place: number }[];
  ended: boolean;
}

const largestPage = 256;
/** No more sessions than this are opened together. */
const mostTogether = 1_000_000;
const until = (): number => performance.now() + patience;

export interface Access extends Pick<Connection, "address" | "call"> {
  settle: Intents["settle"];
}

/** The store's `list`; `check` throws once the store is closed. */
export function listingOf({ address, call, settle }: Access, buckets: number, check: () => void) {
  const key = (bucket: number): string => bucketKey(address.prefix, bucket);
  const every = Array.from({ length: buckets }, (_, bucket) => bucket);

  /** Asks one bucket to begin a listing, until there is nothing left to sweep. */
  async function begin(
    bucket: number,
    clock: number,
  ): Promise<[clock: number, environments: string[], crossing: string[]]> {
    for (;;) {
      const answer = await call("begin", key(bucket), [clock], until(), "reads");
      const [now, more, environments, crossing] = answer as [string, number, string[], string[]];
      if (more === 0) return [Number(now), environments, crossing];
    }
  }

  /**
   * The moment of a listing, by the clocks of the buckets: what is opened or written later shows a later one. With several
   * buckets all clocks are put forward to it, and commits to several buckets that were decided before are finished.
   */
  async function moment(): Promise<{ end: number; environments: string[] }> {
    let states = await Promise.all(every.map((bucket) => begin(bucket, 0)));
    const end = Math.max(...states.map(([clock]) => clock));
    if (buckets > 1) {
      states = await Promise.all(every.map((bucket) => begin(bucket, end)));
      await rowsOf(states.flatMap(([, , crossing]) => crossing));
    }
    return { end, environments: [...new Set(states.flatMap(([, environments]) => environments))] };
  }

  /** Sessions as they are, each at some time of its own since this was called. Those that are not there are left out. */
  async function rowsOf(sessions: string[]): Promise<Map<string, Row>> {
    const rows = new Map<string, Row>();
    const groups = new Map<number, string[]>();
    for (const session of sessions) {
      const bucket = bucketOf(session, buckets);
      groups.set(bucket, [...(groups.get(bucket) ?? []), session]);
    }
    await Promise.all(
      [...groups].map(async ([bucket, ids]) => {
        const answer = await call("rows", key(bucket), ids, until(), "reads");
        const settled: string[] = [];
        for (const [at, session] of ids.entries()) {
          const fields = (answer as (string | null)[][])[at] as (string | null)[];
          const [version, touched, heading, place, opened, written, intent] = fields;
          if (intent && (await settle(session, intent, buckets, until(), "reader"))) settled.push(session);
          else if (version) {
            rows.set(session, {
              session,
              version: Number(version),
              touched: Number(touched),
              heading: heading!,
              place: Number(place),
              opened: Number(opened),
              written: Number(written),
            });
          }
        }
        if (settled.length > 0) for (const [session, row] of await rowsOf(settled)) rows.set(session, row);
      }),
    );
    return rows;
  }

  /**
   * Sessions in an order, no later one as it was at an earlier time than one before it. One bucket gives all at the same
   * time. Of several, each is asked twice: those that did not change in between are as they were at that moment.
   */
  async function* inOrder(sessions: string[]): AsyncGenerator<Row> {
    let rest = sessions;
    while (rest.length > 0) {
      const first = await rowsOf(rest);
      const again = buckets === 1 ? first : await rowsOf(rest);
      const changed = rest.findIndex((session) => first.get(session)?.written !== again.get(session)?.written);
      for (const session of changed === -1 ? rest : rest.slice(0, changed)) {
        const row = first.get(session);
        if (row) yield row;
      }
      if (changed === -1) return;
      const row = (await rowsOf([rest[changed]!])).get(rest[changed]!);
      if (row) yield row;
      rest = rest.slice(changed + 1);
    }
  }

  async function fill(lane: Lane, size: number): Promise<void> {
    const args = [lane.index, lane.from, lane.to, size + lane.known.size];
    const answer = (await call("page", key(lane.bucket), args, until(), "reads")) as string[];
    lane.ended = answer.length < 2 * (size + lane.known.size);
    for (let at = 0; at < answer.length; at += 2) {
      const [session, place] = [answer[at]!, answer[at + 1]!];
      if (place !== lane.from) {
        lane.from = place;
        lane.known.clear();
        lane.after = undefined;
      } else if (lane.known.has(session)) continue;
      lane.known.add(session);
      if (lane.after === undefined || isBehind(session, lane.after)) lane.ahead.push({ session, place: Number(place) });
    }
  }

  /** Merges lanes: pages of sessions by their places, and among equal ones by bucket. Starts small, for those who only want the first. */
  async function* merged(lanes: Lane[]): AsyncGenerator<string[]> {
    for (let size = 4, page: string[] = []; ;) {
      const empty = lanes.filter((lane) => lane.ahead.length === 0 && !lane.ended);
      if (empty.length > 0) {
        check();
        await Promise.all(empty.map((lane) => fill(lane, size)));
        continue;
      }
      let next: Lane | undefined;
      for (const lane of lanes) {
        const place = lane.ahead[0]?.place;
        if (place !== undefined && (next === undefined || place < next.ahead[0]!.place)) next = lane;
      }
      if (next) page.push(next.ahead.shift()!.session);
      if (page.length === 0) return;
      if (!next || page.length === size) {
        yield page;
        page = [];
        size = Math.min(size * 4, largestPage);
      }
    }
  }

  const laneFrom = (bucket: number, index: string, from: string, to: string, after?: string): Lane => ({
    bucket,
    index,
    from,
    to,
    after,
    known: new Set<string>(),
    ahead: [],
    ended: false,
  });

  async function lanesByOpening(behind: string | undefined, end: number): Promise<Lane[]> {
    // Those opened together have one moment, and places from there on.
    const to = `${buckets === 1 ? end : end + mostTogether}`;
    if (behind === undefined) return every.map((bucket) => laneFrom(bucket, "a", "-inf", to));
    const after = toText(behind);
    const place = (await rowsOf([after])).get(after)?.place;
    if (place === undefined) {
      throw new HoldfastError("session_not_found", `there is no session ${JSON.stringify(behind)} to list after`);
    }
    const home = bucketOf(after, buckets);
    // Two buckets may have given out the same place.
    return every.map((bucket) => {
      const from = bucket < home ? `(${place}` : `${place}`;
      return laneFrom(bucket, "a", from, to, bucket === home ? after : undefined);
    });
  }

  function lanesByIdleness({ environment, open }: Filter, idleBefore: number, environments: string[]): Lane[] {
    const names = environment === undefined ? environments : [toText(environment)];
    const kinds = open === undefined ? [true, false] : [open];
    const indexes = names.flatMap((name) => kinds.map((kind) => laneOf(name, kind)));
    return every.flatMap((bucket) => indexes.map((index) => laneFrom(bucket, index, "-inf", `(${idleBefore}`)));
  }

  return async function* listing(filter: Filter): AsyncGenerator<Listed> {
    const { environment, open, openedBefore, idleBefore, after } = filter;
    const { end, environments } = await moment();
    if (idleBefore !== undefined && after !== undefined) {
      throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
    }
    const byIdleness = idleBefore !== undefined;
    const lanes = byIdleness ? lanesByIdleness(filter, idleBefore, environments) : await lanesByOpening(after, end);
    for await (const page of merged(lanes)) {
      for await (const row of inOrder(page)) {
        // One opened since the listing began, or moved since to another place in the order of idleness.
        if ((byIdleness ? row.written : row.opened) > end) continue;
        const listed = listedOf(row);
        if (environment !== undefined && listed.environment !== environment) continue;
        if (open !== undefined && (listed.ended === undefined) !== open) continue;
        if (openedBefore !== undefined && listed.opened >= openedBefore) continue;
        check();
        yield listed;
      }
    }
  };
}

/** Redis orders what has the same place by bytes. */
function isBehind(session: string, other: string): boolean {
  return Buffer.compare(Buffer.from(session), Buffer.from(other)) > 0;
}

function listedOf({ session, version, touched, heading }: Row): Listed {
  return { session: fromText(session), version, touched, ...(JSON.parse(heading) as Heading) };
}
