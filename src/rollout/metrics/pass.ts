// How often tries succeed: one of k, all of k, most of k, and k on average. In percent, under the names of NeMo Gym.
import { fromPairs, sampleStd, type Metrics } from "./statistics.ts";

/** What a rollout earned, in its place among those of its task; undefined for one that was not scored. */
export type Score = number | undefined;

export interface PassOptions {
  /** The end of every name. Default: `accuracy`. */
  score?: string;
  /** What each rollout answered, as a number for each different answer. Without them there is no `majority@{k}`. */
  answers?: Score[][];
}

/** What a task gives for k = 1, 2, 3 and so on; undefined where it has nothing to say. */
type Curve = Score[];

/** More repeats than anybody makes of a task; a file without task numbers looks like one task with all its rows. */
const mostTries = 1_000;

/**
 * For every k up to the largest number of rollouts of a task: `pass@{k}` (at least one of k succeeds, without bias),
 * `pass^{k}` (all k succeed), `pass@1[avg-of-{k}]` (the mean of the first k) with its spread across runs, and with
 * answers `majority@{k}` (the score of the most common answer among the first k). Tasks with fewer than k scores do not
 * count in the first two. Where scores are not only 0 and 1 these are the best and the worst of the first k.
 *
 * @example
 * passMetrics([[1, 0], [0, 0]])["pass@2/accuracy"]; // 50
 */
export function passMetrics(tasks: Score[][], { score = "accuracy", answers }: PassOptions = {}): Metrics {
  const most = tasks.reduce((count, { length }) => Math.max(count, length), 0);
  const upTo = Math.min(most, mostTries);
  const passed = meanCurve(tasks.map(anyOf), upTo);
  const held = meanCurve(tasks.map(allOf), upTo);
  const averaged = meanCurve(tasks.map(averageOf), upTo, "stays");
  const voted =
    answers &&
    meanCurve(
      tasks.map((scores, task) => majorityOf(scores, answers[task] ?? [])),
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

/** That at least one of k rollouts of a task succeeded, for k = 1, 2, 3 and so on. */
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

/** C(some, k) / C(all, k), factor by factor, so that neither grows too large. */
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

function averageOf(scores: Score[]): Curve {
  let [total, count] = [0, 0];
  return scores.slice(0, mostTries).map((score) => {
    if (score === undefined) return count > 0 ? total / count : undefined;
    total += score;
    return total / ++count;
  });
}

/** An answer that was scored in two ways counts as two answers; those that are equally common share the vote. */
function majorityOf(scores: Score[], answers: Score[]): Curve {
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

/** The mean over tasks, for each k. A curve that `stays` goes on with its last value where its task has no more. */
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
