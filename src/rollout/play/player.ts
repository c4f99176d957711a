// createPlayer(): runs one episode with an agent, from seed to verdict. An interrupted episode continues from its logs.
import type { Agent, ModelAgent, Toolset } from "../../core/agent.ts";
import { isLimit } from "../../core/conversation.ts";
import type { Conversations, Sessions } from "../../core/sessions.ts";
import type { AgentState } from "../../core/shared-state.ts";
import { HoldfastError, unlessCoded } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import { orCancelled } from "../../models/local-response.ts";
import type { Item, Model, ModelRequest } from "../../core/model.ts";
import { inputItems } from "../../core/rollout.ts";
import type { Origin, Play, Played, Rollout, RolloutFailure, TaskRow } from "../../core/rollout.ts";
import { readEvents } from "../episode-log.ts";
import { environmentHost } from "./environment-host.ts";
import { createDeadline, type RolloutDeadline } from "./deadline.ts";
import { errorsInAnswers, failureFromError, failureInAnswers, failureInEvents, isLost } from "./failure.ts";
import { playerFields } from "../row-fields.ts";
import { buildResponse, tokenChain } from "./response.ts";
import { playSteps, type Turn } from "./steps.ts";
import { run } from "../../agent/run.ts";
import type { EpisodeHost } from "./episode-host.ts";

export interface PlayerOptions {
  /** The engine for conversations. */
  sessions: Conversations;
  /** The engine for episodes. */
  episodes: Sessions;
  /** Returns the agent for a rollout. The environment's tools are added to it. */
  agentFor(rollout: Rollout): ModelAgent;
  /** Time limit of an episode in milliseconds. */
  timeout?: number | undefined;
  /** Called with every event of a conversation when it is committed. */
  onEvent?: ((event: NumberedEvent, rollout: Rollout) => void) | undefined;
}

/**
 * Plays episodes with an agent. The model's mistakes are part of the episode: it reads that a tool threw, is unknown or
 * got invalid arguments, continues, and is scored. A failure has a different cause: see `FailureKind` and `isForModel`.
 *
 * @example
 * const play = createPlayer({ sessions: createSessions({ app: "rollouts", store }), episodes, agentFor: () => agent });
 */
export function createPlayer({ episodes, ...options }: PlayerOptions): Play {
  return createPlayerOn(environmentHost(episodes), options);
}

/** Like `createPlayer`, for any host of the episode. */
export function createPlayerOn(
  host: EpisodeHost,
  { sessions, agentFor, timeout, onEvent }: Omit<PlayerOptions, "episodes">,
): Play {
  return async (rollout, signal) => {
    let session = host.findSession(rollout);
    const deadline = createDeadline(signal, timeout);
    let fields: TaskRow = {};
    let errors: Pick<Played, "errors"> = {};
    const state = (): Promise<AgentState> => sessions.state(rollout.session);
    const failed = async (failure: RolloutFailure): Promise<Played> => {
      // A cancelled episode may continue later.
      if (!signal.aborted) await host.abandon?.(state).catch(() => undefined);
      return { outcome: "failed", fields, session, failure, ...errors };
    };
    try {
      const before = await opened(rollout, deadline.signal);
      const { outcome, events } = await finished(rollout, before, deadline);
      if (outcome === "forked") return { outcome, fields, session, version: await host.version(rollout) };
      fields = { response: buildResponse(rollout, events), ...tokenChain(events) };
      errors = errorsInAnswers(events);
      const failure = outcome === "failed" ? failureInEvents(events) : undefined;
      if (failure) return await failed(failure);
      const response = fields["response"] as Json;
      const { verdict, ...found } = await host.verdict(rollout, { state, response, signal: deadline.signal });
      session = found.session ?? session;
      // A persistent store keeps the log of a closed session. The verdict is valid even if the close fails.
      await sessions.close(rollout.session).catch(() => false);
      const stopped = isLimit(outcome) ? { stopped: outcome } : {};
      return { outcome: "scored", fields: { ...fields, ...verdict }, session, ...stopped, ...errors };
    } catch (thrown) {
      if (Object.keys(fields).length === 0) fields = await partialResponse(rollout);
      return await failed(deadline.failure() ?? failureFromError(thrown));
    } finally {
      deadline.end();
    }
  };

  /** Opens the episode and its conversation if they do not exist. Returns the events so far. */
  async function opened(rollout: Rollout, signal: AbortSignal): Promise<NumberedEvent[]> {
    if (await sessions.peek(rollout.session)) return readEvents(sessions, rollout.session);
    // The conversation is opened second, so an existing conversation always has an episode.
    const state = await orCancelled(signal, host.open(rollout, signal));
    const { session, origin } = rollout;
    if (origin) {
      const version = versionAfter(origin, await readEvents(sessions, origin.conversation));
      await sessions.fork(origin.conversation, { version, session, set: state }).catch(unlessCoded("session_exists"));
      return readEvents(sessions, session);
    }
    // The conversation is isolated, so that rollouts do not see each other's `user:` and `app:` state.
    const opening = { session, user: "rollout", state, isolated: true };
    await sessions.open(opening).catch(unlessCoded("session_exists"));
    return [];
  }

  /** Runs the rest of the episode, if there is any. */
  async function finished(rollout: Rollout, before: NumberedEvent[], deadline: RolloutDeadline): Promise<Episode> {
    if (failureInAnswers(before)) return { outcome: "failed", events: before };
    if (isAtFork(rollout, before)) return { outcome: "forked", events: before };
    return played(rollout, before, deadline);
  }

  /** Runs the agent until the episode ends, an answer is lost, or the episode reaches its fork. */
  async function played(rollout: Rollout, before: NumberedEvent[], deadline: RolloutDeadline): Promise<Episode> {
    // Events are committed before they are yielded, so the log does not have to be read again.
    const events = [...before];
    const { next, ...tools } = host.tools(rollout, events);
    const ended = next ? undefined : endedIn(before);
    if (ended) return ended;
    const agent = agentFor(rollout);
    const playing: ModelAgent = {
      ...agent,
      model: withSettings(agent.model, readSettings(rollout.row)),
      toolsets: [...agent.toolsets, watched(tools, deadline.lose)],
      // A rollout has no client to run these tools.
      clientTools: [],
    };
    const { session, row } = rollout;
    const { signal } = deadline;
    const play = (turn: Turn, limits = agent.limits): Promise<string> =>
      playTurn({ ...playing, limits }, rollout, turn, events, signal);
    const isBegun = before.some(({ type }) => type === "invocation.began");
    const message = isBegun ? undefined : firstMessage(row);
    if (!next) return { outcome: await play({ message }), events };
    const steps = {
      message,
      events,
      limits: agent.limits,
      play,
      next: async () => next(await sessions.state(session), signal),
      record: (set: AgentState) => sessions.update(session, (state) => void Object.assign(state, set)),
    };
    return { outcome: await playSteps(steps), events };
  }

  /** Runs one turn of the agent and adds its events. Returns its outcome. */
  async function playTurn(
    agent: ModelAgent,
    rollout: Rollout,
    turn: Turn,
    events: NumberedEvent[],
    signal: AbortSignal,
  ): Promise<string> {
    // A busy turn is taken over. Only one process runs a rollout, so the process that started the turn is gone.
    const running = run(agent as Agent, {
      sessions,
      session: rollout.session,
      ...turn,
      signal,
      busy: "take",
      throwOnFailure: false,
    });
    for (;;) {
      const { value, done } = await running.next();
      if (done) return value.outcome;
      if (value.type !== "partial") {
        events.push(value);
        onEvent?.(value, rollout);
      }
      if (value.type !== "tools.answered") continue;
      const outcome = failureInAnswers(events) ? "failed" : isAtFork(rollout, events) ? "forked" : undefined;
      if (outcome === undefined) continue;
      // When a run's reader stops, the run ends with the event that it yielded. So no event follows the fork.
      await running.return(undefined as never);
      return outcome;
    }
  }

  /** Returns a failed episode's transcript, as far as it exists. */
  async function partialResponse(rollout: Rollout): Promise<TaskRow> {
    try {
      return { response: buildResponse(rollout, await readEvents(sessions, rollout.session)) };
    } catch {
      return {};
    }
  }
}

