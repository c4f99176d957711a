// Rollouts that kill or block their process, among others that do neither: each becomes one failure, and no other does.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Running } from "../cli/run-process.ts";
import { root } from "../files.ts";
import { newRedis, startCommand } from "../queue/queue-process.ts";
import { rowsOf } from "../rollout/folder.ts";

const environment = `
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";
export default defineEnvironment({
  name: "lab",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ poison: z.string() }),
  tools: {
    mix: tool({
      description: "Mix.",
      run: async ({ state, task }) => {
        if (task.poison === "die") process.kill(process.pid, "SIGKILL");
        if (task.poison === "exit") process.exit(7);
        for (;;) if (task.poison !== "spin") break;
        return { count: ++state.count };
      },
    }),
    wait: tool({ description: "Wait.", concurrent: true, run: () => sleep(100) }),
  },
  verify: ({ state }) => Number(state.count === 1),
});
`;
const agent = `
import { defineAgent, scriptedModel } from "holdfast";
const model = scriptedModel((_, turn) => [{ calls: [{ name: "wait" }] }, { calls: [{ name: "mix" }] }][turn] ?? "Done.");
export default defineAgent({ name: "chemist", model });
`;

async function newLab(poisons: string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-poison-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "lab"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "lab/environment.mjs"), environment);
  writeFileSync(join(folder, "agent.mjs"), agent);
  const rows = poisons.map((poison) => JSON.stringify({ poison, responses_create_params: { input: "Go." } }));
  writeFileSync(join(folder, "tasks.jsonl"), rows.join("\n"));
  return folder;
}

const slowTest = { tags: ["full"], timeout: 180_000 };

test(
  "SCORED: a rollout that kills or blocks its process fails as `worker`, and all others are scored",
  slowTest,
  async () => {
    const tasks = Array.from({ length: 24 }, (_, n) => ({ 5: "die", 11: "spin", 17: "exit" })[n] ?? "none");
    const folder = await newLab(tasks);
    const redis = await newRedis();
    const flags = ["--queue", redis.url, "--max-blocked", "4s", "--concurrency", "6"];
    const deaths: unknown[] = [];
    let isOver = false;
    // As a service manager does it.
    const keepWorker = async (): Promise<void> => {
      for (;;) {
        const worker: Running = await startCommand(folder, ["worker", ...flags]);
        const { code, stderr } = await worker.ended;
        if (isOver) return;
        deaths.push(worker.process.signalCode ?? code, stderr);
      }
    };
    void keepWorker();
    void keepWorker();
    const settings = ["--agent", "agent.mjs", "--tasks", "tasks.jsonl", "--out", "run.jsonl", "--queue", redis.url];
    const collecting = await startCommand(folder, ["collect", "lab", ...settings]);
    const { code, stderr } = await collecting.ended;
    isOver = true;
    expect(code).toBe(1);
    const failures = rowsOf(join(folder, "run_failures.jsonl"));
    const why = failures.map(
      (row) => `${String(row["poison"])}: ${String(row["failure_kind"])}: ${String(row["failure_reason"])}`,
    );
    const ran = "while the tool mix was running (3 of 3 times)";
    expect(why.sort()).toEqual([
      `die: worker: its process was ended by SIGKILL ${ran}`,
      `exit: worker: its process ended with code 7 ${ran}`,
      `spin: worker: its process was blocked for 4 s ${ran}`,
    ]);
    const rows = rowsOf(join(folder, "run.jsonl"));
    expect(rows.map(({ reward }) => reward)).toEqual(Array(21).fill(1));
    // Each of the three ends at most one worker: the next worker gives it a process of its own.
    expect(deaths.length / 2).toBeLessThanOrEqual(3);
    console.log(`${deaths.length / 2} workers ended; the collector said: ${stderr}`);
    expect(readFileSync(join(folder, "run.jsonl"), "utf8").split("\n")).toHaveLength(22);
  },
);

test("a worker that is blocked ends, and says why", async () => {
  const folder = await newLab(["spin"]);
  const redis = await newRedis();
  const worker = await startCommand(folder, ["worker", "--queue", redis.url, "--max-blocked", "1s"]);
  const settings = ["--agent", "agent.mjs", "--tasks", "tasks.jsonl", "--out", "run.jsonl", "--queue", redis.url];
  await startCommand(folder, ["collect", "lab", ...settings]);
  const { stderr } = await worker.ended;
  expect(worker.process.signalCode).toBe("SIGALRM");
  expect(stderr).toContain(
    "stops: the code of an environment or agent blocked it for 1 s. Other workers continue its rollouts",
  );
});
