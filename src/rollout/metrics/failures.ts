// Counts failed rollouts by kind.

export interface FailureCount {
  kind: string;
  count: number;
}

/** Kinds are codes such as `model_failed`. Longer names, and kinds beyond the first 100, are counted as "other". */
const [mostKinds, longestKind] = [100, 100];
const others = "other";

export function createFailures() {
  const counts = new Map<string, number>();
  return {
    add(kind: string): void {
      const counted = counts.has(kind) || (counts.size < mostKinds && kind.length <= longestKind) ? kind : others;
      counts.set(counted, (counts.get(counted) ?? 0) + 1);
    },
    /** Returns the counts, the most frequent kind first, then by name. */
    counts: (): FailureCount[] =>
      [...counts]
        .map(([kind, count]) => ({ kind, count }))
        .sort((a, b) => b.count - a.count || (a.kind < b.kind ? -1 : 1)),
  };
}
