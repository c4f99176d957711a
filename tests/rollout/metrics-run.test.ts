// Metrics of rows that arrive one at a time: independent of order, for any rows, with little kept of each.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aggregate, createMetrics, type MetricsOptions, type CollectionMetrics } from "../../src/rollout/metrics.ts";
import { runs } from "../runs.ts";

function metricsOf(rows: unknown[], options?: MetricsOptions): CollectionMetrics {
  const metrics = createMetrics(options);
  for (const row of rows) metrics.add(row);
  return metrics.result();
}

const example = [
  [1, 0, 1, 0],
  [0, 0, 0, 0],
].flatMap((rewards, task) =>
  rewards.map((reward, rollout) => ({
    _ng_task_index: task,
    _ng_rollout_index: rollout,
    reward,
    seconds: 1.5,
    answer: reward === 1 ? "42" : null,
    response: { usage: { input_tokens: 10 + task, output_tokens: 5, total_tokens: 15 + task } },
  })),
);
const failed = { _ng_task_index: 1, _ng_rollout_index: 4, reward: null, failure_kind: "model_failed", seconds: 2 };

describe("createMetrics", () => {
  test("gives the statistics of aggregate, and the entries of the tasks one by one", async () => {
    const metrics = createMetrics();
    for (const row of example) metrics.add(row);
    const { agent_metrics, key_metrics } = metrics.result();
    expect({ group_level_metrics: [...metrics.groups()], agent_metrics, key_metrics }).toEqual(
      await aggregate(example),
    );
  });

  test("gives the same to the last digit, whatever the order in which rollouts ended", async () => {
    const number = fc.double({ min: -1e3, max: 1e3, noNaN: true });
    const rewards = fc.array(fc.array(number, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 });
    const rowsOf = (tasks: number[][]): Record<string, unknown>[] =>
      tasks.flatMap((group, task) =>
        group.map((reward, rollout) => ({
          _ng_task_index: task,
          // Two forks of a rollout have its index.
          _ng_rollout_index: rollout >> 1,
          reward,
          ...(reward > 0 && { [`score_${rollout}`]: reward / 3, [`other_${task}`]: 1 }),
        })),
      );
    const written = async (rows: unknown[]): Promise<string> => {
      const metrics = createMetrics();
      for (const row of rows) metrics.add(row);
      return JSON.stringify([metrics.result(), [...metrics.groups()], await aggregate(rows)]);
    };
    const shuffled = rewards.chain((tasks) => {
      const rows = rowsOf(tasks);
      const mixed = fc.shuffledSubarray(rows, { minLength: rows.length, maxLength: rows.length });
      return fc.tuple(fc.constant(rows), mixed);
    });
    // Two forks with the same reward, and numbers of different names.
    const alike = rowsOf([[0.5, 0.5]]);
    expect(await written(alike.toReversed())).toBe(await written(alike));
    await fc.assert(
      fc.asyncProperty(shuffled, async ([rows, mixed]) => {
        expect(await written(mixed)).toBe(await written(rows));
      }),
      { numRuns: runs(100) },
    );
  });

  test("failed rollouts are not in the statistics, and are missing from their task", async () => {
    const metrics = createMetrics();
    const lost = { ...failed, mask_sample: true, _ng_attempt_index: 2, response: { usage: { total_tokens: 0 } } };
    for (const row of [...example, lost]) metrics.add(row);
    const { agent_metrics, failures } = metrics.result();
    expect(agent_metrics).toEqual((await aggregate(example)).agent_metrics);
    expect(failures).toEqual([{ kind: "model_failed", count: 1 }]);
    const [, second] = [...metrics.groups(() => 8)];
    expect(second).toMatchObject({ num_rollouts: 4, expected_num_rollouts: 8, missing_num_rollouts: 4 });
    expect(second).toMatchObject({ reward_profile_completion_pct: 50 });
  });

  test("SCORED: masked rollouts are counted as such, and in no statistic", async () => {
    const masked = { _ng_task_index: 1, _ng_rollout_index: 4, reward: 1, mask_sample: true, metrics: { recall: 1 } };
    const { rollouts, scored, masked: count, failures, ...rest } = metricsOf([...example, masked]);
    expect({ rollouts, scored, count, failures }).toEqual({ rollouts: 9, scored: 8, count: 1, failures: [] });
    const plain = metricsOf(example);
    expect(rest.agent_metrics).toEqual(plain.agent_metrics);
    expect(rest.pass_metrics).toMatchObject(plain.pass_metrics);
    expect(rest.estimates).toEqual(plain.estimates);
    expect((await aggregate([...example, masked])).agent_metrics).toEqual(plain.agent_metrics);
  });

  test("gives the values of the worked example, each with its interval", () => {
    const { pass_metrics: pass, estimates } = metricsOf(example);
    expect(pass["pass@2/accuracy"]).toBeCloseTo(41.67, 2);
    expect(pass["pass@1[avg-of-4]/accuracy/std_dev_across_runs"]).toBeCloseTo(28.87, 2);
    const names = [1, 2, 3, 4].map((k) => `pass@${k}/accuracy`);
    expect(estimates.map(({ name }) => name)).toEqual(["mean/reward", ...names]);
    expect(estimates[0]).toEqual({ name: "mean/reward", value: 0.25, low: 0, high: 0.5 });
    for (const { name, value } of estimates.slice(1)) expect(value).toBe(pass[name]);
  });

  test("SCORED: a failed rollout is counted as such, and not as a reward of 0, even if its row has one", () => {
    for (const reward of [null, 0]) {
      const { scored, rollouts, pass_metrics, tasks, failures } = metricsOf([...example, { ...failed, reward }]);
      expect({ scored, rollouts, failures }).toEqual({
        scored: 8,
        rollouts: 9,
        failures: [{ kind: "model_failed", count: 1 }],
      });
      expect(pass_metrics["pass@1/accuracy"]).toBe(25);
      expect(tasks[1]).toMatchObject({ task: 1, rollouts: 5, scored: 4, failures: 1, mean: 0 });
    }
  });

  test("gives a table of the tasks, with tokens and time, and their totals", () => {
    const { tasks, tokens, seconds } = metricsOf([...example, failed]);
    expect(tasks).toEqual([
      {
        task: 0,
        rollouts: 4,
        scored: 4,
        failures: 0,
        mean: 0.5,
        min: 0,
        max: 1,
        std: Math.sqrt(1 / 3),
        tokens: 60,
        seconds: 6,
      },
      {
        task: 1,
        rollouts: 5,
        scored: 4,
        failures: 1,
        mean: 0,
        min: 0,
        max: 0,
        std: 0,
        tokens: 64,
        seconds: 8,
      },
    ]);
    expect({ tokens, seconds }).toEqual({ tokens: { input: 84, output: 40, total: 124 }, seconds: 14 });
    expect(metricsOf([{ reward: 1 }])).toMatchObject({ tokens: { total: null }, seconds: null });
    // Without a total it is the sum of input and output.
    expect(metricsOf([{ response: { usage: { input_tokens: 2, output_tokens: 3 } } }]).tokens.total).toBe(5);
  });

  test("counts failures by kind, most frequent first, and thousands of kinds together", () => {
    const kinds = ["b", "a", "__proto__", "c", "c"].map((failure_kind) => ({ failure_kind }));
    expect(metricsOf(kinds).failures).toEqual([
      { kind: "c", count: 2 },
      ...["__proto__", "a", "b"].map((kind) => ({ kind, count: 1 })),
    ]);
    const many = Array.from({ length: 1_000 }, (_, at) => ({ failure_kind: `kind ${at}` }));
    expect(metricsOf(many).failures[0]).toEqual({ kind: "other", count: 900 });
  });

  test("with an answer field there are majority@k and no_answer, without one there are none", () => {
    const { pass_metrics: pass } = metricsOf(example, { answerKey: "answer" });
    // Three of four answers are "42" or missing, and "42" is right.
    expect(pass).toMatchObject({ "majority@1/accuracy": 50, "majority@4/accuracy": 50, "pass@1/no_answer": 75 });
    expect(Object.keys(metricsOf(example).pass_metrics).join()).not.toMatch(/majority|no_answer/);
  });

  test("answers are equal if their JSON is equal, and true equals 1", () => {
    const rewards = [1, 0, 0];
    const majority = (...answers: unknown[]): number | undefined =>
      metricsOf(
        answers.map((answer, index) => ({ _ng_rollout_index: index, reward: rewards[index], answer })),
        { answerKey: "answer" },
      ).pass_metrics["majority@3/accuracy"];
    expect(majority("a", "b", "b")).toBe(0);
    expect(majority([1], { x: [2] }, { x: [2] })).toBe(0);
    expect(majority(5, true, 1)).toBe(0);
    expect(majority(5, "1", 1)).toBeCloseTo(100 / 3, 10);
  });

  test("the first k of a task are the lowest indexes, not the first to arrive", () => {
    const first = (rows: object[]): number | undefined => metricsOf(rows).pass_metrics["mean[avg-of-1]/reward"];
    const rows = [0.25, 0.5, 0.75].map((reward, index) => ({ _ng_rollout_index: index, reward })).reverse();
    expect(first(rows)).toBe(0.25);
    expect(metricsOf(rows).pass_metrics["mean[avg-of-2]/reward"]).toBe(0.375);
    expect(first([{ reward: 0.75 }, { reward: 0.25 }])).toBe(0.75);
  });

  test("rewards other than 0 and 1 have no success rate, unless `success` says what counts", () => {
    const rows = [0.4, 0.95, 1.5, 0.2].map((reward, at) => ({
      _ng_task_index: at >> 1,
      _ng_rollout_index: at & 1,
      reward,
    }));
    const { estimates, pass_metrics } = metricsOf(rows);
    expect(Object.keys(pass_metrics).join()).not.toContain("pass");
    expect(estimates.map(({ name, value }) => [name, value])).toEqual([
      ["mean/reward", 0.7625],
      ["best@1/reward", 0.7625],
      ["worst@1/reward", 0.7625],
      ["best@2/reward", 1.225],
      ["worst@2/reward", expect.closeTo(0.3, 12)],
    ]);
    const judged = metricsOf(rows, { success: 0.9 });
    expect(judged.estimates.map(({ name, value }) => [name, value])).toEqual([
      ["mean/reward", 0.7625],
      ["pass@1/accuracy", 50],
      ["pass@2/accuracy", 100],
    ]);
    expect(judged.pass_metrics).toMatchObject({ "pass^2/accuracy": 0 });
  });

  test("what verify returned beside the reward has a mean with its interval, and task fields do not disturb it", () => {
    const row = (task: number, cash: number | string, seconds = 1) => ({
      _ng_task_index: task,
      reward: 1,
      cash: 300,
      seconds: 2,
      metrics: { cash, seconds, note: "x" },
    });
    const { estimates, agent_metrics, seconds } = metricsOf([row(0, 50), row(1, 70), row(1, "none", 4)]);
    expect(estimates.slice(1, 3)).toEqual([
      { name: "mean/metrics.cash", value: 60, low: 50, high: 70 },
      { name: "mean/metrics.seconds", value: 2, low: expect.any(Number) as number, high: expect.any(Number) as number },
    ]);
    expect(agent_metrics).toMatchObject({ "mean/metrics.cash": 60, "mean/cash": 300, "mean/seconds": 2 });
    expect(seconds).toBe(6);
  });

  test("tokens of scripted and random models are marked as estimates", () => {
    const row = (model: string) => ({ reward: 1, response: { model, usage: { total_tokens: 5 } } });
    expect(metricsOf([row("scripted")]).tokens_estimated).toBe(true);
    expect(metricsOf([row("gpt-4o"), row("random")]).tokens_estimated).toBe(true);
    expect(metricsOf([row("gpt-4o")]).tokens_estimated).toBe(false);
  });

  test("the order of the rows changes nothing", () => {
    const reward = fc.oneof(fc.constantFrom(0, 1), fc.double({ min: -1, max: 1, noNaN: true }));
    const row = fc.record({
      _ng_task_index: fc.integer({ min: 0, max: 5 }),
      _ng_rollout_index: fc.integer({ min: 0, max: 9 }),
      reward,
      seconds: fc.integer({ min: 0, max: 100 }),
      answer: fc.constantFrom("a", "b", null),
      failure_kind: fc.constantFrom(null, null, "tool_failed", "model_failed"),
    });
    const rows = fc.uniqueArray(row, {
      selector: (row) => `${row["_ng_task_index"]} ${row["_ng_rollout_index"]}`,
      maxLength: 30,
    });
    const shuffled = rows.chain((rows) =>
      fc.tuple(fc.constant(rows), fc.shuffledSubarray(rows, { minLength: rows.length })),
    );
    fc.assert(
      fc.property(shuffled, ([rows, others]) => {
        const [a, b] = [rows, others].map((rows) => metricsOf(rows, { answerKey: "answer" })) as [
          CollectionMetrics,
          CollectionMetrics,
        ];
        const { agent_metrics: left, key_metrics: _, ...one } = a;
        const { agent_metrics: right, key_metrics: __, ...other } = b;
        expect(other).toEqual(one);
        // These are summed as they arrive, as a collection of NeMo Gym does.
        expect(Object.keys(right).sort()).toEqual(Object.keys(left).sort());
        for (const [name, value] of Object.entries(left)) expect(right[name]).toBeCloseTo(value, 9);
      }),
      { numRuns: runs(60) },
    );
  });

  test("invalid rows of every kind break nothing, and the result is JSON", () => {
    const key = fc.constantFrom(
      "_ng_task_index",
      "_ng_rollout_index",
      "reward",
      "failure_kind",
      "answer",
      "seconds",
      "response",
      "usage",
      "__proto__",
      "constructor",
      "total_tokens",
    );
    const leaf = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.boolean(),
      fc.string(),
      fc.bigInt(),
      fc.constantFrom(null, undefined, "1", NaN),
      fc.constantFrom(1.7e308, -1.7e308, Infinity, -0),
    );
    const row = fc.oneof(fc.object({ key, values: [leaf] }), fc.jsonValue(), fc.constantFrom(undefined, [], "row", 3));
    fc.assert(
      fc.property(fc.array(row, { maxLength: 12 }), key, fc.double(), (rows, answerKey, seed) => {
        const result = metricsOf(rows, { answerKey, seed });
        expect(JSON.parse(JSON.stringify(result))).toEqual(result);
      }),
      { numRuns: runs(200) },
    );
  });

  test("an answer nested too deeply to be written counts as missing", () => {
    const answer: unknown = JSON.parse("[".repeat(200_000) + "]".repeat(200_000));
    expect(metricsOf([{ reward: 1, answer }], { answerKey: "answer" }).pass_metrics["pass@1/no_answer"]).toBe(100);
  });

  test("a row with too many fields is refused as a whole, and the metrics continue without it", () => {
    const metrics = createMetrics();
    metrics.add({ reward: 1 });
    const wide = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`field_${at}`, at]));
    expect(() => metrics.add(wide)).toThrow(expect.objectContaining({ code: "invalid_input" }));
    expect(metrics.result()).toMatchObject({ rollouts: 1, key_metrics: { "mean/reward": 1 } });
  });

  test("reading the result changes nothing, and more rows may follow", () => {
    const metrics = createMetrics();
    expect(metrics.result()).toMatchObject({ rollouts: 0, estimates: [], tasks: [], histogram: [], pass_metrics: {} });
    for (const row of example) {
      metrics.add(row);
      metrics.result();
    }
    expect(metrics.result()).toEqual(metricsOf(example));
    expect(metrics.result().histogram).toEqual([
      { from: 0, to: 0, count: 6 },
      { from: 1, to: 1, count: 2 },
    ]);
  });

  test("of a row with a long transcript only the numbers are kept", () => {
    const metrics = createMetrics();
    const line = JSON.stringify({
      reward: 1,
      response: { output: ["x".repeat(200_000)] },
      failure_kind: "f".repeat(9_999),
    });
    for (let row = 0; row < 2_000; row++) metrics.add({ ...(JSON.parse(line) as object), _ng_task_index: row });
    // Kept whole, the rows would take 400 MB; the kinds alone 20.
    expect(metrics.result()).toMatchObject({ rollouts: 2_000, failures: [{ kind: "other", count: 2_000 }] });
  });
});
