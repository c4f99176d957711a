// summarizeRow(): reduces a row to the columns of a table. Invalid fields are ignored: any program may write a file.
import { assistantTurns, answerText, isFunctionCall, isMessage, toText, type Item } from "../../core/model.ts";
import { toFields, type Json } from "../../core/json.ts";
import type { TaskRow } from "../../core/rollout.ts";
import type { RowSummary } from "../collection-view.ts";
import { rolloutIndex, type Finished } from "../finished.ts";
import { readConversation } from "../conversation.ts";
import { hasEstimatedTokens, hasOwnMetrics, isMasked } from "../row-fields.ts";
import { readBranch } from "../tree.ts";

/** Maximum length of texts, number of tools, length of names and number of metrics. A model may invent names. */
const [longestText, mostTools, longestName, mostMetrics] = [160, 100, 100, 20];

export function summarizeRow({ row: content, failed }: Pick<Finished, "row" | "failed">, row: number): RowSummary {
  const { task = null, repeat = null } = rolloutIndex(content);
  const { input, output } = readConversation(content);
  const calls = output.filter(isFunctionCall);
  const outcome = failed ? "failed" : isMasked(content) ? "masked" : "scored";
  const { reward, failure_kind: kind, stopped, session_id: session, parent, seconds } = content;
  return {
    row,
    task,
    repeat,
    branch: readBranch(content) || null,
    attempt: numberIn(content["_ng_attempt_index"]),
    reward: outcome === "scored" ? numberIn(reward) : null,
    outcome,
    kind: failed ? textIn(kind) : null,
    stopped: textIn(stopped),
    steps: assistantTurns(output),
    calls: calls.length,
    tokens: tokensIn(content),
    isEstimate: hasEstimatedTokens(content),
    seconds: numberIn(seconds),
    began: numberIn(toFields(content["response"])["created_at"]) || null,
    tools: [...new Set(calls.map(({ name }) => beginning(name, longestName)))].slice(0, mostTools),
    text: beginning(askedIn(input) ?? "", longestText),
    answer: beginning(answerText(lastAnswer(output)), longestText),
    reason: failed ? textIn(beginning(textIn(content["failure_reason"]) ?? "", longestText)) : null,
    metrics: metricsIn(content),
    session: textIn(session),
    // In a row that was not forked, `parent` is a field of the task.
    parent: readBranch(content) === "" ? null : textIn(parent),
  };
}

/** Returns the last user message in the input. Earlier messages may be examples that all tasks share. */
function askedIn(input: Item[]): string | undefined {
  const asked = input.filter(isMessage).findLast(({ role }) => role === "user");
  return asked && toText(asked.content);
}

function lastAnswer(output: Item[]): Item[] {
  const last = output.filter(isMessage).findLast(({ role }) => role === "assistant");
  return last ? [last] : [];
}

/** Returns the numbers among verify's metrics; a boolean counts as 0 or 1. */
function metricsIn(row: TaskRow): RowSummary["metrics"] {
  const fields = hasOwnMetrics(row) ? [] : Object.entries(toFields(row["metrics"])).slice(0, mostMetrics);
  return Object.fromEntries(
    fields.flatMap(([name, value]): [string, number][] => {
      const number = typeof value === "boolean" ? Number(value) : numberIn(value);
      return number === null ? [] : [[beginning(name, longestName), number]];
    }),
  );
}

function tokensIn(row: TaskRow): number | null {
  const usage = toFields(toFields(row["response"])["usage"]);
  const [total, input, output] = ["total_tokens", "input_tokens", "output_tokens"].map((name) => numberIn(usage[name]));
  return total ?? (input === null && output === null ? null : (input ?? 0) + (output ?? 0));
}

/** Cuts a string without splitting a surrogate pair. */
function beginning(text: string, length: number): string {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}

const numberIn = (value: Json | undefined): number | null => (typeof value === "number" ? value : null);
const textIn = (value: Json | undefined): string | null => (typeof value === "string" && value !== "" ? value : null);
