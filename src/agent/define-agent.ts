// defineAgent(), sequence(), loop() and parallel(): check an author's definition and build the agent.
import { findDefinition, type ToolDefinition } from "../core/environment.ts";
import type {
  Agent,
  AgentLimits,
  AgentTool,
  Callbacks,
  Composition,
  ModelAgent,
  ReadonlyAgentContext,
  Toolset,
} from "../core/agent.ts";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { refuseUnknown } from "../core/suggest.ts";
import type { Model, ToolSchema } from "../core/model.ts";
import { replaying, type Replayable, type Replayed } from "../core/sessions.ts";
import { checkedTools } from "./client-tools.ts";
import { transferTool } from "./transfer.ts";
import { replayConversation } from "./replay.ts";

export interface AgentOptions<Tools> {
  /** Letters, digits, `-` and `_`. */
  name: string;
  /** A description for other agents that can transfer to this one. Default: empty. */
  description?: string;
  /** Instructs the model. `{key}` becomes that state key's value. The key in `{key?}` may be missing. Default: none. */
  instruction?: string | ((context: ReadonlyAgentContext) => string | Promise<string>);
  model: Model;
  /** Functions with a schema, created with `tool`, and other agents. Default: none. */
  tools?: Tools;
  /** Tools from environments and servers. Default: none. */
  toolsets?: Toolset[];
  /**
   * Tools that the client runs: a program, or a person. A turn that calls one waits for the client's results. Default:
   * none. An agent used as a tool cannot have any.
   */
  clientTools?: ToolSchema[];
  /** Agents that this agent can transfer the conversation to. Default: none. */
  agents?: Agent[];
  /** Functions that run before and after the agent's steps. Default: none. */
  callbacks?: Callbacks;
  /** The state key that stores the agent's last text. Default: the text is not stored. */
  outputKey?: string;
  /** Limits for one run. Default: 100 steps and 3 empty answers in a row. */
  limits?: AgentLimits;
}

const knownLimits: Record<keyof AgentLimits, true> = { steps: true, tokens: true, seconds: true, empty: true };

const aroundAgent = { beforeAgent: true, afterAgent: true };
const knownCallbacks: Record<keyof Callbacks, true> = {
  beforeAgent: true,
  afterAgent: true,
  beforeModel: true,
  afterModel: true,
  beforeTool: true,
  afterTool: true,
  onModelError: true,
  onToolError: true,
};

/**
 * Defines an agent: a model with an instruction, tools and callbacks.
 *
 * @example
 * const greeter = defineAgent({
 *   name: "greeter",
 *   instruction: "Greet {user:name?} in one sentence.",
 *   model: scriptedModel(["Hello!"]),
 *   callbacks: { beforeAgent: ({ state }) => void (state["greetings"] = (state["greetings"] ?? 0) + 1) },
 * });
 */
export function defineAgent<Tools extends Record<string, AgentTool | Agent> = Record<string, AgentTool | Agent>>(
  options: AgentOptions<Tools>,
): ModelAgent {
  const { name, description = "", instruction = "", model, tools = {}, toolsets = [], agents = [] } = options;
  assertName(name);
  if (typeof (model as Model | undefined)?.respond !== "function") {
    throw wrong(`the agent ${name} needs a model, such as scriptedModel(["Hello!"])`);
  }
  const { callbacks = {}, outputKey, limits = {}, clientTools = [] } = options;
  const known = { name, description, instruction, model, tools, toolsets, clientTools, agents, callbacks, outputKey };
  refuseUnknown(`the agent ${name}`, options, { ...known, limits }, wrong);
  refuseUnknown(`\`callbacks\` of ${name}`, callbacks, knownCallbacks, wrong);
  refuseUnknown(`\`limits\` of ${name}`, limits, knownLimits, wrong);
  for (const [limit, value] of Object.entries(limits)) {
    if (value !== undefined && !(value > 0))
      throw wrong(`the limit \`${limit}\` of ${name} must be a number greater than 0`);
  }
  const definitions = new Map<string, ToolDefinition | Agent>();
  for (const [toolName, given] of Object.entries(tools)) {
    if (!/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(toolName) || toolName === transferTool) {
      throw wrong(
        `${name} has an invalid tool name "${toolName}": use 1 to 64 letters, digits, "-" and "_", and no reserved name`,
      );
    }
    const definition = isAgent(given) ? given : findDefinition(given);
    if (!definition) throw wrong(`the tool "${toolName}" of ${name} must be an agent, or be created with tool({ … })`);
    if (isAgent(given) && hasClientTools(given)) {
      throw wrong(
        `the tool "${toolName}" of ${name} is an agent with \`clientTools\`, but an agent used as a tool cannot wait for the client; make it a sub-agent`,
      );
    }
    definitions.set(toolName, definition);
  }
  return {
    ...known,
    kind: "model",
    limits,
    tools: definitions,
    clientTools: ownClientTools(name, clientTools, definitions),
    [replaying]: replay,
  };
}

