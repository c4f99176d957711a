// tool(): defines one tool for an environment, typed by its input schema and the surrounding environment.
import {
  attachDefinition,
  type DetachedToolContext,
  type Tool,
  type ToolContext,
  type ToolDefinition,
} from "../core/environment.ts";
import { after } from "../core/after.ts";
import { HoldfastError } from "../core/errors.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { check, isSchema, type AnyObject, type Checked, type Input, type Output, type Schema } from "../core/schema.ts";
import { refuseUnknown } from "../core/suggest.ts";

interface ToolOptions<S extends Schema> {
  /** A description for the model. */
  description: string;
  /** Schema for the arguments; none if omitted. */
  input?: S;
  /** Schema for the result, shown to clients. A result that does not match it is an error of the tool. */
  output?: Schema;
  /** Milliseconds until a call ends with `tool_timeout`. Default: the timeout passed to createSessions. */
  timeout?: number;
}

/** A tool that only changes the state. A session's calls run one at a time; after a conflict, `run` runs again. */
export interface StateToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent?: false;
  effects?: undefined;
  run: (context: ToolContext<State, Task>, input: Output<S>) => Out;
}

/** A slow tool: it does not hold the session while it runs. It reads a snapshot and queues changes with `update`. */
export interface ConcurrentToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
  concurrent: true;
  effects?: undefined;
  run: (context: DetachedToolContext<State, Task>, input: Output<S>) => Out;
}

/** A tool with external effects: it never runs twice for one call id, and does not hold the session while it runs. */
export interface ExternalToolOptions<State, Task, S extends Schema, Out> extends ToolOptions<S> {
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
  const { description, input, output, timeout, concurrent, effects, run } = options;
  const wrong = (message: string): HoldfastError => new HoldfastError("invalid_environment", message);
  if (typeof run !== "function") throw wrong("a tool needs a `run` function");
  refuseUnknown("a tool", options, { description, input, output, timeout, concurrent, effects, run }, wrong);
  if (input !== undefined && !isSchema(input)) {
    throw wrong("a tool's `input` must be a schema, as in z.object({ … })");
  }
  if (output !== undefined && !isSchema(output)) {
    throw wrong("the `output` of a tool must be a schema, as in z.object({ … })");
  }
  if (effects !== undefined && effects !== "external") {
    throw wrong(`a tool's \`effects\` must be "external" or omitted, not "${effects}"`);
  }
  if (timeout !== undefined && !isTimeout(timeout)) {
    throw wrong(`a tool's timeout must be ${timeoutRange}`);
  }
  const definition: ToolDefinition = {
    description,
    input,
    output,
    timeout,
    kind: effects ?? (concurrent ? "concurrent" : "state"),
    run: output ? checkedRun(run as ToolDefinition["run"], output) : (run as ToolDefinition["run"]),
  };
  const handler = (context: unknown, args: unknown): unknown => definition.run(context, args);
  attachDefinition(handler, definition);
  return handler;
}

/** Returns a `run` that throws if its result is invalid. It returns a valid result unchanged. */
const checkedRun =
  (run: ToolDefinition["run"], schema: Schema): ToolDefinition["run"] =>
  (context, input) =>
    after(run(context, input), (result: unknown) =>
      after(check(schema, result), (checked: Checked) => {
        if (!checked.ok) throw new TypeError(`the result is invalid: ${checked.message}`);
        return result;
      }),
    );
