// Servers, stores and workers that are stopped for a while (SIGSTOP) and continue (SIGCONT), under load. Nothing is lost,
// doubled or scored wrongly. tests/e2e/store-faults-*.test.ts has single pauses and their time limits.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../tools/servers/postgres.mjs";
import { startRedis } from "../../tools/servers/redis.mjs";
import { newWorld, taskLine } from "../cli/collect-process.ts";
import { expectExact, openSessions, startLoad } from "../e2e/replicas-load.ts";
import { newRedis, outcomesOf, startWorker } from "../queue/queue-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { limitMemory, startCounter } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

interface Pausable {
  pause(): void;
  resume(): void;
}

const storages: { name: string; start(): Promise<{ url: string; server?: Pausable }> }[] = [
  {
    name: "SQLite",
    async start() {
      const folder = await mkdtemp(join(tmpdir(), "holdfast-attack-"));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      return { url: `sqlite:${join(folder, "sessions.db")}` };
    },
  },
  {
    name: "Redis",
    async start() {
      const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
      onTestFinished(() => server.stop());
      return { url: server.url, server };
    },
  },
  {
    name: "Postgres",
    async start() {
      const server = await startPostgres();
      onTestFinished(() => server.stop());
      return { url: server.url, server };
    },
  },
];

/** Mostly short, and sometimes longer than every time limit of a store and of a lock. */
const pauseOf = (n: number): number => (n % 5 === 4 ? 7_000 : 100 + Math.random() * 1_500);

for (const { name, start } of storages) {
  test(
    `DURABLE, ONCE: pauses of servers and of the store lose and double nothing, on ${name}`,
    lasting(90),
    async () => {
      const { url, server } = await start();
      const replicas = await Promise.all([0, 1].map(() => startCounter(url)));
      const paused: Pausable[] = replicas.map(({ process }) => ({
        pause: () => void process.kill("SIGSTOP"),
        resume: () => void process.kill("SIGCONT"),
      }));
      if (server) paused.push(server);
      const sessions = await openSessions(replicas, 8);
      const load = startLoad({ replicas, sessions, clients: 24, cutEvery: 10 });
      const failed = load.done.then(() => expect.fail("the load has ended"));
      failed.catch(() => undefined);
      let pauses = 0;
      for (; pauses < attacks(60); pauses++) {
        const one = paused[pauses % paused.length] as Pausable;
        one.pause();
        await Promise.race([sleep(pauseOf(pauses)), failed]);
        one.resume();
        const before = load.answered();
        while (load.answered() < before + 5) await Promise.race([sleep(10), failed]);
      }
      await load.stop();
      const applied = await expectExact(replicas, sessions, load);
      expect(applied).toBe(load.answered());
      const retries = [...load.troubles.values()].reduce((sum, count) => sum + count, 0);
      report(`pauses on ${name}`, { pauses, calls: applied, retries });
    },
  );
}

test(
  "SCORED, RESUME: pauses of workers and of the queue give each rollout one row, the same as alone",
  lasting(120),
  async () => {
    const tasks = attacks(200);
    const world = newWorld(Array.from({ length: tasks }, (_, n) => taskLine(n)));
    expect(await world.collect("--out", "alone.jsonl", "--seed", "7")).toMatchObject({ code: 0 });
    const redis = await newRedis();
    const workers = await Promise.all(
      [0, 1, 2].map(() => startWorker(world, redis.url, { concurrency: 4, pause: 300 })),
    );
    for (const worker of workers) limitMemory(worker.process.pid);
    const collecting = await world.start(["--out", "run.jsonl", "--seed", "7", "--queue", redis.url]);
    const paused: Pausable[] = workers.map(({ process }) => ({
      pause: () => void process.kill("SIGSTOP"),
      resume: () => void process.kill("SIGCONT"),
    }));
    paused.push(redis);
    let pauses = 0;
    for (; collecting.process.exitCode === null; pauses++) {
      const one = paused[pauses % paused.length] as Pausable;
      one.pause();
      await Promise.race([sleep(one === redis ? 1_000 : pauseOf(pauses)), collecting.ended]);
      one.resume();
      await Promise.race([sleep(200), collecting.ended]);
    }
    expect(await collecting.ended).toMatchObject({ code: 0 });
    const rows = rowsOf(world.at("run.jsonl"));
    expect(new Set(keysOf(rows)).size).toBe(tasks);
    expect(outcomesOf(rows)).toEqual(outcomesOf(rowsOf(world.at("alone.jsonl"))));
    expect(rowsOf(world.at("run_failures.jsonl"))).toEqual([]);
    expect(pauses).toBeGreaterThan(2);
    report("pauses of workers and the queue", { pauses, rows: rows.length });
  },
);