const hasClientTools = (agent: Agent): boolean =>
  (agent.kind === "model" && agent.clientTools.length > 0) || agent.agents.some(hasClientTools);

function ownClientTools(name: string, given: ToolSchema[], tools: ReadonlyMap<string, unknown>): ToolSchema[] {
  try {
    const checked = checkedTools(given);
    const twice = checked.find((tool) => tools.has(tool.name) || tool.name === transferTool);
    if (!twice) return checked;
    throw wrong(`\`clientTools\` and \`tools\` both have a tool ${twice.name}; rename one`);
  } catch (thrown) {
    throw wrong(`the definition of the agent ${name} is invalid: ${messageOf(thrown)}`);
  }
}

export interface CompositionOptions {
  name: string;
  description?: string;
  agents: Agent[];
  callbacks?: Pick<Callbacks, "beforeAgent" | "afterAgent">;
}

/**
 * Runs agents one after another, until a tool calls `agent.escalate()`. Each agent sees the earlier agents' answers.
 *
 * @example
 * const report = sequence({ name: "report", agents: [researcher, writer] });
 */
export const sequence = (options: CompositionOptions): Composition => composed("sequence", options);

/**
 * Runs a sequence of agents repeatedly, at most `times` times. Ends earlier if a tool calls `agent.escalate()`.
 *
 * @example
 * const draft = loop({ name: "draft", agents: [writer, critic], times: 3 });
 */
export function loop({ times, ...options }: CompositionOptions & { times: number }): Composition {
  if (!Number.isInteger(times) || times < 1)
    throw wrong(`\`times\` of ${options.name} must be a positive whole number`);
  return composed("loop", options, times);
}

/**
 * Runs agents in parallel. They do not see each other's answers; an agent that follows them sees all answers. If two
 * agents change the same key of the session's state, the changes merge when they are committed. Of two assignments, the
 * last one stays. A change that cannot be merged is refused, with an error that names both agents.
 *
 * @example
 * const opinions = parallel({ name: "opinions", agents: [optimist, pessimist] });
 */
export const parallel = (options: CompositionOptions): Composition => composed("parallel", options);

function composed(kind: Composition["kind"], options: CompositionOptions, times = 1): Composition {
  const { name, description = "", agents, callbacks = {} } = options;
  assertName(name);
  refuseUnknown(`the ${kind} ${name}`, options, { name, description, agents, callbacks }, wrong);
  refuseUnknown(`\`callbacks\` of the ${kind} ${name}`, callbacks, aroundAgent, wrong);
  if (agents.length === 0) throw wrong(`${name} has no agents to run`);
  return { kind, name, description, agents, callbacks, times, [replaying]: replay };
}

/** Replays a conversation. Uses `this`, so that a copy of the agent with another model replays with that model. */
function replay(this: Agent, ...given: Parameters<Replayable[typeof replaying]>): Promise<Replayed> {
  return replayConversation(this, ...given);
}

export function isAgent(made: unknown): made is Agent {
  return typeof made === "object" && made !== null && "kind" in made && "callbacks" in made;
}

function assertName(name: unknown): void {
  if (typeof name === "string" && /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name) && name !== "user") return;
  throw wrong(`invalid name "${String(name)}": use 1 to 64 letters, digits, "-" and "_"; "user" is reserved`);
}

function wrong(message: string): HoldfastError {
  return new HoldfastError("invalid_agent", message);
}
