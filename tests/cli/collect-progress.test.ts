// The progress of a collection: one changing line on a terminal, plain lines elsewhere.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createProgress } from "../../src/cli/collect/progress.ts";
import type { NumberedEvent } from "../../src/core/event.ts";
import type { Rollout, TaskRow } from "../../src/core/rollout.ts";

let written = "";
let isTerminal = false;

beforeEach(() => {
  written = "";
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  const before = Object.getOwnPropertyDescriptor(process.stderr, "isTTY");
  Object.defineProperty(process.stderr, "isTTY", { configurable: true, get: () => isTerminal });
  vi.spyOn(process.stderr, "write").mockImplementation((text) => ((written += String(text)), true));
  return () => {
    if (before) Object.defineProperty(process.stderr, "isTTY", before);
    else Reflect.deleteProperty(process.stderr, "isTTY");
  };
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const response = { usage: { total_tokens: 100 }, output: [{ type: "function_call" }, { type: "message" }] };
const scored: TaskRow = { reward: 1, response };
const failed: TaskRow = {
  _ng_task_index: 4,
  reward: null,
  failure_kind: "model",
  failure_reason: "status 401",
  response,
};

const answered = {
  type: "model.answered",
  items: [{ type: "function_call" }, { type: "function_call" }],
  usage: { total_tokens: 6000 },
} as unknown as NumberedEvent;

const rollout: Rollout = { task: 0, repeat: 0, attempt: 0, row: {}, session: "one", random: 0 };

/** Ten seconds of a collection that had 40 of its 100 rows before. */
function tenSeconds() {
  const progress = createProgress({ json: false });
  progress.plan(100);
  progress.start(40);
  progress.running(8);
  for (let row = 0; row < 15; row++) progress.row(scored, false, []);
  for (let row = 0; row < 5; row++) progress.row({ ...scored, reward: 0 }, false, []);
  progress.row(failed, true, []);
  vi.advanceTimersByTime(10_000);
  return progress;
}

const reason = "rollout failed (task 4): model failed: status 401";
const wanted =
  "61 of 100 · 8 running · 1 failed · 10 s · about 19 s left · mean reward 0.750 · 21 model calls · 21 tool calls · 2100 tokens";

test("on a terminal one line changes, fits the terminal, and disappears at the end", () => {
  isTerminal = true;
  const { columns } = process.stderr;
  process.stderr.columns = 200;
  const progress = tenSeconds();
  const lines = written.split("\r\u001B[2K").slice(1);
  // The reason of the first failure stays above the line.
  expect(lines[0]).toBe(`${reason}\n`);
  expect(lines).toHaveLength(51);
  expect(lines.at(-1)).toBe(wanted);
  process.stderr.columns = 60;
  vi.advanceTimersByTime(200);
  // Whole parts, not cut ones.
  expect(written.split("\r\u001B[2K").at(-1)).toBe("61 of 100 · 8 running · 1 failed · 10 s · about 19 s left");
  progress.end();
  expect(written.endsWith("\r\u001B[2K")).toBe(true);
  process.stderr.columns = columns;
});

test("elsewhere a line is printed every ten seconds, and one at the end", () => {
  isTerminal = false;
  const progress = tenSeconds();
  expect(written).toBe(`${reason}\n${wanted}\n`);
  progress.end();
  progress.end();
  expect(written).toBe(`${reason}\n${wanted}\n${wanted}\n`);
  expect(written).not.toContain("\u001B");
});

test("calls and tokens are counted while episodes run, and not again when they end", () => {
  isTerminal = false;
  const progress = createProgress({ json: false });
  progress.plan(6);
  progress.start(0);
  progress.running(3);
  for (let answer = 0; answer < 4; answer++) progress.event(answered, rollout);
  vi.advanceTimersByTime(10_000);
  expect(written).toBe("0 of 6 · 3 running · 10 s · 4 model calls · 8 tool calls · 24k tokens\n");
  progress.row(scored, false, []);
  progress.end();
  expect(written).toContain("4 model calls · 8 tool calls · 24k tokens\n");
});

test("tokens of attempts that are repeated are counted apart, but not if only verify is repeated", () => {
  const progress = createProgress({ json: false });
  progress.event(answered, rollout);
  progress.retry(rollout, { kind: "verify", reason: "no judge", isPlayed: true });
  expect(progress.repeated()).toBe(0);
  progress.retry(rollout, { kind: "model", reason: "no answer" });
  progress.event(answered, rollout);
  progress.row(scored, false, []);
  expect(progress.repeated()).toBe(6_000);
  progress.end();
});

test("each reason is printed once, and counted; reasons that differ in numbers count as one", () => {
  isTerminal = false;
  const progress = createProgress({ json: false, isQueued: true });
  progress.plan(9);
  progress.start(0);
  progress.running(4);
  const error = "TypeError: x is undefined in roll (environment.ts:12)";
  for (const port of [1, 2, 3]) progress.row({ ...failed, failure_reason: `no answer from port ${port}` }, true, []);
  progress.row({ ...failed, failure_kind: "task", failure_reason: "line 3: no input" }, true, []);
  progress.row(scored, false, [error, error]);
  expect(written.split("\n")).toEqual([
    "rollout failed (task 4): model failed: no answer from port 1",
    "rollout failed (task 4): invalid task: line 3: no input",
    `error thrown by your code: ${error}`,
    "",
  ]);
  expect(progress.reasons()).toEqual({
    failures: ["  3 × model failed: no answer from port 1", "  1 × invalid task: line 3: no input"],
    errors: [`  2 × ${error}`],
  });
  vi.advanceTimersByTime(10_000);
  expect(written).toContain("4 handed out");
});
