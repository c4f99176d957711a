// The collect command: its files, refusals, signals and progress output.
import { appendFileSync, existsSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";
import { built } from "../built.ts";
import { root } from "../files.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { run, start } from "../e2e/serve-process.ts";
import { newFolder, writeRows, writeTally } from "./rollout-files.ts";
import { newWorld, taskLine, type World } from "./collect-process.ts";

const tasksOf = (count: number): string[] => Array.from({ length: count }, (_, n) => taskLine(n));

const jsonIn = (file: string): unknown => JSON.parse(readFileSync(file, "utf8"));

const eventsOf = (stdout: string) =>
  stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { type: string } & TaskRow);

/** A task's trouble and its result: a kind of failure, or the limit that ended it. */
const troubles: { [at: number]: { line: string; kind?: string; stopped?: string } } = {
  7: { line: "{ this is not JSON", kind: "task" },
  21: { line: taskLine(21, "Roll", { n: "many" }), kind: "task" },
  22: { line: JSON.stringify({ n: 22 }), kind: "task" },
  35: { line: taskLine(35, "Roll", { trouble: "tool" }) },
  50: { line: taskLine(50, "model trouble"), kind: "model" },
  77: { line: taskLine(77, "Roll", { trouble: "verify" }), kind: "verify" },
  90: { line: taskLine(90, "endless"), stopped: "steps" },
  101: { line: taskLine(101, "silent"), stopped: "empty" },
  130: { line: taskLine(130, "Roll", { trouble: "seed" }), kind: "seed" },
  150: { line: taskLine(150, "slow"), kind: "timeout" },
  180: { line: taskLine(180, "cheat") },
};

// Two timeouts of four seconds, and the compilation of the sources while many tests do it at once.
const slowTest = { timeout: 120_000 };

test(
  "SCORED, RESERVED: among 200 rollouts everything goes wrong: 200 outcomes of the right kinds, and no failure is a reward",
  slowTest,
  async () => {
    const world = newWorld(Array.from({ length: 200 }, (_, n) => troubles[n]?.line ?? taskLine(n)));
    const args = ["--out", "rows.jsonl", "--max-steps", "7", "--timeout", "4s", "--attempts", "2", "--json"];
    const { code, stdout, stderr } = await world.collect(...args);
    expect(code, stderr).toBe(1);
    const rows = rowsOf(world.at("rows.jsonl"));
    const failures = rowsOf(world.at("rows_failures.jsonl"));
    const final = failures.filter((row) => row["retried"] !== true);
    expect(keysOf([...rows, ...final])).toEqual(Array.from({ length: 200 }, (_, n) => `${n}-0`));
    const kindsOf = (found: TaskRow[]) =>
      Object.fromEntries(found.map((row) => [row["_ng_task_index"], row["failure_kind"]]));
    const wanted = Object.entries(troubles).filter(([, { kind }]) => kind !== undefined);
    expect(kindsOf(final)).toEqual(Object.fromEntries(wanted.map(([at, { kind }]) => [at, kind])));
    for (const failure of failures) expect(failure).toMatchObject({ reward: null, mask_sample: true });
    // An invalid task is not retried. A failed verify is tried again in the same attempt. Everything else is retried.
    const retried = failures.filter((row) => row["retried"] === true).map((row) => Number(row["_ng_task_index"]));
    expect(retried.sort((a, b) => a - b)).toEqual([50, 130, 150]);
    expect(eventsOf(stdout).filter(({ type, task }) => type === "retried" && task === 77)).toHaveLength(1);
    const stopped = rows.flatMap((row) =>
      row["stopped"] === undefined ? [] : [[row["_ng_task_index"], row["stopped"]]],
    );
    expect(Object.fromEntries(stopped)).toEqual({ 90: "steps", 101: "empty" });
    const rowOf = (task: number) => JSON.stringify(rows.find((row) => row["_ng_task_index"] === task));
    expect(rowOf(35)).toContain("the dice fell off the table");
    expect(rowOf(180).match(/unknown_tool/g)).toHaveLength(2);
    expect(new Set(rows.map((row) => row["reward"]))).toEqual(new Set([0, 1]));
    expect(eventsOf(stdout).at(-1)).toMatchObject({ type: "collected", scored: 193, failed: 7, stopped: false });
  },
);

