// createPlaying(): runs a request's rollouts, using `collect`, and writes them to its log.
import type { Conversations, Sessions } from "../../core/sessions.ts";
import type { Play } from "../../core/rollout.ts";
import type { Store } from "../../core/store.ts";
import { isHoldfastError } from "../../core/errors.ts";
import type { Telemetry } from "../../telemetry/start.ts";
import { createAgents } from "../agents.ts";
import { collect } from "../collect.ts";
import { forgetIn } from "../forget.ts";
import { createPlaces, type Places } from "../places.ts";
import { createPlayer } from "../play/player.ts";
import { withStepRewards } from "../play/step-rewards.ts";
import { preparing } from "../prepare.ts";
import type { Player } from "../source.ts";
import { createTree } from "../tree.ts";
import type { RequestLog, RequestState, Written } from "./log.ts";
import { createRequestedModels } from "./model.ts";
import { createGrouping, remainingGroups, requestOutput } from "./output.ts";
import { assertRolloutRequest, type RolloutRequest } from "./request.ts";
import { readRequestTasks, type RequestTasks } from "./tasks.ts";

export interface PlayingOptions {
  /** The store for the requests. The caller opens and closes it. */
  store: Store;
  /** The engine for episodes. */
  episodes: Sessions;
  /** The engine for conversations. */
  sessions: Conversations;
  /** The environment's folder, file or package, for its tasks and its solution. Default: requests bring their tasks. */
  target?: string | undefined;
  /** Concurrency slots for episodes, which may be shared. Default: 2,048 slots that are not shared. */
  places?: Places | undefined;
  /** URLs of models that requests may name, in addition to models on this machine. */
  models?: readonly string[] | undefined;
  telemetry?: Telemetry | undefined;
  /** Runs a request's rollouts elsewhere, for example on a queue. Default: in this process. */
  playerFor?: PlayerFor | undefined;
}

/** `run` is the id of the request's collection, from which the ids of its sessions derive. */
export type PlayerFor = (asked: RolloutRequest, run: string) => Promise<Player>;

interface Prepared {
  tasks: RequestTasks;
  play: Play;
  prepare: ReturnType<typeof preparing>;
}

const defaultPlaces = 2_048;

export function createPlaying(options: PlayingOptions) {
  const { store, episodes, sessions, target, telemetry, places = createPlaces(defaultPlaces) } = options;
  const { environment } = episodes;
  const modelFor = createRequestedModels(options.models);

  /** Checks a request, and loads its tasks and its model. */
  async function prepared(asked: RolloutRequest): Promise<Prepared> {
    assertRolloutRequest(asked);
    const { model: wanted, limits, seed = 0, labels, system, timeout, stepRewards } = asked;
    const { temperature, topP, maxTokens, request } = wanted;
    const model = await modelFor(wanted);
    const agents = await createAgents(target ?? environment, { model, seed, ...(limits && { limits }) });
    const agentFor: typeof agents.of = telemetry ? (rollout) => telemetry.agent(agents.of(rollout)) : agents.of;
    const milliseconds = timeout === undefined ? undefined : Math.ceil(1000 * timeout);
    const played = createPlayer({ sessions, episodes, agentFor, timeout: milliseconds });
    const play = stepRewards ? withStepRewards(episodes, played) : played;
    return {
      tasks: await readRequestTasks(asked, target),
      play: telemetry?.play(play) ?? play,
      prepare: preparing(environment, agents.name, { temperature, topP, maxTokens, system, request, labels }),
    };
  }

  /** Checks a request. Returns a digest of its tasks and the number of its rollouts. */
  async function begin(asked: RolloutRequest): Promise<{ tasks: string; rollouts: number }> {
    const { tasks } = await prepared(asked);
    return { tasks: tasks.digest, rollouts: tasks.count * rolloutsOf(asked) };
  }

  /** Runs the missing rollouts. Returns the last entries for the log, or a release if it was stopped. */
  async function play(log: RequestLog, signal: AbortSignal): Promise<Written[]> {
    const stopped = log.state.isCancelled ? { isStopped: true } : await collected(log, signal);
    await log.reread();
    const { isCancelled } = log.state;
    if (stopped.isStopped && !isCancelled) return [{ type: "released" }];
    const error = "error" in stopped ? { error: stopped.error } : {};
    if (isCancelled || "error" in stopped) await endElsewhere(log.state);
    return [...remainingGroups(log.state), { type: "end", cancelled: isCancelled, ...error }];
  }

  /** Ends the rollouts of a request that is over and has a player of its own, such as a queue. */
  async function endElsewhere({ request }: RequestState): Promise<void> {
    const { asked, run } = request as NonNullable<RequestState["request"]>;
    // If this fails, the rollouts run to their end.
    const player = await options.playerFor?.(asked, run).catch(() => undefined);
    await player?.stop(true).catch(() => undefined);
  }

  async function collected(log: RequestLog, signal: AbortSignal) {
    const { asked, run, tasks: digest } = log.state.request as NonNullable<RequestState["request"]>;
    const { repeats = 1, branch: branches = [], attempts = 3, seed = 0, randomSeed, concurrency = Infinity } = asked;
    let ready: Prepared;
    try {
      ready = await prepared(asked);
    } catch (thrown) {
      // The request ends with an error if its model or tasks are no longer allowed. Otherwise it would never end.
      if (!isHoldfastError(thrown) || thrown.status >= 500) throw thrown;
      return { isStopped: false, error: { code: thrown.code, message: thrown.message } };
    }
    const { tasks, play, prepare } = ready;
    if (tasks.digest !== digest) {
      const message = "the tasks file has changed since this request started; start a new request";
      return { isStopped: false, error: { code: "invalid_task", message } };
    }
    log.follow = createGrouping(branches, (task) => rolloutsOf(asked) * (tasks.occurrences.get(task) ?? 0));
    const player = await options.playerFor?.(asked, run);
    const { gaveUp, stopped } = await collect({
      tasks: tasks.rows(),
      prepare,
      play: player?.play ?? play,
      output: requestOutput(log, asked.groups ?? false),
      run,
      seed,
      randomSeed,
      repeats,
      branches,
      concurrency,
      lane: places.lane(concurrency),
      attempts,
      signal,
      forget: forgetIn(store),
    }).finally(() => player?.stop());
    if (!gaveUp) return { isStopped: stopped };
    return { isStopped: false, error: { code: gaveUp.code ?? "internal", message: gaveUp.reason } };
  }

  return { begin, play };
}

/** Counts the rollouts of one row, if every episode is forked. */
const rolloutsOf = ({ repeats = 1, branch = [] }: RolloutRequest): number => repeats * createTree(branch).leaves(0);
