// collect(): runs every task several times, concurrently, and writes each outcome.
import { setMaxListeners } from "node:events";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { summarizeThrown } from "../core/event.ts";
import type { Play, Played, Rollout, RolloutFailure as Failure, TaskRow } from "../core/rollout.ts";
import { onAbort } from "../io/abort.ts";
import type { RandomSeedPolicy } from "./collection-settings.ts";
import { overWith, type Forget, type Lasting } from "./forget.ts";
import { rolloutKey, type CollectionOutput, type ExistingRows, type Tries } from "./output.ts";
import { createPlaces, type Lane } from "./places.ts";
import { toRandomSeed, withAttempt } from "./rollout-ids.ts";
import { hasOwnMetrics, withoutOutcome } from "./row-fields.ts";
import { createGiveUp, isWrongAddress, type GaveUp } from "./give-up.ts";
import { createNumbering, type BadRow, type Numbered, type ReadRow } from "./tasks.ts";
import { toLineage, nodeKey, toOrigin, createTree, type Branching, type Node } from "./tree.ts";
import { createWork } from "./work.ts";

export interface CollectOptions {
  /** The rows, in order; read on demand. */
  tasks: AsyncIterable<ReadRow | BadRow>;
  /** Turns a row into the input to run, which is stored. Throws if the row is invalid. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  play: Play;
  /** Stores the rows. `collect` closes it. */
  output: CollectionOutput;
  /** The collection's id. Session ids are derived from the id. */
  run: string;
  /** Seed for the environment's random numbers. */
  seed: number;
  /** Which rollouts share random numbers; by default the repeats of a task. A row with a random seed keeps its seed. */
  randomSeed?: RandomSeedPolicy | undefined;
  repeats: number;
  /** Where episodes are forked. Default: nowhere. Steps must be distinct. */
  branches?: readonly Branching[] | undefined;
  /** Maximum number of concurrent episodes. */
  concurrency: number;
  /** Concurrency slots shared with other collections. Default: slots for this collection only. */
  lane?: Lane | undefined;
  /** Maximum number of attempts per rollout. Resuming a finished collection allows the same number again. */
  attempts: number;
  /** Maximum number of rows. */
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Called with the number of existing rows. */
  onStart?: ((before: number) => void) | undefined;
  /** Continue even if a failure would affect every rollout. Default: stop after the first few. */
  keepGoing?: boolean | undefined;
  /** Called with every outcome, and with the errors in the author's code that caused it, one string per error. */
  onRow?: ((row: TaskRow, failed: boolean, errors: string[]) => void) | undefined;
  /** Called with the number of running rollouts, when it changes. */
  onRunning?: ((running: number) => void) | undefined;
  /** Called with the number of rollouts that will not exist because an episode ended before its fork. */
  onFewer?: ((rollouts: number) => void) | undefined;
  /** Called before a rollout is retried. */
  onRetry?: ((rollout: Rollout, failure: Failure) => void) | undefined;
  /** Called with the sessions of finished rollouts that no other rollout needs. */
  forget?: Forget | undefined;
  /** Milliseconds before the next attempt. */
  pause?: ((attempt: number) => number) | undefined;
}

export interface Collected {
  /** Rows that already existed. */
  before: number;
  scored: number;
  failed: number;
  /** True if the collection was stopped before all rollouts had run. */
  stopped: boolean;
  /** Why the collection stopped early, if no signal stopped it. */
  gaveUp?: GaveUp;
}

/** A rollout to run, and the number of attempts left after this attempt. */
interface Due {
  rollout: Rollout;
  left: number;
  node: Node;
  /** True if the episode was forked before. Then only its session is needed: its continuations have the outcomes. */
  isForked: boolean;
  /** For a continuation: the episode to fork it from. Each attempt forks again. */
  parent: Lasting | undefined;
}

/** Episodes that start in one turn of the event loop. The first ones then ask their model while others still open. */
const startsPerTurn = 32;

