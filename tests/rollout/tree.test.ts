// Episodes are forked into trees: every continuation is one rollout, once, despite interruptions.
import { createSessions, defineAgent, defineEnvironment, memoryStore, scriptedModel, tool, type Store } from "holdfast";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { createPlayer } from "../../src/rollout/play/player.ts";
import type { Rollout, TaskRow } from "../../src/core/rollout.ts";
import { collect, type CollectOptions } from "../../src/rollout/collect.ts";
import { finishedRollouts } from "../../src/rollout/finished.ts";
import { logWithParents } from "../../src/rollout/episode-log.ts";
import { createNodes } from "../../src/rollout/metrics/nodes.ts";
import { fileOutput, outputPaths } from "../../src/rollout/output.ts";
import { createReverifier } from "../../src/rollout/reverify.ts";
import { readLine } from "../../src/rollout/tasks.ts";
import { createTree } from "../../src/rollout/tree.ts";
import { newFolder, rowsOf } from "./folder.ts";

const pileOf = (row: TaskRow | undefined) => (row?.["metrics"] as TaskRow | undefined)?.["pile"];

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ bricks: z.array(z.string()).default([]) }),
  task: z.strictObject({ n: z.number(), branch: z.string().optional() }),
  seed: () => ({ bricks: [] }),
  tools: {
    stack: tool({
      description: "Stack.",
      input: z.object({ brick: z.string() }),
      run: ({ state }, { brick }) => state.bricks.push(brick),
    }),
  },
  verify: ({ state }) => ({ reward: state.bricks.filter((brick) => brick.endsWith("1")).length, pile: state.bricks }),
});

/** Records the step and its path, or does a test's action instead. */
type Instead = (rollout: Rollout, step: number) => string | undefined;

interface Given extends Partial<CollectOptions> {
  store?: Store;
  lines?: string[];
  instead?: Instead;
  onAsk?: () => void;
}

const twice = [
  { ways: 2, step: 4 },
  { ways: 3, step: 2 },
];

async function collected(out: string, { store = memoryStore(), lines = ['{"n":0}'], ...given }: Given = {}) {
  const sessions = createSessions({ app: "rollouts", store });
  const episodes = createSessions({ environment: pile, store });
  const agentFor = (rollout: Rollout) => {
    const model = scriptedModel((_, step) => {
      given.onAsk?.();
      const said = given.instead?.(rollout, step);
      if (said !== undefined) return said;
      if (step >= 5) return "Done.";
      const brick = `${step}:${rollout.origin?.branch ?? "-"}`;
      return { calls: [{ name: "stack", arguments: { brick } }] };
    });
    return defineAgent({ name: "player", model });
  };
  async function* tasks() {
    let line = 0;
    for (const text of lines) yield readLine(text, ++line);
  }
  const prepare = (row: TaskRow): TaskRow => ({ ...row, responses_create_params: { input: "Stack." } });
  return collect({
    output: fileOutput(out),
    run: "run",
    seed: 1,
    repeats: 1,
    concurrency: 2,
    attempts: 1,
    prepare,
    pause: () => 0,
    branches: [{ ways: 3, step: 2 }],
    tasks: tasks(),
    play: createPlayer({ sessions, episodes, agentFor }),
    ...given,
  });
}

const newOut = (): string => join(newFolder(), "rows.jsonl");
const inOrder = (rows: TaskRow[]): TaskRow[] =>
  rows.sort((a, b) => Number(a["_ng_rollout_index"]) - Number(b["_ng_rollout_index"]));
/** The fields that are the same in every run. */
const about = (rows: TaskRow[]) =>
  inOrder(rows).map(
    ({ _ng_task_index, _ng_rollout_index, session_id, parent, forked_at, branch, reward, metrics }) => ({
      _ng_task_index,
      _ng_rollout_index,
      session_id,
      parent,
      forked_at,
      branch,
      reward,
      metrics,
    }),
  );
const branchesOf = (rows: TaskRow[]) => inOrder(rows).map((row) => row["branch"] ?? null);

