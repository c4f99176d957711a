// The types that authors use to define an agent, its callbacks and their context.
import type { Replayable } from "./sessions.ts";
import type { AgentState } from "./shared-state.ts";
import type { DeepReadonly, Tool, ToolDefinition, UpdateKey } from "./environment.ts";
import type { HoldfastError } from "./errors.ts";
import type { Json } from "./json.ts";
import type { Item, Model, ModelRequest, ModelResponse, ToolSchema } from "./model.ts";

/** The context of every callback. */
export interface AgentContext {
  /** A draft: read it and assign to it like any object. Changes are stored with the step's event. */
  readonly state: AgentState;
  /** Changes one key immediately. If another writer changes the key before the commit, the function runs again. */
  update: UpdateKey<AgentState>;
  readonly agent: string;
  readonly session: string;
  /** The conversation's user. */
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

/** An agent's message: a string, or items. */
export type Said = string | Item[];

/** A tool call from the model. */
export interface CallOfTool {
  tool: string;
  call: string;
  input: Json;
}

/** One callback or several. The first value other than `undefined` is used, and the later callbacks do not run. */
type OneOrMore<F> = F | F[];
type Maybe<T> = T | undefined | void | Promise<T | undefined | void>;

/**
 * Callbacks around an agent's steps. Returning `undefined` continues; any other value replaces the step or its result.
 */
export interface Callbacks {
  /** A returned value is the answer, and the agent does not run. */
  beforeAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** A returned value is added after the agent's messages. */
  afterAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** May change the request. A returned value becomes the answer, and the model is not called. */
  beforeModel?: OneOrMore<(context: AgentContext, request: ModelRequest) => Maybe<Said | ModelResponse>>;
  /** A returned value replaces the answer. Runs once, on the complete answer, even when streaming. */
  afterModel?: OneOrMore<(context: AgentContext, response: ModelResponse) => Maybe<Said | ModelResponse>>;
  /** A returned value becomes the result, and the tool does not run. */
  beforeTool?: OneOrMore<(context: AgentContext, call: CallOfTool) => Maybe<Json>>;
  /** A returned value replaces the result. */
  afterTool?: OneOrMore<(context: AgentContext, call: CallOfTool & { output: Json }) => Maybe<Json>>;
  /** A returned value becomes the answer instead of the error. */
  onModelError?: OneOrMore<
    (context: AgentContext, error: HoldfastError, request: ModelRequest) => Maybe<Said | ModelResponse>
  >;
  /** A returned value becomes the result instead of the error, which the model would otherwise read. */
  onToolError?: OneOrMore<(context: AgentContext, error: HoldfastError, call: CallOfTool) => Maybe<Json>>;
}

/** Limits for one run of an agent. Reaching a limit ends the run, and the limit becomes the run's outcome. */
export interface AgentLimits {
  /** Number of model requests. Default 100. */
  steps?: number;
  /** Total tokens in all requests and answers. Unlimited by default. */
  tokens?: number;
  /** Unlimited by default. */
  seconds?: number;
  /** Consecutive empty answers. Default 3. */
  empty?: number;
}

// eslint-disable-next-line typescript/no-explicit-any -- each tool has an input and an output of its own
export type AgentTool = Tool<AgentState, undefined, any, any>;

/** Tools that are listed when the agent runs, from an environment or a server. */
export interface Toolset {
  /**
   * "external": an interrupted call is not repeated, like a call to a tool with external effects. By default it is
   * repeated.
   */
  readonly effects?: "external" | undefined;
  list(context: ReadonlyAgentContext): Promise<ToolSchema[]>;
  /**
   * Runs a call. `once` is an id that is unique in the session, whatever ids models send. If a crash makes the call
   * repeat with the same id, it must not be applied twice.
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
  /** Tools that the client runs. */
  readonly clientTools: readonly ToolSchema[];
  /** Agents that this agent can transfer the conversation to. */
  readonly agents: readonly Agent[];
  /** The state key that stores the agent's last text. */
  readonly outputKey: string | undefined;
  readonly limits: AgentLimits;
}

/** An agent that runs other agents in sequence, in a loop, or in parallel. */
export interface Composition extends AnyAgent {
  readonly kind: "sequence" | "loop" | "parallel";
  readonly agents: readonly Agent[];
  /** Maximum number of rounds in a loop. */
  readonly times: number;
}

export type Agent = ModelAgent | Composition;

/** Copies an agent and changes every agent in it that has a model: its sub-agents and the agents among its tools. */
export function mapModelAgents(agent: Agent, change: (agent: ModelAgent) => ModelAgent): Agent {
  const copy = (child: Agent): Agent => mapModelAgents(child, change);
  const agents = agent.agents.map(copy);
  if (agent.kind !== "model") return { ...agent, agents };
  const tools = [...agent.tools].map(([name, made]) => [name, "run" in made ? made : copy(made)] as const);
  return change({ ...agent, agents, tools: new Map(tools) });
}

/** Returns the tool schema for an agent that another agent uses as a tool. */
export function agentSchema(name: string, { description, name: agent }: Agent): ToolSchema {
  return {
    type: "function",
    name,
    description: description || `Asks the agent ${agent}.`,
    parameters: {
      type: "object",
      properties: {
        request: {
          type: "string",
          description: "what the agent should do, including everything that it needs to know",
        },
      },
      required: ["request"],
      additionalProperties: false,
    },
  };
}