test("a collection has all its files, with the fields that other tools look for", async () => {
  const world = newWorld(tasksOf(3));
  const { code, stdout, stderr } = await world.collect(
    "--out",
    "runs/a.jsonl",
    "--repeats",
    "2",
    "--temperature",
    "0.5",
  );
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^6 of 6 rollouts scored: runs\/a\.jsonl\n +value  95% interval\nmean reward/);
  // In the format of `metrics`.
  expect(stdout).toMatch(/^pass@2 +[\d.]+% +[\d.]+% to [\d.]+%$/m);
  expect(stdout).toContain("Show the first one: npx holdfast show runs/a.jsonl\n");
  // Without a terminal: plain lines, the last with the result.
  expect(stderr).toMatch(/^6 of 6 · .*mean reward \d\.\d+ · \d+ model calls · \d+ tool calls · about \d+ tokens\n$/);
  const rows = rowsOf(world.at("runs/a.jsonl"));
  expect(rows[0]).toMatchObject({
    n: expect.any(Number),
    reward: expect.any(Number),
    metrics: { total: expect.any(Number) },
    session_id: expect.any(String),
    response: { object: "response", output: expect.any(Array), usage: { total_tokens: expect.any(Number) } },
    responses_create_params: { temperature: 0.5, tools: [{ type: "function", name: "roll" }] },
    agent_ref: { name: "roller" },
  });
  const inputs = rowsOf(world.at("runs/a_materialized_inputs.jsonl"));
  expect(keysOf(inputs)).toEqual(["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]);
  const [{ agent_ref, agent_metrics, key_metrics, group_level_metrics }] = jsonIn(
    world.at("runs/a_aggregate_metrics.json"),
  ) as [{ [part: string]: { [name: string]: number } & unknown[] }];
  const mean = rows.reduce((sum, row) => sum + Number(row["reward"]), 0) / 6;
  expect(agent_ref).toEqual({ name: "roller" });
  expect(key_metrics?.["mean/reward"]).toBeCloseTo(mean, 12);
  expect(agent_metrics).toHaveProperty("pass@1/accuracy");
  expect(group_level_metrics).toHaveLength(3);
  expect(rowsOf(world.at("runs/a_failures.jsonl"))).toEqual([]);
  expect(existsSync(world.at("runs/a.db"))).toBe(true);
});

test("the same seed gives the same rewards, and another seed gives others", { tags: ["full"] }, async () => {
  const world = newWorld(tasksOf(20));
  const totals = async (name: string, seed: string) => {
    expect((await world.collect("--out", `${name}.jsonl`, "--seed", seed, "--store", "memory:")).code).toBe(0);
    const rows = rowsOf(world.at(`${name}.jsonl`));
    return rows.map((row) => `${keysOf([row])[0]} ${JSON.stringify(row["metrics"])}`).sort();
  };
  const [a, b, c] = [await totals("a", "1"), await totals("b", "1"), await totals("c", "2")];
  expect(a).toEqual(b);
  expect(a).not.toEqual(c);
});

test("RESUME: changed settings are refused with the difference; --force resumes", async () => {
  const world = newWorld(tasksOf(4));
  const base = ["--out", "a.jsonl", "--repeats", "1"];
  // Without rows it simply starts.
  expect((await world.collect(...base, "--resume", "--limit", "2")).code).toBe(0);
  const refused = async (args: string[], ...words: string[]) => {
    const { code, stderr } = await world.collect(...args);
    expect(code).toBe(1);
    for (const word of words) expect(stderr).toContain(word);
  };
  await refused([...base, "--limit", "2"], "a.jsonl already exists", "--resume");
  await refused([...base, "--resume", "--seed", "3"], "limit was 2 and is now null", "seed was 0 and is now 3");
  await refused([...base, "--resume", "--limit", "2", "--model", "random"], 'model was "scripted" and is now "random"');
  const before = rowsOf(world.at("a.jsonl"));
  expect((await world.collect(...base, "--resume", "--force")).code).toBe(0);
  expect(rowsOf(world.at("a.jsonl")).slice(0, 2)).toEqual(before);
  expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(["0-0", "1-0", "2-0", "3-0"]);
  // These are its settings now.
  expect((await world.collect(...base, "--resume")).code).toBe(0);
  appendFileSync(world.at("tasks.jsonl"), `${taskLine(9)}\n`);
  await refused([...base, "--resume"], 'tasks was "sha256:');
  rmSync(world.at("a_run.json"));
  await refused([...base, "--resume"], "a_run.json is missing, so the settings of a.jsonl are unknown");
  rmSync(world.at("a.jsonl"));
  await refused(base, "a_materialized_inputs.jsonl already exists");
});

/** Starts a long collection and waits until it has some rows. */
async function startLong(world: World, ...args: string[]) {
  const child = await world.start(["--out", "a.jsonl", "--concurrency", "4", ...args], { PAUSE: "50" });
  await expect
    .poll(() => existsSync(world.at("a.jsonl")) && rowsOf(world.at("a.jsonl")).length > 3, { timeout: 30_000 })
    .toBe(true);
  return child;
}

test.each(["SIGINT", "SIGTERM"] as const)(
  "RESUME: %s stops it cleanly, and the printed command resumes it",
  async (signal) => {
    const world = newWorld(tasksOf(60));
    const child = await startLong(world);
    child.process.kill(signal);
    const { code, stdout, stderr } = await child.ended;
    expect(code).toBe(130);
    expect(stderr).toContain("stopping");
    const rows = rowsOf(world.at("a.jsonl"));
    expect(rows.length).toBeLessThan(60);
    expect(stdout).toContain(`${rows.length} of 60 rollouts scored`);
    expect(stdout).toContain("mean reward");
    const [{ key_metrics }] = jsonIn(world.at("a_aggregate_metrics.json")) as [{ key_metrics: object }];
    expect(key_metrics).toHaveProperty("mean/reward");
    expect(rowsOf(world.at("a_failures.jsonl"))).toEqual([]);
    const [, again = ""] = /Continue with: npx holdfast collect (.+)\n/.exec(stdout) ?? [];
    expect(again).toContain("--resume");
    const { code: last, stdout: said } = await world.collect(...again.split(" ").slice(3));
    expect(last).toBe(0);
    expect(said).toContain(`60 of 60 rollouts scored (${60 - rows.length} in this run, ${rows.length} earlier): `);
    expect(keysOf(rowsOf(world.at("a.jsonl")))).toEqual(Array.from({ length: 60 }, (_, n) => `${n}-0`));
    expect(keysOf(rowsOf(world.at("a_materialized_inputs.jsonl")))).toHaveLength(60);
  },
);

test("a second signal ends it at once", async () => {
  const world = newWorld([...tasksOf(10), ...Array.from({ length: 50 }, (_, n) => taskLine(n, `slow ${n}`))]);
  const child = await startLong(world);
  child.process.kill("SIGINT");
  await child.printed("stopping");
  child.process.kill("SIGINT");
  expect((await child.ended).code).toBe(130);
  rowsOf(world.at("a.jsonl"));
});

test("lines torn by a crash are cut, and their rollouts are played again", async () => {
  const world = newWorld(tasksOf(5));
  expect((await world.collect("--out", "a.jsonl")).code).toBe(0);
  const rows = rowsOf(world.at("a.jsonl"));
  for (const name of ["a.jsonl", "a_materialized_inputs.jsonl", "a_failures.jsonl"]) {
    const text = readFileSync(world.at(name), "utf8");
    // The last line without its end.
    writeFileSync(world.at(name), name === "a_failures.jsonl" ? '{"_ng_task' : text.slice(0, -1));
  }
  const asked = world.calls().length;
  expect((await world.collect("--out", "a.jsonl", "--resume")).code).toBe(0);
  const again = rowsOf(world.at("a.jsonl"));
  const plain = (row: TaskRow): TaskRow => ({ ...row, seconds: 0 });
  expect(again.map(plain)).toEqual(rows.map(plain));
  expect(keysOf(rowsOf(world.at("a_materialized_inputs.jsonl")))).toEqual(keysOf(rows));
  // Its session has ended: the model is not asked.
  expect(world.calls()).toHaveLength(asked);
});

test("--json prints a JSON event for the start, every rollout, every retry and the end", async () => {
  const world = newWorld([taskLine(0), taskLine(1, "Roll", { trouble: "verify" }), "nope"]);
  const { code, stdout, stderr } = await world.collect("--out", "a.jsonl", "--json", "--attempts", "2");
  expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  const events = eventsOf(stdout);
  expect(events[0]).toEqual({ type: "started", total: 3, before: 0 });
  expect(events.at(-1)).toMatchObject({ type: "collected", scored: 1, failed: 2, metrics: { rollouts: 3, scored: 1 } });
  expect(
    events
      .slice(1, -1)
      .map(({ type, task }) => `${type} ${String(task)}`)
      .sort(),
  ).toEqual(["failed 1", "failed 2", "retried 1", "scored 0"]);
  const failed = { type: "failed", task: 1, repeat: 0, reward: null, failure_kind: "verify" };
  expect(events).toContainEqual(expect.objectContaining(failed));
});

test("a usage error is reported in one line", async () => {
  const world = newWorld(tasksOf(1));
  const wrong = async (args: string[], words: string) => {
    const { code, stderr } = await world.collect(...args);
    expect({ code, isSaid: stderr.includes(words) }, stderr).toEqual({ code: 1, isSaid: true });
  };
  await wrong([], "--out");
  await wrong(["--out", "a.jsonl", "--tasks", "none.jsonl"], "the tasks file none.jsonl does not exist");
  await wrong(["--out", "a.jsonl", "--temperature", "hot"], "Use a number");
  await wrong(["--out", "a.jsonl", "--model", "nobody"], "is not a model");
  expect(existsSync(world.at("a.jsonl"))).toBe(false);
});

test("errors of a tool that the model read are counted by error and place", async () => {
  const world = newWorld([taskLine(0, "Roll 0", { trouble: "tool" }), taskLine(1)]);
  const { code, stdout, stderr } = await world.collect("--out", "a.jsonl");
  expect(code).toBe(0);
  const error = /Error: the dice fell off the table in roll \(environment\.mjs:\d+\)/;
  expect(stdout).toMatch(new RegExp(`errors thrown by your code\n {2}6 × ${error.source}\n`));
  expect(stderr).toMatch(new RegExp(`^error thrown by your code: ${error.source}\n`));
});

test("--debug prints the first stack of each place in the author's code", async () => {
  const world = newWorld([taskLine(0, "Roll 0", { trouble: "tool" }), taskLine(1, "Roll 1", { trouble: "verify" })]);
  const { stderr } = await world.collect("--out", "a.jsonl", "--debug", "--attempts", "1");
  expect(stderr.match(/^Error: the dice fell off the table\n {4}at .*environment\.mjs:\d+:\d+\)?$/gm)).toHaveLength(1);
  expect(stderr.match(/^Error: no table\n {4}at .*environment\.mjs:\d+:\d+\)?$/gm)).toHaveLength(1);
  const plain = await world.collect("--out", "b.jsonl", "--attempts", "1");
  expect(plain.stderr).not.toMatch(/\n {4}at /);
});