test("FORK: an episode is forked after a step: its continuations are the rows, and none sees the others", async () => {
  const [out, store] = [newOut(), memoryStore()];
  expect(await collected(out, { store, repeats: 2 })).toEqual({ before: 0, scored: 6, failed: 0, stopped: false });
  const rows = inOrder(rowsOf(out));
  expect(rows.map((row) => row["_ng_rollout_index"])).toEqual([0, 1, 2, 3, 4, 5]);
  expect(branchesOf(rows)).toEqual(["0", "1", "2", "0", "1", "2"]);
  expect(rows.map((row) => pileOf(row))).toEqual(
    ["0", "1", "2", "0", "1", "2"].map((way) => ["0:-", "1:-", `2:${way}`, `3:${way}`, `4:${way}`]),
  );
  // The transcript is complete.
  expect((rows[1]!["response"] as { output: unknown[] }).output).toHaveLength(11);
  expect(new Set(rows.map((row) => row["session_id"])).size).toBe(6);
  const parents = rows.map((row) => row["parent"]);
  expect(new Set(parents.slice(0, 3)).size).toBe(1);
  expect(new Set(parents).size).toBe(2);
  const episodes = createSessions({ environment: pile, store });
  expect(await episodes.state(parents[0] as string)).toEqual({ bricks: ["0:-", "1:-"] });
  for (const { session_id, parent, forked_at } of rows) {
    expect((await episodes.info(session_id as string)).parent).toMatchObject({ session: parent, version: forked_at });
  }
  expect(rowsOf(outputPaths(out).inputs).map((row) => row["_ng_rollout_index"])).toEqual([0, 3]);
});

