// The curve of a training run: rows by label, and the numbers of a trainer.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readCurve } from "../../src/rollout/curve.ts";
import { constantIn, seriesIn, type Curve } from "../../src/rollout/curve-series.ts";
import { newFolder } from "./folder.ts";

const lines = (rows: object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const row = (iteration: number | string, reward: number, more: object = {}) => ({
  reward,
  seconds: 0.5,
  response: { output: [], usage: { total_tokens: 10 } },
  _holdfast_labels: { iteration },
  ...more,
});
const ignore = (): void => undefined;

test("rows are joined by label over all files of a folder, and failures have no reward", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "a.jsonl"), lines([row(10, 1), row(9, 0), row(10, 0)]));
  const failed = { failure_kind: "model", reward: null, mask_sample: true };
  writeFileSync(join(folder, "a_failures.jsonl"), lines([row("10", 0, { ...failed, _ng_task_index: 7 })]));
  writeFileSync(join(folder, "b.jsonl"), lines([row("10", 1), { reward: 1 }]));
  const { points, unlabelled } = await readCurve(folder, "iteration", ignore);
  expect(unlabelled).toBe(1);
  expect(points).toEqual([
    { at: "9", rollouts: 1, failed: 0, reward: 0, tokens: 10, seconds: 0.5, trainer: {} },
    { at: "10", rollouts: 4, failed: 1, reward: 2 / 3, tokens: 40, seconds: 2, trainer: {} },
  ]);
  const { points: files } = await readCurve(folder, "collection", ignore);
  expect(files.map(({ at, rollouts }) => [at, rollouts])).toEqual([
    ["a", 4],
    ["b", 2],
  ]);
});

test("the trainer's numbers stand beside the rows, and its reward counts where there are none", async () => {
  const folder = newFolder();
  const trained = { iteration: 1, reward: 0.25, loss: 0.5, seconds: { sampling: 2, update: 1 }, note: "text" };
  writeFileSync(join(folder, "metrics.jsonl"), lines([trained, { ...trained, iteration: 2, loss: 0.1 }]));
  writeFileSync(join(folder, "rows.jsonl"), lines([row(2, 1)]));
  const { points } = await readCurve(folder, "iteration", ignore);
  const trainer = { reward: 0.25, loss: 0.5, "seconds.sampling": 2, "seconds.update": 1 };
  expect(points).toEqual([
    { at: "1", rollouts: null, failed: null, reward: 0.25, tokens: null, seconds: null, trainer },
    { at: "2", rollouts: 1, failed: 0, reward: 1, tokens: 10, seconds: 0.5, trainer: { ...trainer, loss: 0.1 } },
  ]);
});

test("a folder without the label is refused with the number of its rows", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "rows.jsonl"), lines([row(1, 1)]));
  await expect(readCurve(folder, "policy", ignore)).rejects.toThrow(
    "no rows with the label policy; 1 rows do not have this label",
  );
  // A trainer's line does not count as a row.
  const trained = newFolder();
  writeFileSync(join(trained, "metrics.jsonl"), lines([{ iteration: 1, reward: 0.5 }]));
  await expect(readCurve(trained, "policy", ignore)).rejects.toThrow(
    /has no rows with the label policy; no line of its metrics\.jsonl has this field$/,
  );
  await expect(readCurve(join(folder, "none"), "policy", ignore)).rejects.toThrow("does not exist");
});

test("runs are drawn over each other by iteration, the reward first, and gaps stay gaps", () => {
  const point = (at: string, reward: number | null, trainer = {}) => ({
    at,
    rollouts: null,
    failed: null,
    reward,
    tokens: null,
    seconds: null,
    trainer,
  });
  const curve = (points: Curve["points"]): Curve => ({ path: "p", over: "iteration", points, unlabelled: 0 });
  const curves = [curve([point("2", 0.5, { loss: 1 }), point("4", 1)]), curve([point("1", 0.25), point("2", null)])];
  expect(seriesIn(curves)).toEqual([
    {
      name: "reward",
      first: 1,
      lines: [
        [undefined, 0.5, undefined, 1],
        [0.25, undefined],
      ],
    },
    {
      name: "loss",
      first: 1,
      lines: [
        [undefined, 1, undefined, undefined],
        [undefined, undefined],
      ],
    },
  ]);
});

test("the metrics to watch come first, and a metric that never changes is known by its value", () => {
  const trainer = (reward: number) => ({ tasks: 64, steps: reward, entropy: 1, reward_all_tasks: reward });
  const points = [0, 1].map((reward) => ({
    at: String(reward),
    rollouts: null,
    failed: null,
    reward,
    tokens: null,
    seconds: null,
    trainer: trainer(reward),
  }));
  const series = (count: number) =>
    seriesIn([{ path: "p", over: "iteration", points: points.slice(0, count), unlabelled: 0 }]);
  expect(series(2).map((each) => [each.name, constantIn(each)])).toEqual([
    ["reward", undefined],
    ["reward_all_tasks", undefined],
    ["entropy", 1],
    ["tasks", 64],
    ["steps", undefined],
  ]);
  expect(series(1).map(constantIn)).toEqual(Array(5).fill(undefined));
});
