// The queue on a real Redis: each rollout comes back once, even if a worker ends, stalls, refuses or forgets.
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "bullmq";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { startCluster, startRedis, startSentinel, type RedisServer } from "../../tools/servers/redis.mjs";
import type { Play, Played, Rollout } from "../../src/core/rollout.ts";
import { queueAddress } from "../../src/queue/connection.ts";
import { clearQueue } from "../../src/queue/survey.ts";
import type { QueueAddress } from "../../src/queue/connection.ts";
import { toJobId, type QueuedCollection } from "../../src/queue/job.ts";
import type { Player } from "../../src/rollout/source.ts";
import { openQueuePlayer } from "../../src/queue/player.ts";
import { queueStatus } from "../../src/queue/survey.ts";
import { startQueueWorker, type QueueWorker, type WorkerEvent } from "../../src/queue/worker.ts";
import { failureIn } from "../rollout/played.ts";

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  await redis.command("flushall");
});

const addressTo = (port: number): QueueAddress => queueAddress(`redis://127.0.0.1:${port}`);
const collectionOf = (run: string): QueuedCollection => ({ run, title: `dice: ${run}`, settings: { seed: 1 } });

const rolloutOf = (task: number): Rollout => ({
  task,
  repeat: 0,
  attempt: 0,
  random: task,
  session: `session-${task}`,
  row: { n: task },
});
const playedOf = ({ session, task }: Rollout, reward = task): Played => ({
  outcome: "scored",
  fields: { reward },
  session,
});

/** A collector. It is stopped when the test ends. */
async function newPlayer(run = "one", say: (text: string) => void = () => undefined): Promise<Player> {
  const player = await openQueuePlayer({ address: addressTo(redis.port), collection: collectionOf(run), say });
  let stopping: Promise<void> | undefined;
  const own = { ...player, stop: (isOver?: boolean) => (stopping ??= player.stop(isOver)) };
  onTestFinished(() => own.stop());
  return own;
}

interface TestWorker extends QueueWorker {
  events: WorkerEvent[];
  /** The tasks it has started. */
  begun: number[];
}

interface WorkerSettings {
  concurrency?: number;
  refuses?: string;
  /** Plays a rollout in a process of its own. */
  alone?: Play;
  /** The code that was running when a rollout was cut short. */
  cut?: string | undefined;
}

/** A worker. It is stopped when the test ends. */
async function newWorker(
  play: Play,
  { concurrency = 4, refuses = "", alone = play, cut }: WorkerSettings = {},
): Promise<TestWorker> {
  const [events, begun]: [WorkerEvent[], number[]] = [[], []];
  const worker = await startQueueWorker({
    address: addressTo(redis.port),
    concurrency,
    onEvent: (event) => void events.push(event),
    openAlone: () => alone,
    readCut: () => Promise.resolve(cut),
    maxCrashes: 3,
    openPlayer: () =>
      refuses === ""
        ? Promise.resolve((rollout, signal) => {
            begun.push(rollout.task);
            return play(rollout, signal);
          })
        : Promise.reject(new Error(refuses)),
    say: () => undefined,
  });
  let stopping: Promise<void> | undefined;
  const own = { ...worker, events, begun, stop: (grace: number) => (stopping ??= worker.stop(grace)) };
  onTestFinished(() => own.stop(0));
  return own;
}

/** Leaves the state of a collector that was killed after it had put some rollouts. */
async function putAsIfKilled(run: string, tasks: number[]): Promise<void> {
  const connection = { host: "127.0.0.1", port: redis.port };
  const queue = new Queue("rollouts", { connection, prefix: "{holdfast:queue}" });
  for (const rollout of tasks.map(rolloutOf)) {
    const data = { collection: collectionOf(run), rollout };
    await queue.add("dice", data, { jobId: toJobId(run, rollout.session) });
  }
  await queue.close();
}

