// The commands and the configuration of Claude Code and Codex.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { describeTask, prepareHarness, type HarnessTask } from "../../../src/rollout/harness/launch.ts";

function taskOf(task: Partial<HarnessTask>): HarnessTask {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-launch-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return {
    environment: "counter",
    address: { mcp: "http://127.0.0.1:1/mcp", model: "http://127.0.0.1:1/v1", key: "k" },
    prompt: "Count.",
    instructions: undefined,
    tools: ["add"],
    folder,
    maxSteps: 10,
    timeout: undefined,
    ...task,
  };
}

const prepare = (harness: string, task: Partial<HarnessTask> = {}) => prepareHarness(harness, taskOf(task));

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

test("a command gets the prompt and the instructions in files, and in variables if they are short", async () => {
  const short = await describeTask(taskOf({ instructions: "Be short." }));
  expect(short).toMatchObject({ HOLDFAST_PROMPT: "Count.", HOLDFAST_INSTRUCTIONS: "Be short." });
  expect(readFileSync(short["HOLDFAST_INSTRUCTIONS_FILE"] as string, "utf8")).toBe("Be short.");
  const both = await describeTask(taskOf({ prompt: long, instructions: `${long} Be short.` }));
  expect(Object.keys(both)).not.toContain("HOLDFAST_PROMPT");
  expect(Object.keys(both)).not.toContain("HOLDFAST_INSTRUCTIONS");
  expect(readFileSync(both["HOLDFAST_PROMPT_FILE"] as string, "utf8")).toBe(long);
  expect(readFileSync(both["HOLDFAST_INSTRUCTIONS_FILE"] as string, "utf8")).toBe(`${long} Be short.`);
  const none = await describeTask(taskOf({}));
  expect(Object.keys(none).filter((name) => name.includes("INSTRUCTIONS"))).toEqual([]);
});

test.each([
  ["a day without a time limit", undefined, 86_400],
  ["the episode's time limit", 90_500, 91],
])("codex waits for the model and the tools: %s", async (_, timeout, seconds) => {
  const { env } = await prepare("codex", { timeout });
  const [, provider, tools] = readFileSync(join(env["CODEX_HOME"] as string, "config.toml"), "utf8").split(
    /^\[model_providers.holdfast\]$|^\[mcp_servers."counter"\]$/m,
  );
  expect(provider).toContain(`\nstream_idle_timeout_ms = ${seconds * 1000}\nstream_max_retries = 1\n`);
  expect(tools).toContain(`\ntool_timeout_sec = ${seconds}\n`);
});
