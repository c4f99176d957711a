// reverifyFile(): verifies the episodes of a rollout file again, and writes a file with the new rewards.
import { rmSync } from "node:fs";
import { cannotLoad } from "../core/errors.ts";
import { fileToReplace } from "../io/private-files.ts";
import { finishedRollouts } from "./finished.ts";
import { writeOutputs } from "./line-output.ts";
import { outputPaths } from "./output.ts";
import { createReverifier, type Reverified, type ReverifyOptions } from "./reverify.ts";
import type { OnBad } from "./tasks.ts";

export interface ReverifyFileOptions extends ReverifyOptions {
  out: string;
  concurrency: number;
  onBad: OnBad;
  /** Called after each rollout. */
  onRow(): void;
}

export interface ReverifyCounts {
  /** Episodes that have a reward now. */
  judged: number;
  /** Episodes with a different reward than before. */
  changed: number;
  /** Episodes that had no reward before. */
  new: number;
  /** Episodes that could not be verified. */
  failed: number;
  /** Failed episodes without a session in the store. */
  missing: number;
  /** Rows that were copied, because something other than verify had failed. */
  copied: number;
  mean_before: number | null;
  mean_after: number | null;
}

export async function reverifyFile(file: string, options: ReverifyFileOptions): Promise<ReverifyCounts> {
  const paths = outputPaths(options.out);
  const reverify = createReverifier(options);
  const counts = createCounts();
  const source = finishedRollouts(file, options.onBad);
  let rollouts = 0;
  await writeOutputs([paths.failures, paths.rows], async (failures, rows) => {
    await sideBySide(source, options.concurrency, async ({ row, failed }) => {
      rollouts++;
      const isOther = failed && row["failure_kind"] !== "verify";
      const again = isOther ? { row, failed } : await reverify(row);
      await (again.failed ? failures : rows).write(JSON.stringify(again.row));
      counts.add(again, isOther);
      options.onRow();
    });
    if (rollouts === 0) throw cannotLoad(`${file} has no rollouts`);
    // The rows are written last, and never next to older failures. So if they exist, the output is complete.
    const older = fileToReplace(paths.rows);
    if (older) rmSync(older, { force: true });
  });
  return counts.result;
}

function createCounts() {
  const counts = { judged: 0, changed: 0, new: 0, failed: 0, missing: 0, copied: 0 };
  const result: ReverifyCounts = { ...counts, mean_before: null, mean_after: null };
  let [before, after, both] = [0, 0, 0];
  return {
    result,
    add({ row, failed, change }: Reverified, isOther: boolean): void {
      if (isOther) result.copied++;
      else if (failed) result.failed++;
      else result.judged++;
      if (!isOther && row["failure_kind"] === "store") result.missing++;
      if (isOther || failed) return;
      if (!change) return void result.new++;
      if (change.before !== change.after) result.changed++;
      [before, after, both] = [before + change.before, after + change.after, both + 1];
      [result.mean_before, result.mean_after] = [before / both, after / both];
    },
  };
}

/** Runs `work` on every item, up to `concurrency` concurrently. After a failure, only running work is finished. */
async function sideBySide<T>(
  source: AsyncIterator<T, void, undefined>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const stopped = new AbortController();
  const worker = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const { value, done } = await source.next();
      if (done) return;
      await work(value);
    }
  };
  const guarded = (): Promise<void> => worker().catch((thrown: unknown) => stopped.abort(thrown));
  await Promise.all(Array.from({ length: concurrency }, guarded));
  stopped.signal.throwIfAborted();
}