const never = new AbortController().signal;
setMaxListeners(0, never);
const atOnce: Play = (rollout) => Promise.resolve(playedOf(rollout));
const untilCancelled: Play = ({ session }, signal) =>
  new Promise((resolve) => {
    const failure = { kind: "internal", reason: "it was cancelled" } as const;
    signal.addEventListener("abort", () => resolve({ outcome: "failed", fields: {}, session, failure }));
  });
const allOf = (player: Player, count: number): Promise<Played[]> =>
  Promise.all(Array.from({ length: count }, (_, task) => player.play(rolloutOf(task), never)));
const rewardsOf = (played: Played[]): unknown[] => played.map(({ fields }) => fields["reward"]);
const lockOf = (run: string, task: number): string =>
  `{holdfast:queue}:rollouts:${toJobId(run, rolloutOf(task).session)}:lock`;
const counts = { collector: true, waiting: 0, active: 0, stalled: 0, delayed: 0, finished: 0, failed: 0 };

describe("a queue", () => {
  test("rollouts of several workers come back once each, and leave nothing behind", async () => {
    const workers = [await newWorker(atOnce), await newWorker(atOnce), await newWorker(atOnce)];
    const player = await newPlayer();
    expect(rewardsOf(await allOf(player, 200))).toEqual(Array.from({ length: 200 }, (_, task) => task));
    expect(workers.flatMap(({ begun }) => begun).sort((a, b) => a - b)).toHaveLength(200);
    await player.stop();
    expect((await queueStatus(addressTo(redis.port))).collections).toEqual([]);
    // Jobs, results and events: everything that grows with the number of rollouts.
    expect(Number(await redis.command("dbsize"))).toBeLessThan(10);
    const events = await redis.command("xlen", "{holdfast:queue}:rollouts:events");
    expect(Number(events)).toBeLessThan(250);
  });

  test("a collection that is over ends its running rollouts, and leaves nothing behind", async () => {
    const worker = await newWorker(untilCancelled, { concurrency: 2 });
    const [over, other] = [await newPlayer("over"), await newPlayer("other")];
    const cancelling = new AbortController();
    const cancelled = [1, 2, 3].map((task) => over.play(rolloutOf(task), cancelling.signal));
    await expect.poll(() => worker.begun).toHaveLength(2);
    const waiting = other.play(rolloutOf(4), never);
    cancelling.abort();
    await Promise.all(cancelled);
    await over.stop(true);
    // The worker is free for the other collection, and the results of the first are gone.
    await expect.poll(() => worker.begun).toHaveLength(3);
    await worker.stop(0);
    const { collections } = await queueStatus(addressTo(redis.port));
    expect(collections).toMatchObject([{ title: "dice: other" }]);
    await newWorker(atOnce);
    expect(await waiting).toMatchObject({ outcome: "scored" });
  });

  test("two collections get their own results", async () => {
    await newWorker((rollout) => Promise.resolve(playedOf(rollout, rollout.random)));
    const [one, two] = [await newPlayer("one"), await newPlayer("two")];
    const other = { ...rolloutOf(1), random: 77 };
    expect(rewardsOf(await Promise.all([one.play(rolloutOf(1), never), two.play(other, never)]))).toEqual([1, 77]);
  });

  test("a failure is a result, and the collection decides whether to retry", async () => {
    const failure = { kind: "model", reason: "no GPU" } as const;
    await newWorker(({ session }) =>
      Promise.resolve({ outcome: "failed", fields: { response: { output: [] } }, session, failure }),
    );
    const player = await newPlayer();
    const played = await player.play(rolloutOf(0), never);
    expect(played).toMatchObject({ fields: { response: { output: [] } }, session: "session-0", failure });
  });

  test("cancellation removes unstarted rollouts and keeps started ones for the next collector", async () => {
    let goOn = (): void => undefined;
    const going = new Promise<void>((resolve) => (goOn = resolve));
    const worker = await newWorker((rollout) => going.then(() => playedOf(rollout)), { concurrency: 1 });
    const [first, stopping] = [await newPlayer(), new AbortController()];
    const waiting = [0, 1, 2].map((task) => first.play(rolloutOf(task), stopping.signal));
    await expect.poll(() => worker.begun).toEqual([0]);
    stopping.abort();
    for (const played of await Promise.all(waiting)) expect(failureIn(played)?.reason).toBe("it was cancelled");
    await first.stop();
    goOn();
    await expect.poll(() => worker.events.length).toBe(1);
    const { collections } = await queueStatus(addressTo(redis.port));
    expect(collections).toEqual([{ run: "one", title: "dice: one", ...counts, collector: false, finished: 1 }]);
    const second = await newPlayer();
    expect(rewardsOf(await allOf(second, 3))).toEqual([0, 1, 2]);
    expect(worker.begun).toEqual([0, 1, 2]);
  });

  test("cancellation while rollouts are being put leaves nothing behind", async () => {
    const [player, stopping] = [await newPlayer(), new AbortController()];
    const waiting = [0, 1, 2].map((task) => player.play(rolloutOf(task), stopping.signal));
    // By now it has asked for existing rollouts.
    await new Promise(setImmediate);
    stopping.abort();
    await Promise.all(waiting);
    await queueStatus(addressTo(redis.port));
    await player.stop();
    expect((await queueStatus(addressTo(redis.port))).collections).toEqual([]);
  });

  test("the time a rollout waits for a worker is not in its seconds", async () => {
    const result = (await newPlayer()).play(rolloutOf(0), never);
    await expect.poll(async () => (await queueStatus(addressTo(redis.port))).collections[0]?.waiting).toBe(1);
    const before = performance.now();
    await newWorker(atOnce);
    const { seconds } = await result;
    expect(seconds).toBeLessThanOrEqual((performance.now() - before) / 1000);
  });

  test("rollouts without a collector are cleared; awaited or running ones are not", async () => {
    let goOn = (): void => undefined;
    const going = new Promise<void>((resolve) => (goOn = resolve));
    const play: Play = ({ task, ...rollout }) =>
      (task === 0 ? Promise.resolve() : going).then(() => playedOf({ task, ...rollout }));
    const worker = await newWorker(play, { concurrency: 1 });
    await putAsIfKilled("gone", [0, 1, 2]);
    await expect.poll(() => worker.begun).toEqual([0, 1]);
    const live = (await newPlayer("live")).play(rolloutOf(3), never);
    const left = { run: "gone", ...counts, collector: false, waiting: 1, active: 1, finished: 1 };
    await expect.poll(async () => (await clearQueue(addressTo(redis.port), false)).collections).toMatchObject([left]);
    expect((await clearQueue(addressTo(redis.port), false)).removed).toBe(0);
    expect(await clearQueue(addressTo(redis.port), true)).toMatchObject({ collections: [left], removed: 2 });
    goOn();
    expect((await live).fields).toEqual({ reward: 3 });
    expect(worker.begun).toEqual([0, 1, 3]);
    expect(await clearQueue(addressTo(redis.port), true)).toMatchObject({ removed: 1 });
    expect((await queueStatus(addressTo(redis.port))).collections).toEqual([]);
  });

  test("a collector that returns while a worker plays waits for it and adds nothing", async () => {
    let goOn = (): void => undefined;
    const going = new Promise<void>((resolve) => (goOn = resolve));
    const worker = await newWorker((rollout) => going.then(() => playedOf(rollout)));
    // The first collector is not stopped, as if it had been killed.
    void (await newPlayer()).play(rolloutOf(5), never);
    await expect.poll(() => worker.begun).toEqual([5]);
    const again = (await newPlayer()).play(rolloutOf(5), never);
    await sleep(50);
    goOn();
    expect((await again).fields).toEqual({ reward: 5 });
    expect(worker.begun).toEqual([5]);
  });

  test("a result is found even if its event was lost", async () => {
    await newWorker(atOnce);
    const player = await newPlayer();
    await redis.command("client", "kill", "type", "pubsub");
    expect(rewardsOf(await allOf(player, 3))).toEqual([0, 1, 2]);
  });

  test("a worker that lost a rollout does not report its result", async () => {
    let goOn = (): void => undefined;
    const going = new Promise<void>((resolve) => (goOn = resolve));
    let times = 0;
    // The second run may be on either worker, because the loser takes jobs again once it notices the loss.
    const play: Play = async (rollout) => {
      if (++times === 1) return going.then(() => playedOf(rollout, -1));
      goOn();
      await expect.poll(() => loser.events).toHaveLength(1);
      return playedOf(rollout, 1);
    };
    const loser = await newWorker(play, { concurrency: 1 });
    const player = await newPlayer();
    const result = player.play(rolloutOf(3), never);
    await expect.poll(() => loser.begun).toEqual([3]);
    const winner = await newWorker(play);
    await redis.command("del", lockOf("one", 3));
    expect((await result).fields).toEqual({ reward: 1 });
    expect([...loser.begun, ...winner.begun]).toEqual([3, 3]);
    expect(loser.events[0]?.type).toBe("lost");
  });

  test("a rollout that returns to the worker that lost it is played again there", { tags: ["full"] }, async () => {
    let times = 0;
    const worker = await newWorker((rollout, signal) =>
      ++times === 1 ? untilCancelled(rollout, signal) : atOnce(rollout, signal),
    );
    const result = (await newPlayer()).play(rolloutOf(3), never);
    await expect.poll(() => worker.begun).toEqual([3]);
    await redis.command("del", lockOf("one", 3));
    expect((await result).fields).toEqual({ reward: 3 });
    expect(worker.begun).toEqual([3, 3]);
  });

  /** Leaves a rollout in the queue that has lost this many workers. */
  async function putStalled(stalls: number, say?: (text: string) => void): Promise<{ result: Promise<Played> }> {
    const result = (await newPlayer("one", say)).play(rolloutOf(1), never);
    await expect.poll(async () => (await queueStatus(addressTo(redis.port))).collections[0]?.waiting).toBe(1);
    await redis.command("hset", lockOf("one", 1).replace(/:lock$/, ""), "stc", stalls);
    return { result };
  }
  const crashing: Play = ({ session }) =>
    Promise.resolve({ outcome: "failed", fields: {}, session, failure: { kind: "worker", reason: "it died" } });

  test("a rollout that ends its own process three times fails as `worker`, with the code that ran", async () => {
    const { result } = await putStalled(1);
    const { events, begun } = await newWorker(atOnce, { alone: crashing, cut: "the tool roll" });
    const reason = (times: number) => `it died while the tool roll was running (${times} of 3 times)`;
    expect(failureIn(await result)).toEqual({ kind: "worker", reason: reason(3) });
    expect(begun).toEqual([]);
    const crashes = events.filter(({ type }) => type === "crashed").map((event) => event.reason);
    expect(crashes).toEqual([reason(1), reason(2)]);
  });

  test("the status and the collector tell of a rollout that ends its process", async () => {
    const said: string[] = [];
    await putStalled(1, (text) => said.push(text));
    let times = 0;
    const once: Play = (...given) => (++times === 1 ? crashing(...given) : untilCancelled(...given));
    const first = await newWorker(atOnce, { alone: once, cut: "its verify" });
    const reason = "it died while its verify was running (1 of 3 times)";
    const trouble = { type: "crashed", times: 1, reason };
    const status = async () => (await queueStatus(addressTo(redis.port))).collections[0];
    await expect.poll(status).toMatchObject({ active: 1, trouble });
    await expect.poll(() => said, { timeout: 15_000 }).toContain(`worker ${first.name} retries a rollout: ${reason}`);
  });

  test("a rollout that waited for its model when its worker ended is played beside others, at first", async () => {
    const { result } = await putStalled(2);
    const { begun } = await newWorker(atOnce, { alone: crashing });
    expect((await result).fields).toEqual({ reward: 1 });
    expect(begun).toEqual([1]);
  });

  test("a rollout that has lost three workers is played in a process of its own", async () => {
    const { result } = await putStalled(3);
    const { begun } = await newWorker(crashing, { alone: atOnce });
    expect((await result).fields).toEqual({ reward: 1 });
    expect(begun).toEqual([]);
  });

  test("a store failure is not a result: the rollout is played again, any number of times", async () => {
    let times = 0;
    const failure = { kind: "store", reason: "the store is away" } as const;
    const worker = await newWorker(({ session, ...rollout }) =>
      Promise.resolve(
        ++times <= 2 ? { outcome: "failed", fields: {}, session, failure } : playedOf({ session, ...rollout }),
      ),
    );
    expect((await (await newPlayer()).play(rolloutOf(2), never)).fields).toEqual({ reward: 2 });
    expect(worker.events.map(({ type, reason }) => [type, reason])).toEqual([
      ["returned", "the store is away"],
      ["returned", "the store is away"],
      ["played", undefined],
    ]);
  });

  test("a rollout refused by one worker is played by another, and the reason is reported", async () => {
    const refusing = await newWorker(atOnce, { refuses: "the environment's file is another one" });
    const player = await newPlayer();
    const result = player.play(rolloutOf(2), never);
    await expect.poll(() => refusing.events).toHaveLength(1);
    const reason = "the environment's file is another one";
    const trouble = { reason, worker: refusing.name, times: expect.any(Number) as number };
    const shown = async () => (await queueStatus(addressTo(redis.port))).collections[0];
    await expect.poll(shown).toMatchObject({ delayed: 1, trouble });
    await refusing.stop(0);
    await newWorker(atOnce);
    expect((await result).fields).toEqual({ reward: 2 });
    expect(refusing.begun).toEqual([]);
  });

  test("a queue that lost its data is refilled", async () => {
    const player = await newPlayer();
    const results = allOf(player, 3);
    await expect.poll(async () => (await queueStatus(addressTo(redis.port))).collections[0]?.waiting).toBe(3);
    await redis.command("flushall");
    await newWorker(atOnce);
    expect(rewardsOf(await results)).toEqual([0, 1, 2]);
  });

  test("a full queue is waited for, and that is reported", async () => {
    const said: string[] = [];
    const player = await newPlayer("one", (text) => void said.push(text));
    await newWorker(atOnce);
    await redis.command("config", "set", "maxmemory", 1);
    const results = allOf(player, 3);
    await expect.poll(() => said).toHaveLength(1);
    await redis.command("config", "set", "maxmemory", 0);
    expect(rewardsOf(await results)).toEqual([0, 1, 2]);
    expect(said[0]).toContain("OOM");
  });

  test("a stopping worker finishes quick rollouts and hands the rest to others at once", async () => {
    const quick = async (rollout: Rollout): Promise<Played> => {
      await sleep(200);
      return playedOf(rollout);
    };
    const stopping = await newWorker((rollout, signal) =>
      rollout.task === 0 ? quick(rollout) : untilCancelled(rollout, signal),
    );
    const results = allOf(await newPlayer(), 2);
    await expect.poll(() => stopping.begun.length).toBe(2);
    const began = performance.now();
    await stopping.stop(600);
    expect(stopping.events.map(({ type }) => type)).toEqual(["played", "returned"]);
    const other = await newWorker(atOnce);
    expect(rewardsOf(await results)).toEqual([0, 1]);
    // Shorter than a lock lasts.
    expect(performance.now() - began).toBeLessThan(5000);
    expect(other.begun).toEqual([1]);
  });

  test("a stopping worker does not wait for rollouts that ignore their signal", async () => {
    const stuck = await newWorker(() => new Promise(() => undefined));
    const result = (await newPlayer()).play(rolloutOf(1), never);
    await expect.poll(() => stuck.begun).toEqual([1]);
    await stuck.stop(0);
    await newWorker(atOnce);
    expect((await result).fields).toEqual({ reward: 1 });
  });

  test("the status lists rollouts by collection and state, and the workers", async () => {
    // A rollout that lost its lock keeps its place for a while.
    const worker = await newWorker(() => new Promise(() => undefined), { concurrency: 2 });
    const [one, two] = [await newPlayer("one"), await newPlayer("two")];
    void one.play(rolloutOf(0), never);
    await expect.poll(() => worker.begun).toHaveLength(1);
    void two.play(rolloutOf(0), never);
    await expect.poll(() => worker.begun).toHaveLength(2);
    void two.play(rolloutOf(1), never);
    await expect.poll(async () => (await queueStatus(addressTo(redis.port))).collections[0]?.run).toBe("two");
    await redis.command("del", lockOf("two", 0));
    const status = await queueStatus(addressTo(redis.port));
    expect(status.queue).toBe(`redis://127.0.0.1:${redis.port}`);
    expect(status.collections).toEqual([
      { run: "two", title: "dice: two", ...counts, waiting: 1, active: 1, stalled: 1 },
      { run: "one", title: "dice: one", ...counts, active: 1 },
    ]);
    expect(status.workers).toMatchObject([{ pid: process.pid, concurrency: 2, active: 1 }]);
    // It renews its locks.
    expect(status.workers[0]?.silent).toBeLessThan(5);
    expect(Math.abs(Date.parse(status.workers[0]?.since ?? "") - Date.now())).toBeLessThan(60_000);
  });

  for (const [where, start] of [
    ["a Cluster", () => startCluster(3)],
    ["Sentinel", () => startSentinel({ downAfter: 60_000 })],
  ] as const) {
    test(`it works with ${where}`, async () => {
      const servers = await start();
      onTestFinished(() => servers.stop());
      const address = queueAddress(servers.url);
      const player = await openQueuePlayer({ address, collection: collectionOf("one"), say: () => undefined });
      const worker = await startQueueWorker({
        address,
        concurrency: 4,
        openPlayer: () => Promise.resolve(atOnce),
        openAlone: () => atOnce,
        readCut: () => Promise.resolve(undefined),
        maxCrashes: 3,
        onEvent: () => undefined,
        say: () => undefined,
      });
      expect(rewardsOf(await allOf(player, 20))).toEqual(Array.from({ length: 20 }, (_, task) => task));
      expect((await queueStatus(address)).workers).toMatchObject([{ concurrency: 4 }]);
      await worker.stop(0);
      void player.play(rolloutOf(99), never);
      const found = async () => (await queueStatus(address)).collections;
      await expect.poll(found).toEqual([{ run: "one", title: "dice: one", ...counts, waiting: 1 }]);
      expect((await clearQueue(address, true)).removed).toBe(0);
      await player.stop();
    });
  }

  test(
    "a queue without workers, a missing queue and missing packages are reported clearly",
    { tags: ["full"] },
    async () => {
      const said: string[] = [];
      void (await newPlayer("one", (text) => void said.push(text))).play(rolloutOf(0), never);
      await expect(queueStatus(addressTo(1))).rejects.toMatchObject({
        code: "store_busy",
        message: expect.stringContaining("the queue at redis://127.0.0.1:1 cannot be reached: connect ECONNREFUSED"),
      });
      await expect.poll(() => said, { timeout: 10_000 }).toHaveLength(1);
      const text = "no worker is running; start one with: npx holdfast worker --queue";
      expect(said).toEqual([`${text} redis://127.0.0.1:${redis.port}`]);
      await redis.command("config", "set", "requirepass", "secret");
      const wrong = { ...addressTo(redis.port), password: "geheim" };
      const refused = await queueStatus(wrong).catch((thrown: Error) => thrown);
      await redis.command("-a", "secret", "config", "set", "requirepass", "");
      expect(refused).toMatchObject({ code: "store_failed", message: expect.stringContaining("WRONGPASS") });
      expect((refused as Error).message).not.toContain("geheim");
      vi.resetModules();
      vi.doMock("bullmq", () => {
        throw new Error("Cannot find package");
      });
      const { queueStatus: without } = await import("../../src/queue/survey.ts");
      await expect(without(addressTo(redis.port))).rejects.toMatchObject({
        code: "missing_dependency",
        message: "the job queue needs `npm install bullmq ioredis`",
      });
      vi.doUnmock("bullmq");
    },
  );
});
