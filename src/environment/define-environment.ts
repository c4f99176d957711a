// defineEnvironment(): checks an author's definition and infers its types.
import {
  findDefinition,
  type Environment,
  type SeedContext,
  type Tool,
  type ToolDefinition,
  type VerifyContext,
} from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import { isReservedTool } from "../core/reserved-names.ts";
import { isSchema, type AnyObject, type Input, type Output, type Schema } from "../core/schema.ts";
import { refuseUnknown } from "../core/suggest.ts";

export interface EnvironmentOptions<S extends Schema, T extends Schema, Tools> {
  /** Letters, digits, `-` and `_`. Sessions belong to the environment with this name. */
  name: string;
  /** A description for listings and API documents. Default: empty. */
  description?: string;
  /** Schema for an episode's state; omit it for a stateless environment. Unseeded sessions have its defaults. */
  state?: S;
  /** Schema for one data set row. Default: any object. */
  task?: T;
  /** Returns an episode's initial state. Default: the schema's defaults. */
  seed?: (context: SeedContext<Output<T>>) => Input<S> | Promise<Input<S>>;
  tools: Tools;
  /** Returns the reward, or an object with `reward` and other fields to store. */
  verify?: (
    context: VerifyContext<Output<S>, Output<T>>,
  ) => number | { reward: number } | Promise<number | { reward: number }>;
  /**
   * Whether a call on an unseeded session gets the schema's defaults ("defaults") or an error ("reject"). The default,
   * "guard", means "defaults" except over the gym protocol. Over that protocol, a client that lost its session could
   * not tell the defaults from the real state.
   */
  unseeded?: "guard" | "defaults" | "reject";
  /**
   * Whether seeding a seeded session replaces its state ("replace"), or is refused until the episode was verified
   * ("reject"). The default, "guard", means "replace" except over the gym protocol, where it is always refused. Over
   * that protocol, a model could otherwise call the seed path as a tool.
   */
  reseed?: "guard" | "replace" | "reject";
  /** The best known reward, which a solution must earn in `holdfast check`. Default 1. */
  bestReward?: number;
  /**
   * Whether a call that makes the state invalid for its schema is refused with `state_invalid`. By default, only states
   * of up to 64 KB are checked. The check reads the whole state after each change: about 3 µs for a small state, 40 ms
   * for 5 MB.
   */
  checkState?: boolean;
}

/**
 * Defines an environment: it seeds an episode, offers tools to a model, keeps state across calls, and scores the
 * result.
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
    unseeded = "guard",
    reseed = "guard",
    bestReward = 1,
    checkState,
  } = options;
  if (typeof name !== "string" || !/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name)) {
    throw wrong(`invalid environment name "${name}": use 1 to 64 letters, digits, "-" and "_"`);
  }
  const known = { name, description, state, task, seed, tools, verify, unseeded, reseed, bestReward, checkState };
  refuseUnknown(`the environment ${name}`, options, known, wrong);
  for (const [option, schema] of Object.entries({ state, task })) {
    if (schema !== undefined && !isSchema(schema)) {
      throw wrong(`\`${option}\` of ${name} must be a schema, as in z.object({ … })`);
    }
  }
  if (tools === null || typeof tools !== "object") throw wrong(`${name} needs \`tools\`, as in { add: tool({ … }) }`);
  if (unseeded !== "guard" && unseeded !== "defaults" && unseeded !== "reject") {
    throw wrong(`\`unseeded\` of ${name} must be "guard", "defaults" or "reject", not "${String(unseeded)}"`);
  }
  if (reseed !== "guard" && reseed !== "replace" && reseed !== "reject") {
    throw wrong(`\`reseed\` of ${name} must be "guard", "replace" or "reject", not "${String(reseed)}"`);
  }
  if (!Number.isFinite(bestReward)) {
    throw wrong(`\`bestReward\` of ${name} must be a number, not ${String(bestReward)}`);
  }
  const definitions = new Map<string, ToolDefinition>();
  for (const [toolName, made] of Object.entries(tools)) {
    if (!/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(toolName)) {
      throw wrong(`invalid tool name "${toolName}" in ${name}: use 1 to 64 letters, digits, "-" and "_"`);
    }
    if (isReservedTool(toolName)) {
      throw wrong(
        `the tool name "${toolName}" in ${name} is reserved: servers and clients use it as a path; choose another name`,
      );
    }
    const definition = findDefinition(made);
    if (!definition) throw wrong(`the tool "${toolName}" in ${name} was not created with tool({ … })`);
    definitions.set(toolName, definition);
  }
  return {
    name,
    description,
    state,
    task,
    unseeded,
    reseed,
    bestReward,
    ...(checkState !== undefined && { checkState }),
    tools,
    definitions,
    seed: seed as Environment["seed"],
    verify: verify as Environment["verify"],
  };
}

function wrong(message: string): HoldfastError {
  return new HoldfastError("invalid_environment", message);
}
