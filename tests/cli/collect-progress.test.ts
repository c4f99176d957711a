// The progress of a collection: one changing line on a terminal, plain lines elsewhere.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createProgress } from "../../src/cli/collect/progress.ts";
import type { TaskRow } from "../../src/core/rollout.ts";

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
const failed: TaskRow = { reward: null, failure_kind: "model", response };

/** Ten seconds of a collection that had 40 of its 100 rows before. */
function tenSeconds() {
  const progress = createProgress({ json: false });
  progress.plan(100);
  progress.start(40);
  for (let row = 0; row < 15; row++) progress.row(scored, false);
  for (let row = 0; row < 5; row++) progress.row({ ...scored, reward: 0 }, false);
  progress.row(failed, true);
  vi.advanceTimersByTime(10_000);
  return progress;
}

const wanted = "61 of 100 · 2.1/s · mean reward 0.750 · failed: model 1 · 21 tool calls · 2100 tokens · 19 s left";

test("on a terminal one line changes, fits the terminal, and disappears at the end", () => {
  isTerminal = true;
  const { columns } = process.stderr;
  process.stderr.columns = 200;
  const progress = tenSeconds();
  const lines = written.split("\r\u001B[2K").slice(1);
  expect(lines).toHaveLength(50);
  expect(lines.at(-1)).toBe(wanted);
  process.stderr.columns = 30;
  vi.advanceTimersByTime(200);
  expect(written.split("\r\u001B[2K").at(-1)).toHaveLength(29);
  progress.end();
  expect(written.endsWith("\r\u001B[2K")).toBe(true);
  process.stderr.columns = columns;
});

test("elsewhere a line is printed every ten seconds, and one at the end", () => {
  isTerminal = false;
  const progress = tenSeconds();
  expect(written).toBe(`${wanted}\n`);
  progress.end();
  progress.end();
  expect(written).toBe(`${wanted}\n${wanted}\n`);
});
