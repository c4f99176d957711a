// The Redis store is closed during a listing, its clock is set back, or only its WAIT fails.
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type RedisServer, startRedis } from "../../tools/servers/redis.mjs";

async function started(): Promise<{ redis: RedisServer; store: Store }> {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const store = redisStore({ url: redis.url });
  onTestFinished(() => store.close());
  return { redis, store };
}

function commitOf(session: string, version: number): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body: `"${version + 1}"`, at: version }], ...heading };
}

const codeOf = (verb: Promise<unknown>): Promise<unknown> =>
  verb.then(
    (value) => value,
    (error: { code: string }) => error.code,
  );

test.each(["goes on", "stays paused"])(
  "CLEANUP: a running listing ends when the store is closed: %s",
  { tags: ["full"], timeout: 30_000 },
  async (how) => {
    const { redis, store } = await started();
    for (let index = 0; index < 40; index++) await store.append(commitOf(`s${index}`, 0));
    const rows = store.list()[Symbol.asyncIterator]();
    // The first page has four.
    for (let index = 0; index < 4; index++) await rows.next();
    redis.pause();
    const since = performance.now();
    const next = codeOf(rows.next());
    await turn();
    const closing = store.close();
    if (how === "goes on") redis.resume();
    expect(await next).toBe(how === "goes on" ? "store_closed" : "store_busy");
    await closing;
    expect(performance.now() - since).toBeLessThan(6000);
    redis.resume();
    await expect.poll(() => redis.command("client", "list")).not.toContain("name=holdfast");
  },
);

test("a clock that is set back makes no call wait longer", { tags: ["full"], timeout: 30_000 }, async () => {
  const { redis, store } = await started();
  await store.append(commitOf("a", 0));
  redis.pause();
  const since = performance.now();
  const verbs = [store.read("a", 0), store.append(commitOf("a", 1)), store.count("shop")].map(codeOf);
  const { now } = Date;
  const clock = vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
  onTestFinished(() => clock.mockRestore());
  expect(await Promise.all(verbs)).toEqual(["store_busy", "store_busy", "store_busy"]);
  expect(performance.now() - since).toBeLessThan(6000);
});

test("ONCE: a commit is not sent again when only WAIT was refused", { tags: ["full"], timeout: 30_000 }, async () => {
  const { redis, store } = await started();
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(redis.port, "127.0.0.1");
    for (const socket of [near, far]) sockets.add(socket.on("error", () => {}));
    near.on("data", (data) => far.write(data));
    // Without replicas it answers with their number, after the script.
    far.on("data", (data) => near.write(`${data}` === ":0\r\n" ? "-BUSY Redis is busy running a script.\r\n" : data));
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  const careful = redisStore({ url: `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}?wait=1` });
  onTestFinished(() => careful.close());
  const answer = careful.append(commitOf("a", 0));
  await expect(answer).rejects.toMatchObject({ code: "store_busy", message: expect.stringMatching(/stored, .*BUSY/) });
  expect(await store.read("a", 0)).toHaveLength(1);
});
