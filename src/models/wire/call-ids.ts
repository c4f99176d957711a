// Makes tool call ids unique in a conversation, because some servers send no ids or repeat them.
import { randomUUID } from "node:crypto";
import { isFunctionCall, type ModelRequest } from "../../core/model.ts";

/** Returns the given id if it is new, otherwise a new id, because a call with a repeated id would not run. */
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
