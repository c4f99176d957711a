// writeMetrics(): computes the metrics of a collection so far and writes them to its file.
import { finishedRollouts } from "./finished.ts";
import { createMetrics, type CollectionMetrics } from "./metrics.ts";
import { outputPaths, writeWhole } from "./output.ts";
import { readRows } from "./tasks.ts";

export async function writeMetrics(out: string, agent: string, seed: number): Promise<CollectionMetrics> {
  const metrics = createMetrics({ seed });
  // Invalid lines were not written by this collection.
  for await (const { row } of finishedRollouts(out, () => undefined)) metrics.add(row);
  const result = metrics.result();
  const { agent_metrics, key_metrics, pass_metrics } = result;
  const entry = { agent_ref: { name: agent }, agent_metrics: { ...agent_metrics, ...pass_metrics }, key_metrics };
  const opening = JSON.stringify([{ ...entry, group_level_metrics: [] }], null, 2).replace(/\[\]\s*\}\s*\]$/, "[");
  const planned = new Map<number, number>();
  for await (const read of readRows(outputPaths(out).inputs)) {
    const task = "row" in read ? Number(read.row["_ng_task_index"]) : Number.NaN;
    planned.set(task, (planned.get(task) ?? 0) + 1);
  }
  await writeWhole(
    outputPaths(out).metrics,
    toText(
      opening,
      metrics.groups((task) => planned.get(task)),
    ),
  );
  return result;
}

/** Yields one group at a time: together they are as long as the rows. */
function* toText(opening: string, groups: Iterable<unknown>): Generator<string, void, undefined> {
  yield opening;
  let separator = "\n";
  for (const group of groups) {
    yield `${separator}      ${JSON.stringify(group)}`;
    separator = ",\n";
  }
  yield "\n    ]\n  }\n]\n";
}
