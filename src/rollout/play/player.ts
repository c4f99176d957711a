// createPlayer(): plays one episode of an environment with an agent, from its seed to its verdict. An episode that was cut
// short goes on from its logs.
import type { Agent, ModelAgent, Toolset } from "../../core/agent.ts";
import type { AgentSessions, AgentState } from "../../core/agent-sessions.ts";
import { HoldfastError, isHoldfastError, type ErrorCode } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import { orCancelled } from "../../models/local-response.ts";
import type { Item, Model, ModelRequest } from "../../core/model.ts";
import { inputItems, type Play, type Rollout, type TaskRow } from "../../core/rollout.ts";
import type { Sessions } from "../../core/sessions.ts";
import { environmentStage } from "./environment-host.ts";
import { branchedOff, isAtFork, restingAfter } from "./fork-conversation.ts";
import { createPatience, type Patience } from "./deadline.ts";
import { failureBy, failureOf, isLost } from "./failure.ts";
import { responseOf } from "./response.ts";
import { run } from "../../agent/run.ts";
import type { Stage } from "./episode-host.ts";

export interface PlayerOptions {
  /** The conversations. */
  sessions: AgentSessions;
  /** The episodes. */
  episodes: Sessions;
  /** The agent that plays a rollout; the tools of the environment are added to it. */
  agentFor(rollout: Rollout): ModelAgent;
  /** Milliseconds that an episode may take. */
  timeout?: number | undefined;
}

const outcomesWithLimit = new Set(["steps", "tokens", "seconds", "empty"]);

/**
 * Plays with an agent. What the model does wrong is part of the game: it reads that a tool threw, that there is no such
 * tool or that its arguments do not fit, goes on, and is scored. A failure is what is not its doing: see `FailureKind`.
 */
export function createPlayer({ episodes, ...options }: PlayerOptions): Play {
  return createPlayerOn(environmentStage(episodes), options);
}

