// Jobs that no collector made, put into Redis by hand among those of a collection: malformed, huge, of other versions, with wrong
// types. The worker lives, the collection ends whole, and nothing outside of the worker's folder is loaded.
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { queueAddress } from "../../src/queue/connection.ts";
import { toKeyPrefix } from "../../src/queue/connection.ts";
import { queueName } from "../../src/queue/job.ts";
import { newWorld, taskLine } from "../cli/collect-process.ts";
import { newRedis, outcomesOf, startWorker } from "../queue/queue-process.ts";
import { keysOf, newFolder, rowsOf } from "../rollout/folder.ts";
import { limitMemory } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

const huge = "x".repeat(1_000_000);
const collection = { run: "evil", title: "evil", settings: {} };
const rollout = { session: "evil", row: {}, task: 0, repeat: 0, attempt: 0, random: 1 };

/** Data of jobs. `outside` is a module that must never be loaded. */
const hostileData = (outside: string, n: number): unknown[] => [
  null,
  "text",
  42,
  [],
  {},
  { collection: null, rollout: null },
  { collection, rollout: null },
  { collection: { ...collection, title: "forged\nworker evil: played\u001B[2J" }, rollout },
  { collection: { ...collection, settings: null }, rollout },
  { collection: { ...collection, settings: [] }, rollout },
  { collection: { ...collection, settings: { target: outside, files: {} } }, rollout },
  { collection: { ...collection, settings: { target: "../../../etc", files: {}, model: "scripted" } }, rollout },
  { collection: { ...collection, settings: { target: ".", agent: outside, files: {} } }, rollout },
  { collection: { ...collection, settings: { target: ".", files: "wrong", store: 7, model: {} } }, rollout },
  { collection: { ...collection, settings: { target: ".", files: {}, store: "sqlite:/etc/passwd" } }, rollout },
  { collection: { ...collection, settings: { target: ".", files: {}, server: "http://127.0.0.1:1" } }, rollout },
  { collection: { ...collection, settings: { __proto__: null, constructor: "x", target: 1 } }, rollout },
  { collection, rollout: { ...rollout, session: huge } },
  { collection: { ...collection, run: huge }, rollout: { ...rollout, row: { huge } } },
  { collection, rollout: { ...rollout, session: `s${n}`, row: [] } },
  // Of version 0.1, and of a version to come.
  { run: "old", target: ".", rollout: { task: 0, repeat: 0, row: {} } },
  { version: 99, collection: { ...collection, format: 2 }, rollout: { ...rollout, task: "first" } },
];

test("SCORED: hostile jobs end no worker and change no row of a collection", lasting(90), async () => {
  const tasks = 10;
  const world = newWorld(Array.from({ length: tasks }, (_, n) => taskLine(n)));
  expect(await world.collect("--out", "alone.jsonl", "--seed", "7")).toMatchObject({ code: 0 });
  const elsewhere = newFolder();
  const [outside, mark] = [join(elsewhere, "evil.mjs"), join(elsewhere, "loaded")];
  writeFileSync(outside, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");`);
  const redis = await newRedis();
  const client = new Redis(redis.url, { maxRetriesPerRequest: null });
  const prefix = toKeyPrefix(queueAddress(redis.url));
  const queue = new Queue(queueName, { connection: client, prefix });
  onTestFinished(async () => {
    await queue.close();
    client.disconnect();
  });
  const counts = { jobs: 0, "broken keys": 0 };
  const most = attacks(1_000);

  async function attack(): Promise<void> {
    for (let round = 0; counts.jobs < most; round++) {
      for (const data of hostileData(outside, round)) {
        const name = ["rollout", "unknown", "", "__proto__", huge.slice(0, 1_000)][counts.jobs % 5] as string;
        const options = [{}, { delay: 50 }, { priority: 5 }, { attempts: 3 }, { lifo: true }][counts.jobs % 5];
        await queue.add(name || "x", data as never, { removeOnComplete: true, removeOnFail: true, ...options });
        counts.jobs++;
      }
      // Ids that lead to nothing, to a key of another type, to a hash that is not a job, and to broken JSON.
      const key = (id: string): string => `${prefix}:${queueName}:${id}`;
      await client.set(key(`text${round}`), "not a hash");
      await client.hset(key(`hash${round}`), { colour: "red" });
      await client.hset(key(`json${round}`), { name: "x", data: "{", opts: "{", timestamp: "soon" });
      for (const id of ["missing", "text", "hash", "json"]) await client.lpush(key("wait"), `${id}${round}`);
      counts["broken keys"] += 4;
    }
  }

  const worker = await startWorker(world, redis.url, { concurrency: 8, pause: 20 });
  const memory = limitMemory(worker.process.pid);
  const collecting = await world.start(["--out", "run.jsonl", "--seed", "7", "--queue", redis.url]);
  await attack();
  expect(await collecting.ended).toMatchObject({ code: 0 });
  const rows = rowsOf(world.at("run.jsonl"));
  expect(new Set(keysOf(rows)).size).toBe(tasks);
  expect(outcomesOf(rows)).toEqual(outcomesOf(rowsOf(world.at("alone.jsonl"))));
  expect(existsSync(mark)).toBe(false);
  expect(worker.process.exitCode).toBe(null);
  // It still takes work.
  const again = await world.start(["--out", "again.jsonl", "--seed", "7", "--queue", redis.url]);
  expect(await again.ended).toMatchObject({ code: 0 });
  expect(outcomesOf(rowsOf(world.at("again.jsonl")))).toEqual(outcomesOf(rows));
  report("hostile jobs", { ...counts, "MB of memory": memory() });
});
