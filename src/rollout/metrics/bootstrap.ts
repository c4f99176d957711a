// Confidence intervals by drawing tasks again: what the figures would have been with other tasks of the same kind.
import { randomStream } from "../../core/random.ts";

/**
 * What one task adds to each figure. A figure is the sum of `over` divided by the sum of `under`, so that a task can
 * bring many rollouts, or none. A task may leave out the last figures.
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

/** Another seed moves the ends by about a twentieth of the half width. */
const resamples = 1_000;
const [lowest, highest] = [0.025, 0.975];
/** So many tasks are drawn for one of them; of a million tasks all would take minutes. */
const mostDrawn = 10_000;

/**
 * The figures of a run with their intervals of 95%: percentiles over 1,000 runs made of as many tasks, drawn with
 * replacement, each with all its rollouts; above 10,000 tasks, runs of 10,000, and the interval is narrowed to what all
 * would give. The same for the same seed. null for a figure that is not finite. A single task can only be drawn as it
 * is: its interval is a point, and says nothing.
 *
 * @example
 * bootstrap([{ over: [1], under: [2] }, { over: [2], under: [2] }], 0); // [{ value: 0.75, low: 0.5, high: 1 }]
 */
export function bootstrap(tasks: TaskShare[], seed: number): (Interval | null)[] {
  const shares = flatten(tasks);
  const values = shares.figures((at) => at, tasks.length);
  const drawn = Array.from(values, () => new Float64Array(resamples));
  const size = Math.min(tasks.length, mostDrawn);
  for (let at = 0; at < resamples; at++) {
    const random = randomStream(seed, at);
    const again = shares.figures(() => Math.floor(random() * tasks.length), size);
    again.forEach((value, figure) => ((drawn[figure] as Float64Array)[at] = value));
  }
  // A run of fewer tasks varies more, by the root of how many times fewer they are.
  const shrink = Math.sqrt(size / tasks.length);
  return Array.from(values, (value, figure) => intervalOf(value, drawn[figure] as Float64Array, shrink));
}

interface Shares {
  /** Sum divided by sum, over so many tasks of which `next` gives the places. */
  figures(next: (at: number) => number, count: number): Float64Array;
}

/** Side by side in memory, as they are read thousands of times and in no order. */
function flatten(tasks: TaskShare[]): Shares {
  const starts = new Float64Array(tasks.length + 1);
  tasks.forEach(({ over }, at) => (starts[at + 1] = (starts[at] as number) + over.length));
  const [overs, unders] = [new Float64Array(starts.at(-1) as number), new Float64Array(starts.at(-1) as number)];
  tasks.forEach(({ over, under }, at) => {
    overs.set(over, starts[at]);
    unders.set(under, starts[at]);
  });
  const most = tasks.reduce((count, { over }) => Math.max(count, over.length), 0);
  return {
    figures(next, count) {
      const [over, under] = [new Float64Array(most), new Float64Array(most)];
      for (let at = 0; at < count; at++) {
        const task = next(at);
        const start = starts[task] as number;
        const length = (starts[task + 1] as number) - start;
        for (let figure = 0; figure < length; figure++) {
          over[figure] = (over[figure] as number) + (overs[start + figure] as number);
          under[figure] = (under[figure] as number) + (unders[start + figure] as number);
        }
      }
      return over.map((total, figure) => total / (under[figure] as number));
    },
  };
}

/** It always holds the value itself, which rounding could leave just outside. */
function intervalOf(value: number, drawn: Float64Array, shrink: number): Interval | null {
  // A draw without a task that has the figure says nothing of it.
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
