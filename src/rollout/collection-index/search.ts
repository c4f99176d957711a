// matchesRow(): full-text search in a row, on the server and in a bundle.
import { isFunctionCall, isMessage, toText, type Content } from "../../core/model.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { readConversation } from "../conversation.ts";

/** Returns whether a row contains a lower-case string: in its messages, calls, outputs, failure or session. */
export function matchesRow(row: TaskRow, wanted: string): boolean {
  for (const text of textsOf(row)) if (text.toLowerCase().includes(wanted)) return true;
  return false;
}

function* textsOf(row: TaskRow): Generator<string> {
  const fields = ["session_id", "failure_kind", "failure_reason", "stopped"].map((name) => row[name]);
  for (const field of fields) if (typeof field === "string") yield field;
  const { instructions = "", input, output } = readConversation(row);
  yield instructions;
  for (const item of [...input, ...output]) {
    if (isMessage(item)) yield toText(item.content);
    else if (isFunctionCall(item)) {
      yield item.name;
      yield item.arguments;
    } else if (item.type === "function_call_output") {
      yield toText((item as unknown as { output: string | Content[] }).output);
    } else yield JSON.stringify(item);
  }
}
