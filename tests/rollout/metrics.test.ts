// Metrics of rollouts, against numbers that were computed elsewhere.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { doInPieces, stringifySteps } from "../../src/io/pace.ts";
import { aggregate } from "../../src/rollout/metrics.ts";
import { runs } from "../runs.ts";

const rows = [
  [1, 0, 1, 0],
  [0, 0, 0, 0],
].flatMap((rewards, task) =>
  rewards.map((reward, rollout) => ({
    _ng_task_index: task,
    _ng_rollout_index: rollout,
    reward,
    solved: reward === 1,
    name: "x",
    nested: { a: 1 },
    response: {
      usage: { input_tokens: 10 + task, output_tokens: 5, total_tokens: 15 + task, input_tokens_details: {} },
    },
  })),
);

describe("aggregate", () => {
  test("gives mean, max, min, median and sample std of every number, in this order, over all rollouts", async () => {
    const { agent_metrics: metrics, key_metrics: keys } = await aggregate(rows);
    const columns = ["reward", "solved", "input_tokens", "output_tokens", "total_tokens"];
    const names = ["mean", "max", "min", "median", "std"].flatMap((name) =>
      columns.map((column) => `${name}/${column}`),
    );
    expect(Object.keys(metrics)).toEqual(names);
    expect(metrics).toMatchObject({ "mean/reward": 0.25, "max/reward": 1, "min/reward": 0, "median/reward": 0 });
    // Two ones among eight: the squares sum to 1.5, over 7.
    expect(metrics["std/reward"]).toBeCloseTo(Math.sqrt(1.5 / 7), 12);
    expect(metrics["std/solved"]).toBe(metrics["std/reward"]);
    expect(metrics).toMatchObject({ "mean/input_tokens": 10.5, "median/input_tokens": 10.5, "std/output_tokens": 0 });
    expect(keys).toEqual(Object.fromEntries(columns.map((column) => [`mean/${column}`, metrics[`mean/${column}`]])));
  });

  test("gives the same for each task, with its members by index", async () => {
    const [first, second] = (await aggregate(rows.toReversed())).group_level_metrics;
    expect(first).toMatchObject({ _ng_task_index: 0, "mean/reward": 0.5, "median/reward": 0.5, num_rollouts: 4 });
    expect(first?.["std/reward"]).toBeCloseTo(Math.sqrt(1 / 3), 12);
    expect(second).toMatchObject({
      _ng_task_index: 1,
      "mean/reward": 0,
      "std/reward": 0,
      sample: { agent_ref: { name: "agent" } },
      expected_num_rollouts: 4,
      missing_num_rollouts: 0,
      reward_profile_completion_pct: 100,
    });
    const infos = second?.["rollout_infos"] as object[];
    expect(infos[0]).toEqual({
      rollout_id: "1:0",
      _ng_task_index: 1,
      _ng_rollout_index: 0,
      reward: 0,
      solved: 0,
      input_tokens: 11,
      output_tokens: 5,
      total_tokens: 16,
    });
  });

  test("the std of a single row is 0, and a column without a value is left out if another has one", async () => {
    expect((await aggregate([{ reward: 1 }])).agent_metrics).toMatchObject({ "mean/reward": 1, "std/reward": 0 });
    const { agent_metrics: metrics } = await aggregate([{ reward: 1, extra: 3 }, { reward: 0 }]);
    expect(metrics).toHaveProperty(["std/reward"]);
    expect(metrics).not.toHaveProperty(["std/extra"]);
    expect(metrics).toMatchObject({ "mean/extra": 3, "max/extra": 3 });
  });

  test("an empty list gives nothing, and a value that is not a list is refused", async () => {
    expect(await aggregate([])).toEqual({ group_level_metrics: [], agent_metrics: {}, key_metrics: {} });
    for (const junk of [undefined, null, {}, "rows", 3]) {
      await expect(aggregate(junk)).rejects.toThrow(expect.objectContaining({ code: "invalid_input" }));
    }
  });

  test("rows with a different field each are refused, because they would keep a server busy for seconds", async () => {
    const rows = Array.from({ length: 100_000 }, (_, at) => ({ reward: 1, [`field_${at}`]: at }));
    await expect(aggregate(rows)).rejects.toThrow(expect.objectContaining({ code: "invalid_input" }));
  });

  test("rows with very long field names are refused, because the reply would repeat each name ten times", async () => {
    const rows = ["a", "b", "c"].map((name) => ({ [name.repeat(100_000)]: 1 }));
    await expect(aggregate(rows.slice(0, 2))).resolves.toBeDefined();
    await expect(aggregate(rows)).rejects.toMatchObject({ code: "invalid_input" });
  });

  test("invalid rows break nothing, and the result is JSON", async () => {
    const huge = { reward: 1.7e308, ["__proto__"]: 5, _ng_task_index: "x", response: { usage: 3 } };
    const { agent_metrics: metrics } = await aggregate([
      1,
      null,
      [],
      JSON.parse('{"__proto__":2,"reward":1e308}'),
      huge,
      huge,
    ]);
    expect(metrics).not.toHaveProperty(["mean/reward"]);
    expect(metrics["max/reward"]).toBe(1.7e308);
    await fc.assert(
      fc.asyncProperty(
        fc.jsonValue(),
        fc.array(fc.object({ key: fc.constantFrom("reward", "_ng_task_index", "response") })),
        async (one, more) => {
          const result = await aggregate([one, ...more]);
          expect(JSON.parse(await doInPieces(stringifySteps(result)))).toEqual(result);
        },
      ),
      { numRuns: runs(200) },
    );
  });

  test.each<[string, (at: number) => object]>([
    ["one rollout of each task", (at) => ({ _ng_task_index: at, reward: 1, seconds: at })],
    ["rollouts of one task", (at) => ({ reward: 1, seconds: at })],
    [
      "rollouts of two tasks in any order",
      (at) => ({ _ng_task_index: at % 2, _ng_rollout_index: (at * 7) % 50_000, reward: 1 }),
    ],
    ["rollouts of one number", (at) => ({ _ng_rollout_index: 0, reward: 1, seconds: (at * 7) % 50_000 })],
  ])("works in short pieces, so that the process can do other work in between: %s", async (_, toRow) => {
    const many = Array.from({ length: 50_000 }, (_, at) => toRow(at));
    // CPU time: other programs of the machine must not count.
    let [longest, since] = [0, process.cpuUsage()];
    let timer = setImmediate(function look() {
      const { user, system } = process.cpuUsage(since);
      [longest, since] = [Math.max(longest, (user + system) / 1000), process.cpuUsage()];
      timer = setImmediate(look);
    });
    const text = await doInPieces(stringifySteps(await aggregate(many)));
    clearImmediate(timer);
    expect(longest).toBeLessThan(100);
    expect(JSON.parse(text)).toMatchObject({ key_metrics: { "mean/reward": 1 } });
  });
});
