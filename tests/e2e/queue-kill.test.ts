// A collection over workers that are killed or paused, and whose queue restarts: each rollout becomes one row.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { newWorld, taskLine, type World } from "../cli/collect-process.ts";
import type { Running } from "../cli/run-process.ts";
import { command, eventsIn, newRedis, outcomesOf, startWorker } from "../queue/queue-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { runs } from "../runs.ts";

/** Answers of the model in an episode. */
const turns = 5;
const flags = (url: string, name: string, repeats: number): string[] => [
  "--out",
  `${name}.jsonl`,
  "--repeats",
  String(repeats),
  "--seed",
  "7",
  "--json",
  "--resume",
  ...(url === "" ? [] : ["--queue", url]),
];
const worldOf = (tasks: number): World => newWorld(Array.from({ length: tasks }, (_, n) => taskLine(n)));

/** The rows of a single process. */
async function alone(world: World, repeats: number): Promise<string[]> {
  expect(await (await world.start(flags("", "alone", repeats))).ended).toMatchObject({ code: 0 });
  return outcomesOf(rowsOf(world.at("alone.jsonl")));
}

function assertWhole(world: World, name: string, expected: string[]): void {
  const rows = rowsOf(world.at(`${name}.jsonl`));
  expect(new Set(keysOf(rows)).size).toBe(rows.length);
  expect(outcomesOf(rows)).toEqual(expected);
  expect(rowsOf(world.at(`${name}_failures.jsonl`))).toEqual([]);
}

async function rowsThere(world: World, name: string, count: number, collecting: Running): Promise<void> {
  const written = (): number => {
    try {
      return readFileSync(world.at(`${name}.jsonl`), "utf8").split("\n").length - 1;
    } catch {
      return 0;
    }
  };
  while (collecting.process.exitCode === null && written() < count) await sleep(20);
}

const kill = async (running: Running): Promise<void> => {
  running.process.kill("SIGKILL");
  await running.ended;
};

const slowTest = { tags: ["full"], timeout: Math.max(120_000, runs(120_000)) };

test(
  "RESUME: with one of three workers killed every two seconds, each rollout becomes one row, the same as alone",
  slowTest,
  async () => {
    const [world, redis, repeats, concurrency] = [worldOf(runs(30)), await newRedis(), 4, 4];
    const expected = await alone(world, repeats);
    const before = world.calls().length;
    const settings = { concurrency, pause: 200 };
    const workers = await Promise.all([0, 1, 2].map(() => startWorker(world, redis.url, settings)));
    const collecting = await world.start(flags(redis.url, "shared", repeats));
    let kills = 0;
    for (let at = 0; collecting.process.exitCode === null; at = (at + 1) % 3) {
      await Promise.race([sleep(2000), collecting.ended]);
      if (collecting.process.exitCode !== null) break;
      await kill(workers[at] as Running);
      kills++;
      workers[at] = await startWorker(world, redis.url, settings);
    }
    expect(await collecting.ended).toMatchObject({ code: 0, stderr: "" });
    assertWhole(world, "shared", expected);
    const again = world.calls().length - before - expected.length * turns;
    console.log(`${kills} kills of a worker with ${concurrency} rollouts; ${again} questions were asked again`);
    expect(kills).toBeGreaterThanOrEqual(3);
    expect(again).toBeGreaterThanOrEqual(0);
    // Only questions of a killed worker without a committed answer are repeated.
    expect(again).toBeLessThanOrEqual(kills * concurrency);
  },
);

test("RESUME: the collector is killed while workers continue: nothing is played twice", slowTest, async () => {
  const [world, redis, repeats] = [worldOf(30), await newRedis(), 4];
  const expected = await alone(world, repeats);
  const before = world.calls().length;
  await Promise.all([0, 1].map(() => startWorker(world, redis.url, { pause: 60 })));
  for (const count of [1, 30, 60]) {
    const collecting = await world.start([...flags(redis.url, "shared", repeats), "--concurrency", "24"]);
    await rowsThere(world, "shared", count, collecting);
    await kill(collecting);
  }
  const last = await (await world.start(flags(redis.url, "shared", repeats))).ended;
  expect(last).toMatchObject({ code: 0 });
  assertWhole(world, "shared", expected);
  expect(world.calls().length - before).toBe(expected.length * turns);
});

