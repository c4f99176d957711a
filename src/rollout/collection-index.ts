// openCollection(): reads a collection for the viewer: row summaries for a table, and complete rows by index.
import { statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { basename, extname } from "node:path";
import { cannotLoad, type HoldfastError } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { RowSummary, Collection, CollectionDetails, CollectionTotals } from "./collection-view.ts";
import { assertFile } from "../io/private-files.ts";
import { finishedRollouts, rolloutIndex, type Finished } from "./finished.ts";
import { outputPaths } from "./output.ts";
import { isRollout } from "./row-fields.ts";
import { matchesRow } from "./collection-index/search.ts";
import { summarizeRow } from "./collection-index/summary.ts";
import { createTotals } from "./collection-index/totals.ts";
import { readRowAt, type BadRow, type OnBad } from "./tasks.ts";

/** A batch ends at this many summaries, or after this many bytes of the file, so that the first batch arrives soon. */
const [mostRows, mostBytes] = [500, 4 * 1024 * 1024];

/** Numbers a collection's rows: first the rows in the file, then the failures next to it. */
export async function* numberedRollouts(
  file: string,
  onBad: OnBad = () => undefined,
): AsyncGenerator<Finished & { number: number }> {
  let number = 0;
  for await (const finished of finishedRollouts(file, onBad)) yield { ...finished, number: number++ };
}

/**
 * Opens a collection. Every `rows()` reads the whole file, because `collect` may still be writing it. Only the rows'
 * positions stay in memory.
 */
export function openCollection(details: CollectionDetails): Collection {
  const { file } = details;
  let places: Awaited<ReturnType<typeof indexRows>> | undefined;
  let known: { state: string; totals: CollectionTotals } | undefined;

  async function* summaries(): AsyncGenerator<RowSummary[]> {
    const found = await indexRows(file);
    let [batch, bytes]: [RowSummary[], number] = [[], 0];
    for await (const finished of numberedRollouts(file)) {
      found.add(finished);
      batch.push(summarizeRow(finished, finished.number));
      bytes += finished.place.bytes;
      if (batch.length < mostRows && bytes < mostBytes) continue;
      yield batch;
      [batch, bytes] = [[], 0];
    }
    if (batch.length > 0) yield batch;
    places = found;
  }

  async function* found(text: string): AsyncGenerator<number[]> {
    const wanted = text.toLowerCase();
    let [batch, bytes]: [number[], number] = [[], 0];
    for await (const { row, number, place } of numberedRollouts(file)) {
      if (matchesRow(row, wanted)) batch.push(number);
      bytes += place.bytes;
      if (bytes < mostBytes) continue;
      yield batch;
      [batch, bytes] = [[], 0];
    }
    if (batch.length > 0) yield batch;
  }

  return {
    details,
    rows() {
      // The file is checked before the first batch, because a later error could no longer be reported.
      assertFile(file);
      return summaries();
    },
    search(text) {
      assertFile(file);
      return found(text);
    },
    async totals(signal) {
      const state = await fileState(file);
      if (known?.state === state) return known.totals;
      const totals = createTotals();
      for await (const finished of numberedRollouts(file)) {
        if (signal.aborted) return totals.result();
        totals.add(summarizeRow(finished, finished.number));
      }
      known = { state, totals: totals.result() };
      return known.totals;
    },
    async row(number) {
      const found = await places?.read(number);
      if (found && rolloutIndex(found).task !== undefined) return found;
      // The row was not read yet, the file was replaced, or the task number depends on earlier rows. All rows are read.
      for await (const finished of numberedRollouts(file)) if (finished.number === number) return finished.row;
      return undefined;
    },
  };
}

/** Indexes the rows' positions. Scored rows come first, then the rows of the failures file. */
async function indexRows(file: string) {
  const { failures } = outputPaths(file);
  const [starts, lengths]: [number[], number[]] = [[], []];
  const before = await readInode(file);
  let scored = 0;
  return {
    add({ place }: Finished): void {
      starts.push(place.at);
      lengths.push(place.bytes);
      if (place.file === file) scored++;
    },
    /** Reads a row by index, if it is still at its position. */
    async read(number: number): Promise<TaskRow | undefined> {
      const [at, bytes] = [starts[number], lengths[number]];
      if (at === undefined || bytes === undefined || (await readInode(file)) !== before) return undefined;
      const handle = await open(number < scored ? file : failures).catch(() => undefined);
      try {
        return handle && (await readRowAt(handle, { at, bytes }));
      } finally {
        await handle?.close();
      }
    },
  };
}

/** A rewritten file keeps its name but gets a different inode. */
async function readInode(file: string): Promise<number | undefined> {
  return stat(file).then(
    ({ ino }) => ino,
    () => undefined,
  );
}

/** Returns a string that changes when rows or failures are written. */
async function fileState(file: string): Promise<string> {
  const states = [file, outputPaths(file).failures].map(async (path) => {
    const { size = 0, mtimeNs = 0, ino = 0 } = (await stat(path, { bigint: true }).catch(() => undefined)) ?? {};
    return `${size} ${mtimeNs} ${ino}`;
  });
  return (await Promise.all(states)).join();
}

export function collectionName(file: string): string {
  return basename(file, extname(file));
}

/** Refuses a file without rollouts, such as a tasks file. An empty file is accepted, because its rows may still be written. */
export async function assertRollouts(file: string): Promise<void> {
  assertFile(file);
  if (!statSync(file).isFile()) {
    throw cannotLoad(`${file} is a pipe or device, which can be read only once; write the rows to a file first`);
  }
  let bad: BadRow | undefined;
  let isTasks = false;
  for await (const { row } of finishedRollouts(file, (first) => (bad ??= first))) {
    if (isRollout(row)) return;
    isTasks = true;
  }
  if (isTasks) throw noRollouts(file);
  if (!bad) return;
  throw cannotLoad(`${file} is not in JSON Lines format: line ${bad.line}: ${bad.problem}`);
}

/** Returns the error for a file whose rows have no outcome. */
export const noRollouts = (file: string): HoldfastError =>
  cannotLoad(`${file} has no rollouts: its rows have no reward and no response. Is it a tasks file?`);
