// holdfast metrics: the metrics of a file, and the difference of two files.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../files.ts";
import { run, start } from "../e2e/serve-process.ts";
import { collectCounter, newFolder, writeRows } from "./rollout-files.ts";

const row = (task: number, repeat: number, reward: number) => ({
  _ng_task_index: task,
  _ng_rollout_index: repeat,
  reward,
});
const failure = (task: number, repeat: number, kind: string) => ({
  _ng_task_index: task,
  _ng_rollout_index: repeat,
  failure_kind: kind,
  failure_reason: "x",
});

test("the metrics of a collection are printed with their intervals", async () => {
  const file = await collectCounter(await newFolder(), "scripted");
  const { code, stdout } = await run("metrics", file);
  expect(code).toBe(0);
  expect(stdout).toContain(`${file}: 10 rollouts of 5 tasks, 10 scored\n`);
  expect(stdout).toMatch(/^mean reward +1 +1 to 1$/m);
  expect(stdout).toMatch(/^pass@2 +100% +100% to 100%$/m);
  expect(stdout).toMatch(/^tokens \d+ \(estimated, \d+ in, \d+ out/m);
  expect(stdout).toMatch(/^seconds /m);
});

test("a failure counts once, by its last attempt, and not at all if a later attempt was scored", async () => {
  const folder = await newFolder();
  const file = await writeRows(join(folder, "a.jsonl"), row(0, 0, 1), row(0, 1, 0));
  await writeRows(
    join(folder, "a_failures.jsonl"),
    failure(0, 0, "model"),
    { ...failure(1, 0, "model"), retried: true },
    failure(1, 0, "model"),
    failure(1, 0, "verify"),
    failure(2, 0, "task"),
    failure(2, 0, "task"),
  );
  const { code, stdout } = await run("metrics", file, "--json");
  expect(code).toBe(0);
  const metrics = JSON.parse(stdout) as Record<string, unknown>;
  expect(metrics).toMatchObject({ rollouts: 4, scored: 2 });
  expect(metrics["failures"]).toEqual([
    { kind: "task", count: 1 },
    { kind: "verify", count: 1 },
  ]);
});

test("--tasks prints a line per task, --all every statistic, --answer-key the vote", async () => {
  const answered = [row(0, 0, 1), row(0, 1, 1), row(0, 2, 0)].map((each, at) => ({
    ...each,
    answer: at < 2 ? "a" : "b",
  }));
  const file = await writeRows(join(await newFolder(), "a.jsonl"), ...answered);
  const { stdout } = await run("metrics", file, "--tasks", "--all", "--answer-key", "answer");
  // A single task has no interval.
  expect(stdout).toMatch(/^mean reward +0.6667 +-$/m);
  expect(stdout).toMatch(/^task +rollouts +scored +mean/m);
  expect(stdout).toMatch(/^0 +3 +3 +0.6667 +0 +1 +0.5774 +- +-$/m);
  expect(stdout).toMatch(/^majority@3\/accuracy +100$/m);
  expect(stdout).toMatch(/^std\/reward +0.5774$/m);
});

test("two files are compared task by task", async () => {
  const folder = await newFolder();
  const first = await writeRows(join(folder, "a.jsonl"), row(0, 0, 0), row(1, 0, 1), row(2, 0, 1), row(3, 0, 1));
  const second = await writeRows(join(folder, "b.jsonl"), row(0, 0, 1), row(1, 0, 1), row(2, 0, 0.5));
  const { code, stdout } = await run("metrics", first, second);
  expect(code).toBe(0);
  expect(stdout).toContain("better 1, worse 1, same 1\n1 task with a reward only in the first file\n");
  expect(stdout).toContain("the interval contains 0, so this may be chance");
  expect(stdout).toMatch(/^0 +0 +1 +\+1\n2 +1 +0.5 +-0.5$/m);
  const told = JSON.parse((await run("metrics", first, second, "--json")).stdout) as Record<string, unknown>;
  expect(told).toMatchObject({ files: [first, second], comparison: { better: 1, worse: 1, same: 1 } });
});

test("an invalid row is reported by its line, and the exit code is 1", async () => {
  const file = await writeRows(join(await newFolder(), "a.jsonl"), row(0, 0, 1), '{"reward":1,"_ng_ta');
  const { code, stdout, stderr } = await run("metrics", file);
  expect(code).toBe(1);
  expect(stdout).toContain("1 rollout of 1 task, 1 scored");
  expect(stderr).toMatch(/^line 2 of .*a\.jsonl is ignored: it is not JSON/);
});

test("a file without rollouts is refused in one line", async () => {
  const folder = await newFolder();
  const empty = await writeRows(join(folder, "empty.jsonl"));
  const tasks = await writeRows(join(folder, "tasks.jsonl"), { goal: 5, responses_create_params: { input: "Go." } });
  for (const [file, message] of [
    [join(folder, "none.jsonl"), "does not exist"],
    [folder, "is a folder"],
    [empty, "has no rollouts"],
    [tasks, "has no rollouts: its rows have no reward and no response. Is it a tasks file?"],
  ] as const) {
    const { code, stdout, stderr } = await run("metrics", file);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(new RegExp(`^cannot_load: .*${message}.*\\n$`));
  }
});

test("--by-branch with --tasks prints a line for each node of each task", async () => {
  const branched = [
    { ...row(1, 0, 1), branch: "0", forked_at: 2 },
    { ...row(1, 0, 0), branch: "1", forked_at: 2 },
    { ...row(0, 0, 1), branch: "0", forked_at: 2 },
  ];
  const file = await writeRows(join(await newFolder(), "a.jsonl"), ...branched);
  const { stdout } = await run("metrics", file, "--by-branch", "--tasks");
  expect(stdout).toMatch(
    /^task +branch +rollouts.*\n0 +all +1 +1 +1\n0 +0 +1 +1 +1\n1 +all +2 +2 +0.5\n1 +0 +1 +1 +1\n1 +1 +1 +1 +0$/m,
  );
  const told = JSON.parse((await run("metrics", file, "--by-branch", "--tasks", "--json")).stdout) as object;
  expect(told).toMatchObject({ task_nodes: [{ task: 0, node: "" }, { node: "0" }, { task: 1 }, {}, {}] });
});

test("--over prints a line for each value of a label, with the numbers of the trainer", async () => {
  const folder = await newFolder();
  const rows = [1, 2, 2].map((iteration, at) => ({
    reward: at / 2,
    response: { output: [] },
    _holdfast_labels: { iteration },
  }));
  writeFileSync(join(folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(
    join(folder, "metrics.jsonl"),
    '{"iteration":2,"reward":0.7,"loss":0.125,"steps":4,"seconds":{"update":3},"entropy":0.5}\n',
  );
  const { code, stdout } = await run("metrics", folder, "--over", "iteration");
  expect(code).toBe(0);
  expect(stdout).toBe(
    "iteration  reward  rollouts  failed  entropy  update s   loss\n" +
      "1               0         1       0        -         -      -\n" +
      "2            0.75         2       0      0.5         3  0.125\n",
  );
  // A file of a trainer that has no rollouts.
  writeFileSync(join(folder, "used.jsonl"), '{"iteration":2,"sessions":["a"]}\n');
  const all = await run("metrics", folder, "--over", "iteration", "--all");
  expect([all.stderr, all.stdout.split("\n")[0]]).toEqual(["", expect.stringMatching(/ loss  steps$/)]);
  const told = JSON.parse((await run("metrics", folder, "--over", "iteration", "--json")).stdout) as {
    points: object[];
  };
  expect(told.points).toHaveLength(2);
  const refused = await run("metrics", folder, "--over", "policy");
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("no rows with the label policy")]);
});

test("--over shows a trainer's numbers to watch, and a narrow terminal the most important ones", async () => {
  const folder = await newFolder();
  const counts = { rows: 32, sampled_tokens: 900, dead_groups: 3, solved_groups: 1, reward_all_tasks: 0.5 };
  writeFileSync(
    join(folder, "metrics.jsonl"),
    `${JSON.stringify({ iteration: 1, reward: 0.25, ...counts, steps: 4 })}\n`,
  );
  const over = ["metrics", folder, "--over", "iteration"];
  expect((await run(...over)).stdout).toBe(
    "iteration  reward  reward_all_tasks  dead_groups  solved_groups  rows  sampled_tokens\n" +
      "1            0.25               0.5            3              1    32             900\n",
  );
  const narrow = await (await start(over, { env: { COLUMNS: "60" } })).ended;
  expect(narrow.stdout.split("\n")[0]).toBe("iteration  reward  reward_all_tasks  dead_groups");
  expect(narrow.stderr).toBe(
    "the terminal is too narrow for solved_groups, rows, sampled_tokens; --all prints all columns\n",
  );
  const { points } = JSON.parse((await run(...over, "--json")).stdout) as { points: object[] };
  expect(points).toMatchObject([{ rollouts: null, failed: null, tokens: null, trainer: { rows: 32 } }]);
});

test("a trainer's metrics file is not taken for rollouts", async () => {
  const folder = await newFolder();
  const file = join(folder, "metrics.jsonl");
  writeFileSync(file, '{"iteration":0,"reward":0.5}\n');
  const told = `npx holdfast metrics ${folder} --over iteration, or npx holdfast view ${folder}\n`;
  for (const args of [[file], [file, file], [file, "--over", "iteration"]]) {
    const { code, stdout, stderr } = await run("metrics", ...args);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toBe(`cannot_load: ${file} is a trainer's metrics file, not a rollout file; to read it: ${told}`);
  }
});

test("a collection labels its rows, and resumes with the same labels only", async () => {
  const folder = await newFolder();
  const collect = (labels: string, ...more: string[]) =>
    run(
      "collect",
      join(root, "examples/counter"),
      "--limit",
      "2",
      "--out",
      join(folder, "rows.jsonl"),
      "--labels",
      labels,
      ...more,
    );
  expect(await collect('{"iteration":7}')).toMatchObject({ code: 0 });
  const { stdout } = await run("metrics", folder, "--over", "iteration");
  expect(stdout.split("\n")[1]).toMatch(/^7 +1 +2 +0 /);
  const { code, stderr } = await collect('{"iteration":8}', "--resume");
  expect([code, stderr]).toEqual([1, expect.stringContaining('labels was {"iteration":7} and is now {"iteration":8}')]);
});

test("the pictures of the docs are drawn from the logs of training runs, one line for each", async () => {
  const folder = await newFolder();
  const lines = [0.25, 0.5, 1].map((reward, at) => `${JSON.stringify({ iteration: at + 1, reward })}\n`);
  writeFileSync(join(folder, "metrics.jsonl"), lines.join(""));
  const out = join(folder, "reward.svg");
  const script = join(root, "tools/curves.mjs");
  expect((await (await start([out, "reward", folder, folder], { script })).ended).code).toBe(0);
  const picture = readFileSync(out, "utf8");
  expect(picture.match(/<polyline/g)).toHaveLength(2);
  expect(picture).toContain("reward over iterations");
  const { code, stderr } = await (await start([out, "loss", folder], { script })).ended;
  expect([code, stderr]).toEqual([1, "no run has the metric loss\n"]);
});
