// NeMo Gym's statistics: over all rollouts, and in an entry per task.
import type { Json } from "../../core/json.ts";
import type { Steps } from "../../io/pace.ts";
import type { Group, Rollouts } from "./rollouts.ts";
import { rolloutIndex, taskIndex } from "./row.ts";
import { fromPairs, statistics, type Metrics } from "./statistics.ts";

/** The entry for one task: its statistics, and the numbers for each of its rollouts. */
export type GroupEntry = { [name: string]: Json };

export function* overall(rollouts: Rollouts): Steps<{ agent_metrics: Metrics; key_metrics: Metrics }> {
  const scored: number[] = [];
  for (const group of yield* rollouts.groups()) {
    for (const rollout of group.rollouts) if (rollouts.counts(rollout)) scored.push(rollout);
    yield;
  }
  const agent = yield* statistics(scored, rollouts.each);
  const means = Object.entries(agent).filter(([name]) => name.startsWith("mean/"));
  return { agent_metrics: agent, key_metrics: Object.fromEntries(means) };
}

/** Returns the entry for a task. `expected` is the planned number of its rollouts, if known. */
export function* groupEntry(rollouts: Rollouts, { task, rollouts: all }: Group, expected = 0): Steps<GroupEntry> {
  const group = all.filter(rollouts.counts);
  const planned = Math.max(expected, all.length);
  const metrics = yield* statistics(group, rollouts.each);
  const infos: GroupEntry[] = [];
  for (const [position, rollout] of group.entries()) {
    const index = rollouts.index(rollout) ?? position;
    const identity = { rollout_id: `${task}:${index}`, [taskIndex]: task, [rolloutIndex]: index };
    infos.push({ ...identity, ...listNumbers(rollouts, rollout) });
    yield;
  }
  return {
    [taskIndex]: task,
    ...metrics,
    sample: { agent_ref: { name: "agent" } },
    num_rollouts: group.length,
    expected_num_rollouts: planned,
    missing_num_rollouts: planned - group.length,
    reward_profile_completion_pct: planned === 0 ? 100 : (100 * group.length) / planned,
    rollout_infos: infos,
  };
}

function listNumbers(rollouts: Rollouts, rollout: number): Metrics {
  const pairs: [string, number][] = [];
  rollouts.each(rollout, (name, value) => pairs.push([name, value]));
  return fromPairs(pairs);
}
