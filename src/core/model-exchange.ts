// ModelExchange: one request of a harness to a model, and the answer. Exchanges share the start of their conversations,
// so each stores only its own items.
import { canonicalText } from "./digest.ts";
import { parseJson, type Json } from "./json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item, type Usage } from "./model.ts";

/** Limits on what a harness may ask of models in one episode. By default there are none. */
export interface ModelLimits {
  /** Number of answers. */
  calls?: number | undefined;
  /** Tokens of all requests and answers. The exchange that exceeds them is the last. */
  tokens?: number | undefined;
  /** Seconds since the first request, also if it failed. A request that is still running then is cancelled. */
  seconds?: number | undefined;
  /** Cost of all answers, in the unit of the model's server, if it reports one as `usage.cost`. */
  cost?: number | undefined;
}

export interface ModelExchange {
  /** The request's id. A repeat with the same id returns the recorded answer. */
  call?: string;
  /** Digest of the request, to recognise its repeats. */
  digest: string;
  /** The request was marked as a repeat, and no answer to it was recorded. */
  isRepeat?: true;
  /**
   * Where the conversation continues: it starts with this many items of an earlier exchange's conversation, which is
   * that exchange's request followed by its answer. Absent if nothing is shared.
   */
  after?: { version: number; items: number };
  /**
   * The other fields of the request, such as `instructions` and `tools`, if they differ from the fields of the exchange
   * in `after`.
   */
  request?: { [field: string]: Json };
  /** The items of the request that do not belong to `after`. */
  input: Item[];
  /** The model's answer. */
  output: Item[];
  /** The model's name. */
  model: string;
  usage?: Usage;
  /** The other fields of the model's answer. */
  response?: { [field: string]: Json };
}

/** What the exchanges of an episode used. */
export interface ModelTotals {
  calls: number;
  tokens: number;
  /** Only if the model's server reports it. */
  cost?: number;
  /** When the first exchange began. */
  since: number;
}

export function addExchange(
  before: ModelTotals | undefined,
  { usage, at, began = at }: Pick<ModelExchange, "usage"> & { at: number; began?: number },
): ModelTotals {
  const { calls = 0, tokens = 0, since = began, cost } = before ?? {};
  const spent = typeof usage?.["cost"] === "number" ? usage["cost"] : undefined;
  const total = { calls: calls + 1, tokens: tokens + (usage?.total_tokens ?? 0), since: Math.min(since, began) };
  return spent === undefined && cost === undefined ? total : { ...total, cost: (cost ?? 0) + (spent ?? 0) };
}

type Exchange = ModelExchange & { version: number };

/** Returns the items of an exchange's request. `find` returns an earlier exchange. */
export function requestItems(exchange: ModelExchange, find: (version: number) => Exchange | undefined): Item[] {
  const parts = [exchange.input];
  for (let { after } = exchange; after;) {
    const { version, items } = after;
    const found = find(version);
    if (!found) break;
    const start = found.after?.items ?? 0;
    parts.push([...found.input, ...found.output].slice(0, items - start));
    after = found.after;
  }
  return parts.toReversed().flat();
}

/** Returns the other fields of an exchange's request. */
export function requestFields(
  exchange: ModelExchange,
  find: (version: number) => Exchange | undefined,
): { [field: string]: Json } {
  const layers: { [field: string]: Json }[] = [];
  for (let at: ModelExchange | undefined = exchange; at; at = at.after && find(at.after.version)) {
    if (at.request) layers.push(at.request);
  }
  const fields: { [field: string]: Json } = Object.assign({}, ...layers.toReversed());
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/**
 * Returns the text by which an item is recognised when a harness sends it back. Harnesses drop ids, status and token
 * ids, and format arguments anew. Returns undefined for items that they may leave out: reasoning, and empty messages.
 */
export function itemText(item: Item): string | undefined {
  if (item.type === "reasoning") return undefined;
  if (isMessage(item)) {
    const text = contentText(item.content);
    return text === "" && item.role === "assistant" ? undefined : canonicalText([item.role, text]);
  }
  if (isFunctionCall(item)) {
    const { call_id: id, name, arguments: given } = item;
    return canonicalText(["call", id, name, plainArguments(given)]);
  }
  if (item.type === "function_call_output") {
    const { call_id: id, output } = item as { call_id: string; output: string | Content[] };
    return canonicalText(["output", id, contentText(output)]);
  }
  return canonicalText(item as unknown as Json);
}

/** Returns arguments without their formatting, if they are JSON that is not nested too deeply to compare. */
function plainArguments(text: string): string {
  try {
    return canonicalText(parseJson(text) ?? text);
  } catch {
    return text;
  }
}

/** Returns the text of a content; parts other than text are JSON. */
function contentText(content: string | Content[]): string {
  if (typeof content === "string") return content;
  return content.map((part) => (typeof part.text === "string" ? toText([part]) : canonicalText(part as Json))).join("");
}
