// The rows of collections, as far as two versions must agree on them.

export interface RowSummary {
  task: unknown;
  repeat: unknown;
  branch: unknown;
  reward: unknown;
  steps: unknown;
}

/** A row without the fields that differ each time: ids, times and tokens. */
export function rowOf(row: Record<string, unknown>): RowSummary {
  return {
    task: row["_ng_task_index"],
    repeat: row["_ng_rollout_index"],
    branch: row["branch"] ?? null,
    reward: row["reward"],
    steps: row["step_rewards"] ?? null,
  };
}

export function byRollout(one: RowSummary, other: RowSummary): number {
  return Number(one.task) - Number(other.task) || Number(one.repeat) - Number(other.repeat);
}
