// Real data for the viewer: collections made by the command, once per test file.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect } from "vitest";
import { built } from "../../built.ts";

/** Ten tasks in a row: most are won. */
const plans = ["win", "lose", "win", "break", "win", "win", "win", "win", "lose", "win"];

/** The environment of the collections. */
export const tally = fileURLToPath(new URL("tally", import.meta.url));

/** A folder for collections, removed after the tests of the file. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-viewer-"));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The numbers of a task. */
export const taskAt = (at: number): { start: number; goal: number } => ({ start: at, goal: at + 5 + (at % 7) });

export interface CollectOptions {
  /** How each task is played. By default 100 tasks: a tenth breaks and a fifth is lost. */
  tasks?: string[];
  repeats: number;
  model?: string;
}

/** Collects into `NAME.jsonl`. Returns that file. */
export async function collect(folder: string, name: string, options: CollectOptions): Promise<string> {
  const { tasks = Array.from({ length: 100 }, (_, at) => plans[at % 10] ?? ""), repeats, model = "scripted" } = options;
  const rows = tasks.map((plan, at) => {
    const { start, goal } = taskAt(at);
    const input = [{ role: "user", content: `Bring the counter from ${start} to ${goal}.` }];
    return JSON.stringify({ plan, start, goal, responses_create_params: { input } });
  });
  await writeFile(join(folder, `${name}-tasks.jsonl`), `${rows.join("\n")}\n`);
  const file = join(folder, `${name}.jsonl`);
  const command = [
    join(await built(), "cli/main.js"),
    "collect",
    tally,
    "--tasks",
    join(folder, `${name}-tasks.jsonl`),
    "--model",
    model,
    "--repeats",
    String(repeats),
    "--attempts",
    "1",
    "--out",
    file,
  ];
  // Failed rollouts do not fail the test.
  const stderr = await new Promise<string>((resolve) =>
    execFile(process.execPath, command, (_, __, text) => resolve(text)),
  );
  expect(stderr).toContain(`${tasks.length * repeats} of ${tasks.length * repeats}`);
  return file;
}
