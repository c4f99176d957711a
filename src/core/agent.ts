// The types of an author's definition: an agent, its callbacks and their context.
import type { Replayable } from "./sessions.ts";
import type { AgentState } from "./shared-state.ts";
import type { DeepReadonly, Tool, ToolDefinition, UpdateKey } from "./environment.ts";
import type { HoldfastError } from "./errors.ts";
import type { Json } from "./json.ts";
import type { Item, Model, ModelRequest, ModelResponse, ToolSchema } from "./model.ts";

/** The context of every callback. */
export interface AgentContext {
  /** A draft: read it and assign to it like any object. Changes are stored with the event of the step. */
  readonly state: AgentState;
  /** Changes one key at once. If another writer changes the key before the commit, the function runs again. */
  update: UpdateKey<AgentState>;
  readonly agent: string;
  readonly session: string;
  /** The user of the conversation. */
  readonly user: string;
  readonly invocation: string;
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal;
  /** Reads the current state from the store. */
  stored(): Promise<AgentState>;
}

/** `AgentContext` without writes. */
export type ReadonlyAgentContext = Omit<AgentContext, "state" | "update"> & {
  readonly state: DeepReadonly<AgentState>;
};

/** An agent's words: a text, or items. */
export type Said = string | Item[];

/** A model's call of a tool. */
export interface CallOfTool {
  tool: string;
  call: string;
  input: Json;
}

/** One callback or several. The first one that returns a value decides. */
type OneOrMore<F> = F | F[];
type Maybe<T> = T | undefined | void | Promise<T | undefined | void>;

/** Callbacks around the steps of an agent. `undefined` continues; any other value replaces the step or its result. */
export interface Callbacks {
  /** A value answers instead of the agent. */
  beforeAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** A value is added after the agent's words. */
  afterAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** May change the request. A value becomes the answer, without asking the model. */
  beforeModel?: OneOrMore<(context: AgentContext, request: ModelRequest) => Maybe<Said | ModelResponse>>;
  /** A value replaces the answer. Runs once, on the complete answer, also with streaming. */
  afterModel?: OneOrMore<(context: AgentContext, response: ModelResponse) => Maybe<Said | ModelResponse>>;
  /** A value becomes the result, without running the tool. */
  beforeTool?: OneOrMore<(context: AgentContext, call: CallOfTool) => Maybe<Json>>;
  /** A value replaces the result. */
  afterTool?: OneOrMore<(context: AgentContext, call: CallOfTool & { output: Json }) => Maybe<Json>>;
  /** A value becomes the answer instead of the error. */
  onModelError?: OneOrMore<
    (context: AgentContext, error: HoldfastError, request: ModelRequest) => Maybe<Said | ModelResponse>
  >;
  /** A value becomes the result instead of the error, which the model would read. */
  onToolError?: OneOrMore<(context: AgentContext, error: HoldfastError, call: CallOfTool) => Maybe<Json>>;
}

/** Limits of one run of an agent. A reached limit ends the run, and is its outcome. */
export interface AgentLimits {
  /** Questions to the model. Default 100. */
  steps?: number;
  /** Tokens of all requests and answers together. Unlimited by default. */
  tokens?: number;
  /** Unlimited by default. */
  seconds?: number;
  /** Consecutive empty answers. Default 3. */
  empty?: number;
}

// eslint-disable-next-line typescript/no-explicit-any -- each tool has an input and an output of its own
export type AgentTool = Tool<AgentState, undefined, any, any>;

/** Tools listed when the agent runs: of an environment, or of a server. */
export interface Toolset {
  /** "external": a call that was interrupted is not repeated, as of a tool with these effects. By default it is repeated. */
  readonly effects?: "external" | undefined;
  list(context: ReadonlyAgentContext): Promise<ToolSchema[]>;
  /**
   * Runs a call. `once` is a unique id in the session, whatever ids models send. A repeat with the same id, after a
   * crash, must not apply the call twice.
   */
  call(context: AgentContext, call: CallOfTool & { once: string }): Promise<Json>;
}

interface AnyAgent extends Replayable {
  readonly name: string;
  readonly description: string;
  readonly callbacks: Callbacks;
}

/** An agent with a model. */
export interface ModelAgent extends AnyAgent {
  readonly kind: "model";
  readonly instruction: string | ((context: ReadonlyAgentContext) => string | Promise<string>);
  readonly model: Model;
  readonly tools: ReadonlyMap<string, ToolDefinition | Agent>;
  readonly toolsets: readonly Toolset[];
  /** Agents to which it can transfer the conversation. */
  readonly agents: readonly Agent[];
  /** The key of the state for its last text. */
  readonly outputKey: string | undefined;
  readonly limits: AgentLimits;
}

/** Agents that run in sequence, in a loop, or in parallel. */
export interface Composition extends AnyAgent {
  readonly kind: "sequence" | "loop" | "parallel";
  readonly agents: readonly Agent[];
  /** Maximum number of rounds of a loop. */
  readonly times: number;
}

export type Agent = ModelAgent | Composition;

/** Copies an agent and changes every agent in it that has a model: below it, and among its tools. */
export function mapModelAgents(agent: Agent, change: (agent: ModelAgent) => ModelAgent): Agent {
  const copy = (child: Agent): Agent => mapModelAgents(child, change);
  const agents = agent.agents.map(copy);
  if (agent.kind !== "model") return { ...agent, agents };
  const tools = [...agent.tools].map(([name, made]) => [name, "run" in made ? made : copy(made)] as const);
  return change({ ...agent, agents, tools: new Map(tools) });
}

/** Returns the tool schema of an agent that is a tool of another one. */
export function agentSchema(name: string, { description, name: agent }: Agent): ToolSchema {
  return {
    type: "function",
    name,
    description: description || `Asks the agent ${agent}.`,
    parameters: {
      type: "object",
      properties: { request: { type: "string", description: "what it should do, with all that it has to know" } },
      required: ["request"],
      additionalProperties: false,
    },
  };
}
