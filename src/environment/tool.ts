// tool(): one tool of an environment, typed by its input schema and by the environment around it.
import {
  attachDefinition,
  type DetachedToolContext,
  type Tool,
  type ToolContext,
  type ToolDefinition,
} from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import type { AnyObject, Input, Output, Schema } from "../core/schema.ts";

interface ToolOptions<S extends Schema> {
  /** What the model reads. */
  description: string;
  /** The arguments; none if left out. */
  input?: S;
  /** Milliseconds until the call ends as `tool_timeout`; by default that of createSessions. */
  timeout?: number;
}

/** Changes only the state. Calls of one session run one at a time; on a version conflict `run` is run again. */
interface StateToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent?: false;
  effects?: undefined;
  run: (context: ToolContext<State, Task>, input: Output<S>) => Out;
}

/** Slow: does not hold the session while it runs. Reads a snapshot, and queues changes with `update`. */
interface ConcurrentToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent: true;
  effects?: undefined;
  run: (context: DetachedToolContext<State, Task>, input: Output<S>) => Out;
}

/** Touches the world: never runs twice for one call id. Holds the session no more than a concurrent tool does. */
interface ExternalToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  effects: "external";
  concurrent?: boolean;
  run: (context: DetachedToolContext<State, Task>, input: Output<S>) => Out;
}

// A tool is typed as a bare function. TypeScript puts off typing a call that returns one until it knows the types
// around it; with any other return type `state` would be unknown in `run`.

/**
 * One tool of an environment.
 *
 * @example
 * increment: tool({
 *   description: "Add to the counter.",
 *   input: z.object({ by: z.number().int() }),
 *   run: ({ state }, { by }) => { state.count += by; return { count: state.count }; },
 * })
 */
export function tool<State, Task, S extends Schema = AnyObject, Out = unknown>(
  options: ExternalToolOptions<State, Task, S, Out>,
): Tool<State, Task, Input<S>, Out>;
export function tool<State, Task, S extends Schema = AnyObject, Out = unknown>(
  options: ConcurrentToolOptions<State, Task, S, Out>,
): Tool<State, Task, Input<S>, Out>;
export function tool<State, Task, S extends Schema = AnyObject, Out = unknown>(
  options: StateToolOptions<State, Task, S, Out>,
): Tool<State, Task, Input<S>, Out>;
export function tool(options: ToolOptions<Schema> & { concurrent?: boolean; effects?: string; run: unknown }): unknown {
  const { description, input, timeout, concurrent, effects, run } = options;
  if (typeof run !== "function") throw new HoldfastError("invalid_environment", "a tool needs a `run` function");
  if (effects !== undefined && effects !== "external") {
    throw new HoldfastError("invalid_environment", `a tool's effects are "external" or left out, not "${effects}"`);
  }
  if (timeout !== undefined && !isTimeout(timeout)) {
    throw new HoldfastError("invalid_environment", `a tool's timeout is ${timeoutRange}`);
  }
  const definition: ToolDefinition = {
    description,
    input,
    timeout,
    kind: effects ?? (concurrent ? "concurrent" : "state"),
    run: run as ToolDefinition["run"],
  };
  const handler = (context: unknown, args: unknown): unknown => definition.run(context, args);
  attachDefinition(handler, definition);
  return handler;
}
