// The messages of a rollout: each answer of the model keeps its own fields.
import { expect, test } from "vitest";
import { toChat } from "../../src/rollout/export/chat.ts";
import type { Json } from "../../src/core/json.ts";

const chat = (output: Json[]) => toChat({ responses_create_params: { input: "hi" }, response: { output } });
const call = (id: string, added = {}) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}", ...added });
const said = (text: string, added = {}) => ({ type: "message", role: "assistant", content: text, ...added });
const output = (id: string) => ({ type: "function_call_output", call_id: id, output: "1" });
const tokens = (at: number) => ({ prompt_token_ids: [1], generation_token_ids: [at], generation_log_probs: [-0.5] });

test("token ids and log-probabilities are on the message of their answer, whichever item had them", () => {
  const { completion } = chat([
    said("a"),
    call("x", tokens(1)),
    output("x"),
    said("b", tokens(2)),
    call("y"),
    output("y"),
  ]);
  expect(completion).toMatchObject([
    { role: "assistant", content: "a", tool_calls: [{ id: "x" }], ...tokens(1) },
    { role: "tool", tool_call_id: "x" },
    { role: "assistant", content: "b", tool_calls: [{ id: "y" }], ...tokens(2) },
    { role: "tool", tool_call_id: "y" },
  ]);
  expect(completion[1]).not.toHaveProperty("generation_token_ids");
});

test("two answers in a row stay two messages", () => {
  expect(chat([said("a", tokens(1)), said("b", tokens(2))]).completion).toMatchObject([
    { content: "a", generation_token_ids: [1] },
    { content: "b", generation_token_ids: [2] },
  ]);
});

test("log-probabilities of the parts of a text are kept", () => {
  const content = [{ type: "output_text", text: "a", logprobs: [{ token: "a", logprob: -1 }] }];
  expect(chat([{ type: "message", role: "assistant", content }]).completion).toEqual([
    { role: "assistant", content: "a", logprobs: { content: [{ token: "a", logprob: -1 }] } },
  ]);
});

test("reasoning is part of the answer", () => {
  const thought = { type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] };
  expect(chat([thought, said("a")]).completion).toEqual([{ role: "assistant", reasoning_content: "hm", content: "a" }]);
});

test("invalid items are skipped", () => {
  expect(chat([null, 7, { type: "message" }, { type: "function_call" }, said("a")]).completion).toHaveLength(1);
});
