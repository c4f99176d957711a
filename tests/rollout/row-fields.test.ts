// The verdict in a row: metrics have a place of their own, so that they cannot overwrite the task.
import { expect, test } from "vitest";
import { toVerdictFields, withFlatMetrics, withoutOutcome } from "../../src/rollout/row-fields.ts";

test("what verify returned beside the reward goes under metrics", () => {
  expect(toVerdictFields({ reward: 1 })).toEqual({ reward: 1 });
  expect(toVerdictFields({ reward: 1, response: "Correct." })).toEqual({
    reward: 1,
    metrics: { response: "Correct." },
  });
  expect(toVerdictFields({ reward: 1, cash: 52, metrics: { days: 3 } })).toEqual({
    reward: 1,
    metrics: { cash: 52, days: 3 },
  });
  expect(toVerdictFields({ reward: 1, mask_sample: true, seconds: 3 })).toEqual({
    reward: 1,
    mask_sample: true,
    metrics: { seconds: 3 },
  });
});

test("fields that a server returned unchanged are not metrics", () => {
  const task = { cash: 300, goal: { days: 3 }, responses_create_params: { input: "x" } };
  const told = { ...task, reward: 1, cash: 52, stopped: "steps", _ng_task_index: 4 };
  expect(toVerdictFields(told, task)).toEqual({
    reward: 1,
    stopped: "steps",
    _ng_task_index: 4,
    responses_create_params: { input: "x" },
    metrics: { cash: 52 },
  });
});

test("for collectors of NeMo Gym metrics are at the top of the row", () => {
  expect(withFlatMetrics({ reward: 1, metrics: { cash: 52 } })).toEqual({ reward: 1, cash: 52 });
  expect(withFlatMetrics({ reward: 1 })).toEqual({ reward: 1 });
});

test("the outcome of an earlier collection is removed, and a task's own field `metrics` is not", () => {
  expect(withoutOutcome({ goal: 1, response: {}, metrics: { cash: 1 }, seconds: 2 })).toEqual({ goal: 1 });
  expect(withoutOutcome({ goal: 1, metrics: ["wer"] })).toEqual({ goal: 1, metrics: ["wer"] });
});
