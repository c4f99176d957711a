// The Redis store when its server is gone, paused, restarted, full, a replica, guarded, or not a Redis.
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { inspect } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { redisStore, type RedisStoreOptions } from "../../src/stores/redis.ts";
import { type RedisServer, startCluster, startRedis, startSentinel } from "../../tools/servers/redis.mjs";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function ending<T extends { stop(): Promise<void> }>(started: T): T {
  endings.push(() => started.stop());
  return started;
}

const server = async (...args: string[]): Promise<RedisServer> => ending(await startRedis({ args }));

function open(options: RedisStoreOptions): Store {
  const store = redisStore(options);
  endings.push(() => store.close());
  return store;
}

function commitOf(session: string, version: number, key?: string): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body: `"${version + 1}"`, at: version, ...(key && { key }) }], ...heading };
}

/** The error of a rejected verb, which must be one of ours and arrive in time. */
async function refusal(verb: Promise<unknown>): Promise<{ code: string; message: string }> {
  const began = Date.now();
  const error = await verb.then(
    (value) => expect.fail(`it was answered with ${inspect(value)}`),
    (thrown: unknown) => thrown as { code: string; message: string },
  );
  expect(Date.now() - began, "the time it took").toBeLessThan(6000);
  expect(error).toMatchObject({ name: "HoldfastError" });
  return error;
}

