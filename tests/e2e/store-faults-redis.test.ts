// Servers whose Redis is stopped, restarted, paused, cut off, full or a replica while clients run.
import { expect, onTestFinished, test } from "vitest";
import { startRedis, startSentinel, type RedisServer } from "../../tools/servers/redis.mjs";
import { runs } from "../runs.ts";
import { openSessions, post } from "./replicas-load.ts";
import { throughOutages } from "./replicas-outage.ts";
import { expectRefused, expectResolved, expectWaiting } from "./replicas-refusals.ts";
import { startReplicas, type Replica } from "./replicas-servers.ts";

const slowTest = { tags: ["full"], timeout: 180_000 * runs(1) };

async function redis(...args: string[]): Promise<RedisServer> {
  const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always", ...args] });
  onTestFinished(() => server.stop());
  return server;
}

async function redisWithReplica(options: { downAfter?: number } = {}) {
  const sentinel = await startSentinel({ args: ["--appendonly", "yes", "--appendfsync", "always"], ...options });
  onTestFinished(() => sentinel.stop());
  return sentinel;
}

test(
  "DURABLE, ONCE: Redis is stopped, paused, restarted and cut off: 503 in time, and recovery by itself",
  slowTest,
  async () => {
    const server = await redis();
    const cut = () => server.command("client", "kill", "type", "normal");
    await throughOutages(await startReplicas(server.url, 2), [
      { name: "stopped", begin: () => server.kill(), end: () => server.restart(), lasts: 5500, isNoticed: true },
      { name: "paused", begin: () => server.pause(), end: () => server.resume(), lasts: 5500, isNoticed: true },
      { name: "restarted", begin: () => server.restart(), end: () => undefined, lasts: 0, isNoticed: false },
      { name: "cut off", begin: cut, end: cut, lasts: 500, isNoticed: false },
    ]);
  },
);

test("DURABLE, ONCE: with Sentinel, answers confirmed by a replica outlive their server", slowTest, async () => {
  await Promise.all([failOver(), withoutReplica()]);
});

/** One failover on request, and others because the master is gone. */
async function failOver(): Promise<void> {
  const sentinel = await redisWithReplica();
  const servers = [sentinel.master, sentinel.replica];
  let master: RedisServer | undefined;
  const kill = {
    name: "master killed",
    async begin() {
      const port = await sentinel.masterPort();
      master = servers.find((server) => server.port === port);
      await master?.kill();
      await sentinel.moved(port);
    },
    // Without it no write has the replica that it waits for.
    end: () => master?.restart(),
    lasts: 0,
    isNoticed: false,
  };
  await throughOutages(await startReplicas(`${sentinel.url}?wait=1`, 2), [
    { name: "failover", begin: () => sentinel.failover(), end: () => undefined, lasts: 0, isNoticed: false },
    ...Array.from({ length: runs(1) }, () => kill),
  ]);
}

/** A write without a replica is not answered, nor is a repeat; reads continue. */
async function withoutReplica(): Promise<void> {
  const sentinel = await redisWithReplica({ downAfter: 60_000 });
  const [first, second] = (await startReplicas(`${sentinel.url}?wait=1`, 2)) as [Replica, Replica];
  const [session, ...others] = (await openSessions([first], 101)) as [string, ...string[]];
  const body = '{"tool":"increment_counter","input":{"count":1},"call":"a"}';
  const callAt = ({ url }: Replica, id = session) => post(undefined, `${url}/v1/sessions/${id}/call`, body);
  const refused = { status: 503, retryAfter: "1", body: { error: { code: "store_busy" } } };
  sentinel.replica.pause();
  expect(await callAt(first)).toMatchObject(refused);
  expect(await callAt(second)).toMatchObject(refused);
  const calls = others.map((id) => callAt(second, id));
  const began = performance.now();
  const response = await fetch(`${second.url}/v1/sessions/${session}/state`);
  expect(await response.json()).toMatchObject({ version: 3 });
  expect(performance.now() - began).toBeLessThan(3000);
  for (const answer of await Promise.all(calls)) {
    expect(answer).toMatchObject(refused);
    expect((answer as { ms: number }).ms).toBeLessThan(6000);
  }
  sentinel.replica.resume();
  const answered = { status: 200, body: { ok: true, version: 3, repeated: true } };
  await expect.poll(() => callAt(second), { timeout: 20_000 }).toMatchObject(answered);
}

test(
  "a client's view of a Redis that refuses writes, is away at the start, or commits without answering",
  slowTest,
  async () => {
    const [sleeping, refusing, guarded] = await Promise.all([redis(), redis(), redis("--requirepass", "sesame")]);
    await Promise.all([
      startReplicas(sleeping.url, 2).then((replicas) => expectResolved(replicas, sleeping)),
      startReplicas(refusing.url, 1).then((replicas) => refusals(replicas, refusing)),
      expectWaiting(guarded, guarded.url.replace("//", "//:sesame@"), guarded.url, "requires a password"),
    ]);
  },
);

async function refusals(replicas: Replica[], server: RedisServer): Promise<void> {
  await expectRefused(replicas, {
    begin: () => server.command("config", "set", "maxmemory", 1),
    error: { status: 507, code: "store_full", message: "has no memory left (see its maxmemory)" },
    end: () => server.command("config", "set", "maxmemory", 0),
  });
  await expectRefused(replicas, {
    begin: () => server.command("config", "set", "min-replicas-to-write", 1),
    error: { status: 503, code: "store_busy", message: "refuses writes because it has too few replicas" },
    end: () => server.command("config", "set", "min-replicas-to-write", 0),
  });
  // A replica keeps its data while it cannot reach its master; nothing listens on that port.
  await expectRefused(replicas, {
    begin: () => server.command("replicaof", "127.0.0.1", 1),
    error: { status: 503, code: "store_busy", message: "is a replica and refuses writes" },
    end: () => server.command("replicaof", "no", "one"),
  });
}
