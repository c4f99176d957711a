// A training run's metrics over its iterations, as lines to draw. Pure functions, for the viewer and for pictures.

/** All rows with one value of the label, and the numbers that a trainer wrote for that value. */
export interface CurvePoint {
  /** The label's value. */
  at: string;
  /** Null if only the trainer wrote about this value. */
  rollouts: number | null;
  failed: number | null;
  /** The mean reward of the scored rollouts. Without any, the trainer's reward, or null. */
  reward: number | null;
  /** The sum over all rollouts; null if no row has the field. */
  tokens: number | null;
  seconds: number | null;
  /** Every number in the trainer's line, with dots for nested fields. */
  trainer: { [name: string]: number };
}

export interface Curve {
  path: string;
  /** The name of the label. */
  over: string;
  points: CurvePoint[];
  /** Rows without the label. */
  unlabelled: number;
}

/** One metric for several runs, drawn as lines in one picture. */
export interface Series {
  name: string;
  /** The number of the first iteration. */
  first: number;
  /** One list per run, in order. Each has a value for every iteration from `first`; undefined if it is missing. */
  lines: (number | undefined)[][];
}

/** The metrics to watch during training, the most important first. */
const watched = [
  "reward",
  "reward_all_tasks",
  "rollouts",
  "failed",
  "dead_groups",
  "solved_groups",
  "entropy",
  "rows",
  "seconds.total",
  "sampled_tokens",
  "tokens",
  "seconds",
  "seconds.sampling",
  "seconds.environment",
  "seconds.update",
  "loss",
];

/** Returns a metric of a point: computed from its rollouts, or the trainer's number. */
export function valueAt(point: CurvePoint, name: string): number | null {
  const { reward, rollouts, failed, tokens, seconds, trainer } = point;
  const own: { [name: string]: number | null } = { reward, rollouts, failed, tokens, seconds };
  return (Object.hasOwn(own, name) ? own[name] : null) ?? trainer[name] ?? null;
}

/** Returns the names of the metrics with a value: those to watch, the most important first, and the others. */
export function metricNames(points: readonly CurvePoint[]): { watched: string[]; others: string[] } {
  const trained = new Set(points.flatMap(({ trainer }) => Object.keys(trainer)));
  return {
    watched: watched.filter((name) => points.some((point) => valueAt(point, name) !== null)),
    others: [...trained].filter((name) => !watched.includes(name)),
  };
}

/** Returns the metrics with a value, those to watch first. Points whose label is not a number are numbered in order. */
export function seriesIn(curves: readonly Curve[]): Series[] {
  const names = metricNames(curves.flatMap(({ points }) => points));
  const numbers = curves.map(({ points }) =>
    points.map(({ at }, index) => (/^\d{1,9}$/.test(at) ? Number(at) : index)),
  );
  const first = numbers.flat().reduce((least, at) => Math.min(least, at), Infinity);
  return [...names.watched, ...names.others].map((name) => {
    const lines = curves.map(({ points }, run) => {
      const line: (number | undefined)[] = [];
      for (const [index, point] of points.entries()) {
        line[(numbers[run]?.[index] ?? 0) - first] = valueAt(point, name) ?? undefined;
      }
      return Array.from(line);
    });
    return { name, first, lines };
  });
}

/** Returns the value of a metric that never changes; undefined for other metrics, and after a single iteration. */
export function constantIn({ lines }: Series): number | undefined {
  const [value, ...rest] = lines.flat().filter((each) => each !== undefined);
  return rest.length > 0 && rest.every((each) => each === value) ? value : undefined;
}