/** As `createPlayer`, wherever the episodes are played. */
export function createPlayerOn(stage: Stage, { sessions, agentFor, timeout }: Omit<PlayerOptions, "episodes">): Play {
  return async (rollout, signal) => {
    let session = stage.sessionOf(rollout);
    const patience = createPatience(signal, timeout);
    let fields: TaskRow = {};
    try {
      const before = await opened(rollout, patience.signal);
      const { outcome, events } = isAtFork(rollout, before)
        ? { outcome: "forked" as const, events: before }
        : (endedIn(before) ?? (await played(rollout, before, patience)));
      if (outcome === "forked") return { outcome, fields, session, version: await stage.version(rollout) };
      fields = { response: responseOf(rollout, events) };
      const failed = events.findLast(({ type }) => type === "agent.failed");
      if (outcome === "failed" && failed?.type === "agent.failed")
        return { outcome, fields, session, failure: failureOf(failed) };
      const state = (): Promise<AgentState> => sessions.state(rollout.session);
      const response = fields["response"] as Json;
      const { verdict, ...found } = await stage.verdict(rollout, { state, response, signal: patience.signal });
      session = found.session ?? session;
      const stopped = outcomesWithLimit.has(outcome) ? { stopped: outcome } : {};
      return { outcome: "scored", fields: { ...fields, ...verdict }, session, ...stopped };
    } catch (thrown) {
      if (Object.keys(fields).length === 0) fields = await whatThereIs(rollout);
      return { outcome: "failed", fields, session, failure: patience.failure() ?? failureBy(thrown) };
    } finally {
      patience.end();
    }
  };

  /** Opens the episode and the conversation, unless they were opened before. Gives what has happened in it. */
  async function opened(rollout: Rollout, signal: AbortSignal): Promise<NumberedEvent[]> {
    const before = await eventsOf(rollout.session).catch(unlessCoded("session_not_found"));
    if (before) return before;
    // The conversation comes second, so that where it is there is an episode.
    const state = await orCancelled(signal, stage.open(rollout, signal));
    if (rollout.origin) {
      const saved = branchedOff(await eventsOf(rollout.origin.conversation), rollout.origin, state);
      await sessions.restore({ app: sessions.app, ...saved }, rollout.session).catch(unlessCoded("session_exists"));
      return eventsOf(rollout.session);
    }
    await sessions.open({ session: rollout.session, user: "rollout", state }).catch(unlessCoded("session_exists"));
    return [];
  }

  /** Runs the agent to the end of its turn, or to where the episode is forked. */
  async function played(rollout: Rollout, before: NumberedEvent[], patience: Patience): Promise<Episode> {
    const agent = agentFor(rollout);
    const playing: ModelAgent = {
      ...agent,
      model: withSettings(agent.model, settingsOf(rollout.row)),
      toolsets: [...agent.toolsets, watched(stage.tools(rollout, before), patience.lose)],
    };
    const isBegun = before.some(({ type }) => type === "invocation.began");
    const message = isBegun ? undefined : startOf(rollout.row);
    const { signal } = patience;
    const { forkAfter } = rollout;
    const [until, isAt] =
      forkAfter === undefined ? [sessions, () => false] : restingAfter(sessions, forkAfter, patience.rest);
    const running = run(playing as Agent, { sessions: until, session: rollout.session, message, signal });
    // Committed before they are given out: the log need not be read again.
    const events = [...before];
    try {
      for (;;) {
        const { value, done } = await running.next();
        if (done) return { outcome: isAt() ? "forked" : value.outcome, events };
        if (value.type !== "partial") events.push(value);
      }
    } catch (thrown) {
      if (isAt()) return { outcome: "forked", events };
      throw thrown;
    }
  }

  async function eventsOf(session: string): Promise<NumberedEvent[]> {
    const events: NumberedEvent[] = [];
    for await (const event of sessions.events(session)) events.push(event);
    return events;
  }

  /** The transcript of an episode that failed. */
  async function whatThereIs(rollout: Rollout): Promise<TaskRow> {
    try {
      return { response: responseOf(rollout, await eventsOf(rollout.session)) };
    } catch {
      return {};
    }
  }
}

/** The tools of an environment. An answer that was lost ends the episode: the model would be judged by it. */
function watched(tools: Toolset, lose: (thrown: unknown) => void): Toolset {
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

/** A conversation, and how it ended. */
interface Episode {
  outcome: string;
  events: NumberedEvent[];
}

/** A conversation that has ended; undefined if it has not. */
function endedIn(events: NumberedEvent[]): Episode | undefined {
  const over = events.findLast((event) => event.type === "agent.ended" && event.last);
  return over?.type === "agent.ended" ? { outcome: over.outcome, events } : undefined;
}

/** Takes a failure of that code for an answer. */
function unlessCoded(code: ErrorCode): (thrown: unknown) => undefined {
  return (thrown) => {
    if (!isHoldfastError(thrown) || thrown.code !== code) throw thrown;
  };
}

const own = new Set(["input", "tools", "instructions", "model", "stream", "store"]);

/** What a row says about how the model is asked. */
function settingsOf({ responses_create_params: params }: TaskRow): Partial<ModelRequest> {
  return Object.fromEntries(
    Object.entries(Object(params) as TaskRow).filter(([key, value]) => !own.has(key) && value !== null),
  );
}

/** Nobody waits for a model that does not look at the signal. */
function withSettings(model: Model, settings: Partial<ModelRequest>): Model {
  return {
    name: model.name,
    respond: (request, options) => orCancelled(options?.signal, model.respond({ ...settings, ...request }, options)),
  };
}

/** What the user says: the input of the row. */
function startOf(row: TaskRow): Item[] {
  const items = inputItems(row);
  if (typeof items === "string") throw new HoldfastError("invalid_task", items);
  return items;
}
