// Starts workers and collectors as processes, on a separate Redis, in the folder of tests/cli/collect-process.ts.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { startRedis, type RedisServer } from "../../tools/servers/redis.mjs";
import type { TaskRow } from "../../src/core/rollout.ts";
import { built } from "../built.ts";
import type { World } from "../cli/collect-process.ts";
import type { Ended, Running } from "../cli/run-process.ts";
import { keysOf } from "../rollout/folder.ts";

/** Starts a Redis that persists its answers. It stops when the test ends. */
export async function newRedis(): Promise<RedisServer> {
  const redis = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
  onTestFinished(() => redis.stop());
  return redis;
}

/** Starts `holdfast ARGS` in a folder. It stops when the test ends. */
export async function startCommand(folder: string, args: string[], env: Record<string, string> = {}): Promise<Running> {
  const main = join(await built(), "cli/main.js");
  const child = spawn(process.execPath, [main, ...args], { cwd: folder, env: { ...process.env, ...env } });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk) => (stdout += String(chunk)));
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    process: child,
    ended,
    async printed(text) {
      while (!`${stdout}${stderr}`.includes(text)) {
        if (child.exitCode !== null) throw new Error(`it ended without "${text}": ${stdout}${stderr}`);
        await sleep(10);
      }
    },
  };
}

/** Runs `holdfast ARGS` to its end. */
export async function command(folder: string, ...args: string[]): Promise<Ended> {
  return (await startCommand(folder, args)).ended;
}

interface WorkerSettings {
  concurrency?: number;
  /** How long the model takes, in milliseconds. */
  pause?: number;
  folder?: string;
}

/** Starts a worker and waits until it takes rollouts. */
export async function startWorker(
  world: World,
  url: string,
  { concurrency = 8, pause = 0, folder = world.folder }: WorkerSettings = {},
): Promise<Running> {
  const args = ["worker", "--queue", url, "--concurrency", String(concurrency), "--json"];
  const worker = await startCommand(folder, args, { CALLS: world.at("calls"), PAUSE: String(pause) });
  await worker.printed('"started"');
  return worker;
}

/** Parses the --json output of a worker or a collector. */
export function eventsIn({ stdout }: Ended): TaskRow[] {
  return stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as TaskRow);
}

/** The fields of rows that must not depend on the player. */
export const outcomesOf = (rows: TaskRow[]): string[] =>
  rows.map((row) => `${keysOf([row])[0]}: ${String(row["reward"])} ${String(row["total"])}`).sort();
