// `holdfast worker --workers`: a process that dies is replaced, and all end together.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { newWorld, taskLine } from "../cli/collect-process.ts";
import { keysOf, rowsOf } from "../rollout/folder.ts";
import { newRedis, startCommand } from "./queue-process.ts";

/** The processes that a process has started. */
function childrenOf(parent: number): number[] {
  const text = readFileSync(`/proc/${parent}/task/${parent}/children`, "utf8").trim();
  return text === "" ? [] : text.split(" ").map(Number);
}

const isAlive = (pid: number): boolean =>
  execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" })
    .trim()
    .startsWith("Z") === false;

async function until(what: () => boolean): Promise<void> {
  while (!what()) await sleep(20);
}

const timeout = 60_000;

test("a worker process that is killed is replaced, and the collection ends whole", { timeout }, async () => {
  const [world, redis] = [newWorld(Array.from({ length: 12 }, (_, n) => taskLine(n))), await newRedis()];
  const args = ["worker", "--queue", redis.url, "--workers", "2", "--concurrency", "2"];
  const supervisor = await startCommand(world.folder, args, { CALLS: world.at("calls"), PAUSE: "100" });
  const parent = supervisor.process.pid as number;
  await supervisor.printed(" at a time");
  await until(() => childrenOf(parent).length === 2);
  const collecting = await world.start(["--queue", redis.url, "--out", "run.jsonl", "--repeats", "2"]);
  await until(() => world.calls().length > 8);
  const [killed] = childrenOf(parent) as [number];
  process.kill(killed, "SIGKILL");
  await supervisor.printed(`worker process ${killed} ended (SIGKILL); a new one starts in 0.5 s`);
  expect(await collecting.ended).toMatchObject({ code: 0 });
  expect(keysOf(rowsOf(world.at("run.jsonl"))).length).toBe(24);
  await until(() => childrenOf(parent).length === 2);
  expect(childrenOf(parent)).not.toContain(killed);
  supervisor.process.kill("SIGTERM");
  const { code, stderr } = await supervisor.ended;
  expect([code, stderr.match(/worker process/g)?.length]).toEqual([0, 1]);
});

test("workers end when their supervisor is killed", { timeout }, async () => {
  const [world, redis] = [newWorld([taskLine(1)]), await newRedis()];
  const supervisor = await startCommand(world.folder, ["worker", "--queue", redis.url, "--workers", "1"]);
  await supervisor.printed(" at a time");
  const children = childrenOf(supervisor.process.pid as number);
  expect(children.length).toBe(1);
  supervisor.process.kill("SIGKILL");
  await until(() => !children.some((pid) => isThere(pid)));
});

test("a worker that cannot start ends the command with its message", { timeout }, async () => {
  const { folder } = newWorld([taskLine(1)]);
  const command = await startCommand(folder, ["worker", "--queue", "redis://127.0.0.1:1", "--workers", "3"]);
  const { code, stderr } = await command.ended;
  expect(code).not.toBe(0);
  expect(stderr.trim().split("\n").length).toBe(1);
});

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return isAlive(pid);
  } catch {
    return false;
  }
}
