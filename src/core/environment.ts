// What an author defines, in types: an environment and its tools.
import type { Json } from "./json.ts";
import type { NumberedEvent } from "./event.ts";
import type { Schema } from "./schema.ts";

/** What every handler is given. */
export interface Context {
  /** The id of the session. */
  session: string;
  /** A number in [0, 1) that a replay gives again. */
  random(): number;
  /** The time of the call in milliseconds since 1970; a replay gives it again. */
  now(): number;
  /** Aborted when the call is cancelled or out of time, or the session ends. */
  signal: AbortSignal;
  /** A line for whoever reads the log; the model does not see it. */
  log(line: string): void;
}

/** What a seed is given. */
export interface SeedContext<Task> extends Context {
  task: Task;
}

/** Changes one key by a function of its value. A function that returns nothing may change the value in place. */
export type UpdateKey<State> = <Key extends keyof State>(
  key: Key,
  change: (value: State[Key]) => State[Key] | void,
) => void;

/** What a tool is given: a draft of the state, to be read and assigned to like any object. */
export interface ToolContext<State, Task> extends Context {
  readonly state: State;
  /** Changes one key, at once. If others change the key before the commit, the function runs again on their value. */
  update: UpdateKey<State>;
  /** Undefined if the session was never seeded. */
  task: Task | undefined;
  /** The id of the call, if it has one. */
  call: string | undefined;
  /** The agent whose tool it is; undefined for the tool of an environment. */
  agent?: ToolAgent | undefined;
}

/** What a tool can do with the agent that called it. */
export interface ToolAgent {
  readonly name: string;
  /** Whose conversation it is. */
  readonly user: string;
  readonly invocation: string;
  /** Ends the run of the agent with this result, and what it runs in up to the nearest loop. */
  escalate(): void;
  /** Has another agent of the same family go on, now and with the next message. */
  transfer(to: string): void;
}

/** What a tool with `concurrent` or `effects` is given: the state as it was when the call began, and `update`. */
export interface DetachedToolContext<State, Task> extends Omit<ToolContext<State, Task>, "state" | "update"> {
  readonly state: DeepReadonly<State>;
  /** Queues a change. It is made, in order, to the state as it is when the call is committed; it may run again there. */
  update: ((change: (state: State) => void) => void) & UpdateKey<State>;
}

export type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** What a verify is given. */
export interface VerifyContext<State, Task> extends Context {
  readonly state: DeepReadonly<State>;
  task: Task;
  /** What the agent answered, where the caller passed it. */
  response: Json | undefined;
  /** The events of the session up to the version that is verified. */
  events(): Promise<NumberedEvent[]>;
}

/** A tool, as `tool` makes it: its handler, with the rest of its definition attached out of sight. */
export type Tool<State, Task, ToolInput, ToolOutput> = (
  context: ToolContext<State, Task> & DetachedToolContext<State, Task>,
  input: ToolInput,
) => ToolOutput;

/** A tool as `session/` sees it. */
export interface ToolDefinition {
  description: string;
  input: Schema | undefined;
  kind: "state" | "concurrent" | "external";
  timeout: number | undefined;
  run(context: unknown, input: unknown): unknown;
}

const definitions = new WeakMap<object, ToolDefinition>();

/** Attaches the definition of a tool to its handler, out of sight. */
export function attachDefinition(handler: object, definition: ToolDefinition): void {
  definitions.set(handler, definition);
}

/** The definition behind what `tool` returned. */
export function definitionOf(made: unknown): ToolDefinition | undefined {
  return typeof made === "function" ? definitions.get(made) : undefined;
}

/** An environment, as `defineEnvironment` makes it. The two type parameters are what callers may pass. */
export interface Environment<State = unknown, Task = unknown, Tools = unknown> {
  readonly name: string;
  readonly description: string;
  readonly state: Schema | undefined;
  readonly task: Schema | undefined;
  /** What a call on a session that was never seeded gets: the schema's defaults, or an error. */
  readonly unseeded: "defaults" | "reject";
  /** What a seed gets while an episode is under way that was not verified: its way, or an error. */
  readonly reseed: "replace" | "reject";
  readonly tools: Tools;
  readonly definitions: ReadonlyMap<string, ToolDefinition>;
  readonly seed: ((context: SeedContext<unknown>) => unknown) | undefined;
  readonly verify: ((context: VerifyContext<unknown, unknown>) => unknown) | undefined;
  /** For types only. */
  readonly types?: { state: State; task: Task };
}

export type AnyEnvironment = Environment<any, any, any>; // eslint-disable-line typescript/no-explicit-any

export type StateOf<E extends AnyEnvironment> = NonNullable<E["types"]>["state"];
export type TaskOf<E extends AnyEnvironment> = NonNullable<E["types"]>["task"];
export type ToolName<E extends AnyEnvironment> = keyof E["tools"] & string;
export type ToolInput<E extends AnyEnvironment, Name extends ToolName<E>> = Parameters<E["tools"][Name]>[1];
export type ToolOutput<E extends AnyEnvironment, Name extends ToolName<E>> = Awaited<ReturnType<E["tools"][Name]>>;
