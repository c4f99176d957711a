// openRun(): a file of rollouts to be looked at: what a table shows of its rows, and each of them whole by its number.
import { statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { basename, extname } from "node:path";
import { HoldfastError } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { RowSummary, Run, RunDetails } from "./collection-view.ts";
import { assertFile, finishedRollouts, type Finished } from "./finished.ts";
import { numberList } from "./metrics/number-list.ts";
import { pathsOf } from "./output.ts";
import { summaryOf } from "./run-index/summary.ts";
import { readLine, type BadRow } from "./tasks.ts";

/** As many summaries are handed over together, or as many as so many bytes of the file have: the first come soon. */
const [mostRows, mostBytes] = [500, 4 * 1024 * 1024];

export interface NumberedRollout extends Finished {
  /** Its place in the run. */
  number: number;
}

/** The rows of a run with their numbers: those of the file first, and then the failures that lie beside it. */
export async function* numberedRollouts(
  file: string,
  onBad: (bad: BadRow, file: string) => void = () => undefined,
): AsyncGenerator<NumberedRollout, void, undefined> {
  let number = 0;
  for await (const finished of finishedRollouts(file, onBad)) yield { ...finished, number: number++ };
}

/**
 * The file is read whole each time that its rows are asked for, as a collection may be writing to it. Of what was read only
 * the places of the rows are kept.
 */
export function openRun(details: RunDetails): Run {
  const { file } = details;
  let places: Places | undefined;

  async function* summaries(): AsyncGenerator<RowSummary[], void, undefined> {
    const found = await placesIn(file);
    let [batch, bytes]: [RowSummary[], number] = [[], 0];
    for await (const finished of numberedRollouts(file)) {
      found.add(finished);
      batch.push(summaryOf(finished, finished.number));
      bytes += finished.place.bytes;
      if (batch.length < mostRows && bytes < mostBytes) continue;
      yield batch;
      [batch, bytes] = [[], 0];
    }
    if (batch.length > 0) yield batch;
    places = found;
  }

  return {
    details,
    rows() {
      // At once: a reader who has begun could not be told any more.
      assertFile(file);
      return summaries();
    },
    async row(number) {
      const known = await places?.read(number);
      if (known) return known;
      // Nobody has read so far yet, or the file is another one by now.
      for await (const finished of numberedRollouts(file)) if (finished.number === number) return finished.row;
      return undefined;
    },
  };
}

interface Places {
  add(finished: Finished): void;
  /** The row of that number, if it is still where it was. */
  read(number: number): Promise<TaskRow | undefined>;
}

/** Where the rows of a run are. Those from a number on are in the file of failures. */
async function placesIn(file: string): Promise<Places> {
  const { failures } = pathsOf(file);
  const [starts, lengths] = [numberList(Float64Array), numberList(Uint32Array)];
  const before = await inodeOf(file);
  let scored = 0;
  return {
    add({ place }) {
      starts.push(place.at);
      lengths.push(place.bytes);
      if (place.file === file) scored++;
    },
    async read(number) {
      if (number >= starts.length() || (await inodeOf(file)) !== before) return undefined;
      return rowAt(number < scored ? file : failures, starts.at(number), lengths.at(number));
    },
  };
}

async function rowAt(file: string, at: number, bytes: number): Promise<TaskRow | undefined> {
  const handle = await open(file).catch(() => undefined);
  try {
    const { buffer, bytesRead } = (await handle?.read(Buffer.alloc(bytes), 0, bytes, at)) ?? { bytesRead: 0 };
    if (!buffer || bytesRead < bytes) return undefined;
    const read = readLine(buffer.toString("utf8").replace(/^\uFEFF/, ""), 0);
    return "row" in read ? read.row : undefined;
  } finally {
    await handle?.close();
  }
}

/** A file that was written anew is another one, under the same name. */
async function inodeOf(file: string): Promise<number | undefined> {
  return stat(file).then(
    ({ ino }) => ino,
    () => undefined,
  );
}

/** The name of a run, for people. */
export function runName(file: string): string {
  return basename(file, extname(file));
}

/** Refuses a file that is none of rollouts. One without any rows yet is: they may be on their way. */
export async function assertRollouts(file: string): Promise<void> {
  assertFile(file);
  if (!statSync(file).isFile()) {
    throw new HoldfastError(
      "cannot_load",
      `${file} can be read only once, as pipes are: write the rows to a file first`,
    );
  }
  let bad: BadRow | undefined;
  for await (const _ of finishedRollouts(file, (first) => (bad ??= first))) return;
  if (!bad) return;
  throw new HoldfastError("cannot_load", `${file} has no rows of JSON lines: of line ${bad.line}, ${bad.problem}`);
}
