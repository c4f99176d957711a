// The Redis store passes the shared cases on one server, behind Sentinel and on a Cluster.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { removePrefix, startCluster, startRedis, startSentinel, type RedisServer } from "../../tools/servers/redis.mjs";
import { startOnce } from "../shared.ts";
import { runStoreCases } from "./run-cases.ts";

const server = startOnce(() => startRedis());
// No test may cause a failover, however late a server answers.
const sentinel = startOnce(() => startSentinel({ downAfter: 60_000 }));
const cluster = startOnce(() => startCluster());

interface Kind {
  name: string;
  tags: "full"[];
  start(): Promise<{ url: string; servers: RedisServer[] }>;
}

const kinds: Kind[] = [
  {
    name: "one server",
    tags: [],
    start: () => server().then((started) => ({ url: started.url, servers: [started] })),
  },
  {
    name: "Sentinel",
    tags: ["full"],
    start: () => sentinel().then(({ url, master }) => ({ url, servers: [master] })),
  },
  { name: "a Cluster", tags: ["full"], start: cluster },
];

for (const { name, tags, start } of kinds) {
  runStoreCases(
    `redis, ${name}`,
    async () => {
      const { url, servers } = await start();
      const prefix = `t${randomUUID()}`;
      const ports = servers.map(({ port }) => port);
      return { open: () => redisStore({ url, prefix }), dispose: () => removePrefix(ports, prefix) };
    },
    { tags },
  );

  test(`redis, ${name}: nothing is left of a removed prefix`, { tags }, async () => {
    const { servers } = await start();
    for (const each of servers) expect(await each.command("keys", "t*")).toBe("");
  });
}