/** Exponential backoff with jitter. */
const defaultPause = (attempt: number): number => Math.min(500 * 2 ** attempt, 30_000) * (0.5 + Math.random() / 2);

/**
 * Runs every rollout that is missing in the output. A failing rollout is retried. After its last attempt it is written
 * to the failures, without a reward. The collection ends early only if the output cannot be written, the tasks cannot
 * be read, or a failure would hit every rollout.
 *
 * Memory: about 170 bytes per task and 140 per existing row.
 */
export async function collect(options: CollectOptions): Promise<Collected> {
  const { signal, concurrency, output, lane = createPlaces(concurrency).lane(concurrency) } = options;
  const stopping = new AbortController();
  // Every episode listens to this signal, and removes its listeners when it ends.
  setMaxListeners(0, stopping.signal);
  const stopListening = onAbort(signal, () => stopping.abort(signal?.reason));
  try {
    const collected: Collected = { before: 0, scored: 0, failed: 0, stopped: false };
    const existing = await output.existing();
    const { source, continued } = planned(options, collected, existing);
    const settle = settling(options, collected, stopping, existing.scored > 0);
    const work = createWork(source);
    const thrown: unknown[] = [];
    // Ends the collection with a failure. Interrupted episodes continue when the collection is resumed.
    const stop = (cause: unknown): void => {
      thrown.push(cause);
      stopping.abort(cause);
    };
    const one = async (due: Due): Promise<void> => {
      let more: Due[] = [];
      try {
        const forked = await settle(due);
        if (forked) more = continued(due, forked);
        if (more.length === 0) await overWith(options.forget, due.parent, forked && listSessions(forked));
      } catch (cause) {
        stop(cause);
      } finally {
        lane.leave();
        work.done(more);
      }
    };
    const running = new Set<Promise<void>>();
    let started = 0;
    try {
      while (!stopping.signal.aborted && (await work.ready()) && (await lane.enter(stopping.signal))) {
        const playing: Promise<void> = one(work.take()).finally(() => running.delete(playing));
        running.add(playing);
        if (++started % startsPerTurn === 0) await nextTurn();
      }
    } catch (cause) {
      stop(cause);
    }
    await Promise.all(running);
    await source.return();
    if (thrown.length > 0) throw toError(thrown[0]);
    collected.stopped = stopping.signal.aborted;
    return collected;
  } finally {
    stopListening();
    output.close();
  }
}

const toError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new HoldfastError("internal", messageOf(thrown));

const listSessions = ({ parent, session }: Forked): string[] => [parent.session, session];

type Planned = AsyncGenerator<Due, void, undefined>;

/** An episode that has reached its fork. */
interface Forked {
  parent: Rollout;
  session: string;
  version: number;
}

