// Kills of workers, of collectors and of Redis, at random moments of a collection over a queue. Each rollout ends once, with the
// reward that it has in one process. tests/e2e/queue-kill.test.ts has single kills, and counts the questions asked again.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFailed, test } from "vitest";
import { pick, randomStream } from "../../src/core/random.ts";
import { newWorld, taskLine } from "../cli/collect-process.ts";
import type { Running } from "../cli/run-process.ts";
import { newRedis, outcomesOf, startWorker } from "../queue/queue-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { limitMemory } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

const kill = async (running: Running): Promise<void> => {
  running.process.kill("SIGKILL");
  await running.ended;
};

test(
  "SCORED, RESUME: kills of workers, collectors and Redis give each rollout one row, the same as alone",
  lasting(180),
  async () => {
    const seed = Math.floor(Math.random() * 1e9);
    onTestFailed(() => console.log(`seed ${seed}`));
    const random = randomStream(seed, 0);
    const world = newWorld(Array.from({ length: 12 }, (_, n) => taskLine(n)));
    const flags = ["--repeats", "3", "--seed", "7", "--resume"];
    expect(await world.collect("--out", "alone.jsonl", ...flags)).toMatchObject({ code: 0 });
    const expected = outcomesOf(rowsOf(world.at("alone.jsonl")));
    const redis = await newRedis();
    const counts = { workers: 0, collectors: 0, "ends of Redis": 0 };
    const kills = (): number => Object.values(counts).reduce((sum, count) => sum + count, 0);
    const most = attacks(200);

    const start = async (): Promise<Running> => {
      const worker = await startWorker(world, redis.url, { concurrency: 4, pause: 150 });
      limitMemory(worker.process.pid);
      return worker;
    };
    const workers = await Promise.all([0, 1, 2].map(start));
    let rounds = 0;
    for (; kills() < most; rounds++) {
      const out = `round${rounds}`;
      const collect = (): Promise<Running> => world.start(["--out", `${out}.jsonl`, ...flags, "--queue", redis.url]);
      let collecting = await collect();
      const isRunning = (): boolean => collecting.process.exitCode === null;
      while (isRunning() && kills() < most) {
        await Promise.race([sleep(random() * 1_500), collecting.ended]);
        const what = pick(random, ["workers", "workers", "workers", "collectors", "ends of Redis"] as const);
        if (!isRunning()) break;
        if (what === "workers") {
          const at = Math.floor(random() * workers.length);
          await kill(workers[at] as Running);
          workers[at] = await start();
        } else if (what === "collectors") {
          await kill(collecting);
          collecting = await collect();
        } else {
          await redis.kill();
          await redis.restart();
        }
        counts[what]++;
      }
      expect(await collecting.ended).toMatchObject({ code: 0 });
      const rows = rowsOf(world.at(`${out}.jsonl`));
      expect(new Set(keysOf(rows)).size).toBe(rows.length);
      expect(outcomesOf(rows)).toEqual(expected);
      expect(rowsOf(world.at(`${out}_failures.jsonl`))).toEqual([]);
    }
    report("kills around a queue", { ...counts, collections: rounds, rollouts: rounds * expected.length });
  },
);
