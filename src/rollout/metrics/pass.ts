// Success rates: one of k, all of k, most of k, and the average of k. In percent, under NeMo Gym's names.
import { fromPairs, sampleStd, type Metrics } from "./statistics.ts";

/** The reward of a rollout, in the order of its task's rollouts; undefined without a score. */
export type Score = number | undefined;

export interface PassOptions {
  /** The suffix of every name. Default: `accuracy`. */
  score?: string;
  /** The answer of each rollout, as a number per distinct answer. Required for `majority@{k}`. */
  answers?: Score[][];
}

/** The values of a task for k = 1, 2, 3 and so on; undefined where it has none. */
type Curve = Score[];

/** An upper limit for repeats: the rows of a hostile file may all name one task. */
const mostTries = 1_000;

/**
 * Returns these metrics for every k up to the largest number of rollouts of a task:
 * - `pass@{k}`: at least one of k succeeds, unbiased: 1 - C(wrong, k) / C(all, k);
 * - `pass^{k}`: all k succeed;
 * - `pass@1[avg-of-{k}]`: the mean of the first k, with its standard deviation and error across runs;
 * - `majority@{k}`, with answers: the score of the most common answer among the first k.
 *
 * Tasks with fewer than k scores do not count in the first two. If some scores are neither 0 nor 1, the first two are the
 * best and the worst of the first k.
 *
 * @example
 * passMetrics([[1, 0], [0, 0]])["pass@2/accuracy"]; // 50
 */
export function passMetrics(tasks: Score[][], { score = "accuracy", answers }: PassOptions = {}): Metrics {
  const most = tasks.reduce((count, { length }) => Math.max(count, length), 0);
  const upTo = Math.min(most, mostTries);
  const passed = meanCurve(tasks.map(anyOf), upTo);
  const held = meanCurve(tasks.map(allOf), upTo);
  const averaged = meanCurve(tasks.map(averages), upTo, "stays");
  const voted =
    answers &&
    meanCurve(
      tasks.map((scores, task) => majorities(scores, answers[task] ?? [])),
      upTo,
      "stays",
    );
  const runs = meanCurve(tasks, upTo).filter((run) => run !== undefined);
  const metrics: [string, Score][] = [];
  for (let k = 1; k <= upTo; k++) {
    const average = `pass@1[avg-of-${k}]/${score}`;
    metrics.push([`pass@${k}/${score}`, percent(passed[k - 1])], [`pass^${k}/${score}`, percent(held[k - 1])]);
    metrics.push([average, percent(averaged[k - 1])]);
    if (voted) metrics.push([`majority@${k}/${score}`, percent(voted[k - 1])]);
    const compared = k > 1 ? runs.slice(0, k).map((run) => 100 * run) : [];
    const spread = sampleStd(compared);
    if (spread === undefined) continue;
    metrics.push([`${average}/std_dev_across_runs`, spread]);
    metrics.push([`${average}/std_err_across_runs`, spread / Math.sqrt(compared.length)]);
  }
  return fromPairs(metrics);
}

/** Returns the rate at which at least one of k rollouts of a task succeeds, for k = 1, 2, 3 and so on. */
export function anyOf(scores: Score[]): number[] {
  const given = scored(scores);
  if (!isBinary(given)) return runningBest(given, Math.max);
  const wrong = given.filter((score) => score === 0).length;
  return allDrawn(wrong, given.length).map((allWrong) => 1 - allWrong);
}

function allOf(scores: Score[]): number[] {
  const given = scored(scores);
  if (!isBinary(given)) return runningBest(given, Math.min);
  return allDrawn(given.filter((score) => score === 1).length, given.length);
}

/** Returns C(some, k) / C(all, k), factor by factor, so that neither overflows. */
function allDrawn(some: number, all: number): number[] {
  let chance = 1;
  return Array.from({ length: Math.min(all, mostTries) }, (_, drawn) => {
    chance *= Math.max(0, some - drawn) / (all - drawn);
    return chance;
  });
}

function runningBest(scores: number[], better: (a: number, b: number) => number): number[] {
  let best = scores[0] ?? 0;
  return scores.slice(0, mostTries).map((score) => (best = better(best, score)));
}

function averages(scores: Score[]): Curve {
  let [total, count] = [0, 0];
  return scores.slice(0, mostTries).map((score) => {
    if (score === undefined) return count > 0 ? total / count : undefined;
    total += score;
    return total / ++count;
  });
}

/** An answer with two different scores counts as two answers. Equally common answers share the vote. */
function majorities(scores: Score[], answers: Score[]): Curve {
  const votes = new Map<string, number>();
  let [most, total, tied] = [0, 0, 0];
  return scores.slice(0, mostTries).map((score, at) => {
    const answer = answers[at];
    if (score !== undefined && answer !== undefined) {
      const vote = `${answer} ${score}`;
      const count = (votes.get(vote) ?? 0) + 1;
      votes.set(vote, count);
      if (count > most) [most, total, tied] = [count, score, 1];
      else if (count === most) [total, tied] = [total + score, tied + 1];
    }
    return tied > 0 ? total / tied : 0;
  });
}

/** Returns the mean over tasks, for each k. A curve that `stays` repeats its last value beyond its end. */
function meanCurve(curves: Curve[], upTo: number, after: "ends" | "stays" = "ends"): Curve {
  const [totals, counts] = [new Float64Array(upTo), new Float64Array(upTo)];
  for (const curve of curves) {
    const end = after === "stays" ? upTo : Math.min(upTo, curve.length);
    for (let at = 0; at < end; at++) {
      const value = curve[Math.min(at, curve.length - 1)];
      if (value === undefined) continue;
      totals[at] = (totals[at] as number) + value;
      counts[at] = (counts[at] as number) + 1;
    }
  }
  return Array.from(totals, (total, at) => (counts[at] === 0 ? undefined : total / (counts[at] as number)));
}

const scored = (scores: Score[]): number[] => scores.filter((score) => score !== undefined);
const isBinary = (scores: number[]): boolean => scores.every((score) => score === 0 || score === 1);
const percent = (share: Score): Score => (share === undefined ? undefined : 100 * share);
