// The ownership of a collection's files, and its tasks: refusals, and cases that continue anyway.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { run } from "../e2e/serve-process.ts";
import { fileAt } from "../files.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { newWorld, taskLine, type World } from "./collect-process.ts";

const tasksOf = (count: number): string[] => Array.from({ length: count }, (_, n) => taskLine(n));

const writeTasks = (world: World, tasks: string[]): void =>
  writeFileSync(world.at("tasks.jsonl"), tasks.map((line) => `${line}\n`).join(""));

test("of two commands that start at once on one output, one collects and the other is refused", async () => {
  const world = newWorld(tasksOf(30));
  const args = ["--out", "a.jsonl", "--concurrency", "2"];
  const both = await Promise.all([world.start(args, { PAUSE: "60" }), world.start(args, { PAUSE: "60" })]);
  const [winner, loser] = (await Promise.all(both.map(({ ended }) => ended))).sort(
    (a, b) => Number(a.code) - Number(b.code),
  );
  expect(winner?.code, winner?.stderr).toBe(0);
  expect(loser).toMatchObject({ code: 1, stdout: "" });
  expect(loser?.stderr).toMatch(/^invalid_option: process \d+ is collecting to a\.jsonl/);
  expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(Array.from({ length: 30 }, (_, n) => `${n}-0`));
  expect(keysOf(rowsOf(world.at("a_materialized_inputs.jsonl")))).toHaveLength(30);
  expect(readdirSync(world.folder).filter((name) => name.endsWith(".lock"))).toEqual([]);
});

test("RESUME: a lock left by kill -9 blocks nobody", async () => {
  const world = newWorld(tasksOf(20));
  const child = await world.start(["--out", "a.jsonl", "--concurrency", "2"], { PAUSE: "500" });
  await expect.poll(() => existsSync(world.at("a.jsonl")), { timeout: 30_000 }).toBe(true);
  // While it runs, no other command can resume it.
  expect((await world.collect("--out", "a.jsonl", "--resume")).stderr).toContain("is collecting to a.jsonl");
  child.process.kill("SIGKILL");
  await child.ended;
  const { code, stderr } = await world.collect("--out", "a.jsonl", "--resume");
  expect(code, stderr).toBe(0);
  expect(rowsOf(world.at("a.jsonl"))).toHaveLength(20);
});

test("an output that does not end in .jsonl is refused: its side files could belong to another output", async () => {
  const world = newWorld(tasksOf(1));
  for (const out of ["a.json", "a", ".jsonl"]) {
    const { code, stderr } = await world.collect("--out", out);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^invalid_option: --out must end in \.jsonl/),
    });
  }
  expect(readdirSync(world.folder).filter((name) => name.startsWith("a_"))).toEqual([]);
});

test("RESUME: tasks may be added with --force, but a started task must be unchanged", { tags: ["full"] }, async () => {
  const world = newWorld(tasksOf(3));
  expect((await world.collect("--out", "a.jsonl")).code).toBe(0);
  const rows = readFileSync(world.at("a.jsonl"), "utf8");
  writeTasks(world, [taskLine(0), taskLine(7), taskLine(2), taskLine(3)]);
  // No message suggests a flag that would not help.
  const resumed = ["--out", "a.jsonl", "--resume"];
  const answers = [await world.collect(...resumed, "--force"), await world.collect(...resumed)];
  const record = readFileSync(world.at("a_run.json"), "utf8");
  writeFileSync(world.at("a_run.json"), "");
  answers.push(await world.collect(...resumed));
  rmSync(world.at("a_run.json"));
  answers.push(await world.collect(...resumed));
  writeFileSync(world.at("a_run.json"), record);
  for (const { code, stderr } of answers) {
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^invalid_option: task 1, on line 2 of .*tasks\.jsonl, has changed since a\.jsonl was collected\. Choose another --out\n$/,
      ),
    });
  }
  expect(readFileSync(world.at("a.jsonl"), "utf8")).toBe(rows);
  // Another key order, or other model parameters, do not make another task.
  const { responses_create_params, ...rest } = JSON.parse(taskLine(1)) as Record<string, object>;
  const again = JSON.stringify({ ...rest, responses_create_params: { ...responses_create_params, top_p: 1 } });
  writeTasks(world, [taskLine(0), again, taskLine(2), taskLine(3)]);
  expect((await world.collect("--out", "a.jsonl", "--resume", "--force")).code).toBe(0);
  expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(["0-0", "1-0", "2-0", "3-0"]);
});

