// Runs callbacks, and reads the values that they return.
import type { Callbacks, Said } from "../core/agent.ts";
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import { unlessAborted } from "../io/abort.ts";
import { faultInItems, type Item, type ModelResponse } from "../core/model.ts";
import { describeThrown } from "../session/thrown.ts";

export function cancelledRun(signal: AbortSignal | undefined): HoldfastError {
  return new HoldfastError("run_cancelled", "the run was cancelled", { cause: signal?.reason });
}

// For each error, the name of the function that threw it. Errors are not wrapped, to keep their codes and messages.
const sources = new WeakMap<object, string>();

/** Returns the name of the agent's function that threw an error, such as "beforeModel of agent support". */
export function sourceOf(thrown: unknown): string | undefined {
  return typeof thrown === "object" && thrown !== null ? sources.get(thrown) : undefined;
}

/** Describes an error that one of the agent's functions threw. */
export function sourceThrown(thrown: unknown): Thrown | undefined {
  const source = sourceOf(thrown);
  return source === undefined ? undefined : describeThrown(thrown, source);
}

/** Marks an error with the name of the function that threw it. */
export function marked(thrown: unknown, name: string, agent: string): object {
  const error = typeof thrown === "object" && thrown !== null ? thrown : new Error(messageOf(thrown));
  if (!sources.has(error)) sources.set(error, `${name} of agent ${agent}`);
  return error;
}

/** Runs callbacks in order until one returns a value, and returns that value. `name`: such as "beforeModel". */
export async function firstValue<Args extends unknown[], T>(
  name: keyof Callbacks,
  callbacks: ((...args: Args) => T) | ((...args: Args) => T)[] | undefined,
  ...args: Args
): Promise<Exclude<Awaited<T>, undefined | void> | undefined> {
  if (callbacks === undefined) return undefined;
  const { signal, agent } = args[0] as unknown as { signal: AbortSignal; agent: string };
  for (const callback of Array.isArray(callbacks) ? callbacks : [callbacks]) {
    try {
      const value = await orAborted(signal, callback(...args));
      if (value !== undefined) return value as Exclude<Awaited<T>, undefined | void>;
    } catch (thrown) {
      throw marked(thrown, name, agent);
    }
  }
  return undefined;
}

/** Waits for the result of a function that the author wrote. Rejects as soon as the run is cancelled. */
export async function orAborted<T>(signal: AbortSignal, work: T): Promise<Awaited<T>> {
  // Some libraries' queries have a `then` but are not promises.
  if (typeof (work as { then?: unknown } | null | undefined)?.then !== "function") return await work;
  return unlessAborted(signal, Promise.resolve(work), () => cancelledRun(signal));
}

/** Converts a message that a callback returned to items. `what`: the callback's name, for an error message. */
export function toItems(said: Said, what: string): Item[] {
  if (typeof said !== "string") return checkedItems(said, what);
  return [{ type: "message", role: "assistant", content: [{ type: "output_text", text: said }] }];
}

/** Converts a callback's value to a model answer. */
export function toResponse(value: Said | ModelResponse, what: string): ModelResponse {
  if (typeof value === "string" || Array.isArray(value)) return { output: toItems(value, what), status: "completed" };
  checkedItems((Object(value) as Partial<ModelResponse>).output, what);
  return value;
}

/** Checks a callback's items, because the log keeps them and every later turn reads them. */
function checkedItems(items: unknown, what: string): Item[] {
  const fault = faultInItems(items);
  if (fault === undefined) return items as Item[];
  throw new HoldfastError("callback_failed", `${what} must return a text, items or nothing: ${fault}`);
}
