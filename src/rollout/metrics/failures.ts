// How often rollouts failed, and of what kind.

export interface FailureCount {
  kind: string;
  count: number;
}

export interface Failures {
  add(kind: string): void;
  /** The most frequent first, then by name. */
  counts(): FailureCount[];
}

/** Kinds are codes such as `model_failed`. Long ones, and a new one in every row, are counted together. */
const [mostKinds, longestKind] = [100, 100];
const others = "other";

export function createFailures(): Failures {
  const counts = new Map<string, number>();
  return {
    add(kind) {
      const counted = counts.has(kind) || (counts.size < mostKinds && kind.length <= longestKind) ? kind : others;
      counts.set(counted, (counts.get(counted) ?? 0) + 1);
    },
    counts: () =>
      [...counts]
        .map(([kind, count]) => ({ kind, count }))
        .sort((a, b) => b.count - a.count || (a.kind < b.kind ? -1 : 1)),
  };
}
