// A store in memory keeps only the running rollouts.
import { createSessions, defineAgent, defineEnvironment, memoryStore, scriptedModel, tool } from "holdfast";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { createPlayer } from "../../src/rollout/play/player.ts";
import type { Play } from "../../src/core/rollout.ts";
import { collect, type CollectOptions } from "../../src/rollout/collect.ts";
import { fileOutput } from "../../src/rollout/output.ts";
import { forgetIn } from "../../src/rollout/forget.ts";
import { readLine } from "../../src/rollout/tasks.ts";
import { newFolder, rowsOf } from "./folder.ts";

const tally = defineEnvironment({
  name: "tally",
  state: z.object({ count: z.number() }),
  seed: () => ({ count: 0 }),
  tools: { add: tool({ description: "Adds.", run: ({ state }) => state.count++ }) },
  verify: ({ state }) => Number(state.count === 3),
});

const add = { calls: [{ name: "add", arguments: {} }] };

async function* tasks(count: number) {
  for (let n = 1; n <= count; n++) yield readLine(`{"n":${n},"responses_create_params":{"input":"Add ${n}."}}`, n);
}

/** Collects on memory. Returns the rows, and the number of sessions: the maximum and the final one. */
async function collected(
  count: number,
  given: Partial<CollectOptions>,
  playing: (play: Play) => Play = (play) => play,
) {
  const store = memoryStore();
  const [sessions, episodes] = [
    createSessions({ app: "rollouts", store }),
    createSessions({ environment: tally, store }),
  ];
  const agentFor = () => defineAgent({ name: "player", model: scriptedModel([add, add, add, "Done."]) });
  const inner = playing(createPlayer({ sessions, episodes, agentFor }));
  const listed = async (): Promise<number> => {
    let there = 0;
    for await (const _ of store.list()) there++;
    return there;
  };
  let most = 0;
  const play: Play = async (rollout, signal) => {
    const played = await inner(rollout, signal);
    most = Math.max(most, await listed());
    return played;
  };
  const out = join(newFolder(), "rows.jsonl");
  await collect({
    output: fileOutput(out),
    run: "run",
    seed: 1,
    repeats: 1,
    concurrency: 4,
    attempts: 2,
    pause: () => 0,
    tasks: tasks(count),
    prepare: (row) => row,
    play,
    forget: forgetIn(store),
    ...given,
  });
  return { rows: rowsOf(out), most, left: await listed() };
}

test("on memory, finished rollouts are deleted: there are never more sessions than running rollouts need", async () => {
  const { rows, most, left } = await collected(60, {});
  expect(rows.map(({ reward }) => reward)).toEqual(Array.from({ length: 60 }, () => 1));
  // A conversation and an episode each.
  expect({ isBounded: most <= 8, left }).toEqual({ isBounded: true, left: 0 });
});

test("a forked episode is deleted with its last continuation, in trees of any depth, also if some fail", async () => {
  let fails = 0;
  const failing =
    (play: Play): Play =>
    async (rollout, signal) => {
      const played = await play(rollout, signal);
      const isFailing = rollout.origin !== undefined && rollout.attempt === 0 && ++fails % 5 === 0;
      if (!isFailing) return played;
      const { fields, session } = played;
      return { outcome: "failed", fields, session, failure: { kind: "model", reason: "no GPU" } };
    };
  const branches = [
    { ways: 3, step: 1 },
    { ways: 2, step: 2 },
  ];
  const { rows, most, left } = await collected(20, { branches }, failing);
  expect(rows.length).toBe(120);
  expect(rows.every(({ reward }) => reward === 1)).toBe(true);
  // For each running rollout, the two episodes above it too.
  expect({ isBounded: most <= 4 * 2 * 3, left }).toEqual({ isBounded: true, left: 0 });
});

test("a persistent store deletes nothing", () => {
  expect(forgetIn({ ...memoryStore(), persistent: true })).toBeUndefined();
});
