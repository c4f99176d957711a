// readCollectionMetrics(): computes the metrics of a rollout file, including its failures.
import { cannotLoad } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import { noRollouts } from "./collection-index.ts";
import { readRecord } from "./collection-record.ts";
import { finishedRollouts } from "./finished.ts";
import { createMetrics, type CollectionMetrics, type MetricsOptions } from "./metrics.ts";
import { outputPaths } from "./output.ts";
import { isRollout } from "./row-fields.ts";
import type { OnBad } from "./tasks.ts";

export interface FileMetricsOptions extends MetricsOptions {
  onBad: OnBad;
  onRow?: ((row: TaskRow) => void) | undefined;
}

/** Computes the metrics of a file. Refuses a file without rollouts, such as a tasks file. */
export async function readCollectionMetrics(file: string, options: FileMetricsOptions): Promise<CollectionMetrics> {
  let isRollouts = false;
  const metrics = createMetrics(options);
  for await (const { row } of finishedRollouts(file, options.onBad)) {
    metrics.add(row);
    isRollouts ||= isRollout(row);
    options.onRow?.(row);
  }
  const result = metrics.result();
  if (result.rollouts === 0) throw cannotLoad(`${file} has no rollouts`);
  if (isRollouts) return result;
  throw noRollouts(file);
}

/** Returns whether the records name different tasks files. */
export function areOfOtherTasks(files: [string, string]): boolean {
  const [first, second] = files.map((file) => readRecord(outputPaths(file).run)?.settings["tasks"]);
  return first !== undefined && second !== undefined && first !== second;
}
