// Confidence intervals by bootstrap over tasks: how much a metric would vary with another sample of tasks.
import { randomStream } from "../../core/random.ts";

/**
 * One task's share in each metric. A metric is the sum of `over` divided by the sum of `under`, so a task may have many
 * rollouts or none. A task may omit the last metrics.
 */
export interface TaskShare {
  over: number[];
  under: number[];
}

export interface Interval {
  value: number;
  low: number;
  high: number;
}

/** With this number of resamples, another seed moves the bounds by about a twentieth of the interval's half width. */
const resamples = 1_000;
const [lowest, highest] = [0.025, 0.975];
/** The maximum number of tasks per resample. Drawing a million tasks would take minutes. */
const mostDrawn = 10_000;

/**
 * Returns metrics with 95% intervals: percentiles over 1,000 resamples. A resample draws as many tasks as there are,
 * with replacement and with all rollouts of each task. Above 10,000 tasks, resamples have 10,000 tasks, and the
 * interval is narrowed accordingly. The result depends on the seed alone. It is null for a metric that is not finite.
 * The interval of a single task has no width, and means nothing.
 */
export function bootstrap(tasks: TaskShare[], seed: number): (Interval | null)[] {
  const shares = flatten(tasks);
  const values = shares.compute((at) => at, tasks.length);
  const drawn = Array.from(values, () => new Float64Array(resamples));
  const size = Math.min(tasks.length, mostDrawn);
  for (let at = 0; at < resamples; at++) {
    const random = randomStream(seed, at);
    const again = shares.compute(() => Math.floor(random() * tasks.length), size);
    again.forEach((value, metric) => ((drawn[metric] as Float64Array)[at] = value));
  }
  // A mean over fewer tasks varies more, by the square root of the ratio.
  const shrink = Math.sqrt(size / tasks.length);
  return Array.from(values, (value, metric) => toInterval(value, drawn[metric] as Float64Array, shrink));
}

/** Stores the shares in consecutive memory, because they are read thousands of times in random order. */
function flatten(tasks: TaskShare[]) {
  const starts = new Float64Array(tasks.length + 1);
  tasks.forEach(({ over }, at) => (starts[at + 1] = (starts[at] as number) + over.length));
  const [overs, unders] = [new Float64Array(starts.at(-1) as number), new Float64Array(starts.at(-1) as number)];
  tasks.forEach(({ over, under }, at) => {
    overs.set(over, starts[at]);
    unders.set(under, starts[at]);
  });
  const most = tasks.reduce((count, { over }) => Math.max(count, over.length), 0);
  return {
    /** Computes the metrics of `count` tasks; `next` returns the index of each. */
    compute(next: (at: number) => number, count: number): Float64Array {
      const [over, under] = [new Float64Array(most), new Float64Array(most)];
      for (let at = 0; at < count; at++) {
        const task = next(at);
        const start = starts[task] as number;
        const length = (starts[task + 1] as number) - start;
        for (let metric = 0; metric < length; metric++) {
          over[metric] = (over[metric] as number) + (overs[start + metric] as number);
          under[metric] = (under[metric] as number) + (unders[start + metric] as number);
        }
      }
      return over.map((total, metric) => total / (under[metric] as number));
    },
  };
}

/** Returns an interval that includes the value itself. Otherwise rounding could put the value outside. */
function toInterval(value: number, drawn: Float64Array, shrink: number): Interval | null {
  // Ignore resamples without a task that has the metric.
  const sorted = drawn.filter(Number.isFinite).sort();
  const end = (share: number): number => {
    const found = quantile(sorted, share);
    return shrink === 1 ? found : value + (found - value) * shrink;
  };
  const [low, high] = [Math.min(value, end(lowest)), Math.max(value, end(highest))];
  return [value, low, high].every(Number.isFinite) ? { value: value || 0, low: low || 0, high: high || 0 } : null;
}

function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const [below = NaN, above = NaN] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  const part = at - Math.floor(at);
  return below === above ? below : below * (1 - part) + above * part;
}