/** Retries until it is answered, as a client of the engine would. */
async function eventually<T>(verb: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    try {
      return await verb();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

const bodies = async (store: Store, session: string): Promise<string[] | undefined> =>
  (await store.read(session, 0))?.map(({ body }) => body);

/** Forwards requests, and answers until told otherwise. */
async function proxyTo(port: number): Promise<{ url: string; swallow(): Promise<void>; connections(): number }> {
  let swallowing: (() => void) | undefined;
  let connections = 0;
  const sockets = new Set<Socket>();
  const proxy: Server = createServer((near) => {
    connections++;
    const far = connect(port, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    }
    near.on("data", (data) => far.write(data));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    far.on("data", (data) => {
      if (!swallowing) return void near.write(data);
      // It was applied; the answer is lost.
      swallowing();
      swallowing = undefined;
      near.destroy();
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  endings.push(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  return {
    url: `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    swallow: () => new Promise((resolve) => (swallowing = resolve)),
    connections: () => connections,
  };
}

describe("an unreachable Redis", () => {
  test(
    "rejects every verb with store_busy in time, and the store recovers by itself",
    { tags: ["full"], timeout: 30_000 },
    async () => {
      const redis = await server("--appendonly", "yes", "--appendfsync", "always");
      const store = open({ url: redis.url.replace("//", "//:s3cret@") });
      // A password that the server did not ask for is not an error.
      expect(await store.append(commitOf("a", 0))).toBe("ok");
      await redis.kill();
      const verbs = [
        store.append(commitOf("a", 1)),
        store.append(commitOf("a", 1), commitOf("b", 0)),
        store.read("a", 0),
        store.load("a"),
        store.find("a", "k"),
        store.count("shop"),
        store.delete("a"),
        store.list()[Symbol.asyncIterator]().next(),
      ];
      for (const error of await Promise.all(verbs.map(refusal))) {
        expect(error.code).toBe("store_busy");
        expect(inspect(error, { depth: 9 })).not.toContain("s3cret");
      }
      await redis.restart();
      expect(await bodies(store, "a")).toEqual(['"1"']);
      expect(await store.append(commitOf("a", 1), commitOf("b", 0))).toBe("ok");
    },
  );

  test("a call made while the server restarts waits for it", async () => {
    const redis = await server("--appendonly", "yes", "--appendfsync", "always");
    const store = open({ url: redis.url });
    await store.append(commitOf("a", 0));
    await redis.kill();
    const answer = store.append(commitOf("a", 1));
    await redis.restart();
    expect(await answer).toBe("ok");
  }, 30_000);

  test(
    "DURABLE: a paused one is given up in time; when it resumes no commit is there twice",
    { tags: ["full"], timeout: 30_000 },
    async () => {
      const redis = await server();
      const store = open({ url: redis.url });
      await store.append(commitOf("a", 0));
      redis.pause();
      const errors = await Promise.all([refusal(store.append(commitOf("a", 1))), refusal(store.read("a", 0))]);
      expect(errors.map(({ code }) => code)).toEqual(["store_busy", "store_busy"]);
      const fresh = open({ url: redis.url });
      expect((await refusal(fresh.count("shop"))).code).toBe("store_busy");
      redis.resume();
      const after = await eventually(() => bodies(store, "a"));
      expect(after).toEqual(['"1"', '"2"'].slice(0, after!.length));
      expect(await store.append(commitOf("a", after!.length))).toBe("ok");
      expect(await eventually(() => fresh.count("shop"))).toBe(1);
    },
  );

  test(
    "close waits for running requests, and no longer than those may take",
    { tags: ["full"], timeout: 30_000 },
    async () => {
      const redis = await server();
      const store = open({ url: redis.url });
      await store.append(commitOf("a", 0));
      redis.pause();
      const lost = refusal(store.append(commitOf("a", 1)));
      const began = Date.now();
      await store.close();
      expect(Date.now() - began).toBeLessThan(6000);
      expect((await lost).code).toBe("store_busy");
      expect((await refusal(store.read("a", 0))).code).toBe("store_closed");
    },
  );

  test("ONCE: a commit whose answer was lost is not sent again; a read is", async () => {
    const redis = await server();
    const proxy = await proxyTo(redis.port);
    const store = open({ url: proxy.url });
    await store.append(commitOf("a", 0));
    for (let version = 1; version <= 10; version++) {
      const swallowed = proxy.swallow();
      const error = await refusal(store.append(commitOf("a", version, `k${version}`)));
      await swallowed;
      // A second send would have been answered with conflict or duplicate.
      expect(error.code).toBe("store_busy");
      expect(await store.find("a", `k${version}`)).toMatchObject({
        key: `k${version}`,
        version: version + 1,
        body: `"${version + 1}"`,
      });
    }
    expect(proxy.connections()).toBeGreaterThan(10);
    const swallowed = proxy.swallow();
    expect(await store.read("a", 9), "a read whose answer was lost").toHaveLength(2);
    await swallowed;
  }, 30_000);
});

describe("a Redis with other answers", () => {
  test("gets its lost scripts again", async () => {
    const redis = await server();
    const store = open({ url: redis.url });
    await store.append(commitOf("a", 0));
    await redis.command("script", "flush", "sync");
    const answers = await Promise.all(["b", "c", "d"].map((session) => store.append(commitOf(session, 0))));
    expect(answers).toEqual(["ok", "ok", "ok"]);
    await redis.command("script", "flush", "sync");
    expect(await bodies(store, "a")).toEqual(['"1"']);
    expect(await store.count("shop")).toBe(4);
  });

  test("ATOMIC: without memory is store_full, changes nothing, and still reads and deletes", async () => {
    const redis = await server("--enable-debug-command", "yes");
    const store = open({ url: redis.url });
    await store.append(commitOf("a", 0, "k"));
    await store.append(commitOf("b", 0));
    const before = await redis.command("debug", "digest");
    expect(before).toMatch(/^[0-9a-f]{40}$/);
    await redis.command("config", "set", "maxmemory", "1");
    for (const verb of [
      store.append(commitOf("a", 1, "l")),
      store.append(commitOf("c", 0)),
      store.append(commitOf("a", 1), commitOf("b", 1)),
    ])
      expect((await refusal(verb)).code).toBe("store_full");
    expect(await redis.command("debug", "digest")).toBe(before);
    expect(await bodies(store, "a")).toEqual(['"1"']);
    expect(await store.append(commitOf("a", 1, "k")), "a refusal needs no memory").toBe("duplicate");
    expect(await store.delete("b")).toBe(true);
    expect(await store.count("shop")).toBe(1);
    await redis.command("config", "set", "maxmemory", "0");
    expect(await store.append(commitOf("a", 1, "l"))).toBe("ok");
  });

  test("that cannot write to its disk is store_failed until it can", async () => {
    const redis = await server();
    const store = open({ url: redis.url });
    await store.append(commitOf("a", 0));
    await redis.command("config", "set", "save", "3600 1");
    rmSync(redis.folder, { recursive: true });
    await redis.command("bgsave");
    await eventually(async () => {
      if (!(await redis.command("info", "persistence")).includes("rdb_last_bgsave_status:err"))
        throw new Error("not yet");
    });
    const error = await refusal(store.append(commitOf("a", 1)));
    expect([error.code, error.message]).toEqual(["store_failed", expect.stringContaining("disk")]);
    await redis.command("config", "set", "stop-writes-on-bgsave-error", "no");
    expect(await store.append(commitOf("a", 1))).toBe("ok");
  });

  test("that is a replica is store_busy until it is the master", { tags: ["full"], timeout: 30_000 }, async () => {
    const master = await server();
    const replica = await server("--replicaof", "127.0.0.1", `${master.port}`, "--repl-diskless-sync-delay", "0");
    // While it loads the master's data it answers nobody.
    await expect.poll(() => replica.command("info", "replication")).toContain("master_link_status:up");
    const store = open({ url: replica.url });
    const error = await refusal(store.append(commitOf("a", 0)));
    expect([error.code, error.message]).toEqual(["store_busy", expect.stringContaining("replica")]);
    await replica.command("replicaof", "no", "one");
    expect(await store.append(commitOf("a", 0))).toBe("ok");
  });

  test("that requires a password says so, and the password is in no message", async () => {
    const redis = await server("--requirepass", "correct");
    const missing = await refusal(open({ url: redis.url }).count("shop"));
    expect([missing.code, missing.message]).toEqual(["store_failed", expect.stringContaining("requires a password")]);
    const wrong = await refusal(open({ url: redis.url.replace("//", "//:s3cret@") }).count("shop"));
    expect([wrong.code, wrong.message]).toEqual([
      "store_failed",
      expect.stringContaining("refused the user or password"),
    ]);
    expect(inspect(wrong, { depth: 9 })).not.toContain("s3cret");
    expect(await open({ url: redis.url.replace("//", "//:correct@") }).count("shop")).toBe(0);
    expect(await open({ url: redis.url.replace("//", "//default:correct@") }).count("shop")).toBe(0);
  });

  test("that is another service is not taken for one that is away", async () => {
    const sockets = new Set<Socket>();
    const other = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    endings.push(() => {
      for (const socket of sockets) socket.destroy();
      other.close();
    });
    const error = await refusal(
      open({ url: `redis://127.0.0.1:${(other.address() as AddressInfo).port}` }).count("shop"),
    );
    expect([error.code, error.message]).toEqual([
      "store_failed",
      expect.stringContaining("does not answer like a Redis server"),
    ]);
  });

  test("that evicts keys is refused, unless that is allowed", async () => {
    const redis = await server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru");
    const error = await refusal(open({ url: redis.url }).count("shop"));
    expect([error.code, error.message]).toEqual(["store_failed", expect.stringContaining("noeviction")]);
    expect(await open({ url: `${redis.url}?eviction=allow` }).count("shop")).toBe(0);
    await redis.command("config", "set", "maxmemory-policy", "volatile-ttl");
    expect(await open({ url: redis.url }).count("shop"), "nothing of ours expires").toBe(0);
    expect((await refusal(open({ url: `${redis.url}?expire=9` }).count("shop"))).code).toBe("store_failed");
  });

  test("with data of a newer Holdfast, or foreign data, is refused", async () => {
    const redis = await server();
    await redis.command("hset", "new:meta", "format", 2, "buckets", 1);
    const newer = await refusal(open({ url: `${redis.url}?prefix=new` }).append(commitOf("a", 0)));
    expect(newer.code).toBe("store_newer");
    await redis.command("set", "other:meta", "x");
    const other = await refusal(open({ url: `${redis.url}?prefix=other` }).append(commitOf("a", 0)));
    expect(other.code).toBe("store_corrupt");
    expect((await redis.command("dbsize")).trim()).toBe("2");
  });

  test("keeps its first number of buckets", async () => {
    const redis = await server();
    await redis.command("hset", "holdfast:meta", "format", 1, "buckets", 16);
    const store = open({ url: redis.url });
    const sessions = Array.from({ length: 40 }, (_, index) => commitOf(`s${index}`, 0));
    expect(await store.append(...(sessions as [Commit]))).toBe("ok");
    expect(await store.count("shop")).toBe(40);
    expect(new Set((await redis.command("keys", "*:s:*")).match(/\{\d+\}/g)).size).toBeGreaterThan(8);
  });
});

describe("Redis with several servers", () => {
  test(
    "after a failover the store finds the new master, and `wait` counts replicas",
    { tags: ["full"], timeout: 60_000 },
    async () => {
      const sentinel = ending(await startSentinel());
      const store = open({ url: sentinel.url });
      const careful = open({ url: `${sentinel.url}?wait=1` });
      expect(await careful.append(commitOf("a", 0))).toBe("ok");
      expect(await careful.append(commitOf("a", 0))).toBe("conflict");
      const tooMany = await refusal(open({ url: `${sentinel.url}?wait=2` }).append(commitOf("b", 0)));
      expect([tooMany.code, tooMany.message]).toEqual(["store_busy", expect.stringContaining("1 of 2 replicas")]);
      expect(await store.append(commitOf("a", 1))).toBe("ok");
      await sentinel.failover();
      expect(await eventually(() => bodies(store, "a"))).toHaveLength(2);
      await eventually(async () => expect(await store.append(commitOf(`x${randomUUID()}`, 0))).toBe("ok"));
      // A second failover, without a request.
      const port = await sentinel.masterPort();
      await [sentinel.master, sentinel.replica].find((each) => each.port === port)!.kill();
      await sentinel.moved(port);
      await eventually(async () => expect(await store.append(commitOf(`x${randomUUID()}`, 0))).toBe("ok"));
    },
  );

  test(
    "a node of a Cluster may be away for a while, and a Cluster is not taken for one server",
    { tags: ["full"], timeout: 60_000 },
    async () => {
      const cluster = ending(await startCluster(3, { args: ["--appendonly", "yes", "--appendfsync", "always"] }));
      const store = open({ url: cluster.url });
      const sessions = Array.from({ length: 30 }, (_, index) => `s${index}`);
      for (const session of sessions) expect(await store.append(commitOf(session, 0))).toBe("ok");
      const [, gone] = cluster.servers;
      await gone!.kill();
      const answers = await Promise.allSettled(sessions.map((session) => store.append(commitOf(session, 1))));
      for (const answer of answers) {
        if (answer.status === "rejected") expect(answer.reason).toMatchObject({ code: "store_busy" });
      }
      expect(new Set(answers.map(({ status }) => status)).size, "some are on the node that is away").toBe(2);
      await gone!.restart();
      for (const session of sessions) {
        const { length } = (await eventually(() => bodies(store, session)))!;
        expect(await eventually(() => store.append(commitOf(session, length)))).toBe("ok");
      }
      expect(await store.count("shop")).toBe(30);
      const alone = await refusal(open({ url: gone!.url }).count("shop"));
      expect([alone.code, alone.message]).toEqual(["store_failed", expect.stringContaining("redis+cluster://")]);
    },
  );
});

describe("expiring sessions", () => {
  test("CLEANUP: an untouched session disappears completely; a used one stays", async () => {
    const redis = await server();
    const store = open({ url: `${redis.url}?expire=3` });
    await store.append(commitOf("gone", 0, "k"), commitOf("kept", 0));
    let version = 1;
    while ((await store.read("gone", 0)) !== undefined) {
      expect(await store.append(commitOf("kept", version++))).toBe("ok");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(version).toBeGreaterThan(10);
    expect(await store.count("shop")).toBe(1);
    const seen: string[] = [];
    for await (const { session } of store.list()) seen.push(session);
    for await (const { session } of store.list({ idleBefore: 9999, open: true })) seen.push(session);
    expect(seen).toEqual(["kept", "kept"]);
    expect([await store.load("gone"), await store.find("gone", "k")]).toEqual([undefined, undefined]);
    expect(await store.append(commitOf("gone", 1))).toBe("conflict");
    expect(await redis.command("keys", "*:gone")).toBe("");
    expect(await store.append(commitOf("gone", 0, "k"))).toBe("ok");
    expect(await store.count("shop")).toBe(2);
  });
});