/** Collects three rollouts of an environment whose tool has this code. */
async function collectTally(add: string) {
  const folder = await newFolder();
  const target = await writeTally(folder, { add });
  const tasks = await writeRows(join(folder, "tasks.jsonl"), { responses_create_params: { input: "Count." } });
  const flags = ["--tasks", tasks, "--repeats", "3", "--concurrency", "1", "--out", join(folder, "a.jsonl")];
  return { folder, ...(await run("collect", target, ...flags)) };
}

test.each([
  ["a promise that a tool neither awaits nor catches", 'void Promise.reject(new TypeError("boom"))', "a promise that"],
  ["an error in a timer of a tool", 'setTimeout(() => { throw new TypeError("boom"); })', "a callback"],
])("%s is reported once and counted, and ends nothing", async (_, code, place) => {
  const { code: exit, stdout, stderr } = await collectTally(`${code}; state.count += by`);
  expect({ exit, stdout }).toEqual({ exit: 0, stdout: expect.stringMatching(/^3 of 3 rollouts scored/) as string });
  const error = `TypeError: boom in ${place}.* \\(environment\\.mjs:\\d+\\)`;
  expect(stderr.match(new RegExp(`^error thrown by your code: ${error}; `, "gm"))).toHaveLength(1);
  expect(stdout).toMatch(new RegExp(`^errors thrown by your code\n {2}[1-6] × ${error}$`, "m"));
});