/** Yields the rollouts to run on demand, and returns a forked episode's continuations. */
function planned(options: CollectOptions, collected: Collected, { done, known, tries }: ExistingRows) {
  const { output, tasks, repeats, attempts, limit = Infinity, run, seed, randomSeed, onStart, onFewer } = options;
  const tree = createTree(options.branches ?? []);
  collected.before = done.size;
  onStart?.(done.size);

  async function* plan(): Planned {
    const numberTask = createNumbering();
    /** The number of rows for each task so far, because a data set may repeat a task. */
    const seen = new Map<number, number>();
    let count = 0;
    for await (const read of tasks) {
      const numbered = numberTask(read);
      const before = seen.get(numbered.task) ?? 0;
      seen.set(numbered.task, before + 1);
      yield* planTask(numbered, repeats * before);
      if (++count >= limit) return;
    }
  }

  async function* planTask({ task, ...read }: Numbered, first: number): Planned {
    const prepared = await prepareRow(read);
    for (let repeat = first; repeat < first + repeats; repeat++) {
      const node: Node = { task, index: repeat * tree.leaves(0), branch: "", depth: 0 };
      const index = { _ng_task_index: task, _ng_rollout_index: node.index };
      const key = nodeKey(node);
      if ("problem" in prepared) {
        if (!done.has(key)) await refuse({ ...prepared.given, ...index }, prepared.problem, tries.has(key));
        continue;
      }
      const row = { ...prepared.row, ...index };
      if (!known.has(rolloutKey(index))) output.input(row);
      const random = toRandomSeed(row, [seed, task, randomSeed === "per-rollout" ? repeat : 0]);
      yield* planNode(node, { row, random });
    }
  }

  /** Returns the rollouts to run for a node; none if the node already has its outcome. */
  function planNode(node: Node, given: Pick<Rollout, "row" | "random" | "origin">, parent?: Lasting): Due[] {
    if (isDone(node)) {
      if (missing(node) > 0) onFewer?.(missing(node));
      return [];
    }
    const { all: attempt, open }: Tries = tries.get(nodeKey(node)) ?? { all: 0, open: 0 };
    const left = Math.max(0, attempts - open - 1);
    const { task, index: repeat } = node;
    const forkAfter = tree.forkStep(node);
    const rollout = { ...given, task, repeat, attempt, session: "", ...(forkAfter !== undefined && { forkAfter }) };
    const isForked = tree.children(node).some(hasBegun);
    return [{ node, left, isForked, parent, rollout: withAttempt(run, rollout, attempt) }];
  }

  /** Returns whether all outcomes below a node exist. */
  function isDone(node: Node): boolean {
    if (done.has(nodeKey(node))) return true;
    const children = tree.children(node);
    return children.length > 0 && children.every(isDone);
  }

  /** Counts the rollouts that will never exist, because an episode ended before its fork. */
  function missing(node: Node): number {
    if (done.has(nodeKey(node))) return tree.leaves(node.depth) - 1;
    return tree.children(node).reduce((count, child) => count + missing(child), 0);
  }

  function hasBegun(node: Node): boolean {
    const key = nodeKey(node);
    return done.has(key) || tries.has(key) || tree.children(node).some(hasBegun);
  }

  function continued({ node, parent: above }: Due, forked: Forked): Due[] {
    const { parent, session, version } = forked;
    const { row, random } = parent;
    const lasting: Lasting = { sessions: listSessions(forked), left: 0, parent: above };
    const more = tree.children(node).flatMap((child) => {
      const own = { ...row, _ng_rollout_index: child.index };
      return planNode(child, { row: own, random, origin: toOrigin(parent, session, version, child) }, lasting);
    });
    lasting.left = more.length;
    return more;
  }

  async function prepareRow(read: ReadRow | BadRow): Promise<{ row: TaskRow } | { problem: string; given: TaskRow }> {
    if (!("row" in read)) return { problem: `line ${read.line}: ${read.problem}`, given: {} };
    if (hasOwnMetrics(read.row)) {
      const problem = `line ${read.line}: rename the field \`metrics\`, because output rows store the results of verify under that name`;
      return { problem, given: read.row };
    }
    try {
      return { row: await options.prepare(read.row) };
    } catch (thrown) {
      return { problem: `line ${read.line}: ${messageOf(thrown)}`, given: read.row };
    }
  }

  async function refuse(row: TaskRow, problem: string, isKnown: boolean): Promise<void> {
    const failed = failedRow(withoutOutcome(row), { kind: "task", reason: problem });
    if (!isKnown) await output.failed(failed);
    if (tree.leaves(0) > 1) onFewer?.(tree.leaves(0) - 1);
    collected.failed++;
    options.onRow?.(failed, true, []);
  }

  return { source: plan(), continued };
}

