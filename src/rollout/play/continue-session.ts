// createSessionPlayer(): has a model go on with a session of an environment that is there already, by the agent loop.
import type { Toolset } from "../../core/agent.ts";
import type { AgentSessions } from "../../core/agent-sessions.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { AgentOutcome, NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import { orCancelled } from "../../models/local-response.ts";
import { faultInItems, type Item, type Model } from "../../core/model.ts";
import type { Sessions } from "../../core/sessions.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import { environmentTools } from "../../agent/environment-tools.ts";
import { derivedId } from "../../agent/episodes.ts";
import { isLost } from "./failure.ts";
import { run } from "../../agent/run.ts";

/** Makes the model that goes on with a session of this task. */
export type ModelFor = (task: Json | null) => Model | Promise<Model>;

export interface SessionPlayerOptions {
  episodes: Sessions;
  models: ReadonlyMap<string, ModelFor>;
  /** Somewhere to keep the conversation while it lasts. Each is an empty one, and is forgotten afterwards. */
  scratch(): AgentSessions;
}

export interface PlayOptions {
  /** The name of one of the models. */
  model: string;
  /** What the user says, or the conversation so far. By default the task of the session, as JSON. */
  input?: string | unknown[] | undefined;
  /** Answers of the model at most. Default 20. */
  maxSteps?: number | undefined;
  /** Calls that were made stay made. */
  signal: AbortSignal;
}

export interface PlayResult {
  session: string;
  /** The version after its last call. */
  version: number;
  outcome: AgentOutcome | "failed";
  /** Answers of the model. */
  steps: number;
  /** What the model said and was told. */
  items: Item[];
  /** Why it failed, if it did. */
  error?: { code: string; message: string };
}

/** Who can go on with the sessions of an environment. */
export interface SessionPlayer {
  readonly models: readonly string[];
  /** Until the model makes no more calls. Called again, it is played again. */
  play(session: string, options: PlayOptions): Promise<PlayResult>;
}

const defaultSteps = 20;

/**
 * What matters is the session of the environment: every call is committed to it as it is made. The conversation is not
 * kept. Nobody can say whether a request that comes again is a repeat, so all calls have ids of their own.
 *
 * @example
 * const sessionPlayer = createSessionPlayer({ episodes, models: new Map([["random", () => randomModel()]]), scratch });
 * const { items } = await sessionPlayer.play(session, { model: "random", signal });
 */
export function createSessionPlayer({ episodes, models, scratch }: SessionPlayerOptions): SessionPlayer {
  const { name } = episodes.environment;
  const tools = environmentTools(episodes);

  async function play(session: string, options: PlayOptions): Promise<PlayResult> {
    const { maxSteps: steps = defaultSteps, signal } = options;
    const { task, ended } = await episodes.info(session);
    if (ended) {
      const message = `session ${session} has ended; fork it to go on from there`;
      throw new HoldfastError("session_closed", message, { detail: { reason: ended } });
    }
    const message = messageOf(options.input, task);
    const model = await modelNamed(options.model, task);
    const lost = new AbortController();
    const sessions = scratch();
    try {
      const { session: conversation } = await sessions.open({ state: { [`environment:${name}`]: session } });
      const toolsets = [ownCalls(tools, conversation, lost)];
      const agent = defineAgent({ name: "player", model: attentive(model), toolsets, limits: { steps } });
      const both = AbortSignal.any([signal, lost.signal]);
      const running = run(agent, { sessions, session: conversation, message, signal: both });
      const events: NumberedEvent[] = [];
      let next = await running.next();
      for (; !next.done; next = await running.next()) if (next.value.type !== "partial") events.push(next.value);
      const { version } = await episodes.info(session);
      return { session, version, outcome: next.value.outcome, ...transcript(events) };
    } catch (thrown) {
      throw lost.signal.aborted && !signal.aborted ? lost.signal.reason : thrown;
    } finally {
      await sessions.stop();
    }
  }

  function modelNamed(wanted: string, task: Json | null): Model | Promise<Model> {
    const made = models.get(wanted);
    if (made) return made(task);
    const message = `there is no model ${wanted} for ${name}; there are ${[...models.keys()].join(", ") || "none"}`;
    throw new HoldfastError("invalid_option", message, { detail: { field: "model" } });
  }

  return { models: [...models.keys()], play };
}

function messageOf(input: PlayOptions["input"], task: Json | null): string | Item[] {
  const wrong = (message: string): HoldfastError =>
    new HoldfastError("invalid_option", message, { detail: { field: "input" } });
  if (typeof input === "string") return input;
  if (input === undefined) {
    if (task !== null) return JSON.stringify(task);
    throw wrong("the session has no task that could be told the model; give it an `input`");
  }
  // The type may be left out of messages, as in rows of a data set.
  const items = input.map((item): unknown => (isObject(item) ? { type: "message", ...item } : item));
  const fault = items.length === 0 ? "there are none" : faultInItems(items);
  if (fault !== undefined) throw wrong(`input must be a text or items: ${fault}`);
  return items as Item[];
}

const isObject = (item: unknown): item is object => typeof item === "object" && item !== null && !Array.isArray(item);

/**
 * The tools with call ids that no other conversation makes: those of models are numbered anew in each. An answer that was
 * lost ends the play, as the model cannot help it.
 */
function ownCalls(tools: Toolset, conversation: string, lost: AbortController): Toolset {
  return {
    list: (context) => tools.list(context),
    async call(context, call) {
      try {
        return await tools.call(context, { ...call, once: derivedId(conversation, call.once) });
      } catch (thrown) {
        if (!context.signal.aborted && isLost(thrown)) lost.abort(thrown);
        throw thrown;
      }
    },
  };
}

/** Nobody waits for a model that does not look at the signal. */
function attentive(model: Model): Model {
  return {
    name: model.name,
    respond: (request, options) => orCancelled(options?.signal, model.respond(request, options)),
  };
}

function transcript(events: NumberedEvent[]): Pick<PlayResult, "steps" | "items" | "error"> {
  const failed = events.findLast(({ type }) => type === "agent.failed");
  return {
    steps: events.filter(({ type }) => type === "model.answered").length,
    items: events.flatMap((event) =>
      event.type !== "invocation.began" && "items" in event ? (event.items ?? []) : [],
    ),
    ...(failed?.type === "agent.failed" && { error: failed.error }),
  };
}
