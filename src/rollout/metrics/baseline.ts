// The statistics that NeMo Gym asks for: over all rollouts, and in an entry for each task.
import type { Json } from "../../core/json.ts";
import type { Group, Rollouts } from "./rollouts.ts";
import { rolloutIndex, taskIndex } from "./row.ts";
import { fromPairs, statistics, type Metrics } from "./statistics.ts";

/** The entry of one task: its statistics, and the numbers of each of its rollouts. */
export type GroupEntry = { [name: string]: Json };

export function overall(rollouts: Rollouts): { agent_metrics: Metrics; key_metrics: Metrics } {
  const count = rollouts.count();
  const agent = statistics(count, (visit) => {
    for (let rollout = 0; rollout < count; rollout++) rollouts.each(rollout, visit);
  });
  const means = Object.entries(agent).filter(([name]) => name.startsWith("mean/"));
  return { agent_metrics: agent, key_metrics: Object.fromEntries(means) };
}

export function groupEntry(rollouts: Rollouts, { task, rollouts: group }: Group): GroupEntry {
  return {
    [taskIndex]: task,
    ...statistics(group.length, (visit) => group.forEach((rollout) => rollouts.each(rollout, visit))),
    sample: { agent_ref: { name: "agent" } },
    num_rollouts: group.length,
    // How many were planned is not told here: as many as came.
    expected_num_rollouts: group.length,
    missing_num_rollouts: 0,
    reward_profile_completion_pct: 100,
    rollout_infos: group.map((rollout, position) => {
      const index = rollouts.index(rollout) ?? position;
      const identity = { rollout_id: `${task}:${index}`, [taskIndex]: task, [rolloutIndex]: index };
      return { ...identity, ...numbersOf(rollouts, rollout) };
    }),
  };
}

function numbersOf(rollouts: Rollouts, rollout: number): Metrics {
  const pairs: [string, number][] = [];
  rollouts.each(rollout, (name, value) => pairs.push([name, value]));
  return fromPairs(pairs);
}
