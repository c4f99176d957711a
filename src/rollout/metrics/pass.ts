// Metrics of k rollouts of a task: success rates under NeMo Gym's names, or the best and worst of other rewards.
import { fromPairs, sampleStd, type Metrics } from "./statistics.ts";

/** A rollout's reward, in the order of its task's rollouts; undefined if it has no score. */
export type Score = number | undefined;

export interface PassOptions {
  /** The suffix of every success rate. Default: `accuracy`. */
  score?: string;
  /** The answer of each rollout, as a number that identifies the answer. Required for `majority@{k}`. */
  answers?: Score[][];
}

/** The values of a task for k = 1, 2, 3 and so on; undefined for a k without a value. */
type Curve = Score[];

/** An upper limit on repeats, because all rows in a malicious file may name the same task. */
const mostTries = 1_000;

/**
 * Returns these metrics for every k up to the largest number of rollouts of a task. If all scores are 0 or 1, in
 * percent:
 * - `pass@{k}`: at least one of k succeeds: 1 - C(wrong, k) / C(all, k);
 * - `pass^{k}`: all k succeed: C(right, k) / C(all, k);
 * - `pass@1[avg-of-{k}]`: the mean of the first k, with its standard deviation and error across runs;
 * - `majority@{k}`, with answers: the score of the most common answer among the first k.
 *
 * For other scores: `best@{k}` and `worst@{k}`, the expected maximum and minimum of k rollouts, and `mean[avg-of-{k}]`,
 * all in units of the reward. Tasks with fewer than k scores do not count in the first two.
 */
export function passMetrics(tasks: Score[][], { score = "accuracy", answers }: PassOptions = {}): Metrics {
  const most = tasks.reduce((count, { length }) => Math.max(count, length), 0);
  const upTo = Math.min(most, mostTries);
  const names = toNames(areRates(tasks), score);
  const scale = (value: Score): Score => (value === undefined ? undefined : names.unit * value);
  const best = meanCurve(tasks.map(bestOf), upTo);
  const worst = meanCurve(tasks.map(worstOf), upTo);
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
    const average = names.average(k);
    metrics.push([names.best(k), scale(best[k - 1])], [names.worst(k), scale(worst[k - 1])]);
    metrics.push([average, scale(averaged[k - 1])]);
    if (voted) metrics.push([names.majority(k), scale(voted[k - 1])]);
    const compared = k > 1 ? runs.slice(0, k).map((run) => names.unit * run) : [];
    const spread = sampleStd(compared);
    if (spread === undefined) continue;
    metrics.push([`${average}/std_dev_across_runs`, spread]);
    metrics.push([`${average}/std_err_across_runs`, spread / Math.sqrt(compared.length)]);
  }
  return fromPairs(metrics);
}

/** Returns whether all scores are successes or failures, that is, 0 or 1. */
export function areRates(tasks: Score[][]): boolean {
  return tasks.every((scores) => scores.every((score) => score === undefined || score === 0 || score === 1));
}

/** Returns the names of the metrics, and the unit of their values. */
export function toNames(isRate: boolean, score = "accuracy") {
  const name = (prefix: string) => (k: number) => `${prefix}${k}/${isRate ? score : "reward"}`;
  const average = isRate ? "pass@1" : "mean";
  return {
    unit: isRate ? 100 : 1,
    best: name(isRate ? "pass@" : "best@"),
    worst: name(isRate ? "pass^" : "worst@"),
    majority: name("majority@"),
    average: (k: number) => `${average}[avg-of-${k}]/${isRate ? score : "reward"}`,
  };
}

/**
 * Returns the expected best of k rollouts of a task, for k = 1, 2, 3 and so on, drawn without replacement. For scores
 * of 0 and 1, this is the probability that at least one of the k rollouts succeeds.
 */
export function bestOf(scores: Score[]): number[] {
  const given = scored(scores);
  if (!areRates([given])) return expectedMaximum(given);
  const wrong = given.filter((score) => score === 0).length;
  return allDrawn(wrong, given.length).map((allWrong) => 1 - allWrong);
}

/** Returns the expected worst of k rollouts: for scores of 0 and 1, the probability that all succeed. */
export function worstOf(scores: Score[]): number[] {
  const given = scored(scores);
  if (areRates([given])) return allDrawn(given.filter((score) => score === 1).length, given.length);
  return expectedMaximum(given.map((score) => -score)).map((value) => -value);
}

/**
 * Returns the sum of x(i) * (C(i, k) - C(i - 1, k)) / C(n, k) over the sorted scores x(1) to x(n). C(i, k) / C(n, k) is
 * the probability that the largest of k is at most x(i). Only the first 2,000 rollouts of a task count.
 */
function expectedMaximum(scores: number[]): number[] {
  const sorted = scores.slice(0, 2 * mostTries).sort((a, b) => a - b);
  const chances = sorted.map(() => 1);
  return sorted.slice(0, mostTries).map((_, drawn) => {
    let [value, below] = [0, 0];
    for (const [at, score] of sorted.entries()) {
      const chance = ((chances[at] as number) * Math.max(0, at + 1 - drawn)) / (sorted.length - drawn);
      chances[at] = chance;
      value += score * (chance - below);
      below = chance;
    }
    return value;
  });
}

/** Returns C(some, k) / C(all, k), computed factor by factor, so that neither overflows. */
function allDrawn(some: number, all: number): number[] {
  let chance = 1;
  return Array.from({ length: Math.min(all, mostTries) }, (_, drawn) => {
    chance *= Math.max(0, some - drawn) / (all - drawn);
    return chance;
  });
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

/** Returns the mean over tasks, for each k. With "stays", a short curve is extended with its last value. */
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
