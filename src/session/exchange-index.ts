// ExchangeIndex: the model requests and answers of one log. Finds the earlier exchange that a request continues.
import { hash } from "node:crypto";
import { canonicalText } from "../core/digest.ts";
import type { EventOf, NumberedEvent } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isFunctionCall, type Item } from "../core/model.ts";
import { itemText, requestFields, type ModelExchange } from "../core/model-exchange.ts";

type Exchange = EventOf<"model.called"> & { version: number };
type Fields = { [field: string]: Json };

/** An exchange without its items. */
interface Kept {
  after: ModelExchange["after"];
  request: Fields | undefined;
  /** The conversation's digest after each item of this exchange. */
  chain: string[];
  digest: string;
  isRepeat: boolean;
}

export const digestOf = (value: Json): string => hash("sha256", canonicalText(value), "base64url").slice(0, 22);

/** Returns a conversation's digest after one more item. Items that harnesses may leave out do not change it. */
function continued(before: string, item: Item): string {
  const text = itemText(item);
  return text === undefined ? before : hash("sha256", `${before} ${text}`, "base64url").slice(0, 22);
}

/** Keeps only digests in memory: the items stay in the log. */
export class ExchangeIndex {
  /** The version up to which the log was read. */
  version = 0;
  readonly #exchanges = new Map<number, Kept>();
  /** For each conversation, by digest: the version of the exchange that first recorded it, and its number of items. */
  readonly #places = new Map<string, { version: number; items: number }>();
  /** The ids of all calls that models made. */
  readonly #calls = new Set<string>();
  /** The version of the newest exchange for each request, by the request's digest. */
  readonly #newest = new Map<string, number>();

  add(event: NumberedEvent): void {
    this.version = event.version;
    if (event.type === "session.seeded" || event.type === "session.rewound") {
      this.#exchanges.clear();
      this.#places.clear();
      this.#newest.clear();
    }
    // A rewind does not clear the call ids, because the id of an undone call cannot be used again.
    if (event.type === "session.seeded") this.#calls.clear();
    if (event.type === "model.called") this.#addExchange(event);
  }

  #addExchange({ version, after, request, input, output, digest, isRepeat }: Exchange): void {
    const start = after?.items ?? 0;
    let last = after ? this.#digestAt(after.version, after.items) : "";
    const chain = [...input, ...output].map((item, at) => {
      last = continued(last, item);
      // An item that does not change the digest is skipped, because `#places` already has that digest.
      if (last !== "" && !this.#places.has(last)) this.#places.set(last, { version, items: start + at + 1 });
      return last;
    });
    this.#exchanges.set(version, { after, request, chain, digest, isRepeat: isRepeat === true });
    this.#newest.set(digest, version);
    for (const item of output) if (isFunctionCall(item)) this.#calls.add(item.call_id);
  }

  /**
   * Returns the answer with call ids that are unique in the episode. A harness may have several conversations in one
   * episode, and models may use the same call ids in each. A second call with the same id would count as a retry.
   */
  withNewCalls(output: Item[], version: number): Item[] {
    const own = new Set<string>();
    const isTaken = (id: string): boolean => own.has(id) || this.#calls.has(id);
    return output.map((item) => {
      if (!isFunctionCall(item)) return item;
      let id = item.call_id;
      for (let at = 1; isTaken(id); at++) id = `${item.call_id}_${version}${at > 1 ? `_${at}` : ""}`;
      own.add(id);
      return id === item.call_id ? item : { ...item, call_id: id };
    });
  }

  #digestAt(version: number, items: number): string {
    const found = this.#exchanges.get(version);
    return found?.chain[items - (found.after?.items ?? 0) - 1] ?? "";
  }

  /** Returns the newest exchange whose request has this digest. */
  repeated(digest: string): { version: number; isRepeat: boolean } | undefined {
    const version = this.#newest.get(digest);
    const found = version === undefined ? undefined : this.#exchanges.get(version);
    return found && { version: version as number, isRepeat: found.isRepeat };
  }

  /** Splits a request into a reference to the part that the log already has, and the rest. */
  split(input: Item[], fields: Fields): Pick<ModelExchange, "after" | "request" | "input"> {
    let [last, shared] = ["", 0];
    let after: ModelExchange["after"];
    for (const [at, item] of input.entries()) {
      last = continued(last, item);
      const place = last === "" ? undefined : this.#places.get(last);
      if (place) [after, shared] = [place, at + 1];
      else if (itemText(item) !== undefined) break;
    }
    const before = after ? this.#fieldsOf(after.version) : {};
    const changed: Fields = {};
    for (const name of new Set([...Object.keys(before), ...Object.keys(fields)])) {
      if (!equalJson(before[name], fields[name])) changed[name] = fields[name] ?? null;
    }
    const rest = { input: input.slice(shared), ...(Object.keys(changed).length > 0 && { request: changed }) };
    return after ? { after: { ...after }, ...rest } : rest;
  }

  #fieldsOf(version: number): Fields {
    const find = (at: number) => this.#exchanges.get(at) as (Exchange & Kept) | undefined;
    const found = find(version);
    return found ? requestFields(found, find) : {};
  }
}
