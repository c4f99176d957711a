// holdfast export: message lists, accepted rows and groups.
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { built } from "../built.ts";
import { run } from "../e2e/serve-process.ts";
import { root } from "../files.ts";
import { collectCounter, linesOf, newFolder, rowsIn, writeRows } from "./rollout-files.ts";

test("chat is a list of messages with the calls and their results", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "scripted");
  const out = join(folder, "chat.jsonl");
  const { code, stdout } = await run("export", file, "--format", "chat", "--out", out);
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${out}: 10 rollouts exported in 10 lines, 0 skipped\n` });
  const [first] = rowsIn(out).filter(({ _ng_task_index: task }) => task === 3) as {
    messages: object[];
    tools: object[];
  }[];
  expect(
    first?.messages.map((message) => ({ ...message, tool_calls: undefined, tool_call_id: undefined })),
  ).toMatchObject([
    { role: "user", content: expect.stringContaining("Add 12") as string },
    { role: "assistant", content: null },
    { role: "tool", content: '{"count":-18}' },
    { role: "assistant", content: null },
    { role: "tool", content: '{"success":true}' },
    { role: "assistant", content: "Done." },
  ]);
  expect(first?.messages[3]).toMatchObject({
    tool_calls: [{ type: "function", function: { name: "increment_counter", arguments: '{"count":4}' } }],
  });
  expect(first?.tools[0]).toMatchObject({ type: "function", function: { name: "increment_counter" } });
});

const row = (task: number, repeat: number, reward: number, added = {}) => ({
  _ng_task_index: task,
  _ng_rollout_index: repeat,
  reward,
  ...added,
  responses_create_params: { input: "hi" },
  response: { output: [{ type: "message", role: "assistant", content: `${task} ${repeat}` }] },
});

test("sft contains only rows with enough reward, and no failed or masked ones", async () => {
  const folder = await newFolder();
  const rows = [
    row(0, 0, 1),
    row(0, 1, 0.5),
    row(0, 2, 1, { mask_sample: true }),
    row(0, 3, 1, { failure_kind: "model" }),
  ];
  const file = await writeRows(join(folder, "a.jsonl"), ...rows);
  const sft = async (...flags: string[]) =>
    linesOf((await run("export", file, "--format", "sft", ...flags)).stdout).map(({ _ng_rollout_index: at }) => at);
  expect(await sft()).toEqual([0]);
  expect(await sft("--min-reward", "0.5")).toEqual([0, 1]);
});

test("grpo has a group per task, with advantages of 0 if all rewards are equal", async () => {
  const folder = await newFolder();
  const masked = row(0, 4, 7, { mask_sample: true });
  const rows = [row(1, 1, 1), row(0, 3, 0), masked, row(0, 0, 1), row(0, 2, 0), row(1, 0, 1), row(0, 1, 0)];
  const file = await writeRows(join(folder, "a.jsonl"), ...rows);
  const { code, stdout, stderr } = await run("export", file, "--format", "grpo");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "6 rollouts exported in 2 lines, 1 skipped\n" });
  const [first, second] = linesOf(stdout) as { rollouts: { messages: unknown }[] }[];
  expect(first).toMatchObject({ _ng_task_index: 0, rewards: [1, 0, 0, 0], advantages: [1.5, -0.5, -0.5, -0.5] });
  expect(first).toMatchObject({ mean: 0.25, std: 0.5, prompt: [{ role: "user", content: "hi" }] });
  expect(first?.rollouts[1]?.messages).toEqual([{ role: "assistant", content: "0 1" }]);
  expect(second).toMatchObject({ _ng_task_index: 1, rewards: [1, 1], advantages: [0, 0], std: 0 });
});

test("a closed output pipe ends the command silently", async () => {
  const file = await writeRows(
    join(await newFolder(), "a.jsonl"),
    ...Array.from({ length: 20_000 }, (_, at) => row(at, 0, 1)),
  );
  const main = join(await built(), "cli/main.js");
  const command = `"${process.execPath}" "${main}" export "${file}" --format chat | head -1`;
  const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) =>
    execFile("sh", ["-c", command], { cwd: root }, (_, stdout, stderr) => resolve({ stdout, stderr })),
  );
  expect(linesOf(stdout)).toHaveLength(1);
  expect(stderr).toBe("");
});

test("inputs are never overwritten, and a refused export leaves nothing behind", async () => {
  const folder = await newFolder();
  const file = await writeRows(join(folder, "a.jsonl"), row(0, 0, 1));
  const over = await run("export", file, "--format", "chat", "--out", file, "--force");
  expect(over).toMatchObject({ code: 1, stderr: `invalid_option: ${file} is the input file; choose another --out\n` });
  const empty = await writeRows(join(folder, "b.jsonl"));
  expect((await run("export", empty, "--format", "chat", "--out", join(folder, "c.jsonl"))).code).toBe(1);
  expect(await readdir(folder)).toEqual(["a.jsonl", "b.jsonl"]);
});
