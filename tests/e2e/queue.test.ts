// The queue as its users have it: a collection over workers equals one in one process, and errors are clear.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { newWorld, taskLine, type World } from "../cli/collect-process.ts";
import { fileAt, root } from "../files.ts";
import { command, eventsIn, newRedis, outcomesOf, startCommand, startWorker } from "../queue/queue-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";

const worldOf = (tasks: number): World => newWorld(Array.from({ length: tasks }, (_, n) => taskLine(n)));

const slowTest = { timeout: 120_000 };

test("three workers give the rows of one process, and either can resume the other's collection", slowTest, async () => {
  const [world, redis] = [worldOf(20), await newRedis()];
  const flags = ["--repeats", "3", "--seed", "7", "--json"];
  expect(await world.collect("--out", "alone.jsonl", ...flags)).toMatchObject({ code: 0 });
  const workers = await Promise.all([0, 1, 2].map(() => startWorker(world, redis.url, { pause: 100 })));
  const shared = [...flags, "--queue", redis.url, "--store", "sqlite:sessions.db", "--concurrency", "30"];
  expect(await world.collect("--out", "shared.jsonl", ...shared)).toMatchObject({ code: 0, stderr: "" });
  const expected = outcomesOf(rowsOf(world.at("alone.jsonl")));
  expect(outcomesOf(rowsOf(world.at("shared.jsonl")))).toEqual(expected);
  const settingsOf = (name: string): unknown =>
    (JSON.parse(readFileSync(world.at(`${name}_run.json`), "utf8")) as { settings: unknown }).settings;
  expect(settingsOf("shared")).toEqual(settingsOf("alone"));

  // Stopped on the queue, it resumes here, from the same sessions.
  const collecting = await world.start(["--out", "moved.jsonl", ...shared]);
  await collecting.printed('"scored"');
  collecting.process.kill("SIGINT");
  const stopped = await collecting.ended;
  expect(stopped.code).toBe(130);
  expect(stopped.stderr).toContain("the workers finish the running episodes, and --resume will collect their results");
  const { collections } = JSON.parse(
    (await command(world.folder, "queue", "status", "--queue", redis.url, "--json")).stdout,
  );
  expect(collections.every(({ waiting }: { waiting: number }) => waiting === 0)).toBe(true);
  // Once they have finished their rollouts, the results are in the sessions.
  for (const worker of workers) worker.process.kill("SIGTERM");
  let played = 0;
  for (const worker of workers) {
    const ended = await worker.ended;
    expect(ended.code).toBe(0);
    played += Number(eventsIn(ended).at(-1)?.["played"]);
  }
  const before = world.calls().length;
  const moved = ["--out", "moved.jsonl", ...flags, "--store", "sqlite:sessions.db", "--resume"];
  expect(await world.collect(...moved)).toMatchObject({ code: 0 });
  expect(outcomesOf(rowsOf(world.at("moved.jsonl")))).toEqual(expected);
  expect(played).toBeGreaterThan(60);
  expect(world.calls().length - before).toBeLessThanOrEqual((120 - played) * 5);
});

test("forked episodes and failures are returned too", async () => {
  const lines = [taskLine(0), taskLine(1, "Roll 1", { trouble: "seed" }), taskLine(2, "model trouble")];
  const [world, redis] = [newWorld(lines), await newRedis()];
  const flags = ["--branch", "2@1", "--attempts", "2", "--seed", "3"];
  await world.collect("--out", "alone.jsonl", ...flags);
  const [one, two] = [await startWorker(world, redis.url), await startWorker(world, redis.url)];
  const shared = ["--queue", redis.url, "--store", "sqlite:sessions.db"];
  const ended = await world.collect("--out", "shared.jsonl", ...flags, ...shared);
  expect(ended.code).toBe(1);
  for (const name of ["", "_failures"]) {
    const [alone, queued] = [rowsOf(world.at(`alone${name}.jsonl`)), rowsOf(world.at(`shared${name}.jsonl`))];
    expect(outcomesOf(queued)).toEqual(outcomesOf(alone));
    expect(queued.map((row) => row["failure_kind"]).sort()).toEqual(alone.map((row) => row["failure_kind"]).sort());
  }
  expect(keysOf(rowsOf(world.at("shared.jsonl")))).toHaveLength(2);
  for (const worker of [one, two]) worker.process.kill("SIGTERM");
});

test(
  "a worker with another version of the environment plays none of it, and reports it",
  { tags: ["full"], timeout: 180_000 },
  async () => {
    const [world, redis] = [worldOf(4), await newRedis()];
    const other = mkdtempSync(join(tmpdir(), "holdfast-other-"));
    onTestFinished(() => rmSync(other, { recursive: true, force: true }));
    const folder = join(other, "dice");
    mkdirSync(folder);
    for (const name of ["environment.mjs", "agent.mjs", "tasks.jsonl"]) cpSync(world.at(name), join(folder, name));
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    const source = readFileSync(world.at("environment.mjs"), "utf8");
    writeFileSync(join(folder, "environment.mjs"), source.replace("6 * random()", "5 * random()"));
    // Both are given the paths as seen from their own folder.
    const args = ["collect", ".", "--agent", "agent.mjs", "--queue", redis.url, "--store", "sqlite:sessions.db"];
    const collecting = await startCommand(world.folder, [...args, "--out", "shared.jsonl"], {
      CALLS: world.at("calls"),
    });
    const wrong = await startWorker(world, redis.url, { folder });
    await wrong.printed('"refused"');
    await collecting.printed("the collector's files differ from this worker's: environment's file");
    const status = await command(world.folder, "queue", "status", "--queue", redis.url);
    expect(status.stdout).toMatch(
      /[1-9]\d* returned to the queue, 0 finished but not yet collected\n {4}returned by \S+: the collector's files/,
    );
    expect(world.calls()).toEqual([]);
    const right = await startWorker(world, redis.url);
    expect(await collecting.ended).toMatchObject({ code: 0 });
    for (const worker of [wrong, right]) worker.process.kill("SIGTERM");
    expect(eventsIn(await wrong.ended).at(-1)).toMatchObject({ type: "ended", played: 0, failed: 0 });
    expect(eventsIn(await right.ended).at(-1)).toMatchObject({ type: "ended", played: 4 });
    // Each is offered to either of them at least every ten seconds, and eventually to the right one.
  },
);

