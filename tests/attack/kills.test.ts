// Kills of serving processes and of their stores, in a loop, on every persistent store. Each answered call is in its log
// once. queue-kills.test.ts kills workers and collectors, tests/e2e/agent and tests/e2e/session single steps.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../tools/servers/postgres.mjs";
import { startRedis } from "../../tools/servers/redis.mjs";
import { startS3 } from "../../tools/servers/s3.mjs";
import { expectExact, openSessions, startLoad } from "../e2e/replicas-load.ts";
import { startEach } from "../e2e/replicas-servers.ts";
import { startStoreProcess } from "../stores/http-server.ts";
import { startCounter } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

interface Storage {
  url: string;
  /** Ends the server of the store abruptly and starts it again. Missing where there is none. */
  restart?(): Promise<void>;
}

const storages: { name: string; start(): Promise<Storage> }[] = [
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
      return { url: server.url, restart: () => server.kill().then(() => server.restart()) };
    },
  },
  {
    name: "Postgres",
    async start() {
      const server = await startPostgres();
      onTestFinished(() => server.stop());
      return { url: server.url, restart: () => server.kill().then(() => server.restart()) };
    },
  },
  {
    name: "S3",
    async start() {
      const server = await startS3({ bucket: "tests", accessKeyId: "key", secretAccessKey: "secret" });
      onTestFinished(() => server.stop());
      process.env["AWS_ACCESS_KEY_ID"] = "key";
      process.env["AWS_SECRET_ACCESS_KEY"] = "secret";
      return { url: `s3://tests/here?endpoint=${server.endpoint}` };
    },
  },
  {
    name: "HTTP",
    async start() {
      const server = await startStoreProcess();
      onTestFinished(() => server.dispose());
      return { url: server.url, restart: () => server.kill().then(() => server.start()) };
    },
  },
];

for (const { name, start } of storages) {
  test(
    `DURABLE, ONCE: kills of servers and of the store cost no answer and apply nothing twice, on ${name}`,
    lasting(90),
    async () => {
      const { url, restart } = await start();
      const replicas = await startEach(2, () => startCounter(url));
      const sessions = await openSessions(replicas, 8);
      const load = startLoad({ replicas, sessions, clients: 8, cutEvery: 10 });
      const failed = load.done.then(() => expect.fail("the load has ended"));
      failed.catch(() => undefined);
      /** Waits until more calls are answered. */
      const work = async (): Promise<void> => {
        const before = load.answered();
        while (load.answered() < before + 10) await Promise.race([sleep(5), failed]);
      };
      let kills = 0;
      const most = attacks(200);
      const killing = replicas.map(async (replica) => {
        while (kills < most) {
          kills++;
          await replica.killAndStart();
          await work();
        }
      });
      let ends = 0;
      const restarting = async (): Promise<void> => {
        if (!restart) return;
        for (; ends < attacks(34); ends++) {
          await work();
          await restart();
        }
      };
      await Promise.all([...killing, restarting()]);
      await load.stop();
      const applied = await expectExact(replicas, sessions, load);
      expect(applied).toBe(load.answered());
      const retries = [...load.troubles.values()].reduce((sum, count) => sum + count, 0);
      report(`kills on ${name}`, { kills, "ends of the store": ends, calls: applied, retries });
    },
  );
}
