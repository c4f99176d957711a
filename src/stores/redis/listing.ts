// Lists sessions of the Redis store: merges pages of the indexes of all buckets, then reads the rows of the sessions.
import type { Heading } from "../../core/store.ts";
import type { Call, Driver, Listing, Row } from "../front.ts";
import { byBucket, laneOf, readMark } from "./commits.ts";
import type { Connection } from "./connection.ts";
import type { Intents } from "./two-phase-commit.ts";

/** One index of one bucket. */
interface Lane {
  bucket: number;
  index: string;
}

/** A position in the merged order: score, bucket, index and session. */
type Position = [score: string, bucket: number, index: string, session: string];

/** The time of a listing, by the buckets' clocks. Sessions opened later have a later time. */
interface Moment {
  end: number;
  environments: string[];
}

interface Cursor extends Moment {
  from: Position;
}

interface Found extends Lane {
  session: string;
  score: string;
  /** Whether this is the last session read so far from its lane, which may have more. */
  isLast: boolean;
}

/** A row, and the times of its bucket's clock when the session was opened and last written. */
interface Stamped {
  row: Row;
  opened: number;
  written: number;
}

/** Maximum number of sessions that are opened together. */
const mostTogether = 1_000_000;
/** Minimum number of sessions in a lane's page, and maximum number of lanes that share the listing's page. */
const [smallestPage, mostSharing] = [4, 8];

/** The place of a session in the order of opening. */
export function placeText(place: string, bucket: number, session: string): string {
  return JSON.stringify([place, bucket, "a", session] satisfies Position);
}

export function createLister({ run, start, bucketCount, bucketOf }: Connection, settle: Intents["settle"]) {
  const every = (): number[] => Array.from({ length: bucketCount() }, (_, bucket) => bucket);

  /** Asks one bucket to start a listing. Repeats until it has removed all expired sessions. */
  async function beginIn(bucket: number, clock: number, call: Call): Promise<[number, string[], string[]]> {
    for (;;) {
      const answer = await run("begin", bucket, [clock], call);
      const [now, more, environments, crossing] = answer as [string, number, string[], string[]];
      if (more === 0) return [Number(now), environments, crossing];
    }
  }

  /** With several buckets, advances all clocks to one time, and finishes intents committed before it. */
  async function begin(call: Call): Promise<Moment> {
    let states = await Promise.all(every().map((bucket) => beginIn(bucket, 0, call)));
    const end = Math.max(...states.map(([clock]) => clock));
    if (bucketCount() > 1) {
      states = await Promise.all(every().map((bucket) => beginIn(bucket, end, call)));
      const crossing = states.flatMap(([, , sessions]) => sessions);
      await readRows(crossing, call);
    }
    return { end, environments: [...new Set(states.flatMap(([, environments]) => environments))] };
  }

  /** Reads the rows of sessions, not all at the same moment. Missing sessions are omitted. */
  async function readRows(sessions: string[], call: Call): Promise<Map<string, Stamped>> {
    const rows = new Map<string, Stamped>();
    const groups = byBucket(sessions, bucketOf).map(async ([bucket, ids]) => {
      const answer = (await run("rows", bucket, ids, call)) as (string | null)[][];
      const settled: string[] = [];
      for (const [at, session] of ids.entries()) {
        const [version, touched, heading, place, opened, written, intent, mark] = answer[at]!;
        if (intent && (await settle(session, intent, "reader", call))) settled.push(session);
        else if (version) {
          const row: Row = {
            ...(JSON.parse(heading!) as Heading),
            session,
            version: Number(version),
            touched: Number(touched),
            mark: readMark(version, touched!, mark),
            place: placeText(place!, bucket, session),
          };
          rows.set(session, { row, opened: Number(opened), written: Number(written) });
        }
      }
      if (settled.length > 0) for (const [session, row] of await readRows(settled, call)) rows.set(session, row);
    });
    await Promise.all(groups);
    return rows;
  }

  function lanesOf({ order, environment, open }: Listing, environments: string[]): Lane[] {
    const names = environment === undefined ? environments : [environment];
    const kinds = open === undefined ? [true, false] : [open];
    const byIdleness = names.flatMap((name) => kinds.map((kind) => laneOf(name, kind))).sort();
    const indexes = order === "opened" ? ["a"] : byIdleness;
    return every().flatMap((bucket) => indexes.map((index) => ({ bucket, index })));
  }

  /** Reads a page of one lane after a position. */
  async function readLane(
    { bucket, index }: Lane,
    from: Position | undefined,
    [to, size]: [string, number],
    call: Call,
  ): Promise<Found[]> {
    const [score, ofBucket, ofIndex, session] = from ?? ["-inf", 0, "", ""];
    const isBefore = bucket < ofBucket || (bucket === ofBucket && index < ofIndex);
    const isSame = bucket === ofBucket && index === ofIndex;
    const args = [index, isBefore ? `(${score}` : score, to, size, isSame ? "=" : "", isSame ? session : ""];
    const answer = (await run("page", bucket, args, call)) as string[];
    const found: Found[] = [];
    for (let at = 0; at < answer.length; at += 2) {
      const isLast = at === 2 * size - 2;
      found.push({ bucket, index, session: answer[at]!, score: answer[at + 1]!, isLast });
    }
    return found;
  }

  const list: Driver["list"] = async (listing, call) => {
    await start(call);
    const given = listing.after === undefined ? undefined : (JSON.parse(listing.after) as Cursor | Position);
    const cursor = given && "end" in given ? given : undefined;
    const { end, environments } = cursor ?? (await begin(call));
    const from = cursor ? cursor.from : (given as Position | undefined);
    const isIdle = listing.order === "idle";
    // Sessions opened together have the same time and consecutive places.
    const last = bucketCount() === 1 ? end : end + mostTogether;
    const to = isIdle ? `(${listing.idleBefore}` : `${last}`;
    const lanes = lanesOf(listing, environments);
    const size = Math.max(smallestPage, Math.ceil(listing.limit / Math.min(lanes.length, mostSharing)));
    const found = (await Promise.all(lanes.map((lane) => readLane(lane, from, [to, size], call)))).flat();
    found.sort((a, b) => Number(a.score) - Number(b.score));
    const cut = found.findIndex(({ isLast }) => isLast);
    let page = cut === -1 ? found : found.slice(0, cut + 1);
    const sessions = page.map(({ session }) => session);
    const before = await readRows(sessions, call);
    // Reads again, because buckets are read at different times. Rows that are equal in both reads belong to one moment.
    const rows = bucketCount() === 1 ? before : await readRows(sessions, call);
    const changed = sessions.findIndex((session) => before.get(session)?.written !== rows.get(session)?.written);
    if (changed !== -1) page = page.slice(0, changed + 1);
    const shown = page.flatMap(({ session }) => {
      const stamped = rows.get(session);
      // Omits sessions that were opened after the listing started, or moved in the order of idle time.
      const isLater = stamped && (isIdle ? stamped.written : stamped.opened) > end;
      return stamped && !isLater ? [stamped.row] : [];
    });
    const { session, bucket, index, score } = page.at(-1) ?? { session: "", bucket: 0, index: "", score: "" };
    if (page.length === found.length && cut === -1) return { rows: shown };
    const next: Cursor = { end, environments, from: [score, bucket, index, session] };
    return { rows: shown, next: JSON.stringify(next) };
  };

  return list;
}
