// buildResponse(): turns an episode's transcript into one Responses object, the format of rollout files.
import type { EventOf, NumberedEvent } from "../../core/event.ts";
import { copyJson, isObject, toFields, type Json } from "../../core/json.ts";
import type { Usage } from "../../core/model.ts";
import { inputItems, type Rollout, type TaskRow } from "../../core/rollout.ts";
import { brokenAnswer } from "../../core/tokens.ts";
import { tokenFields } from "../row-fields.ts";

export function buildResponse({ row, session }: Rollout, events: NumberedEvent[]): Json {
  const answers = events.filter((event) => event.type === "model.answered") as EventOf<"model.answered">[];
  const began = events.find((event) => event.type === "invocation.began") as EventOf<"invocation.began"> | undefined;
  // The first message begins with the row's items. All other items are observations.
  const given = inputItems(row);
  const items = events.flatMap((event) => {
    if (!("items" in event)) return [];
    return event === began ? event.items.slice(typeof given === "string" ? 0 : given.length) : (event.items ?? []);
  });
  const params = Object(row["responses_create_params"]) as TaskRow;
  const { tools = [], parallel_tool_calls = true, tool_choice = "auto" } = params;
  const response = {
    id: `resp_${session}`,
    object: "response",
    created_at: Math.floor(((began ?? events[0])?.at ?? 0) / 1000),
    model: answers.findLast(({ model }) => model !== undefined)?.model ?? "none",
    status: "completed",
    output: items,
    usage: totalUsage(answers),
    parallel_tool_calls,
    tool_choice,
    tools,
  };
  return copyJson(response, "the response", "drop");
}

/** Returns a response without token fields, for verify. The log keeps that response next to the verdict. */
export function withoutTokens(response: Json): Json {
  const { output } = toFields(response);
  return Array.isArray(output) ? { ...toFields(response), output: output.map(withoutTokenFields) } : response;
}

/** Cleans an item, or a part of its content. Responses API servers attach log-probabilities to each text part. */
function withoutTokenFields(item: Json): Json {
  if (!isObject(item)) return item;
  const kept = Object.fromEntries(Object.entries(item).filter(([name]) => !tokenFields.includes(name)));
  const { content } = kept;
  return Array.isArray(content) ? { ...kept, content: content.map(withoutTokenFields) } : kept;
}

/**
 * Marks an episode whose prompts do not continue the sampled tokens, because a trainer would learn from tokens that the
 * model has not seen. Each agent in an episode has its own conversation.
 */
export function tokenChain(events: readonly NumberedEvent[]): TaskRow {
  const answers = events.filter((event) => event.type === "model.answered") as EventOf<"model.answered">[];
  for (const path of new Set(answers.map((answer) => answer.path))) {
    const own = answers.filter((answer) => answer.path === path);
    const broken = brokenAnswer(own.map(({ items }) => items));
    if (broken === undefined) continue;
    return { token_chain: "broken", token_chain_answer: answers.indexOf(own[broken - 1] as (typeof own)[0]) + 1 };
  }
  return {};
}

/** Adds up the tokens of answers. */
export function totalUsage(answers: readonly { usage?: Usage }[]): Json {
  const total = (field: keyof Usage): number =>
    answers.reduce((sum, { usage }) => sum + (typeof usage?.[field] === "number" ? usage[field] : 0), 0);
  const detail = (group: string, field: string): number =>
    answers.reduce(
      (sum, { usage }) => sum + Number((Object(usage?.[group]) as Record<string, unknown>)[field] ?? 0),
      0,
    );
  return {
    input_tokens: total("input_tokens"),
    // `cache_write_tokens` is required by openai 2.54 and later, which validates responses for NeMo Gym.
    input_tokens_details: {
      cached_tokens: detail("input_tokens_details", "cached_tokens"),
      cache_write_tokens: detail("input_tokens_details", "cache_write_tokens"),
    },
    output_tokens: total("output_tokens"),
    output_tokens_details: { reasoning_tokens: detail("output_tokens_details", "reasoning_tokens") },
    total_tokens: total("total_tokens"),
  };
}
