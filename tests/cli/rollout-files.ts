// Collections for the tests of reading commands, made by the real collect command.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { run } from "../e2e/serve-process.ts";

export type Row = Record<string, unknown>;

export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-rollouts-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Collects the first tasks of examples/counter. Returns the file. */
export async function collectCounter(folder: string, model: string, ...flags: string[]): Promise<string> {
  const file = join(folder, `${model}.jsonl`);
  const settings = ["--model", model, "--repeats", "2", "--limit", "5", "--max-steps", "6"];
  const { code, stderr } = await run("collect", "examples/counter", ...settings, "--out", file, ...flags);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
  return file;
}

export function rowsIn(file: string): Row[] {
  return linesOf(readFileSync(file, "utf8"));
}

export function linesOf(text: string): Row[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Row);
}

/** Writes rows, or invalid lines. */
export async function writeRows(file: string, ...rows: (Row | string)[]): Promise<string> {
  await writeFile(file, rows.map((row) => `${typeof row === "string" ? row : JSON.stringify(row)}\n`).join(""));
  return file;
}

/** Writes an environment called `tally` whose verify and tool can be replaced. */
export async function writeTally(
  folder: string,
  { verify = "() => 1", add = "state.count += by" }: { verify?: string; add?: string } = {},
): Promise<string> {
  const file = join(folder, "environment.mjs");
  const text = `
import { defineEnvironment, tool } from "holdfast";
export default defineEnvironment({
  name: "tally",
  seed: () => ({ count: 0 }),
  tools: { add: tool({ description: "Adds.", run: ({ state, log }, { by }) => { ${add}; return state.count; } }) },
  verify: ${verify},
});
`;
  await writeFile(file, text);
  await writeFile(
    join(folder, "solution.mjs"),
    `export default function* solution() { yield [{ tool: "add", input: { by: 2 } }]; yield [{ tool: "add", input: { by: 3 } }]; }`,
  );
  return file;
}

/** Collects two tasks of a tally. Returns the file. */
export async function collectTally(folder: string, target: string, ...flags: string[]): Promise<string> {
  const file = join(folder, "tally.jsonl");
  const tasks = await writeRows(
    join(folder, "tasks.jsonl"),
    { goal: 5, responses_create_params: { input: "Count to 5." } },
    { goal: 2, responses_create_params: { input: "Count to 2." } },
  );
  await run("collect", target, "--tasks", tasks, "--out", file, ...flags);
  return file;
}
