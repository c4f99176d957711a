// holdfast reverify: rewards of stored sessions by the current verifier.
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run, start } from "../e2e/serve-process.ts";
import { collectTally, newFolder, rowsIn, writeRows, writeTally, type Row } from "./rollout-files.ts";

const byGoal = "({ state, task }) => ({ reward: Number(state.count === task.goal), by: 'goal' })";

test("a changed verifier gives other rewards, from the state and not from the stored verdict", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder, { verify: "() => ({ reward: 0.25, old: true, goal: 7 })" });
  const file = await collectTally(folder, target);
  expect(rowsIn(file)).toMatchObject([
    { goal: 5, reward: 0.25, metrics: { old: true, goal: 7 } },
    { goal: 2, reward: 0.25, metrics: { old: true, goal: 7 } },
  ]);
  const before = await readFile(join(folder, "tally.db"));
  await writeTally(folder, { verify: byGoal });
  const out = join(folder, "again.jsonl");
  const { code, stdout } = await run("reverify", file, "--environment", target, "--out", out);
  expect(code).toBe(0);
  expect(stdout).toContain("2 episodes verified again, 2 rewards changed (mean 0.25 before, 0.5 now)");
  const rows = rowsIn(out).sort((a, b) => Number(a["_ng_task_index"]) - Number(b["_ng_task_index"]));
  expect(rows).toMatchObject([
    { goal: 5, reward: 1, metrics: { by: "goal" } },
    { goal: 2, reward: 0, metrics: { by: "goal" } },
  ]);
  // The old verifier's fields are gone, and all others are kept.
  expect(rows[0]?.["metrics"]).toEqual({ by: "goal" });
  expect(rows[0]).toHaveProperty("session_id");
  expect(await readFile(join(folder, "tally.db"))).toEqual(before);
  // Rows of version 0.1 have the verdict beside the reward.
  const [first] = rowsIn(file) as [Row];
  const older = { ...first, metrics: undefined, old: true, goal: 7 };
  await writeRows(join(folder, "older.jsonl"), older);
  const flags = [
    "--environment",
    target,
    "--store",
    `sqlite:${join(folder, "tally.db")}`,
    "--out",
    join(folder, "b.jsonl"),
  ];
  expect((await run("reverify", join(folder, "older.jsonl"), ...flags)).code).toBe(0);
  const [judged] = rowsIn(join(folder, "b.jsonl"));
  expect(judged).toMatchObject({ reward: 1, metrics: { by: "goal" } });
  expect(judged).not.toHaveProperty("old");
});

test("--every-step gives a reward for each version that changed the state, by the transcript so far", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target);
  const verify = "({ state, response }) => state.count + response.output.length / 100";
  await writeTally(folder, { verify });
  const out = join(folder, "again.jsonl");
  expect((await run("reverify", file, "--environment", target, "--out", out, "--every-step")).code).toBe(0);
  // Versions: opened, seeded, two calls. Two items of each call, and the answer at the end.
  expect(rowsIn(out)[0]?.["step_rewards"]).toEqual([
    { version: 2, reward: 0 },
    { version: 3, reward: 2.02 },
    { version: 4, reward: 5.04 },
  ]);
  expect(rowsIn(out)[0]?.["reward"]).toBe(5.05);
});

test("verifier failures are episodes verified again, other failures are kept, and new failures have no reward", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder, {
    verify: "({ task }) => { if (task.goal === 2) throw new Error('no idea'); return 1 }",
  });
  const file = await collectTally(folder, target, "--attempts", "1");
  expect(rowsIn(file)).toHaveLength(1);
  const failing = await run("reverify", file, "--environment", target, "--out", join(folder, "same.jsonl"), "--json");
  expect(failing.code).toBe(1);
  expect(JSON.parse(failing.stdout)).toMatchObject({ judged: 1, changed: 0, failed: 1 });
  const [failed] = rowsIn(join(folder, "same_failures.jsonl"));
  expect(failed).toMatchObject({ failure_kind: "verify", mask_sample: true, reward: null });
  await writeTally(folder, { verify: byGoal });
  const out = join(folder, "again.jsonl");
  const { code, stdout } = await run("reverify", file, "--environment", target, "--out", out, "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ judged: 2, new: 1, failed: 0 });
  for (const row of rowsIn(out)) expect(row).not.toHaveProperty("failure_kind");
});

test("another environment, and an existing output, are refused and nothing is written", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target);
  const out = join(folder, "again.jsonl");
  const other = await run("reverify", file, "--environment", "examples/counter", "--out", out);
  expect(other).toMatchObject({ code: 1, stdout: "" });
  expect(other.stderr).toMatch(
    /^invalid_option: session \S+ belongs to tally, not to counter; choose another --environment or --store\n$/,
  );
  expect((await run("reverify", file, "--environment", target, "--out", out)).code).toBe(0);
  expect((await run("reverify", file, "--environment", target, "--out", out)).stderr).toContain("already exists");
  expect((await run("reverify", file, "--environment", target, "--out", file, "--force")).code).toBe(1);
});

test("a killed command leaves no output, and can be run again", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target);
  // The first is judged at once, the second never.
  await writeTally(folder, {
    verify: "({ task }) => (task.goal === 5 ? 1 : new Promise((end) => setTimeout(end, 1e6)))",
  });
  const out = join(folder, "again.jsonl");
  const killed = await start(["reverify", file, "--environment", target, "--out", out]);
  await expect.poll(() => readdir(folder), { timeout: 20_000 }).toContainEqual(expect.stringContaining("again.jsonl."));
  killed.process.kill("SIGKILL");
  await killed.ended;
  expect(await readdir(folder)).not.toContain("again.jsonl");
  expect(await readdir(folder)).not.toContain("again_failures.jsonl");
  await writeTally(folder, { verify: byGoal });
  expect((await run("reverify", file, "--environment", target, "--out", out)).code).toBe(0);
  expect(rowsIn(out)).toHaveLength(2);
});

test("rows with missing sessions are counted and marked", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target);
  const [first, second] = rowsIn(file);
  const { session_id: _, ...nameless } = second ?? {};
  const other = await writeRows(join(folder, "other.jsonl"), { ...first, session_id: "not-there" }, nameless);
  const out = join(folder, "again.jsonl");
  const store = `sqlite:${join(folder, "tally.db")}`;
  const { code, stdout } = await run("reverify", other, "--environment", target, "--store", store, "--out", out);
  expect(code).toBe(1);
  const failures = join(folder, "again_failures.jsonl");
  const question = "2 sessions are missing from the store; check --store";
  expect(stdout).toContain(`2 could not be verified (${question}): see ${failures}`);
  expect(rowsIn(failures).map((row) => row["failure_reason"])).toEqual([
    "the store does not have the session not-there",
    "the row has no session_id",
  ]);
});
