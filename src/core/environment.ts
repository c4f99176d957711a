// The types that authors use to define an environment and its tools.
import type { Json } from "./json.ts";
import type { NumberedEvent } from "./event.ts";
import type { Schema } from "./schema.ts";

/** The context of every handler. */
export interface Context {
  /** The session's id. */
  session: string;
  /** Returns a number in [0, 1). A replay returns the same number. */
  random(): number;
  /** Returns the time of the call, in milliseconds since 1970. A replay returns the same time. */
  now(): number;
  /** Aborts when the call is cancelled, the call times out, or the session ends. */
  signal: AbortSignal;
  /** Writes a line to the log for people to read. The model does not see it. */
  log(line: string): void;
}

/** The context for `seed`. */
export interface SeedContext<Task> extends Context {
  task: Task;
}

/** Changes one key with a function of its value. A function that returns nothing may change the value in place. */
export type UpdateKey<State> = <Key extends keyof State>(
  key: Key,
  change: (value: State[Key]) => State[Key] | void,
) => void;

/** The context for a tool. `state` is a draft: read it and assign to it like any object. */
export interface ToolContext<State, Task> extends Context {
  readonly state: State;
  /**
   * Changes one key immediately. If another writer changes the key before the commit, the function runs again on the
   * new value.
   */
  update: UpdateKey<State>;
  /** Undefined if the session was never seeded. */
  task: Task | undefined;
  /** The call id, if present. */
  call: string | undefined;
  /** The agent that owns the tool; undefined for an environment's tool. */
  agent?: ToolAgent | undefined;
  /**
   * Reports progress while the tool runs, as in `progress(3, 10, "reading page 3")`. MCP clients receive it. No log
   * records it.
   */
  progress(done: number, total?: number, message?: string): void;
}

/** The progress of a running tool. */
export interface Progress {
  done: number;
  total: number | undefined;
  message: string | undefined;
}

/** The agent that called a tool. */
export interface ToolAgent {
  readonly name: string;
  /** The conversation's user. */
  readonly user: string;
  readonly invocation: string;
  /** Ends the agent's run with this result. Compositions around the agent end too, up to the nearest loop. */
  escalate(): void;
  /** Transfers the conversation to another agent of the same family, starting now. */
  transfer(to: string): void;
}

/** The context for a tool with `concurrent` or `effects`: the state when the call started, and `update`. */
export interface DetachedToolContext<State, Task> extends Omit<ToolContext<State, Task>, "state" | "update"> {
  readonly state: DeepReadonly<State>;
  /** Queues a change. Changes run in order on the state at the commit, and may run more than once. */
  update: ((change: (state: State) => void) => void) & UpdateKey<State>;
}

export type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** The context for `verify`. */
export interface VerifyContext<State, Task> extends Context {
  readonly state: DeepReadonly<State>;
  task: Task;
  /** The agent's answer, if the caller passed it. */
  response: Json | undefined;
  /** Returns the events of the session up to the verified version. */
  events(): Promise<NumberedEvent[]>;
}

/** A tool created by `tool`: its handler, with the definition attached as a hidden property. */
export type Tool<State, Task, ToolInput, ToolOutput> = (
  context: ToolContext<State, Task> & DetachedToolContext<State, Task>,
  input: ToolInput,
) => ToolOutput;

/** The definition of a tool, as the engine in `session/` uses it. */
export interface ToolDefinition {
  description: string;
  input: Schema | undefined;
  /** Schema of the result. `run` has checked it. */
  output?: Schema | undefined;
  kind: "state" | "concurrent" | "external";
  timeout: number | undefined;
  run(context: unknown, input: unknown): unknown;
}

const definitions = new WeakMap<object, ToolDefinition>();

/** Attaches a definition to a handler as a hidden property. */
export function attachDefinition(handler: object, definition: ToolDefinition): void {
  definitions.set(handler, definition);
}

/** Returns the definition attached by `tool`. */
export function findDefinition(made: unknown): ToolDefinition | undefined {
  return typeof made === "function" ? definitions.get(made) : undefined;
}

/** An environment created by `defineEnvironment`. The type parameters are the types that callers may pass. */
export interface Environment<State = unknown, Task = unknown, Tools = unknown> {
  readonly name: string;
  readonly description: string;
  readonly state: Schema | undefined;
  readonly task: Schema | undefined;
  /**
   * Whether a call on an unseeded session gets the schema's defaults or an error. With "guard", the protocol decides.
   */
  readonly unseeded: "guard" | "defaults" | "reject";
  /** Whether seeding a seeded session replaces its state or fails. With "guard", the protocol decides. */
  readonly reseed: "guard" | "replace" | "reject";
  /** The best known reward. */
  readonly bestReward: number;
  /** Whether to refuse a call that makes the state invalid. By default, only small states are checked. */
  readonly checkState?: boolean;
  readonly tools: Tools;
  readonly definitions: ReadonlyMap<string, ToolDefinition>;
  readonly seed: ((context: SeedContext<unknown>) => unknown) | undefined;
  readonly verify: ((context: VerifyContext<unknown, unknown>) => unknown) | undefined;
  /** Exists only for type inference. */
  readonly types?: { state: State; task: Task };
}

export type AnyEnvironment = Environment<any, any, any>; // eslint-disable-line typescript/no-explicit-any

export type StateOf<E extends AnyEnvironment> = NonNullable<E["types"]>["state"];
export type TaskOf<E extends AnyEnvironment> = NonNullable<E["types"]>["task"];
export type ToolName<E extends AnyEnvironment> = keyof E["tools"] & string;
export type ToolInput<E extends AnyEnvironment, Name extends ToolName<E>> = Parameters<E["tools"][Name]>[1];
export type ToolOutput<E extends AnyEnvironment, Name extends ToolName<E>> = Awaited<ReturnType<E["tools"][Name]>>;
