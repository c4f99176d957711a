// Ids of tool calls that are unique in a conversation, also where a server sends none, or the same again and again.
import { randomUUID } from "node:crypto";
import { isFunctionCall, type ModelRequest } from "../../core/model.ts";

/** Gives back an id if it is a new one, or else another. A call id is applied once: a repeat would not be run. */
export type CallIds = (given: unknown) => string;

export function callIdsFor({ input }: Pick<ModelRequest, "input">): CallIds {
  const taken = new Set(input.filter(isFunctionCall).map(({ call_id }) => call_id));
  return (given) => {
    const isNew = typeof given === "string" && given !== "" && !taken.has(given);
    const id = isNew ? given : `call_${randomUUID().replaceAll("-", "")}`;
    taken.add(id);
    return id;
  };
}
