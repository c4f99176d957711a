// readConversation(): reads the conversation from a row: the model's input and output.
import { toFields, type Json } from "../core/json.ts";
import type { Item } from "../core/model.ts";
import type { TaskRow } from "../core/rollout.ts";

/** Reads a conversation. Invalid items are ignored, because the file may come from anywhere. */
export function readConversation(row: TaskRow) {
  const { input, instructions, tools } = toFields(row["responses_create_params"]);
  const { output } = toFields(row["response"]);
  return {
    instructions: typeof instructions === "string" && instructions !== "" ? instructions : undefined,
    input: itemsIn(typeof input === "string" ? [{ role: "user", content: input }] : input),
    /** The model's messages and calls, with the results of the calls. */
    output: itemsIn(output),
    tools: listIn(tools).map(toFields),
  };
}

function itemsIn(list: Json | undefined): Item[] {
  // Messages may omit their type.
  const items = listIn(list).map((item): TaskRow => ({ type: "message", ...toFields(item) }));
  return items.filter(isWhole) as unknown as Item[];
}

function isWhole({ type, role, content, call_id, name, arguments: given, output }: TaskRow): boolean {
  const isText = (value: Json | undefined): boolean => typeof value === "string";
  const isContent = (value: Json | undefined): boolean => isText(value) || Array.isArray(value);
  if (type === "message") return isText(role) && isContent(content);
  if (type === "function_call") return isText(call_id) && isText(name) && isText(given);
  return type === "function_call_output" ? isText(call_id) && isContent(output) : isText(type);
}

const listIn = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : []);
