// createTotals(): adds up a collection's rows for a list of collections.
import type { CollectionTotals, RowSummary } from "../collection-view.ts";

export function createTotals() {
  const tasks = new Set<number>();
  let [rollouts, failed, scored, earned] = [0, 0, 0, 0];
  let tokens: number | null = null;
  let [first, last] = [Infinity, -Infinity];
  return {
    add(row: RowSummary): void {
      rollouts++;
      tasks.add(row.task ?? 0);
      if (row.outcome === "failed") failed++;
      if (row.reward !== null) {
        scored++;
        earned += row.reward;
      }
      if (row.tokens !== null) tokens = (tokens ?? 0) + row.tokens;
      if (row.began === null) return;
      first = Math.min(first, row.began);
      last = Math.max(last, row.began + (row.seconds ?? 0));
    },
    result: (): CollectionTotals => ({
      rollouts,
      tasks: tasks.size,
      failed,
      reward: scored === 0 ? null : earned / scored,
      tokens,
      began: Number.isFinite(first) ? first : null,
      wallSeconds: Number.isFinite(first) ? last - first : null,
    }),
  };
}