test("a summary that cannot be written fails the command", async () => {
  const folder = await newFolder();
  const args = [join(await built(), "cli/main.js"), "collect", "examples/counter", "--out", join(folder, "a.jsonl")];
  const { status, stderr } = spawnSync(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", openSync("/dev/full", "w"), "pipe"],
    encoding: "utf8",
  });
  expect({ status, stderr }).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("cannot write the output: ENOSPC") as string,
  });
});

test("a tool that ends the process is named, the exit fails, and no lock stays", async () => {
  const { code, folder, stderr } = await collectTally("process.exit(0)");
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /environment\.mjs:\d+ ended the process with exit code 0 before the collection was complete; continue with: npx holdfast collect .* --resume\n$/,
  );
  expect(readdirSync(folder).filter((name) => name.endsWith(".lock"))).toEqual([]);
});

test("a refusal is not counted as an error", async () => {
  const world = newWorld([taskLine(0, "Roll 0", { trouble: "refusal" })]);
  const { code, stdout, stderr } = await world.collect("--out", "a.jsonl");
  expect({ code, row: JSON.stringify(rowsOf(world.at("a.jsonl"))) }).toEqual({
    code: 0,
    row: expect.stringContaining("no more rolls") as string,
  });
  expect(stdout + stderr).not.toMatch(/your code|no more rolls/);
});