/** Watches the environment's tools. A lost answer ends the episode; otherwise it would affect the model's score. */
export function watched(tools: Toolset, lose: (thrown: unknown) => void): Toolset {
  return {
    list: (context) => tools.list(context),
    async call(context, call) {
      try {
        return await tools.call(context, call);
      } catch (thrown) {
        if (!context.signal.aborted && isLost(thrown)) lose(thrown);
        throw thrown;
      }
    },
  };
}

interface Episode {
  outcome: string;
  events: NumberedEvent[];
}

/** Returns the conversation if it has ended. */
function endedIn(events: NumberedEvent[]): Episode | undefined {
  const over = events.findLast((event) => event.type === "agent.ended" && event.last);
  return over?.type === "agent.ended" ? { outcome: over.outcome, events } : undefined;
}

export function readSettings({ responses_create_params: params }: TaskRow): Partial<ModelRequest> {
  return Object.fromEntries(
    Object.entries(Object(params) as TaskRow).filter(([key, value]) => !playerFields.has(key) && value !== null),
  );
}

/** Applies the row's settings. Stops waiting for a model that ignores its signal. */
export function withSettings(model: Model, settings: Partial<ModelRequest> = {}): Model {
  return {
    name: model.name,
    respond: (request, options) => orCancelled(options?.signal, model.respond({ ...settings, ...request }, options)),
  };
}

export function firstMessage(row: TaskRow): Item[] {
  const items = inputItems(row);
  if (typeof items === "string") throw new HoldfastError("invalid_task", items);
  return items;
}

/** Returns whether an event answers the player's own calls, not the calls of an agent used as a tool or in parallel. */
function isStep(event: NumberedEvent): boolean {
  return event.type === "tools.answered" && event.branch === undefined && !event.path.includes("#");
}

/** Returns the index of the n-th step, from 1, or -1 if it does not exist yet. */
function findStep(step: number, events: readonly NumberedEvent[]): number {
  let count = 0;
  return events.findIndex((event) => isStep(event) && ++count === step);
}

/** Returns whether the conversation has reached its fork. */
function isAtFork({ forkAfter }: Rollout, events: readonly NumberedEvent[]): boolean {
  return forkAfter !== undefined && findStep(forkAfter, events) >= 0;
}

/** Returns the version to fork a conversation at, given all of its events. */
function versionAfter({ conversation, step }: Origin, events: readonly NumberedEvent[]): number {
  const version = events[findStep(step, events)]?.version;
  if (version !== undefined) return version;
  throw new HoldfastError("session_not_found", `the conversation ${conversation} has no step ${step} to fork after`);
}
