// NeMo Gym's statistics: over all rollouts, and in an entry per task.
import type { Json } from "../../core/json.ts";
import type { Group, Rollouts } from "./rollouts.ts";
import { rolloutIndex, taskIndex } from "./row.ts";
import { fromPairs, statistics, type Metrics } from "./statistics.ts";

/** The entry of one task: its statistics, and the numbers of each of its rollouts. */
export type GroupEntry = { [name: string]: Json };

export function overall(rollouts: Rollouts): { agent_metrics: Metrics; key_metrics: Metrics } {
  // Failed rollouts are counted among the failures only.
  const scored = Array.from(rollouts.groups(), (group) => group.rollouts.filter(isScored(rollouts))).flat();
  const agent = statistics(scored.length, (visit) => scored.forEach((rollout) => rollouts.each(rollout, visit)));
  const means = Object.entries(agent).filter(([name]) => name.startsWith("mean/"));
  return { agent_metrics: agent, key_metrics: Object.fromEntries(means) };
}

const isScored =
  (rollouts: Rollouts) =>
  (rollout: number): boolean =>
    !rollouts.failed(rollout);

/** `expected` is the planned number of rollouts of the task, if known. */
export function groupEntry(rollouts: Rollouts, { task, rollouts: all }: Group, expected = 0): GroupEntry {
  const group = all.filter(isScored(rollouts));
  const planned = Math.max(expected, all.length);
  return {
    [taskIndex]: task,
    ...statistics(group.length, (visit) => group.forEach((rollout) => rollouts.each(rollout, visit))),
    sample: { agent_ref: { name: "agent" } },
    num_rollouts: group.length,
    expected_num_rollouts: planned,
    missing_num_rollouts: planned - group.length,
    reward_profile_completion_pct: planned === 0 ? 100 : (100 * group.length) / planned,
    rollout_infos: group.map((rollout, position) => {
      const index = rollouts.index(rollout) ?? position;
      const identity = { rollout_id: `${task}:${index}`, [taskIndex]: task, [rolloutIndex]: index };
      return { ...identity, ...listNumbers(rollouts, rollout) };
    }),
  };
}

function listNumbers(rollouts: Rollouts, rollout: number): Metrics {
  const pairs: [string, number][] = [];
  rollouts.each(rollout, (name, value) => pairs.push([name, value]));
  return fromPairs(pairs);
}
