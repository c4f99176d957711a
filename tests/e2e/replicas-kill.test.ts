// Replicas are killed and their store restarts under load: no answered call is lost, none is applied twice.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../tools/servers/postgres.mjs";
import { startRedis } from "../../tools/servers/redis.mjs";
import { runs } from "../runs.ts";
import { expectExact, openSessions, startLoad } from "./replicas-load.ts";
import { report, startReplicas } from "./replicas-servers.ts";

const kills = runs(5);
const restarts = Math.max(2, runs(1));

const stores = [
  { name: "Redis", start: () => startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] }) },
  { name: "Postgres", start: () => startPostgres() },
];

for (const { name, start } of stores) {
  const slowTest = { tags: ["full"], timeout: 60_000 + kills * 10_000 + restarts * 10_000 };
  const what = `${kills} kill -9 of replicas and ${restarts} ends of the store`;
  test(`DURABLE, ONCE, SERIAL: ${what} cost no answer and apply nothing twice, on ${name}`, slowTest, async () => {
    const server = await start();
    onTestFinished(() => server.stop());
    const replicas = await startReplicas(server.url);
    // One contended session, and many others.
    const sessions = await openSessions(replicas, 40);
    const [hot] = sessions as [string];
    const loads = [
      startLoad({ replicas, sessions: [hot], clients: 24, cutEvery: 10 }),
      startLoad({ replicas, sessions: sessions.slice(1), clients: 40, cutEvery: 10 }),
    ];
    const began = performance.now();
    const answered = (): number => loads.reduce((sum, load) => sum + load.answered(), 0);
    /** Waits until more calls are answered. */
    const goOn = async (): Promise<void> => {
      const before = answered();
      const failed = Promise.race(loads.map(({ done }) => done)).then(() => expect.fail("the load has ended"));
      while (answered() < before + 50) await Promise.race([sleep(5), failed]);
    };

    const killing = async (): Promise<void> => {
      for (let kill = 0; kill < kills; kill++) {
        await goOn();
        await replicas[Math.floor(Math.random() * replicas.length)]!.killAndStart();
      }
    };
    const restarting = async (): Promise<void> => {
      for (let restart = 0; restart < restarts; restart++) {
        for (let wait = 0; wait < kills / restarts; wait++) await goOn();
        // Alternately: stopped, and killed.
        if (restart % 2 === 1) await server.kill();
        await server.restart();
      }
    };
    await Promise.all([killing(), restarting()]);
    await goOn();
    await Promise.all(loads.map((load) => load.stop()));
    const seconds = (performance.now() - began) / 1000;

    // All calls were answered in the end, so the logs equal the ledgers.
    const applied = await expectExact(replicas, sessions, ...loads);
    expect(applied).toBe(answered());
    const troubles = loads.map((load) => JSON.stringify(Object.fromEntries(load.troubles))).join(" ");
    const longest = JSON.stringify(loads.map((load) => [...load.longest]));
    report(`${name}: ${what}, ${applied} calls in ${seconds.toFixed(1)} s; ${troubles} longest ${longest}`);
  });
}