test.each(["", '{"run":'])(
  "RESUME: a record that is %j is reported, and --force continues with a new one",
  { tags: ["full"] },
  async (text) => {
    const world = newWorld(tasksOf(2));
    expect((await world.collect("--out", "a.jsonl", "--limit", "1")).code).toBe(0);
    writeFileSync(world.at("a_run.json"), text);
    const { code, stderr } = await world.collect("--out", "a.jsonl", "--resume");
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^cannot_load: cannot read a_run\.json: .*--resume --force/),
    });
    expect((await world.collect("--out", "a.jsonl", "--resume", "--force")).code).toBe(0);
    expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(["0-0", "1-0"]);
    expect((await world.collect("--out", "a.jsonl", "--resume")).code).toBe(0);
  },
);

test("of two tasks with one number the second fails with its line, and the repeats of the first are played", async () => {
  const own = { _ng_task_index: 4 };
  const world = newWorld([taskLine(0, "Roll", own), taskLine(1, "Roll", own), taskLine(0, "Roll", own)]);
  expect((await world.collect("--out", "a.jsonl", "--repeats", "2")).code).toBe(1);
  expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(["4-0", "4-1", "4-4", "4-5"]);
  const failures = rowsOf(world.at("a_failures.jsonl"));
  expect(keysOf(failures)).toEqual(["4-2", "4-3"]);
  const failure_reason = "line 2: an earlier task has the same `_ng_task_index` 4";
  for (const failure of failures) expect(failure).toMatchObject({ failure_kind: "task", reward: null, failure_reason });
});

test("a row that names tools has them in its input, as the environment describes them", async () => {
  const world = newWorld([]);
  const environment = readFileSync(world.at("environment.mjs"), "utf8");
  const more = 'wipe: tool({ description: "Wipe.", run: () => 1 }),';
  writeFileSync(world.at("environment.mjs"), environment.replace("tools: {", `tools: { ${more}`));
  const params = (tools: object[]) => ({ responses_create_params: { input: "Roll", tools } });
  const rows = [params([{ type: "function", name: "roll" }]), params([]), params([{ name: "burn" }])];
  writeTasks(
    world,
    rows.map((row, n) => JSON.stringify({ n, ...row })),
  );
  expect((await world.collect("--out", "a.jsonl", "--concurrency", "1")).code).toBe(1);
  const offered = rowsOf(world.at("a_materialized_inputs.jsonl")).map((row) => {
    const { tools } = row["responses_create_params"] as unknown as { tools: { name: string; description: string }[] };
    return tools.map(({ name, description }) => `${name}: ${description}`);
  });
  expect(offered).toEqual([["roll: Roll the dice."], ["wipe: Wipe.", "roll: Roll the dice."]]);
  expect(rowsOf(world.at("a_failures.jsonl"))).toMatchObject([
    { failure_reason: 'line 3: it names a tool "burn" that dice does not have' },
  ]);
});

test("rows of a store in memory can be shown; reverify is refused with the expected location of their sessions", async () => {
  const world = newWorld(tasksOf(1));
  expect((await world.collect("--out", "a.jsonl", "--store", "memory:")).code).toBe(0);
  const file = world.at("a.jsonl");
  const { code, stdout } = await run("show", file, "--task", "0", "--repeat", "0");
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("[roll]:") });
  const again = await run("reverify", file, "--environment", world.folder, "--out", world.at("b.jsonl"));
  expect(again).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /cannot find the sessions of .*a\.jsonl: .*a\.db does not exist; name the store with --store/,
    ) as string,
  });
});

test("every flag of the command is documented", async () => {
  const { stdout } = await run("collect", "--help");
  const flags = [...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, flag = ""]) => flag);
  expect(flags.length).toBeGreaterThan(15);
  const text = fileAt("docs/rollouts.md").text;
  expect(flags.filter((flag) => !text.includes(`\`${flag}`))).toEqual([]);
});