test("a worker paused for longer than its lock has no say when it returns", slowTest, async () => {
  const [world, redis] = [worldOf(4), await newRedis()];
  const expected = await alone(world, 1);
  const before = world.calls().length;
  const paused = await startWorker(world, redis.url, { pause: 1500 });
  const collecting = await world.start(flags(redis.url, "shared", 1));
  while (world.calls().length < before + 8) await sleep(10);
  paused.process.kill("SIGSTOP");
  // It continues the first one's rollout, and is in the middle of it when that one returns.
  const other = await startWorker(world, redis.url, { pause: 400 });
  const asked = world.calls().length;
  while (world.calls().length < asked + 6) await sleep(10);
  paused.process.kill("SIGCONT");
  expect(await collecting.ended).toMatchObject({ code: 0 });
  assertWhole(world, "shared", expected);
  paused.process.kill("SIGTERM");
  other.process.kill("SIGTERM");
  const [lost, won] = [eventsIn(await paused.ended), eventsIn(await other.ended)];
  expect(lost.at(-1)).toMatchObject({ type: "ended", failed: 0 });
  expect(Number(lost.at(-1)?.["lost"])).toBeGreaterThan(0);
  expect(Number(won.at(-1)?.["played"]) + Number(lost.at(-1)?.["played"])).toBe(expected.length);
});

test("Redis restarts, once for longer than a lock: all wait, report it, and continue", slowTest, async () => {
  const [world, redis, repeats] = [worldOf(30), await newRedis(), 4];
  const expected = await alone(world, repeats);
  const workers = await Promise.all([0, 1].map(() => startWorker(world, redis.url, { pause: 200 })));
  const collecting = await world.start(flags(redis.url, "shared", repeats));
  await rowsThere(world, "shared", 20, collecting);
  await redis.kill();
  await redis.restart();
  await rowsThere(world, "shared", 60, collecting);
  await redis.kill();
  await sleep(7500);
  await redis.restart();
  const { code, stderr } = await collecting.ended;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stderr).toContain(`the queue at ${redis.url} cannot be reached; waiting for it`);
  expect(stderr).toContain(`the queue at ${redis.url} can be reached again`);
  assertWhole(world, "shared", expected);
  for (const worker of workers) worker.process.kill("SIGTERM");
  for (const worker of workers) {
    const ended = await worker.ended;
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain("waiting for it");
  }
});

test("the status shows the remains of a killed worker and collector, and they can be cleared", slowTest, async () => {
  const [world, redis] = [worldOf(4), await newRedis()];
  const queue = async (...args: string[]) =>
    (await command(world.folder, "queue", ...args, "--queue", redis.url)).stdout;
  const worker = await startWorker(world, redis.url, { pause: 600_000 });
  const collecting = await world.start(flags(redis.url, "shared", 1));
  while (world.calls().length < 4) await sleep(10);
  await kill(worker);
  const lost = "0 waiting, 4 active (4 on workers that stopped responding), 0 finished but not yet collected";
  const nobody = `no worker is running; start one with: npx holdfast worker --queue ${redis.url}`;
  expect(await queue("status")).toMatch(new RegExp(`\n {4}${lost.replaceAll(/[()]/g, "\\$&")}\n\n${nobody}\n$`));
  expect(await queue("clear", "--yes")).toBe(`the queue at ${redis.url} has no abandoned collections\n`);
  await kill(collecting);
  const paused = await startWorker(world, redis.url);
  paused.process.kill("SIGSTOP");
  // Longer than the locks of the killed worker.
  while (!/ 0 of 8 active, for \d+ s; silent for \d+ s\n$/.test(await queue("status"))) await sleep(100);
  expect(await queue("clear")).toContain(`${lost}, no collector waits for the results\n\nnothing was removed; --yes`);
  expect(await queue("clear", "--yes")).toMatch(/\n\nremoved 4 rollouts\n$/);
  expect(await queue("status")).toMatch(new RegExp(`^the queue at ${redis.url} is empty\n`));
});
