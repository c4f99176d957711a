// tool(): defines one tool for an environment, typed by its input schema and the surrounding environment.
import {
  attachDefinition,
  type DetachedToolContext,
  type Tool,
  type ToolContext,
  type ToolDefinition,
} from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { isSchema, type AnyObject, type Input, type Output, type Schema } from "../core/schema.ts";
import { refuseUnknown } from "../core/suggest.ts";

interface ToolOptions<S extends Schema> {
  /** Shown to the model. */
  description: string;
  /** Schema for the arguments; none if omitted. */
  input?: S;
  /** Milliseconds until a call ends with `tool_timeout`. Default: the timeout passed to createSessions. */
  timeout?: number;
}

/** Changes only the state. A session's calls run one at a time; after a version conflict, `run` runs again. */
interface StateToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent?: false;
  effects?: undefined;
  run: (context: ToolContext<State, Task>, input: Output<S>) => Out;
}

/** Slow: does not hold the session while it runs. Reads a snapshot and queues changes with `update`. */
interface ConcurrentToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent: true;
  effects?: undefined;
  run: (context: DetachedToolContext<State, Task>, input: Output<S>) => Out;
}

/** Has external effects: never runs twice for one call id. Like a concurrent tool, it does not hold the session. */
interface ExternalToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  effects: "external";
  concurrent?: boolean;
  run: (context: DetachedToolContext<State, Task>, input: Output<S>) => Out;
}

// A tool has the type of a plain function. TypeScript delays checking a call that returns a function until it knows the
// surrounding types. With any other return type, `state` would be unknown in `run`.

/**
 * Defines one tool for an environment.
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
  const wrong = (message: string): HoldfastError => new HoldfastError("invalid_environment", message);
  if (typeof run !== "function") throw wrong("a tool needs a `run` function");
  refuseUnknown("a tool", options, { description, input, timeout, concurrent, effects, run }, wrong);
  if (input !== undefined && !isSchema(input)) {
    throw wrong("the `input` of a tool must be a schema, as in z.object({ … })");
  }
  if (effects !== undefined && effects !== "external") {
    throw wrong(`the \`effects\` of a tool must be "external" or missing, not "${effects}"`);
  }
  if (timeout !== undefined && !isTimeout(timeout)) {
    throw wrong(`the timeout of a tool must be ${timeoutRange}`);
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
