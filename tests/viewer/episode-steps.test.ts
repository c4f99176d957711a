// The transcript of an episode: from a row and its log, from a row alone, and from a log alone.
import { expect, test } from "vitest";
import type { NumberedEvent } from "../../src/core/event.ts";
import type { Json } from "../../src/core/json.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import { lanesOf, nextIn } from "../../viewer/src/pages/episode/event-kinds.ts";
import { buildSteps } from "../../viewer/src/pages/episode/steps.ts";

const numbered = (...events: object[]): NumberedEvent[] =>
  events.map((event, at) => ({ at, episode: 1, ...event, version: at + 1 }) as unknown as NumberedEvent);

const opened = { type: "session.opened", environment: "counter", randomness: { seed: 1, turn: 0 } };
const seeded = { type: "session.seeded", task: { from: 3 }, randomness: { seed: 1, turn: 0 } };
const called = (call: string, output: unknown) => ({
  type: "tool.called",
  tool: "add",
  input: { count: 1 },
  call,
  outcome: { ok: true, output },
});
const verified = { type: "session.verified", judged: 4, digest: "d", verdict: { reward: 1, why: "right" } };

const row: TaskRow = {
  responses_create_params: { instructions: "Be good.", input: [{ role: "user", content: "Add." }] },
  response: {
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] },
      { type: "function_call", call_id: "c1", name: "add", arguments: '{"count":1}' },
      { type: "function_call_output", call_id: "c1", output: '{"count":4}' },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "One more." }] },
      { type: "function_call", call_id: "c2", name: "add", arguments: "{bad" },
      { type: "function_call_output", call_id: "c2", output: "no JSON" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }] },
    ],
  },
};

const shown = (output: Json | undefined): string =>
  typeof output === "string" ? output : (JSON.stringify(output) ?? "");

const told = (steps: ReturnType<typeof buildSteps>): string[] =>
  steps.map((step) => {
    const what = "text" in step ? step.text : step.type === "called" ? shown(step.output) : "";
    return `${step.version ?? "-"} ${step.type} ${what}`.trim();
  });

test("a failure is the last step, and a stop comes before the verdict", () => {
  const log = numbered(opened, seeded, called("3.c1", { count: 4 }), called("9.c3", { count: 5 }), verified);
  const failed = buildSteps({ failure_kind: "model", failure_reason: "it hung up" }, log);
  expect(told(failed).slice(-2)).toEqual(["5 verdict", "- note failed (model): it hung up"]);
  const stopped = buildSteps({ ...row, stopped: "steps" }, log);
  expect(told(stopped).slice(-3)).toEqual([
    "- note stopped: the steps limit was reached",
    '4 called {"count":5}',
    "5 verdict",
  ]);
  expect(told(buildSteps({ stopped: "empty" }, []))).toEqual(["- note stopped: the model's answer was empty"]);
});

test("a verify that threw is a step with its message, in the lane of failures", () => {
  const error = { code: "verify_failed", message: "verify of counter failed: no goal" };
  const thrown = { error: "TypeError: no goal", place: "verify (environment.ts:9)" };
  const log = numbered(opened, seeded, { type: "verify.failed", judged: 2, digest: "", error, thrown });
  expect(buildSteps(undefined, log).at(-1)).toMatchObject({
    type: "note",
    text: "verify failed: verify of counter failed: no goal",
    tone: "bad",
  });
  expect(log.map(lanesOf).at(-1)).toEqual(["failure"]);
});

test("calls link to their versions, with other events between them", () => {
  const refused = {
    type: "tool.called",
    tool: "add",
    input: "{bad",
    call: "9.c2",
    outcome: { ok: false, error: { code: "invalid_input", message: "count is missing" } },
  };
  const steps = buildSteps(row, numbered(opened, seeded, called("3.c1", { count: 4 }), refused, verified));
  expect(told(steps)).toEqual([
    "1 note opened",
    "2 note seeded: episode 1",
    "- said Be good.",
    "- said Add.",
    "- thought Hm.",
    '3 called {"count":4}',
    "- said One more.",
    "4 called",
    "- said Done.",
    "5 verdict",
  ]);
  expect(steps[7]).toMatchObject({ input: "{bad", error: { message: "count is missing" } });
});

test("steps have the number of the model's answer, and calls of one answer are numbered together", () => {
  const call = (id: string) => ({ type: "function_call", call_id: id, name: "add", arguments: "{}" });
  const gave = (id: string) => ({ type: "function_call_output", call_id: id, output: "ok" });
  const said = { type: "message", role: "assistant", content: "Done." };
  const output = [call("a"), call("b"), gave("a"), gave("b"), call("c"), gave("c"), said];
  const steps = buildSteps({ responses_create_params: { input: "Add." }, response: { output } }, []);
  expect(steps.map(({ turn }) => turn)).toEqual([undefined, 1, 1, 2, 3]);
  expect(steps.map((step) => (step.type === "called" ? step.parallel : undefined))).toEqual([
    undefined,
    { number: 1, of: 2 },
    { number: 2, of: 2 },
    undefined,
    undefined,
  ]);
});

