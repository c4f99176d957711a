// Four servers on one store: any session works on any of them, and a retry elsewhere counts once.
import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { dropSchema } from "../../tools/servers/postgres.mjs";
import { removePrefix } from "../../tools/servers/redis.mjs";
import { runs } from "../runs.ts";
import { shared } from "../shared.ts";
import { expectExact, openSessions, startLoad } from "./replicas-load.ts";
import { metricOf, report, startReplicas } from "./replicas-servers.ts";

const stores = [
  {
    name: "Redis",
    tags: [],
    async empty() {
      const redis = await shared("redis");
      const prefix = `replicas-${randomUUID()}`;
      onTestFinished(() => removePrefix([Number(new URL(redis).port)], prefix));
      return `${redis}?prefix=${prefix}`;
    },
  },
  {
    name: "Postgres",
    tags: ["full"],
    async empty() {
      const postgres = await shared("postgres");
      const schema = `replicas_${randomUUID()}`;
      onTestFinished(() => dropSchema(postgres, schema));
      return `${postgres}?schema=${schema}`;
    },
  },
];

for (const { name, tags, empty } of stores) {
  describe(name, { tags }, () => {
    test("TOKEN: cookies of one replica are valid at all, also when all started at once on an empty store", async () => {
      const replicas = await startReplicas(await empty());
      for (const first of replicas) {
        const seeded = await post(first.url, "/seed_session", { initial_count: 3 });
        let { cookie } = seeded;
        for (const { url } of replicas) {
          const added = await post(url, "/increment_counter", { count: 1 }, cookie);
          expect(added).toMatchObject({ status: 200, body: { success: true } });
          ({ cookie } = added);
        }
        // The first cookie works too, at a replica that has not seen the session.
        expect((await post(replicas[0]!.url, "/get_counter_value", {}, seeded.cookie)).body).toEqual({ count: 7 });
      }
    });

    for (const many of [1, 100]) {
      const calls = runs(1500);
      const size = many === 1 ? 1 : Math.min(Math.ceil(calls / 10), 1000);
      const what = many === 1 ? "one session" : `${size} sessions`;
      const slowTest = { tags: many === 1 ? [] : ["full"], timeout: 60_000 + calls * 40 };
      test(
        `ONCE, SERIAL: 4 replicas and 64 clients count up ${what} ${calls} times, a tenth twice`,
        slowTest,
        async () => {
          const replicas = await startReplicas(await empty());
          const sessions = await openSessions(replicas, size);
          const began = performance.now();
          const load = startLoad({ replicas, sessions, clients: 64, calls, cutEvery: 10 });
          await load.done;
          const seconds = (performance.now() - began) / 1000;
          expect(load.troubles.get("cut")).toBe(Math.floor(calls / 10));
          expect([...load.troubles.keys()]).toEqual(["cut"]);
          expect(await expectExact(replicas, sessions, load)).toBe(calls);
          const conflicts = await metricOf(replicas, "commit_conflicts_total");
          const longest = Math.round(load.longest.get(200) ?? 0);
          report(
            `${name}, ${what}: ${calls} calls in ${seconds.toFixed(1)} s, ${Math.round(calls / seconds)}/s, ${conflicts} conflicts, longest ${longest} ms`,
          );
        },
      );
    }
  });
}

/** Sends a gym request. Returns the reply with its cookies. */
async function post(url: string, path: string, body: unknown, cookie?: string) {
  const headers = { "content-type": "application/json", ...(cookie !== undefined && { cookie }) };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  const cookies = response.headers.getSetCookie().map((line) => line.split(";", 1)[0]);
  return { status: response.status, body: (await response.json()) as unknown, cookie: cookies.join("; ") };
}
