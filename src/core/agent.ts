// What an author defines, in types: an agent, its callbacks, and what they are given.
import type { Replayable } from "./sessions.ts";
import type { AgentState } from "./shared-state.ts";
import type { DeepReadonly, Tool, ToolDefinition, UpdateKey } from "./environment.ts";
import type { HoldfastError } from "./errors.ts";
import type { Json } from "./json.ts";
import type { Item, Model, ModelRequest, ModelResponse, ToolSchema } from "./model.ts";

/** What every callback is given. */
export interface AgentContext {
  /** Read and assigned to like any object; what is assigned is kept with the event of the step. */
  readonly state: AgentState;
  /** Changes one key, at once. If others change the key before the commit, the function runs again on their value. */
  update: UpdateKey<AgentState>;
  readonly agent: string;
  readonly session: string;
  /** Whose conversation it is. */
  readonly user: string;
  readonly invocation: string;
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal;
  /** The state as it is in the store now. */
  stored(): Promise<AgentState>;
}

/** As `AgentContext`, where nothing may be changed. */
export type ReadonlyAgentContext = Omit<AgentContext, "state" | "update"> & {
  readonly state: DeepReadonly<AgentState>;
};

/** What an agent says: a text, or items. */
export type Said = string | Item[];

/** A call of a tool, as the model made it. */
export interface CallOfTool {
  tool: string;
  call: string;
  input: Json;
}

/** One callback, or several of which the first that returns a value decides. */
type OneOrMore<F> = F | F[];
type Maybe<T> = T | undefined | void | Promise<T | undefined | void>;

/** `undefined` goes on; any other value takes the place of what the callback stands before or after. */
export interface Callbacks {
  /** A value answers in the agent's place. */
  beforeAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** A value is said after all that the agent has said. */
  afterAgent?: OneOrMore<(context: AgentContext) => Maybe<Said>>;
  /** May change the request. A value is the answer, and the model is not asked. */
  beforeModel?: OneOrMore<(context: AgentContext, request: ModelRequest) => Maybe<Said | ModelResponse>>;
  /** A value takes the place of the answer. With streaming, too, it runs once, on the whole answer. */
  afterModel?: OneOrMore<(context: AgentContext, response: ModelResponse) => Maybe<Said | ModelResponse>>;
  /** A value is the result, and the tool is not run. */
  beforeTool?: OneOrMore<(context: AgentContext, call: CallOfTool) => Maybe<Json>>;
  /** A value takes the place of the result. */
  afterTool?: OneOrMore<(context: AgentContext, call: CallOfTool & { output: Json }) => Maybe<Json>>;
  /** A value is the answer in place of the error. */
  onModelError?: OneOrMore<
    (context: AgentContext, error: HoldfastError, request: ModelRequest) => Maybe<Said | ModelResponse>
  >;
  /** A value is the result in place of the error, which the model would read. */
  onToolError?: OneOrMore<(context: AgentContext, error: HoldfastError, call: CallOfTool) => Maybe<Json>>;
}

/** Reaching one ends the run of the agent with that as its outcome. */
export interface AgentLimits {
  /** Questions to the model. Default 100. */
  steps?: number;
  /** Tokens of all answers and questions together. By default any number. */
  tokens?: number;
  /** By default as long as it takes. */
  seconds?: number;
  /** Answers with nothing in them, in a row. Default 3. */
  empty?: number;
}

// eslint-disable-next-line typescript/no-explicit-any -- each tool has an input and an output of its own
export type AgentTool = Tool<AgentState, undefined, any, any>;

/** Tools that are known when the agent runs: those of an environment, or of a server. */
export interface Toolset {
  list(context: ReadonlyAgentContext): Promise<ToolSchema[]>;
  /**
   * What comes of a call. `once` is an id that no other call of the session has, whatever ids the models give: called
   * again with it, after a crash, the call must not be applied twice.
   */
  call(context: AgentContext, call: CallOfTool & { once: string }): Promise<Json>;
}

interface AnyAgent extends Replayable {
  readonly name: string;
  readonly description: string;
  readonly callbacks: Callbacks;
}

/** An agent that asks a model. */
export interface ModelAgent extends AnyAgent {
  readonly kind: "model";
  readonly instruction: string | ((context: ReadonlyAgentContext) => string | Promise<string>);
  readonly model: Model;
  readonly tools: ReadonlyMap<string, ToolDefinition | Agent>;
  readonly toolsets: readonly Toolset[];
  /** Agents that it can hand over to. */
  readonly agents: readonly Agent[];
  /** Where its last text is kept in the state. */
  readonly outputKey: string | undefined;
  readonly limits: AgentLimits;
}

/** Agents that run one after the other, again and again, or side by side. */
export interface Composition extends AnyAgent {
  readonly kind: "sequence" | "loop" | "parallel";
  readonly agents: readonly Agent[];
  /** Of a loop: how often at most. */
  readonly times: number;
}

export type Agent = ModelAgent | Composition;

/** The schema of an agent that is another one's tool. */
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
