// defineEnvironment(): checks an author's definition and gives it its types.
import {
  definitionOf,
  type Environment,
  type SeedContext,
  type Tool,
  type ToolDefinition,
  type VerifyContext,
} from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import { isReservedTool } from "../core/reserved-names.ts";
import type { AnyObject, Input, Output, Schema } from "../core/schema.ts";

export interface EnvironmentOptions<S extends Schema, T extends Schema, Tools> {
  /** Letters, digits, `-` and `_`. Sessions belong to the environment of this name. */
  name: string;
  description?: string;
  /** The state of an episode; left out for a stateless environment. Its defaults are what an unseeded session has. */
  state?: S;
  /** One row of the data set. */
  task?: T;
  /** The state that an episode starts with; by default the schema's defaults. */
  seed?: (context: SeedContext<Output<T>>) => Input<S> | Promise<Input<S>>;
  tools: Tools;
  /** The reward, or an object with `reward` and whatever else should be kept with it. */
  verify?: (
    context: VerifyContext<Output<S>, Output<T>>,
  ) => number | { reward: number } | Promise<number | { reward: number }>;
  /** What a call on a session that was never seeded gets: the schema's defaults (by default), or an error. */
  unseeded?: "defaults" | "reject";
  /**
   * What a seed gets while an episode is under way that was not verified yet: it replaces the episode (by default), or
   * is refused. Over protocols where a model names its tools freely, "reject" keeps it from seeding itself.
   */
  reseed?: "replace" | "reject";
}

/**
 * An environment: seeds an episode, gives a model tools, keeps the episode's state across calls, scores the result.
 *
 * @example
 * const counter = defineEnvironment({
 *   name: "counter",
 *   state: z.object({ count: z.number().int().default(0) }),
 *   task: z.object({ start: z.number().int(), goal: z.number().int() }),
 *   seed: ({ task }) => ({ count: task.start }),
 *   tools: {
 *     add: tool({
 *       description: "Add to the counter.",
 *       input: z.object({ by: z.number().int() }),
 *       run: ({ state }, { by }) => { state.count += by; return { count: state.count }; },
 *     }),
 *   },
 *   verify: ({ state, task }) => Number(state.count === task.goal),
 * });
 */
export function defineEnvironment<
  S extends Schema = AnyObject,
  T extends Schema = AnyObject,
  // eslint-disable-next-line typescript/no-explicit-any -- each tool has an input and an output of its own
  Tools extends Record<string, Tool<Output<S>, Output<T>, any, any>> = Record<string, never>,
>(options: EnvironmentOptions<S, T, Tools>): Environment<Output<S>, Input<T>, Tools> {
  const {
    name,
    description = "",
    state,
    task,
    seed,
    tools,
    verify,
    unseeded = "defaults",
    reseed = "replace",
  } = options;
  if (typeof name !== "string" || !/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name)) {
    throw wrong(`the name "${name}" is not 1 to 64 letters, digits, "-" and "_"`);
  }
  if (unseeded !== "defaults" && unseeded !== "reject") {
    throw wrong(`\`unseeded\` of ${name} is "defaults" or "reject", not "${String(unseeded)}"`);
  }
  if (reseed !== "replace" && reseed !== "reject") {
    throw wrong(`\`reseed\` of ${name} is "replace" or "reject", not "${String(reseed)}"`);
  }
  const definitions = new Map<string, ToolDefinition>();
  for (const [toolName, made] of Object.entries(tools)) {
    if (!/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(toolName)) {
      throw wrong(`the tool name "${toolName}" of ${name} is not 1 to 64 letters, digits, "-" and "_"`);
    }
    if (isReservedTool(toolName)) {
      throw wrong(
        `the tool name "${toolName}" of ${name} is reserved: servers and their clients use it; choose another`,
      );
    }
    const definition = definitionOf(made);
    if (!definition) throw wrong(`the tool "${toolName}" of ${name} was not made with tool({ … })`);
    definitions.set(toolName, definition);
  }
  return {
    name,
    description,
    state,
    task,
    unseeded,
    reseed,
    tools,
    definitions,
    seed: seed as Environment["seed"],
    verify: verify as Environment["verify"],
  };
}

function wrong(message: string): HoldfastError {
  return new HoldfastError("invalid_environment", message);
}
