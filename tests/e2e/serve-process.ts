// The real command as a process, and a client that keeps retrying.
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { built } from "../built.ts";
import { root } from "../files.ts";

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  process: ChildProcess;
  /** Its output so far. */
  printed(): string;
  ended: Promise<Ended>;
}

interface StartOptions {
  cwd?: string;
  /** Added to the environment variables. */
  env?: Record<string, string>;
  /** Runs this file in place of the command. */
  script?: string;
}

/** Starts `holdfast …`. It stops when the test ends. */
export async function start(args: string[], options: StartOptions = {}): Promise<Running> {
  const main = options.script ?? join(await built(), "cli/main.js");
  const child = spawn(process.execPath, [main, ...args], {
    cwd: options.cwd ?? root,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
    // In its own process group, so that its workers can be stopped with it.
    detached: true,
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += String(chunk)));
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
  onTestFinished(async () => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // The process and its group have ended.
    }
    await ended;
  });
  return { process: child, printed: () => stdout, ended };
}

/** Runs `holdfast …` to its end. */
export async function run(...args: string[]): Promise<Ended> {
  return (await start(args)).ended;
}

/** Starts `holdfast serve …` and waits until it listens. */
export async function startServing(args: string[], options: StartOptions = {}): Promise<Running & { url: string }> {
  const running = await start(["serve", ...args], options);
  const ended = running.ended.then(({ code, stderr }) => {
    throw new Error(`it ended with ${code}: ${stderr}`);
  });
  ended.catch(() => undefined);
  for (;;) {
    const [, url] = /^listening on (\S+)\n/.exec(running.printed()) ?? [];
    if (url !== undefined) return { ...running, url };
    await Promise.race([sleep(20), ended]);
  }
}

export interface Reply {
  status: number;
  body: Record<string, unknown>;
}

/**
 * One session of the gym protocol. A path may be a full URL of another such server.
 * Keeps only the cookies of the last response, as agents of the protocol do.
 */
export function createClient(url: string): { post(path: string, body: unknown, key?: string): Promise<Reply> } {
  let cookie = "";
  return {
    async post(path, body, key) {
      const response = await fetch(path.startsWith("/") ? url + path : path, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...(cookie && { cookie }),
          ...(key && { "idempotency-key": key }),
        },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      cookie = response.headers
        .getSetCookie()
        .map((line) => line.split(";", 1)[0])
        .join("; ");
      return { status: response.status, body: JSON.parse(text) as Record<string, unknown> };
    },
  };
}

/** Sends the same request until it is answered: through restarts, and while the server is busy. */
export async function persist(send: () => Promise<Reply>): Promise<Reply> {
  const deadline = Date.now() + 40_000;
  for (;;) {
    try {
      const reply = await send();
      if (reply.status < 500) return reply;
      if (Date.now() > deadline) throw new Error(`still ${reply.status}: ${JSON.stringify(reply.body)}`);
    } catch (thrown) {
      if (!(thrown instanceof TypeError) || Date.now() > deadline) throw thrown;
    }
    await sleep(20 + Math.random() * 50);
  }
}
