// Callbacks: one or a list, of which the first that returns a value decides; and what their values mean.
import type { Said } from "../core/agent.ts";
import type { Item, ModelResponse } from "../core/model.ts";

/** The value of the first callback that returns one. */
export async function firstValue<Args extends unknown[], T>(
  callbacks: ((...args: Args) => T) | ((...args: Args) => T)[] | undefined,
  ...args: Args
): Promise<Exclude<Awaited<T>, undefined | void> | undefined> {
  if (callbacks === undefined) return undefined;
  for (const callback of Array.isArray(callbacks) ? callbacks : [callbacks]) {
    const value = await callback(...args);
    if (value !== undefined) return value as Exclude<Awaited<T>, undefined | void>;
  }
  return undefined;
}

/** What an agent says, as items. */
export function itemsOf(said: Said): Item[] {
  if (typeof said !== "string") return said;
  return [{ type: "message", role: "assistant", content: [{ type: "output_text", text: said }] }];
}

/** What a callback gives in place of an answer, as one. */
export function responseOf(value: Said | ModelResponse): ModelResponse {
  return typeof value === "string" || Array.isArray(value) ? { output: itemsOf(value), status: "completed" } : value;
}
