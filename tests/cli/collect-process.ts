// Runs `holdfast collect` as a process, in a folder with a dice environment, a counting agent and its tasks.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { built } from "../built.ts";
import { root } from "../files.ts";
import type { Ended, Running } from "./run-process.ts";

/** A throw is random, with the randomness of the rollout. A task that asks for trouble fails. */
const environment = `
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";
export default defineEnvironment({
  name: "dice",
  state: z.object({ total: z.number().default(0) }),
  task: z.strictObject({ n: z.number().int(), trouble: z.string().optional() }),
  seed: ({ task }) => {
    if (task.trouble === "seed") throw new Error("no dice");
    return { total: 0 };
  },
  tools: {
    roll: tool({
      description: "Roll the dice.",
      input: z.object({ times: z.number().int() }),
      run: ({ state, task, random }, { times }) => {
        if (task.trouble === "refusal") throw refuse("no more rolls");
        if (task.trouble === "tool") throw new Error("the dice fell off the table");
        for (let n = 0; n < times; n++) state.total += 1 + Math.floor(6 * random());
        return { total: state.total };
      },
    }),
  },
  verify: ({ state, task }) => {
    if (task.trouble === "verify") throw new Error("no table");
    return { reward: state.total % 2, total: state.total };
  },
});
`;

/** Logs every question. Rolls as often as the text says, then ends. */
const agent = `
import { appendFileSync } from "node:fs";
import { defineAgent, scriptedModel } from "holdfast";
const pause = Number(process.env.PAUSE ?? 0);
const model = scriptedModel(async ({ input }, turn) => {
  const said = input[0].content;
  appendFileSync(process.env.CALLS, said + " " + turn + " " + process.pid + "\\n");
  if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
  const roll = { name: "roll", arguments: { times: 2 } };
  if (said.includes("model trouble")) throw new Error("no GPU");
  if (said.includes("endless")) return { calls: [roll] };
  if (said.includes("silent")) return { output: [] };
  if (said.includes("slow")) await new Promise((resolve) => setTimeout(resolve, 600_000));
  if (said.includes("cheat") && turn === 0)
    return { calls: [{ name: "seed_session", arguments: { n: 1 } }, { name: "verify", arguments: {} }] };
  return turn < 4 ? { calls: turn % 2 === 0 ? [roll] : [roll, roll] } : "Done.";
});
export default defineAgent({ name: "roller", model });
`;

export interface World {
  folder: string;
  /** The path of a file in the folder. */
  at(name: string): string;
  /** The questions to the model: "TEXT TURN PROCESS". */
  calls(): string[];
  /** Starts \`holdfast collect WORLD --agent … ARGS\`. It stops when the test ends. */
  start(args: string[], env?: Record<string, string>): Promise<Running>;
  /** The same, to its end. */
  collect(...args: string[]): Promise<Ended>;
}

/** A row of the task file. */
export function taskLine(n: number, text = `Roll ${n}`, added: object = {}): string {
  return JSON.stringify({ responses_create_params: { input: [{ role: "user", content: text }] }, n, ...added });
}

/** A folder with everything to collect. It is removed when the test ends. */
export function newWorld(tasks: string[]): World {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-collect-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string): string => join(folder, name);
  mkdirSync(at("node_modules"));
  symlinkSync(join(root, "node_modules/zod"), at("node_modules/zod"));
  writeFileSync(at("environment.mjs"), environment);
  writeFileSync(at("agent.mjs"), agent);
  writeFileSync(at("tasks.jsonl"), tasks.map((line) => `${line}\n`).join(""));
  const start: World["start"] = async (args, env = {}) => {
    const main = join(await built(), "cli/main.js");
    const all = [main, "collect", folder, "--agent", at("agent.mjs"), ...args];
    return running(spawn(process.execPath, all, { cwd: folder, env: { ...process.env, CALLS: at("calls"), ...env } }));
  };
  return {
    folder,
    at,
    start,
    calls: () => (existsSync(at("calls")) ? readFileSync(at("calls"), "utf8").split("\n").slice(0, -1) : []),
    collect: async (...args) => (await start(args)).ended,
  };
}

function running(child: ChildProcess): Running {
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (chunk) => (stdout += String(chunk)));
  child.stderr?.on("data", (chunk) => (stderr += String(chunk)));
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
  const isRunning = (): boolean => child.exitCode === null && child.signalCode === null;
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    process: child,
    ended,
    async printed(text) {
      while (isRunning() && !`${stdout}${stderr}`.includes(text)) await sleep(2);
    },
  };
}
