// The figures of a collection as far as it has come, and their file.
import { finishedRollouts } from "../../rollout/finished.ts";
import { createMetrics, type RunMetrics } from "../../rollout/metrics.ts";
import { pathsOf, writeWhole } from "../../rollout/output.ts";

export async function writeMetrics(out: string, agent: string, seed: number): Promise<RunMetrics> {
  const metrics = createMetrics({ seed });
  // A line that is no row was never one of this collection's.
  for await (const { row } of finishedRollouts(out, () => undefined)) metrics.add(row);
  const result = metrics.result();
  const { agent_metrics, key_metrics, pass_metrics } = result;
  const entry = { agent_ref: { name: agent }, agent_metrics: { ...agent_metrics, ...pass_metrics }, key_metrics };
  const opening = JSON.stringify([{ ...entry, group_level_metrics: [] }], null, 2).replace(/\[\]\s*\}\s*\]$/, "[");
  await writeWhole(pathsOf(out).metrics, textOf(opening, metrics.groups()));
  return result;
}

/** One group at a time: together they are as long as the rows. */
function* textOf(opening: string, groups: Iterable<unknown>): Generator<string, void, undefined> {
  yield opening;
  let separator = "\n";
  for (const group of groups) {
    yield `${separator}      ${JSON.stringify(group)}`;
    separator = ",\n";
  }
  yield "\n    ]\n  }\n]\n";
}
