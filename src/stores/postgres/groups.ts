// Group commit: what arrives while a group is being written makes up the next one, whichever sessions it is of.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { HoldfastError } from "../../core/errors.ts";
import type { Appended, Commit, Heading, NewEntry, Snapshot } from "../../core/store.ts";
import type { Connections, Statement } from "./connections.ts";
import { keptReady } from "./connections.ts";
import { coded, isUnfit, patience, TimeIsUp } from "./failures.ts";
import { toText } from "../front/utf8-escape.ts";
import { doubleArray, integerArray, textArray } from "./wire.ts";

/** A commit on its way, its texts as Postgres can hold them. The caller may do with the one it gave what it likes. */
interface Prepared {
  session: string;
  version: number;
  seen: number | undefined;
  entries: NewEntry[];
  heading: Heading | undefined;
  snapshot: Snapshot | undefined;
}

/** What one `append` handed over. */
interface Unit {
  commits: Prepared[];
  size: number;
  deadline: number;
  resolve(answer: Appended): void;
  reject(error: HoldfastError): void;
}

/** The most commits and characters in one group: beyond it waiting longer saves nothing. */
const groupCommits = 500;
const groupSize = 4_000_000;
/** How many groups are written at once: while one waits for the disk, the next is worked on. */
const lanes = 2;
const answers: Appended[] = ["ok", "conflict", "duplicate"];

/** Gives a function that appends commits, all or none of them, together with what others append in the same moment. */
export function createGroups({ run, problem }: Connections, schema: string, name: string) {
  const types = `integer[], text[], integer[], double precision[], integer[], integer[], double precision[], text[], text[], integer[], text[],
    text[], double precision[], text[], integer[], text[], double precision[], integer[], integer[], text[]`;
  const values = types.split(",").map((type, index) => `$${index + 1}::${type.trim()}`);
  const append: Statement = keptReady(`SELECT ${schema}.append_commits(${values.join(", ")}) AS answers`);

  let queue: Unit[] = [];
  // Sessions of the groups under way. A session is in one of them at a time, so that each commit is judged by itself.
  const underWay = new Set<string>();
  // All that wait for an answer, the oldest first.
  const pending = new Set<Unit>();
  let clock: NodeJS.Timeout | undefined;
  let running = 0;

  /** Rejects those whose time is up. What was sent may be written all the same, as whenever an append is rejected. */
  function expire(): void {
    clock = undefined;
    const now = performance.now();
    for (const unit of pending) {
      if (unit.deadline > now) {
        clock = setTimeout(expire, unit.deadline - now);
        return;
      }
      pending.delete(unit);
      // Where there is no connection, the reason for that says more.
      unit.reject(coded(problem() ?? new TimeIsUp(`did not answer within ${patience / 1000} s`), name));
    }
  }

  function settle(unit: Unit, act: () => void): void {
    if (pending.delete(unit)) act();
    if (pending.size === 0) {
      clearTimeout(clock);
      clock = undefined;
    }
  }

  /** The next group: all that wait, but for those that a group under way, or one before them, is in the way of. */
  function take(): Unit[] {
    const group: Unit[] = [];
    const rest: Unit[] = [];
    let [commits, size] = [0, 0];
    for (const [index, unit] of queue.entries()) {
      if (commits >= groupCommits || size >= groupSize || rest.length > groupCommits) {
        for (const left of queue.slice(index)) rest.push(left);
        break;
      }
      if (!pending.has(unit)) continue;
      if (unit.commits.some(({ session }) => underWay.has(session))) {
        rest.push(unit);
        continue;
      }
      for (const { session } of unit.commits) underWay.add(session);
      group.push(unit);
      commits += unit.commits.length;
      size += unit.size;
    }
    queue = rest;
    return group;
  }

  async function write(group: Unit[]): Promise<void> {
    try {
      const deadline = Math.max(...group.map((unit) => unit.deadline));
      const [row] = await run<{ answers: string }>(append, valuesOf(group), deadline, false);
      let place = 0;
      for (const unit of group) {
        const answer = answers[Number(row!.answers[place])]!;
        settle(unit, () => unit.resolve(answer));
        place += unit.commits.length;
      }
    } catch (error) {
      // One that cannot be written must not take the others with it: each on its own then.
      if (group.length > 1 && isUnfit((error as HoldfastError).cause)) for (const unit of group) await write([unit]);
      else for (const unit of group) settle(unit, () => unit.reject(coded(error, name)));
    }
  }

  async function lane(): Promise<void> {
    for (;;) {
      await nextTurn();
      const group = take();
      if (group.length === 0) break;
      await write(group);
      for (const { commits } of group) for (const { session } of commits) underWay.delete(session);
    }
    running--;
  }

  return (commits: Commit[]): Promise<Appended> =>
    new Promise((resolve, reject) => {
      const prepared = commits.map(prepare);
      const unit = {
        commits: prepared,
        size: sizeOf(prepared),
        deadline: performance.now() + patience,
        resolve,
        reject,
      };
      pending.add(unit);
      clock ??= setTimeout(expire, patience);
      queue.push(unit);
      if (running < lanes) {
        running++;
        void lane();
      }
    });
}

function prepare({ session, version, seen, entries, heading, snapshot }: Commit): Prepared {
  return {
    session: toText(session),
    version,
    seen: version === 0 ? undefined : seen,
    entries: entries.map(({ at, key, body }) => {
      const entry: NewEntry = { at, body: toText(body) };
      if (key !== undefined) entry.key = toText(key);
      return entry;
    }),
    heading: heading && {
      ...heading,
      environment: toText(heading.environment),
      ...(heading.parent && { parent: { ...heading.parent, session: toText(heading.parent.session) } }),
    },
    snapshot: snapshot && { version: snapshot.version, body: toText(snapshot.body) },
  };
}

function sizeOf(commits: Prepared[]): number {
  let size = 0;
  for (const { entries, snapshot } of commits) {
    for (const { body } of entries) size += body.length;
    size += snapshot?.body.length ?? 0;
  }
  return size;
}

/** The arguments of `append_commits`, in its order. A commit is named by its place among all, from 1. */
function valuesOf(group: Unit[]): Buffer[] {
  const commits = group.flatMap((unit) => unit.commits);
  const alone = commits.length === group.length;
  const units = alone ? [] : group.flatMap((unit, index) => unit.commits.map(() => index));
  const entries = commits.flatMap(({ version, entries }, index) =>
    entries.map((entry, at) => ({ place: index + 1, version: version + 1 + at, entry })),
  );
  const headings = commits.flatMap(({ session, entries, heading }, index) =>
    heading ? { place: index + 1, session, heading, touched: entries.at(-1)!.at } : [],
  );
  const snapshots = commits.flatMap(({ snapshot }, index) => (snapshot ? { place: index + 1, ...snapshot } : []));
  return [
    integerArray(units),
    textArray(commits.map(({ session }) => session)),
    integerArray(commits.map(({ version }) => version)),
    // NaN where it is not said: arrays with nulls are slow to look into.
    doubleArray(commits.map(({ seen }) => seen ?? Number.NaN)),
    integerArray(entries.map(({ place }) => place)),
    integerArray(entries.map(({ version }) => version)),
    doubleArray(entries.map(({ entry }) => entry.at)),
    textArray(entries.map(({ entry }) => entry.key ?? null)),
    textArray(entries.map(({ entry }) => entry.body)),
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
