// Rows without a task number are grouped by the content of their task.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openCollection } from "../../src/rollout/collection-index.ts";
import { exportRollouts } from "../../src/rollout/export.ts";
import { finishedRollouts } from "../../src/rollout/finished.ts";
import { createMetrics } from "../../src/rollout/metrics.ts";
import { createRowNumbering } from "../../src/rollout/number-rows.ts";
import { findRollout } from "../../src/rollout/show.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import { newFolder } from "./folder.ts";

const row = (prompt: string, reward: number, added: TaskRow = {}): TaskRow => ({
  responses_create_params: { input: [{ role: "user", content: prompt }] },
  response: { output: [{ type: "message", role: "assistant", content: `${prompt} ${reward}` }] },
  reward,
  ...added,
});
const rows = [row("a", 1), row("b", 0), row("a", 0), row("c", 1), row("b", 1)];
const never = (): never => expect.fail("every line is a row");

async function fileOf(...all: TaskRow[]): Promise<string> {
  const file = join(newFolder(), "foreign.jsonl");
  await writeFile(file, all.map((each) => `${JSON.stringify(each)}\n`).join(""));
  return file;
}

async function numbersOf(...all: TaskRow[]): Promise<unknown[][]> {
  const number = createRowNumbering([await fileOf(...all)]);
  const numbered: TaskRow[] = [];
  for (const each of all) numbered.push(await number(each));
  return numbered.map(({ _ng_task_index: task, _ng_rollout_index: repeat }) => [task, repeat]);
}

describe("createRowNumbering", () => {
  test("gives one number to rows of one prompt, and counts their rollouts", async () => {
    expect(await numbersOf(...rows)).toEqual([
      [0, 0],
      [1, 0],
      [0, 1],
      [2, 0],
      [1, 1],
    ]);
  });

  test("tells tasks with the same prompt apart by their task fields, not by results", async () => {
    const a = row("a", 1, { expected_answer: "1", extracted_answer: "1" });
    const again = row("a", 0, { extracted_answer: "2", expected_answer: "1" });
    const other = row("a", 0, { expected_answer: "2", extracted_answer: "1" });
    expect(await numbersOf(a, again, other)).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
    ]);
  });

  test("compares all fields if results have a place of their own, or if there is no prompt", async () => {
    const own = (goal: number, found: number): TaskRow => row("a", 1, { goal, metrics: { found } });
    expect((await numbersOf(own(1, 1), own(1, 2), own(2, 1))).map(([task]) => task)).toEqual([0, 0, 1]);
    const promptless = (task: number): TaskRow => ({ responses_create_params: { input: [] }, level: task, reward: 1 });
    expect((await numbersOf(promptless(1), promptless(2), promptless(1))).map(([task]) => task)).toEqual([0, 1, 0]);
  });

  test("leaves numbered rows alone, and gives their numbers to no other task", async () => {
    const numbered = { ...row("a", 1), _ng_task_index: 0, _ng_rollout_index: 7 };
    expect(await createRowNumbering([])(numbered)).toBe(numbered);
    expect(await numbersOf(row("b", 1), numbered, row("b", 0))).toEqual([
      [1, 0],
      [0, 7],
      [1, 1],
    ]);
  });
});

describe("a file without task numbers", () => {
  test("is exported as one group per prompt", async () => {
    const counts = { rollouts: 0, left_out: 0, lines: 0 };
    const options = { format: "grpo" as const, minReward: 1, onBad: never };
    const groups: TaskRow[] = [];
    for await (const line of exportRollouts(await fileOf(...rows), options, counts)) groups.push(line);
    expect(groups).toMatchObject([
      { _ng_task_index: 0, prompt: [{ content: "a" }], rewards: [1, 0] },
      { _ng_task_index: 1, prompt: [{ content: "b" }], rewards: [0, 1] },
      { _ng_task_index: 2, prompt: [{ content: "c" }], rewards: [1] },
    ]);
  });

  test("has the same tasks in metrics, show and the viewer", async () => {
    const file = await fileOf(...rows);
    const metrics = createMetrics();
    for await (const finished of finishedRollouts(file, never)) metrics.add(finished.row);
    expect(metrics.result().tasks.map(({ task, rollouts }) => [task, rollouts])).toEqual([
      [0, 2],
      [1, 2],
      [2, 1],
    ]);
    expect(await findRollout(file, { task: 1, repeat: 1 }, never)).toMatchObject(rows[4] as TaskRow);
    const details = { run: "0", name: "foreign", file, environment: null, model: null, settings: {}, sessions: false };
    const viewed = openCollection(details);
    for await (const batch of viewed.rows()) {
      expect(batch.map(({ task, repeat }) => [task, repeat])).toEqual(await numbersOf(...rows));
    }
    expect(await viewed.row(4)).toMatchObject({ ...rows[4], _ng_task_index: 1, _ng_rollout_index: 1 });
  });

  test("keeps failures apart that have no number", async () => {
    const file = await fileOf(row("a", 1));
    const failure = { ...row("a", 0), reward: null, failure_kind: "model", failure_reason: "x" };
    await writeFile(file.replace(".jsonl", "_failures.jsonl"), `${JSON.stringify(failure)}\n`.repeat(2));
    const found: unknown[] = [];
    for await (const { row: each, failed } of finishedRollouts(file, never))
      found.push([each["_ng_rollout_index"], failed]);
    expect(found).toEqual([
      [0, false],
      [1, true],
      [2, true],
    ]);
  });
});