test("runs names the agent that played", async () => {
  const world = newWorld(tasksOf(1));
  await world.collect("--out", "runs/own.jsonl");
  await world.collect("--out", "runs/random.jsonl", "--model", "random", "--max-steps", "2");
  const { stdout } = await run("runs", world.at("runs"));
  expect(stdout).toMatch(/^collection +played by +tasks/);
  expect(stdout).toMatch(/own\.jsonl +roller +1 /);
  expect(stdout).toMatch(/random\.jsonl +roller with random +1 /);
  // The collections of folders below the given folder are listed too.
  expect((await run("runs", world.at("."))).stdout).toContain("runs/own.jsonl");
  const narrow = (await (await start(["runs", world.at("runs")], { env: { COLUMNS: "60" } })).ended).stdout.split("\n");
  expect(narrow).toContainEqual(expect.stringMatching(/^ {2}played by roller, tasks 1, /));
  expect(narrow.filter((line) => line.length > 60 && !line.endsWith(".jsonl"))).toEqual([]);
});

test("a request that is not a JSON object is refused, and a store that cannot be reached ends it at once", async () => {
  const world = newWorld([taskLine(0)]);
  const refused = await world.collect("--out", "a.jsonl", "--request", "[1]");
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("Use a JSON object") });
  const lost = await world.collect("--out", "a.jsonl", "--store", "redis://127.0.0.1:1");
  expect(lost).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("cannot be reached") });
});