/** Returns a function that runs a rollout until it is scored, is forked, or has no attempts left. */
function settling(options: CollectOptions, collected: Collected, stopping: AbortController, hasScored: boolean) {
  const { output, play, run, onRow, onRetry, onFewer, onRunning, forget, keepGoing, pause = defaultPause } = options;
  const giveUp = createGiveUp(hasScored);
  const stop = stopping.signal;
  let running = 0;
  const tree = createTree(options.branches ?? []);

  function ended(row: TaskRow, { depth }: Node, played: Played, failure?: Failure): void {
    const fewer = tree.leaves(depth) - 1;
    if (fewer > 0) onFewer?.(fewer);
    collected[failure ? "failed" : "scored"]++;
    const { errors = [] } = played;
    onRow?.(row, failure !== undefined, failure?.thrown ? [...errors, summarizeThrown(failure.thrown)] : errors);
    const reason = giveUp(Number(row["_ng_task_index"]), failure, running);
    if (!reason || keepGoing || stop.aborted) return;
    collected.gaveUp = reason;
    stopping.abort();
  }

  return async (due: Due): Promise<Forked | undefined> => {
    running++;
    onRunning?.(running);
    try {
      return await settle(due);
    } finally {
      running--;
      onRunning?.(running);
    }
  };

  async function settle({ rollout, left, node, isForked }: Due): Promise<Forked | undefined> {
    let seconds = 0;
    for (let [current, tried] = [rollout, 0]; ; tried++) {
      const began = performance.now();
      const played = await play(current, stop);
      seconds += played.seconds ?? (performance.now() - began) / 1000;
      const { session } = played;
      if (played.outcome === "forked") return { parent: current, session, version: played.version };
      const row = toRow(current, played, seconds);
      const failure = played.outcome === "failed" ? played.failure : isForked ? lostFork : undefined;
      if (!failure) {
        await output.scored(row);
        ended(row, node, played);
        await forget?.([current.session, session]);
        return undefined;
      }
      if (stop.aborted) return undefined;
      const failed = failedRow(row, failure);
      const isPointless = isFinal(failure) || (isWrongAddress(failure) && !hasScored && collected.scored === 0);
      if (tried >= left || isPointless) {
        if (!isForked) await output.failed(failed);
        ended(failed, node, played, failure);
        await forget?.([current.session, session]);
        return undefined;
      }
      // A forked episode gets no new attempt, because both attempts would have continuations. A played episode gets none
      // either: only its verify is tried again, and the model is not asked again.
      const isKept = isForked || failure.isPlayed === true;
      // Retries are recorded too, so that the next attempt keeps its number after a crash.
      if (!isKept) await output.failed({ ...failed, retried: true });
      onRetry?.(current, failure);
      await delay(pause(tried), undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) return undefined;
      if (isKept) continue;
      await forget?.([current.session, session]);
      current = withAttempt(run, current, current.attempt + 1);
      seconds = 0;
    }
  }
}

/** The store lost the forked episode, and a new attempt from the start had a different outcome. */
const lostFork: Failure = { kind: "store", reason: "the forked episode is no longer in the store" };

/**
 * These failures are not retried. An invalid task stays invalid, and a refused request stays refused. A worker has
 * already made several attempts.
 */
const isFinal = ({ kind, code }: Failure): boolean => kind === "task" || kind === "worker" || code === "model_refused";

/** `seconds`: the time of the attempt so far, with repeated verifies. */
function toRow(rollout: Rollout, played: Played, seconds: number): TaskRow {
  const { fields, session } = played;
  const stopped = played.outcome === "scored" ? played.stopped : undefined;
  const { row, task, repeat, attempt } = rollout;
  return {
    ...withoutOutcome(row),
    ...fields,
    _ng_task_index: task,
    _ng_rollout_index: repeat,
    ...(attempt > 0 && { _ng_attempt_index: attempt }),
    session_id: session,
    ...toLineage(rollout),
    ...(stopped !== undefined && { stopped }),
    // Counts only the time in this process. An episode that continued after a crash took longer.
    seconds: Math.round(1000 * seconds) / 1000,
  };
}

/** Marks a row as failed and removes its reward. No event records a failed seed, so the row keeps its stack trace. */
function failedRow(row: TaskRow, { kind, reason, thrown }: Failure): TaskRow {
  const about = { failure_kind: kind, failure_reason: reason, ...(thrown?.stack && { failure_stack: thrown.stack }) };
  return { ...row, reward: null, ...about, mask_sample: true };
}