test("FORK: continuations are forked again, and every node has the mean of its subtree", async () => {
  const [out, store] = [newOut(), memoryStore()];
  await collected(out, { store, branches: twice });
  const rows = inOrder(rowsOf(out));
  expect(branchesOf(rows)).toEqual(["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]);
  expect(pileOf(rows[3])).toEqual(["0:-", "1:-", "2:1", "3:1", "4:1.1"]);
  const nodes = createNodes();
  for (const row of rows) nodes.add(row);
  expect(nodes.result().map(({ node, rollouts, mean }) => [node, rollouts, mean])).toEqual([
    ["", 6, 7 / 6],
    ["0", 2, 0.5],
    ["0.0", 1, 0],
    ["0.1", 1, 1],
    ["1", 2, 2.5],
    ["1.0", 1, 2],
    ["1.1", 1, 3],
    ["2", 2, 0.5],
    ["2.0", 1, 0],
    ["2.1", 1, 1],
  ]);
  // The log of a continuation, with its parents' events.
  const log = await logWithParents(store, rows[3]?.["session_id"] as string);
  expect(log?.flatMap((event) => (event.type === "tool.called" ? [(event.input as TaskRow)["brick"]] : []))).toEqual(
    pileOf(rows[3]),
  );
});

test("an episode that ends before its fork is one row, at any depth", async () => {
  const out = newOut();
  let fewer = 0;
  const instead: Instead = ({ task, origin }, step) =>
    (task === 0 && step === 1) || (origin?.branch === "1" && step === 3) ? "Enough." : undefined;
  const given: Given = { instead, branches: twice, lines: ['{"n":0,"branch":"main"}', '{"n":1}'] };
  const onFewer = (count: number): void => void (fewer += count);
  expect(await collected(out, { ...given, onFewer })).toMatchObject({ scored: 6, failed: 0 });
  const rows = rowsOf(out);
  expect(branchesOf(rows.filter((row) => row["n"] === 0))).toEqual(["main"]);
  expect(branchesOf(rows.filter((row) => row["n"] === 1))).toEqual(["0.0", "0.1", "1", "2.0", "2.1"]);
  expect(fewer).toBe(5 + 1);
  fewer = 0;
  expect(await collected(out, { ...given, onFewer })).toMatchObject({ before: 6, scored: 0 });
  expect(fewer).toBe(5 + 1);
});

test("RESUME, FORK: a tree interrupted at any commit resumes: the same rows, none twice, and no answer is requested again", async () => {
  const whole = newOut();
  let [commits, asked] = [0, 0];
  const counting = (inner: Store, onCommit: () => void): Store => ({
    ...inner,
    append: async (...given) => {
      onCommit();
      return inner.append(...given);
    },
  });
  const onAsk = (): void => void asked++;
  await collected(whole, { branches: twice, store: counting(memoryStore(), () => commits++), onAsk });
  const [wanted, all, most] = [about(rowsOf(whole)), asked, commits];
  expect(wanted).toHaveLength(6);
  // Two steps, three times two, six times one, and the end of each.
  expect(all).toBe(2 + 3 * 2 + 6 * 2);
  for (let cut = 1; cut <= most; cut++) {
    const [out, store, stopping] = [newOut(), memoryStore(), new AbortController()];
    let count = 0;
    asked = 0;
    const dying = counting(store, () => {
      if (++count < cut) return;
      stopping.abort();
      throw new Error("killed");
    });
    await collected(out, { branches: twice, store: dying, signal: stopping.signal, onAsk });
    expect(rowsOf(outputPaths(out).failures)).toEqual([]);
    await collected(out, { branches: twice, store, onAsk });
    expect(about(rowsOf(out)), `cut at ${cut}`).toEqual(wanted);
    // The running ones, at most two.
    expect(asked - all, `cut at ${cut}`).toBeLessThanOrEqual(2);
  }
});

test("SCORED: a failed continuation is forked again; an episode that fails before its fork is one failure, until it is retried", async () => {
  const [out, store] = [newOut(), memoryStore()];
  let isBroken = true;
  const instead: Instead = ({ task, attempt, origin }, step) => {
    if (origin?.branch === "1" && attempt === 0 && step === 3) throw new Error("no GPU");
    if (task === 1 && isBroken) throw new Error("no GPU");
    return undefined;
  };
  const given = { store, instead, attempts: 2, lines: ['{"n":0}', '{"n":1}'] };
  expect(await collected(out, given)).toMatchObject({ scored: 3, failed: 1 });
  const again = rowsOf(out).find((row) => row["branch"] === "1");
  expect(again).toMatchObject({ _ng_attempt_index: 1, metrics: { pile: ["0:-", "1:-", "2:1", "3:1", "4:1"] } });
  isBroken = false;
  expect(await collected(out, given)).toMatchObject({ before: 3, scored: 3, failed: 0 });
  const ended: string[] = [];
  for await (const { row, failed } of finishedRollouts(out, () => undefined)) {
    ended.push(`${row["n"] as number} ${row["branch"] as string}${failed ? " failed" : ""}`);
  }
  expect(ended.sort()).toEqual(["0 0", "0 1", "0 2", "1 0", "1 1", "1 2"]);
});

test("a store that lost a forked episode ends no second one in its place: the existing rows stay the only ones", async () => {
  const out = newOut();
  const stopping = new AbortController();
  await collected(out, { concurrency: 1, signal: stopping.signal, onRow: () => stopping.abort() });
  expect(branchesOf(rowsOf(out))).toEqual(["0"]);
  const failed: unknown[] = [];
  const instead: Instead = (_, step) => (step === 1 ? "Enough." : undefined);
  await collected(out, { instead, onRow: (row) => failed.push(row["failure_kind"]) });
  expect(failed).toEqual(["store"]);
  expect(branchesOf(rowsOf(out))).toEqual(["0"]);
  expect(rowsOf(outputPaths(out).failures)).toEqual([]);
});

test("continuations are judged again, also at every step after their fork", async () => {
  const [out, store] = [newOut(), memoryStore()];
  await collected(out, { store });
  const again = createReverifier({ store, environment: pile, everyStep: true });
  const [, row] = inOrder(rowsOf(out));
  const { row: judged, failed } = await again(row as TaskRow);
  expect(failed).toBe(false);
  expect(judged).toMatchObject({ reward: 3, branch: "1", parent: row?.["parent"] });
  expect(judged["step_rewards"]).toEqual([0, 1, 2, 3].map((reward, at) => ({ version: at + 1, reward })));
});

test("a tree numbers its rollouts from left to right, in any order of its steps", () => {
  const tree = createTree(twice);
  const root = { task: 0, index: 12, branch: "", depth: 0 };
  expect([tree.leaves(0), tree.leaves(1), tree.leaves(2)]).toEqual([6, 2, 1]);
  const children = tree.children(root);
  expect(children.map(({ index, branch }) => [index, branch])).toEqual([
    [12, "0"],
    [14, "1"],
    [16, "2"],
  ]);
  expect(children.map(tree.forkStep)).toEqual([4, 4, 4]);
  expect(tree.children(tree.children(children[2]!)[1]!)).toEqual([]);
});
