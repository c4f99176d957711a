// Servers whose wall clocks jump, each by its own amount, under load. Nothing is lost or doubled, and no session ends.
// tests/session has claims, leases and idle limits on injected clocks.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../tools/servers/postgres.mjs";
import { startRedis } from "../../tools/servers/redis.mjs";
import { expectExact, openSessions, startLoad } from "../e2e/replicas-load.ts";
import { root } from "../files.ts";
import { startCounter } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

const storages: { name: string; start(folder: string): Promise<string> }[] = [
  { name: "SQLite", start: async (folder) => `sqlite:${join(folder, "sessions.db")}` },
  {
    name: "Redis",
    async start() {
      const server = await startRedis({ args: ["--appendonly", "yes"] });
      onTestFinished(() => server.stop());
      return server.url;
    },
  },
  {
    name: "Postgres",
    async start() {
      const server = await startPostgres();
      onTestFinished(() => server.stop());
      return server.url;
    },
  },
];

/** Milliseconds: leap seconds, a wrong time zone, a clock that was set, and a clock that lost its battery. */
const jumps = [1_000, -1_000, 3_600_000, -3_600_000, 1_200_000, -86_400_000, 86_400_000, -50 * 365 * 86_400_000];

for (const { name, start } of storages) {
  test(
    `DURABLE, ONCE: clocks that jump lose and double nothing, and end no session, on ${name}`,
    lasting(60),
    async () => {
      const folder = await mkdtemp(join(tmpdir(), "holdfast-clock-"));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      const url = await start(folder);
      const clocks = [join(folder, "clock-0"), join(folder, "clock-1")];
      const node = `--import ${pathToFileURL(join(root, "tests/attack/jumping-clock.mjs")).href}`;
      const replicas = [];
      for (const clock of clocks) {
        await writeFile(clock, "0");
        // Sessions end after ten minutes without a call.
        replicas.push(await startCounter(url, { node, env: { CLOCK_FILE: clock }, idle: 600_000 }));
      }
      const sessions = await openSessions(replicas, 8);
      const load = startLoad({ replicas, sessions, clients: 8, cutEvery: 10 });
      const failed = load.done.then(() => expect.fail("the load has ended"));
      failed.catch(() => undefined);
      let [count, seen] = [0, 0];
      for (; count < attacks(200); count++) {
        const jump = jumps[Math.floor(Math.random() * jumps.length)] as number;
        await writeFile(clocks[count % 2] as string, String(jump));
        await Promise.race([sleep(150 + Math.random() * 200), failed]);
        const { headers } = await fetch(`${replicas[count % 2]?.url}/healthz`);
        if (Math.abs(Date.parse(headers.get("date") ?? "") - Date.now()) > 600_000) seen++;
        if (Math.random() < 0.5) await writeFile(clocks[count % 2] as string, "0");
      }
      await load.stop();
      const applied = await expectExact(replicas, sessions, load);
      expect(applied).toBe(load.answered());
      for (const session of sessions) {
        const response = await fetch(`${replicas[0]?.url}/v1/sessions/${session}`);
        expect(await response.json()).not.toHaveProperty("ended");
      }
      expect(seen).toBeGreaterThan(0);
      report(`clocks on ${name}`, { jumps: count, "replies with a wrong date": seen, calls: applied });
    },
  );
}