test("invalid options are refused clearly, without a password", { tags: ["full"] }, async () => {
  const world = worldOf(1);
  const collect = ["collect", world.folder, "--agent", world.at("agent.mjs"), "--out"];
  const bad: [string[], string][] = [
    [["worker", "--queue", "amqp://:geheim@mq"], "invalid_option: amqp: is not a valid queue URL; use redis://HOST"],
    [
      ["queue", "status", "--queue", "redis://:geheim@127.0.0.1:1"],
      "store_busy: the queue at redis://127.0.0.1:1 cannot",
    ],
    [["worker", "--queue", "redis://u:geheim@127.0.0.1:1"], "store_busy: the queue at redis://127.0.0.1:1 cannot"],
    [["worker", "--queue", "redis://127.0.0.1:1/x"], "invalid_option: "],
    [
      [...collect, "a.jsonl", "--queue", "redis://:geheim@127.0.0.1:1", "--store", "sqlite:s.db"],
      "store_busy: the queue at ",
    ],
    [[...collect, "b.jsonl", "--queue", "postgres://:geheim@db"], "invalid_option: postgres: is not a valid queue URL"],
    [
      [...collect, "c.jsonl", "--queue", "redis://127.0.0.1:1", "--store", "memory:"],
      "invalid_option: workers cannot share a memory: store",
    ],
  ];
  const answers = await Promise.all(bad.map(([args]) => command(world.folder, ...args)));
  for (const [at, { code, stdout, stderr }] of answers.entries()) {
    const message = bad[at]?.[1] ?? "";
    // It is the first output, so nothing was started.
    expect({ code, stderr: stderr.slice(0, message.length) }).toEqual({ code: 1, stderr: message });
    expect(`${stdout}${stderr}`).not.toContain("geheim");
  }
});

test(
  "a worker stops on Ctrl-C, at once on a second one, and its rollouts continue elsewhere",
  { tags: ["full"] },
  async () => {
    const [world, redis] = [worldOf(4), await newRedis()];
    const first = await startWorker(world, redis.url, { pause: 60_000 });
    const shared = ["--queue", redis.url, "--store", "sqlite:sessions.db"];
    const collecting = await world.start(["--out", "x.jsonl", ...shared]);
    while (world.calls().length < 4) await sleep(10);
    first.process.kill("SIGINT");
    const ended = await first.ended;
    expect(ended.code).toBe(0);
    expect(eventsIn(ended).at(-1)).toMatchObject({ type: "ended", played: 0, returned: 4 });
    const second = await startWorker(world, redis.url, { pause: 60_000 });
    while (world.calls().length < 8) await sleep(10);
    second.process.kill("SIGINT");
    await second.printed("stopping");
    second.process.kill("SIGINT");
    expect((await second.ended).code).toBe(130);
    await startWorker(world, redis.url);
    expect(await collecting.ended).toMatchObject({ code: 0 });
  },
);

test("the commands of docs/queue.md do what the page says", { tags: ["full"], timeout: slowTest.timeout }, async () => {
  const redis = await newRedis();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(root, "examples/counter"), join(folder, "examples/counter"), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const blocks = [...fileAt("docs/queue.md").text.matchAll(/^```sh\n([^`]*)^```$/gm)].map(([, block = ""]) => block);
  const lines = blocks.flatMap((block) => block.trim().split("\n")).map((line) => line.replace(/^npx /, ""));
  expect(lines.map((line) => line.split(" ", 2)[1])).toEqual(["worker", "collect", "queue", "queue", "collect"]);
  const [worker, ...others] = lines.map((line) =>
    line.replace("redis://127.0.0.1:6379", redis.url).split(" ").slice(1),
  );
  const running = await startCommand(folder, worker ?? []);
  await running.printed(`runs rollouts from ${redis.url}, 100 at a time`);
  const answers = [];
  for (const args of others) answers.push(await command(folder, ...args));
  const [collected, status, cleared, again] = answers;
  expect(collected).toMatchObject({ code: 0, stdout: expect.stringContaining("240 of 240 rollouts scored") });
  expect(status?.stdout).toMatch(
    /the queue at .* is empty\n\n1 worker, 100 episodes at a time\n.* 0 of 100 active, for \d+ s/,
  );
  expect(cleared).toMatchObject({ code: 0, stdout: `the queue at ${redis.url} has no abandoned collections\n` });
  expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining(", 240 earlier)") });
  expect(await redis.command("keys", "{holdfast:queue}:rollouts:*.*")).toBe("");
  running.process.kill("SIGTERM");
  expect(await running.ended).toMatchObject({ code: 0, stderr: expect.stringMatching(/stopped: 240 played\n$/) });
});
