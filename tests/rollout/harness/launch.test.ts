// The commands and the configuration of Claude Code and Codex.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { prepareHarness, type HarnessTask } from "../../../src/rollout/harness/launch.ts";

function prepare(harness: string, task: Partial<HarnessTask> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-launch-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return prepareHarness(harness, {
    environment: "counter",
    address: { mcp: "http://127.0.0.1:1/mcp", model: "http://127.0.0.1:1/v1", key: "k" },
    prompt: "Count.",
    instructions: undefined,
    tools: ["add"],
    folder,
    maxSteps: 10,
    timeout: undefined,
    ...task,
  });
}

const long = "x".repeat(140_000);

test.each(["claude-code", "codex"])(
  "%s gets long texts by standard input and files, not as arguments",
  async (name) => {
    const { args, input } = await prepare(name, { prompt: long, instructions: `${long} Be short.` });
    expect(input).toBe(long);
    expect(Math.max(...args.map(({ length }) => length))).toBeLessThan(1_000);
    const file = args[args.indexOf("--append-system-prompt-file") + 1] as string;
    if (name === "claude-code") expect(readFileSync(file, "utf8")).toBe(`${long} Be short.`);
  },
);
