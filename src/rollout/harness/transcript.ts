// Rebuilds a harness's transcript from the log of its episode: the main conversation, and the usage of all calls.
import { summarizeThrown, type NumberedEvent } from "../../core/event.ts";
import { copyJson, type Json } from "../../core/json.ts";
import { requestFields } from "../../core/model-exchange.ts";
import { exchangesIn, lineItems, type ModelLines } from "../../core/model-lines.ts";
import type { Rollout, TaskRow } from "../../core/rollout.ts";
import { brokenAnswer, isSampled } from "../../core/tokens.ts";
import { totalUsage } from "../play/response.ts";

/** Returns the fields of a row: the model's requests and answers, and how the harness used the model. */
export function harnessFields(
  { row, session }: Rollout,
  harness: string,
  events: NumberedEvent[],
  lines: ModelLines,
): TaskRow {
  const exchanges = exchangesIn(events);
  const { main, retries, side, find, isAmbiguous } = lines;
  const { input, output } = lineItems(lines);
  const [first] = main;
  const { instructions: _, ...given } = Object(row["responses_create_params"]) as TaskRow;
  const params: TaskRow = first
    ? { ...given, tools: [], ...requestFields(first, find), input: input as unknown as Json }
    : given;
  const { tools = [], parallel_tool_calls = true, tool_choice = "auto" } = params;
  const answers = main.map((exchange) => exchange.output);
  const broken = brokenAnswer(answers);
  const sampled = answers.filter(isSampled).length;
  const response = {
    id: `resp_${session}`,
    object: "response",
    created_at: Math.floor((first?.began ?? first?.at ?? events.at(-1)?.at ?? 0) / 1000),
    model: main.at(-1)?.model ?? "none",
    status: "completed",
    output,
    // The usage of the whole episode, including side calls.
    usage: totalUsage(exchanges),
    parallel_tool_calls,
    tool_choice,
    tools,
  };
  return {
    responses_create_params: copyJson(params, "the request", "drop"),
    response: copyJson(response, "the response", "drop"),
    ...(broken !== undefined && { token_chain: "broken", token_chain_answer: broken }),
    harness: {
      name: harness,
      model_calls: exchanges.length,
      ...(isAmbiguous && { main: "ambiguous" }),
      main_calls: main.length,
      side_calls: side.length,
      retried_calls: retries.length,
      // Number of the main conversation's answers with sampled tokens. Training needs sampled tokens in all answers.
      sampled_calls: sampled,
    },
  };
}

/** Maximum number of errors of the author's tools that are listed for one episode. */
const mostErrors = 100;

/** Lists the errors of the author's tools that the model read. */
export function errorsInCalls(events: readonly NumberedEvent[]): { errors?: string[] } {
  const thrown = events.flatMap((event) =>
    (event.type === "tool.called" || event.type === "tool.settled") && event.thrown ? [event.thrown] : [],
  );
  return thrown.length === 0 ? {} : { errors: thrown.slice(0, mostErrors).map(summarizeThrown) };
}
