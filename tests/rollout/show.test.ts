// Transcripts: the log event of each call, and its changes.
import { expect, test } from "vitest";
import type { Delta } from "../../src/core/delta.ts";
import type { NumberedEvent } from "../../src/core/event.ts";
import type { Json } from "../../src/core/json.ts";
import { buildTranscript } from "../../src/rollout/show.ts";

const call = (id: string, name = "add") => ({ type: "function_call", call_id: id, name, arguments: "{}" });
const output = (id: string) => ({ type: "function_call_output", call_id: id, output: "ok" });
const row = (...items: Json[]) => ({
  reward: 1,
  responses_create_params: { input: "hi" },
  response: { output: items },
});
const set = (key: string, value: Json): Delta => [{ op: "replace", path: `/${key}`, value }];

let version = 0;
function called(id: string | undefined, delta?: Delta, tool = "add"): NumberedEvent {
  const about = {
    version: ++version,
    at: 0,
    episode: 1,
    tool,
    input: {},
    outcome: { ok: true as const, output: null },
  };
  return { type: "tool.called", ...about, ...(id !== undefined && { call: id }), ...(delta && { delta }) };
}

const changes = (events: NumberedEvent[], ...items: Json[]): unknown[] =>
  buildTranscript(row(...items), events).steps.flatMap((step) => (step.type === "answered" ? [step.changes] : []));

test("calls that ended out of order have their own changes", () => {
  const events = [called("4.b", set("n", 2)), called("4.a", set("n", 1))];
  expect(changes(events, call("a"), call("b"), output("a"), output("b"))).toEqual([
    [{ key: "n", value: 1 }],
    [{ key: "n", value: 2 }],
  ]);
});

test("an id that a model reuses is another call", () => {
  const events = [called("4.a", set("n", 1)), called("6.a"), called("8.a", set("n", 3))];
  const items = [call("a"), output("a"), call("a"), output("a"), call("a"), output("a")];
  expect(changes(events, ...items)).toEqual([[{ key: "n", value: 1 }], [], [{ key: "n", value: 3 }]]);
});

test("calls without ids are found by their tools", () => {
  const events = [called(undefined, set("n", 1), "add"), called(undefined, set("n", 2), "other")];
  expect(changes(events, call("a", "other"), output("a"))).toEqual([[{ key: "n", value: 2 }]]);
});

test("a call that never reached the environment changed nothing", () => {
  expect(changes([called("4.b", set("n", 1))], call("a"), output("a"))).toEqual([[]]);
});

test("changes are named by their paths, and removed values are marked", () => {
  const delta: Delta = [
    { op: "add", path: "/orders/a~1b/items/0", value: { n: 1 } },
    { op: "remove", path: "/orders/c" },
    { op: "replace", path: "", value: { x: 1, y: 2 } },
  ];
  expect(changes([called("1.a", delta)], call("a"), output("a"))).toEqual([
    [
      { key: "orders.a/b.items.0", value: { n: 1 } },
      { key: "orders.c" },
      { key: "x", value: 1 },
      { key: "y", value: 2 },
    ],
  ]);
});

test("a verifier's extra fields are shown only for the verdict of the row", () => {
  const verified = (verdict: { reward: number; why: string }): NumberedEvent => ({
    type: "session.verified",
    version: ++version,
    at: 0,
    judged: 1,
    digest: "",
    verdict,
  });
  const events = [verified({ reward: 1, why: "old" })];
  expect(buildTranscript({ ...row(), why: "old" }, events).verdict).toEqual({ why: "old" });
  expect(buildTranscript({ ...row(), why: "new" }, events).verdict).toBeUndefined();
});

test("any row is shown as far as possible", () => {
  expect(buildTranscript({}).steps).toEqual([]);
  const odd = row(
    null,
    { type: "web_search_call", id: "x" },
    { type: "reasoning", summary: [{ type: "t", text: "hm" }] },
  );
  expect(buildTranscript(odd).steps.slice(1)).toEqual([
    { type: "other", item: { type: "web_search_call", id: "x" } },
    { type: "thought", text: "hm" },
  ]);
});
