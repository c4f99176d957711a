// What a table shows of a row. The file may come from anywhere: whatever is not as it should be is passed over.
import { assistantTurns } from "../../core/model.ts";
import type { Json } from "../../core/json.ts";
import { answerText, isFunctionCall, isMessage, textOf, type Item } from "../../core/model.ts";
import type { TaskRow } from "../../core/rollout.ts";
import type { RowSummary } from "../collection-view.ts";
import { indexOf, type Finished } from "../finished.ts";
import { conversationOf, fieldsOf } from "../conversation.ts";
import { branchOf } from "../tree.ts";

/** How much of a text, how many tools and how much of their names: a model may have made them up. */
const [longestText, mostTools, longestName] = [120, 100, 100];

export function summaryOf({ row: content, failed }: Pick<Finished, "row" | "failed">, row: number): RowSummary {
  const { task = null, repeat = null } = indexOf(content);
  const { input, output } = conversationOf(content);
  const calls = output.filter(isFunctionCall);
  const { reward, mask_sample: isMasked, failure_kind: kind, stopped, session_id: session, parent, seconds } = content;
  return {
    row,
    task,
    repeat,
    branch: branchOf(content) || null,
    attempt: numberIn(content["_ng_attempt_index"]),
    reward: failed || isMasked === true ? null : numberIn(reward),
    outcome: failed ? "failed" : "scored",
    kind: failed ? textIn(kind) : null,
    stopped: textIn(stopped),
    steps: assistantTurns(output),
    calls: calls.length,
    tokens: tokensIn(content),
    seconds: numberIn(seconds),
    tools: [...new Set(calls.map(({ name }) => beginning(name, longestName)))].slice(0, mostTools),
    text: beginning(askedIn(input) ?? answerText(lastAnswer(output)), longestText),
    session: textIn(session),
    // A task may have a field of that name.
    parent: branchOf(content) === "" ? null : textIn(parent),
  };
}

/** The last thing that the user said to begin with: what comes before may be examples, the same in all tasks. */
function askedIn(input: Item[]): string | undefined {
  const asked = input.filter(isMessage).findLast(({ role }) => role === "user");
  return asked && safeText(asked.content);
}

function lastAnswer(output: Item[]): Item[] {
  const last = output.filter(isMessage).findLast(({ role }) => role === "assistant");
  return last ? [{ ...last, content: safeText(last.content) }] : [];
}

/** Parts of a content that are no objects are passed over. */
function safeText(content: Parameters<typeof textOf>[0]): string {
  return textOf(typeof content === "string" ? content : content.map((part) => Object(part) as typeof part));
}

function tokensIn(row: TaskRow): number | null {
  const usage = fieldsOf(fieldsOf(row["response"])["usage"]);
  const [total, input, output] = ["total_tokens", "input_tokens", "output_tokens"].map((name) => numberIn(usage[name]));
  return total ?? (input === null && output === null ? null : (input ?? 0) + (output ?? 0));
}

/** Without half a character at its end. */
function beginning(text: string, length: number): string {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}

const numberIn = (value: Json | undefined): number | null => (typeof value === "number" ? value : null);
const textIn = (value: Json | undefined): string | null => (typeof value === "string" && value !== "" ? value : null);
