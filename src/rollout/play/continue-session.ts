// createSessionPlayer(): lets a model continue an environment's existing session, with the agent loop.
import type { Toolset } from "../../core/agent.ts";
import type { Conversations, Sessions } from "../../core/sessions.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { AgentOutcome, NumberedEvent } from "../../core/event.ts";
import { isObject, type Json } from "../../core/json.ts";
import { faultInItems, type Item, type Model } from "../../core/model.ts";
import { defineAgent } from "../../agent/define-agent.ts";
import { environmentTools } from "../../agent/environment-tools.ts";
import { derivedId } from "../../agent/episodes.ts";
import { run } from "../../agent/run.ts";
import { watched, withSettings } from "./player.ts";

/** Creates the model that continues a session with this task. */
export type ModelFor = (task: Json | null) => Model | Promise<Model>;

export interface SessionPlayerOptions {
  episodes: Sessions;
  models: ReadonlyMap<string, ModelFor>;
  /** Returns an empty engine for the conversation, which is discarded afterwards. */
  scratch(): Conversations;
}

export interface PlayOptions {
  model: string;
  /** The user's message, or the conversation so far. Default: the session's task, as JSON. */
  input?: string | unknown[] | undefined;
  /** Maximum number of model answers. Default 20. */
  maxSteps?: number | undefined;
  /** Cancels the rest. Calls that were already made stay in effect. */
  signal: AbortSignal;
}

export interface PlayResult {
  session: string;
  /** The version after the last call. */
  version: number;
  outcome: AgentOutcome | "failed";
  /** The number of model answers. */
  steps: number;
  /** The items of the conversation. */
  items: Item[];
  /** Why the model failed, if it did. */
  error?: { code: string; message: string };
}

/** Continues the sessions of an environment. */
export interface SessionPlayer {
  readonly models: readonly string[];
  /** Runs the model until it makes no more calls. A second request runs the model again. */
  play(session: string, options: PlayOptions): Promise<PlayResult>;
}

const defaultSteps = 20;

/**
 * Creates a player. Each call is committed to the environment's session when it is made; the conversation is not
 * stored. A repeated request cannot be recognised, so every call gets a new id.
 */
export function createSessionPlayer({ episodes, models, scratch }: SessionPlayerOptions): SessionPlayer {
  const { name } = episodes.environment;
  const tools = environmentTools(episodes);

  async function play(session: string, options: PlayOptions): Promise<PlayResult> {
    const { maxSteps: steps = defaultSteps, signal } = options;
    const { task, ended } = await episodes.info(session);
    if (ended) {
      const message = `session ${session} has ended; fork it to continue from there`;
      throw new HoldfastError("session_closed", message, { detail: { reason: ended } });
    }
    const message = toMessage(options.input, task);
    const model = await modelNamed(options.model, task);
    const lost = new AbortController();
    const sessions = scratch();
    try {
      const { session: conversation } = await sessions.open({ state: { [`environment:${name}`]: session } });
      const toolsets = [watched(ownCalls(tools, conversation), (thrown) => lost.abort(thrown))];
      const agent = defineAgent({ name: "player", model: withSettings(model), toolsets, limits: { steps } });
      const both = AbortSignal.any([signal, lost.signal]);
      const running = run(agent, { sessions, session: conversation, message, signal: both, throwOnFailure: false });
      const events: NumberedEvent[] = [];
      let next = await running.next();
      for (; !next.done; next = await running.next()) if (next.value.type !== "partial") events.push(next.value);
      const { version } = await episodes.info(session);
      return { session, version, outcome: next.value.outcome as PlayResult["outcome"], ...transcript(events) };
    } catch (thrown) {
      throw lost.signal.aborted && !signal.aborted ? lost.signal.reason : thrown;
    } finally {
      await sessions.stop();
    }
  }

  function modelNamed(wanted: string, task: Json | null): Model | Promise<Model> {
    const made = models.get(wanted);
    if (made) return made(task);
    const message = `model ${wanted} is not available for ${name}; available models: ${[...models.keys()].join(", ") || "none"}`;
    throw new HoldfastError("invalid_option", message, { detail: { field: "model" } });
  }

  return { models: [...models.keys()], play };
}

function toMessage(input: PlayOptions["input"], task: Json | null): string | Item[] {
  const wrong = (message: string): HoldfastError =>
    new HoldfastError("invalid_option", message, { detail: { field: "input" } });
  if (typeof input === "string") return input;
  if (input === undefined) {
    if (task !== null) return JSON.stringify(task);
    throw wrong("the session has no task for the model; send an `input`");
  }
  // As in a data set's rows, messages may omit their type.
  const items = input.map((item): unknown => (isObject(item) ? { type: "message", ...item } : item));
  const fault = items.length === 0 ? "the list is empty" : faultInItems(items);
  if (fault !== undefined) throw wrong(`input must be a string or a list of items: ${fault}`);
  return items as Item[];
}

/** Makes call ids unique across conversations, because models restart their numbering. */
function ownCalls(tools: Toolset, conversation: string): Toolset {
  return {
    list: (context) => tools.list(context),
    call: (context, call) => tools.call(context, { ...call, once: derivedId(conversation, call.once) }),
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
