// holdfast collect --branch: trees of episodes in a killed process, refusals, and metrics.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { built } from "../built.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { newWorld, taskLine, type World } from "./collect-process.ts";

const tree = ["--model", "random", "--seed", "5", "--branch", "3@2", "--branch", "2@4"];
const tasksOf = (count: number): string[] => Array.from({ length: count }, (_, n) => taskLine(n));

/** The fields that are the same in another collection. */
function outcomesIn(world: World, name: string): string[] {
  const rows = rowsOf(world.at(name));
  expect(new Set(keysOf(rows)).size).toBe(rows.length);
  return rows
    .map((row) => [...keysOf([row]), row["branch"], row["forked_at"], row["reward"], row["total"]].join(" "))
    .sort();
}

async function holdfast(...args: string[]): Promise<string> {
  return execFileSync(process.execPath, [join(await built(), "cli/main.js"), ...args], { encoding: "utf8" });
}

test(
  "RESUME, FORK: a collection of trees that is killed repeatedly gives the rows of an undisturbed one",
  { tags: ["full"], timeout: 120_000 },
  async () => {
    const world = newWorld(tasksOf(60));
    // The random model takes any allowed number.
    const environment = readFileSync(world.at("environment.mjs"), "utf8");
    writeFileSync(world.at("environment.mjs"), environment.replace("z.number().int() })", "z.int().min(1).max(3) })"));
    const { code, stdout, stderr } = await world.collect("--out", "whole.jsonl", ...tree);
    expect(code, stderr).toBe(0);
    const wanted = outcomesIn(world, "whole.jsonl");
    // Episodes that ended before they were forked are one row.
    expect(stdout).toContain(`${wanted.length} of ${wanted.length} rollouts scored`);
    expect(wanted.length).toBeGreaterThan(100);
    expect(wanted.length).toBeLessThan(360);
    const args = ["--out", "cut.jsonl", ...tree, "--resume", "--concurrency", "3"];
    for (const least of [1, 20, 50, 90]) {
      const child = await world.start(args);
      const isThere = () => existsSync(world.at("cut.jsonl")) && countOf(world.at("cut.jsonl")) >= least;
      await expect.poll(isThere, { timeout: 30_000, interval: 2 }).toBe(true);
      child.process.kill("SIGKILL");
      await child.ended;
    }
    const last = await world.collect(...args);
    expect(last.code, last.stderr).toBe(0);
    expect(outcomesIn(world, "cut.jsonl")).toEqual(wanted);
  },
);

/** Counts the lines. The last one may be torn. */
function countOf(file: string): number {
  return execFileSync("wc", ["-l", file], { encoding: "utf8" }).split(" ").map(Number)[0] ?? 0;
}

test("the metrics of trees are per node, and a continuation is shown from its parent's beginning", async () => {
  const world = newWorld(tasksOf(1));
  const { code, stderr } = await world.collect("--out", "a.jsonl", "--branch", "3@2", "--branch", "2@4");
  expect(code, stderr).toBe(0);
  const table = await holdfast("metrics", world.at("a.jsonl"), "--by-branch");
  expect(table).toMatch(/branch +rollouts +scored +mean\nall +6 +6 .*\n0 +2 +2 .*\n0\.0 +1 +1 /);
  const { nodes } = JSON.parse(await holdfast("metrics", world.at("a.jsonl"), "--by-branch", "--json")) as {
    nodes: { node: string }[];
  };
  expect(nodes.map(({ node }) => node)).toEqual(["", "0", "0.0", "0.1", "1", "1.0", "1.1", "2", "2.0", "2.1"]);
  const shown = await holdfast("show", world.at("a.jsonl"), "--task", "0", "--repeat", "5");
  expect(shown).toContain("(total is 0)");
  expect(shown.match(/\(total is now/g)).toHaveLength(6);
  expect(await holdfast("replay", world.at("a.jsonl"), "--environment", world.folder)).toContain("6");
});

test("RESUME: changed branches are changed settings, and an episode that cannot be forked is refused clearly", async () => {
  const world = newWorld(tasksOf(1));
  expect((await world.collect("--out", "a.jsonl", "--branch", "2@1")).code).toBe(0);
  const refused = async (words: string, ...args: string[]) => {
    const { code, stderr } = await world.collect("--out", "a.jsonl", "--resume", ...args);
    expect(code).not.toBe(0);
    expect(stderr).toContain(words);
  };
  await refused('branches was "2@1" and is now null');
  await refused('branches was "2@1" and is now "2@1 3@2"', "--branch", "3@2", "--branch", "2@1");
  await refused(
    "--branch cannot fork episodes on --server or --agent URL",
    "--branch",
    "2@1",
    "--server",
    "http://127.0.0.1:9",
  );
  await refused("below --max-steps", "--branch", "2@3", "--max-steps", "3");
  await refused("as in 3@2", "--branch", "1@2");
  await refused("as in 3@2", "--branch", "many");
  await refused("Step 2 already has a --branch", "--branch", "3@2", "--branch", "2@2");
  await refused("more than 10000 rollouts", "--branch", "200@1", "--branch", "200@2");
});
