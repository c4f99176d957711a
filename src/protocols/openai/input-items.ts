// The input of a stored response, as a page of OpenAI's lists.
import { invalidOption } from "../../core/errors.ts";
import { isMessage, type FunctionCallOutput, type Item } from "../../core/model.ts";
import type { PartBegan } from "../http/find-began.ts";
import { nameCall } from "./client-calls.ts";

/**
 * Returns a page of a response's input: the items with which its part of a turn began. `id`: the response's id. If the
 * items are results of calls, `answered` is the id of the response that made the calls. Both ids have no prefix.
 */
export function inputItems(
  id: string,
  { items }: PartBegan,
  answered: string | undefined,
  query: URLSearchParams,
): object {
  const named = items.map((item, at) => ({ ...shown(item, answered), id: `in_${id}_${at}` }));
  const all = query.get("order") === "asc" ? named : named.toReversed();
  const after = query.get("after");
  const from = after === null ? 0 : all.findIndex((item) => item.id === after) + 1;
  if (after !== null && from === 0) throw invalidOption("`after` must be the id of an item of the response");
  const limit = wholeNumber(query, "limit", 20);
  if (limit === 0) throw invalidOption("`limit` must be greater than 0");
  const data = all.slice(from, from + limit);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: "list", data, first_id, last_id, has_more: from + limit < all.length };
}

/** Returns an item as the API shows it. A result has the call id that the client knows. */
function shown(item: Item, answered: string | undefined): Item {
  const status = "completed";
  if (isMessage(item)) {
    const { content } = item;
    return {
      ...item,
      status,
      content: typeof content === "string" ? [{ type: "input_text", text: content }] : content,
    };
  }
  if (item.type !== "function_call_output" || answered === undefined) return item;
  return { ...item, status, call_id: nameCall(answered, item as FunctionCallOutput) };
}

/** Reads a whole number of a query. */
export function wholeNumber(query: URLSearchParams, name: string, fallback: number): number {
  const given = query.get(name);
  if (given === null) return fallback;
  if (/^\d{1,9}$/.test(given)) return Number(given);
  throw invalidOption(`\`${name}\` must be a whole number`);
}
