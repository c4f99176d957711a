// Runs `holdfast run` as a process, with its input and output.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
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
  /** Waits until it has printed a text. */
  printed(text: string): Promise<void>;
  ended: Promise<Ended>;
}

/** Starts `holdfast run …`. It stops when the test ends. */
export async function start(...args: string[]): Promise<Running> {
  const main = join(await built(), "cli/main.js");
  const child = spawn(process.execPath, [main, "run", ...args], { cwd: root, stdio: "pipe" });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += String(chunk)));
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  // It may end before it has read everything.
  child.stdin.on("error", () => undefined);
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

/** Runs `holdfast run …` to its end, with a pipe as input. */
export async function ask(input: string, ...args: string[]): Promise<Ended> {
  const { process: child, ended } = await start(...args);
  child.stdin?.end(input);
  return ended;
}

export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-run-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a file in a new folder. */
export async function newFile(name: string, content: unknown): Promise<string> {
  const file = join(await newFolder(), name);
  await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

/** An agent that repeats the message; "slow" takes long, "fail" fails, "state" tells the state. */
export const echoAgent = `
import { defineAgent, scriptedModel } from "holdfast";
const model = scriptedModel(async ({ instructions, input }) => {
  const said = input.at(-1).content;
  if (said === "slow") await new Promise((resolve) => setTimeout(resolve, 600_000));
  if (said === "fail") throw new Error("out of order");
  return said === "state" ? instructions : "You said " + said;
});
export const agent = defineAgent({
  name: "echo",
  model,
  instruction: "{count?} {start?} {user:name?} {app:name?}",
  callbacks: { beforeAgent: ({ state }) => void (state.count = (state.count ?? 0) + 1) },
});
`;
