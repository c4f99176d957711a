// The Redis store passes the shared cases on one server, behind Sentinel and on a Cluster.
import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { removePrefix, startCluster, startRedis, startSentinel } from "../../tools/servers/redis.mjs";
import { runStoreCases } from "./run-cases.ts";

// Started while the tests are collected, as the cases ask a store what it is.
const server = await startRedis();
// Nothing is to fail over here, however late a server answers.
const sentinel = await startSentinel({ downAfter: 60_000 });
const cluster = await startCluster();
afterAll(() => Promise.all([server.stop(), sentinel.stop(), cluster.stop()]));

const kinds = [
  { name: "one server", url: server.url, servers: [server] },
  { name: "Sentinel", url: sentinel.url, servers: [sentinel.master] },
  { name: "a Cluster", url: cluster.url, servers: cluster.servers },
];
for (const { name, url, servers } of kinds) {
  runStoreCases(`redis, ${name}`, () => {
    const prefix = `t${randomUUID()}`;
    const ports = servers.map(({ port }) => port);
    return { open: () => redisStore({ url, prefix }), dispose: () => removePrefix(ports, prefix) };
  });

  test(`redis, ${name}: nothing is left of a prefix that was removed`, async () => {
    for (const each of servers) expect(await each.command("keys", "t*")).toBe("");
  });
}
