// A training run's metrics over its iterations, as lines to draw. Pure functions, for the viewer and for pictures.

/** All rows with one value of the label, and the numbers that a trainer wrote for that value. */
export interface CurvePoint {
  /** The label's value. */
  at: string;
  /** 0 if only the trainer wrote about this value. */
  rollouts: number;
  failed: number;
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

/** Fields of a trainer that get no line of their own. */
const hidden = new Set(["reward", "iteration"]);

/** Returns the metrics with a value, the reward first. Points whose label is not a number are numbered in order. */
export function seriesIn(curves: readonly Curve[]): Series[] {
  const trained = new Set(curves.flatMap(({ points }) => points.flatMap(({ trainer }) => Object.keys(trainer))));
  const metrics: [string, (point: CurvePoint) => number | null | undefined][] = [
    ["reward", ({ reward }) => reward],
    ["failed", ({ rollouts, failed }) => (rollouts > 0 ? failed : null)],
    ["tokens", ({ tokens }) => tokens],
    ...[...trained]
      .filter((name) => !hidden.has(name))
      .map((name): [string, (point: CurvePoint) => number | undefined] => [name, ({ trainer }) => trainer[name]]),
  ];
  const numbers = curves.map(({ points }) =>
    points.map(({ at }, index) => (/^\d{1,9}$/.test(at) ? Number(at) : index)),
  );
  const first = numbers.flat().reduce((least, at) => Math.min(least, at), Infinity);
  return metrics.flatMap(([name, valueOf]) => {
    const lines = curves.map(({ points }, run) => {
      const line: (number | undefined)[] = [];
      for (const [index, point] of points.entries()) {
        line[(numbers[run]?.[index] ?? 0) - first] = valueOf(point) ?? undefined;
      }
      return Array.from(line);
    });
    return lines.flat().some((value) => value !== undefined) ? [{ name, first, lines }] : [];
  });
}