test("a call shows how long its tool ran, if the log says", () => {
  const timed = { ...called("3.c1", { count: 4 }), at: 5_000, began: 3_800 };
  const [, , step] = buildSteps(undefined, numbered(opened, seeded, timed));
  expect(step).toMatchObject({ type: "called", at: 5_000, seconds: 1.2 });
});

test("a failed call shows where its tool threw", () => {
  const thrown = { error: "TypeError: x is undefined", place: "roll (environment.ts:12)", stack: "TypeError…" };
  const outcome = { ok: false, error: { code: "tool_failed", message: "x is undefined" } };
  const [, , step] = buildSteps(undefined, numbered(opened, seeded, { ...called("3.c1", 1), outcome, thrown }));
  expect(step).toMatchObject({ error: outcome.error, thrown });
});

test("without a log the steps come from the row", () => {
  expect(told(buildSteps(row, []))).toEqual([
    "- said Be good.",
    "- said Add.",
    "- thought Hm.",
    '- called {"count":4}',
    "- said One more.",
    "- called no JSON",
    "- said Done.",
  ]);
});

test("without a row the steps come from the log, with the messages if a verdict recorded them", () => {
  const events = numbered(opened, seeded, called("c1", 1), called("c9", 2));
  expect(told(buildSteps(undefined, events)).slice(2)).toEqual(["3 called 1", "4 called 2"]);
  const judged = numbered(opened, seeded, called("c1", 1), { ...verified, response: row["response"] }, called("c9", 2));
  expect(told(buildSteps(undefined, judged)).slice(2)).toEqual([
    "- thought Hm.",
    '3 called {"count":4}',
    "- said One more.",
    "- called no JSON",
    "- said Done.",
    "4 verdict",
    "5 called 2",
  ]);
});

test("an external call is one step with its result, and stays open without one", () => {
  const claimed = { type: "tool.claimed", tool: "send", input: { to: "Ada" }, call: "x", until: 9 };
  const settled = { type: "tool.settled", tool: "send", call: "x", outcome: { ok: true, output: "sent" } };
  expect(buildSteps(undefined, numbered(opened, claimed))[1]).toEqual({
    type: "called",
    version: 2,
    at: 1,
    tool: "send",
    input: { to: "Ada" },
  });
  expect(buildSteps(undefined, numbered(opened, claimed, settled)).slice(1)).toEqual([
    { type: "called", version: 3, at: 2, tool: "send", input: { to: "Ada" }, output: "sent" },
  ]);
});

test("steps undone by a rewind are marked, also under a later rewind", () => {
  const rewound = (to: number) => ({ type: "session.rewound", to, task: null, randomness: { seed: 1, turn: 0 } });
  const events = numbered(opened, seeded, called("a", 1), called("b", 2), rewound(3), called("c", 3), rewound(2));
  const undone = buildSteps(undefined, events).map(({ version, isUndone }) => [version, isUndone === true]);
  expect(undone.filter(([, is]) => is).map(([version]) => version)).toEqual([3, 4, 5, 6]);
  expect(buildSteps(undefined, events.slice(0, 6)).filter(({ isUndone }) => isUndone)).toHaveLength(1);
});

test("the next event of a lane follows the shown version and wraps around", () => {
  expect([nextIn([2, 5, 9], 2), nextIn([2, 5, 9], 9), nextIn([], 1)]).toEqual([5, 2, undefined]);
});

test("a harness's model calls and tool calls are one timeline, in the order of the log, with versions", () => {
  const said = (text: string) => ({ type: "message", role: "assistant", content: text });
  const add = { type: "function_call", call_id: "c1", name: "mcp__counter__add", arguments: "{}" };
  const result = { type: "function_call_output", call_id: "c1", output: "1" };
  const asked = { type: "model.called", model: "m", digest: "d" };
  const request = { tools: [{ type: "function", name: "mcp__counter__add", parameters: {} }] };
  const prompt = { type: "message", role: "user", content: "Add." };
  const log = numbered(
    opened,
    seeded,
    { ...asked, digest: "t", input: [prompt], output: [said("A title")] },
    { ...asked, request, after: { version: 3, items: 1 }, input: [], output: [said("I add."), add] },
    called("c1", 1),
    { ...asked, digest: "e", after: { version: 4, items: 3 }, input: [result], output: [said("Done.")] },
    verified,
  );
  const expected = [
    "1 note opened",
    "2 note seeded: episode 1",
    "- said Add.",
    "3 note a side call or a retry of the harness: m answered",
    "4 said I add.",
    "5 called 1",
    "6 said Done.",
    "7 verdict",
  ];
  // Of a live session, and of a row.
  expect(told(buildSteps(undefined, log))).toEqual(expected);
  const output = [said("I add."), add, result, said("Done.")] as unknown as Json;
  const played: TaskRow = { responses_create_params: { input: [prompt] }, response: { output } };
  expect(told(buildSteps(played, log))).toEqual(expected);
  expect(log.slice(2, 6).flatMap(lanesOf)).toEqual(["answer", "answer", "call", "answer"]);
});
