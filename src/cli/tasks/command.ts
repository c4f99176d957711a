// Checks, samples, splits and renders tasks files. Rows that are only moved keep every byte.
import { readFileSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { cannotLoad, HoldfastError, invalidOption, messageOf } from "../../core/errors.ts";
import { assertFile } from "../../rollout/finished.ts";
import { findProblems, readTaskRows, sampleRows, splitTasks, withPrompt, type Part } from "../../rollout/task-sets.ts";
import { createNumbering, readRows } from "../../rollout/tasks.ts";
import { assertFree, openOutput, type LineOutput } from "../line-output.ts";
import { loadEnvironment } from "../../rollout/load.ts";
import { print } from "../plain.ts";
import { note } from "../rollout-source.ts";

export interface TasksFlags {
  environment?: string;
  number: number;
  parts: Part[];
  seed: number;
  prompt?: string;
  promptFile?: string;
  system?: string;
  systemFile?: string;
  replace?: boolean;
  out?: string;
  force?: boolean;
  json?: boolean;
}

export async function checkTasks(file: string, flags: TasksFlags): Promise<void> {
  assertFile(file);
  const environment = flags.environment === undefined ? undefined : await loadEnvironment(flags.environment);
  const numberTask = createNumbering();
  const tasks = new Set<number>();
  let [rows, wrong] = [0, 0];
  for await (const line of readRows(file)) {
    rows++;
    const read = numberTask(line);
    const problems = "row" in read ? await findProblems(read.row, environment) : [read.problem];
    if ("row" in line) tasks.add(read.task);
    if (problems.length > 0) wrong++;
    for (const problem of problems) {
      print(flags.json ? JSON.stringify({ line: read.line, problem }) : `${file}:${read.line}: ${problem}`);
    }
  }
  if (rows === 0) throw new HoldfastError("invalid_task", `${file} has no rows`);
  if (wrong > 0) process.exitCode = 1;
  const fit = rows - wrong;
  if (flags.json) print(JSON.stringify({ rows, tasks: tasks.size, fit, wrong }));
  else print(`${rows} rows of ${tasks.size} tasks: ${wrong === 0 ? "all valid" : `${fit} valid, ${wrong} invalid`}`);
}

export async function sampleTasks(file: string, flags: TasksFlags): Promise<void> {
  const { out, number } = flags;
  if (out !== undefined) assertFree(out, { force: flags.force ?? false, input: file });
  const drawn = await sampleRows(readTaskRows(file), number, flags.seed);
  if (drawn.length < number) note(`${file} has only ${drawn.length} rows`);
  await writing([out], async ([output]) => {
    for (const { text } of drawn) await output?.write(text);
  });
  report(flags, out, drawn.length);
}

export async function splitFile(file: string, flags: TasksFlags): Promise<void> {
  const stem = join(flags.out ?? dirname(file), basename(file, extname(file)));
  const files = flags.parts.map(({ name }) => `${stem}_${name}.jsonl`);
  for (const part of files) assertFree(part, { force: flags.force ?? false, input: file });
  const findPart = await splitTasks(readTaskRows(file), flags.parts, flags.seed);
  const counts = files.map(() => 0);
  await writing(files, async (outputs) => {
    for await (const read of readTaskRows(file)) {
      const part = findPart(read);
      if (part === undefined) continue;
      await outputs[part]?.write(read.text);
      counts[part] = (counts[part] ?? 0) + 1;
    }
  });
  files.forEach((part, at) => report(flags, part, counts[at] ?? 0));
}

export async function renderTasks(file: string, flags: TasksFlags): Promise<void> {
  const { out, replace = false } = flags;
  const user = readText("prompt", flags.prompt, flags.promptFile);
  const system = readText("system", flags.system, flags.systemFile);
  if (user === undefined) throw invalidOption("give the prompt with --prompt or --prompt-file");
  if (out !== undefined) assertFree(out, { force: flags.force ?? false, input: file });
  let count = 0;
  await writing([out], async ([output]) => {
    for await (const read of readTaskRows(file)) {
      await output?.write(JSON.stringify(withPrompt(read, { user, system }, replace)));
      count++;
    }
  });
  report(flags, out, count);
}

/** Writes all of these files, or none of them. */
async function writing(files: (string | undefined)[], write: (outputs: LineOutput[]) => Promise<void>): Promise<void> {
  const outputs = files.map(openOutput);
  try {
    await write(outputs);
    for (const output of outputs) await output.done();
  } finally {
    for (const output of outputs) await output.abandon();
  }
}

function readText(name: string, text: string | undefined, file: string | undefined): string | undefined {
  if (file === undefined) return text;
  if (text !== undefined) throw invalidOption(`give --${name} or --${name}-file, not both`);
  try {
    return readFileSync(file, "utf8").trimEnd();
  } catch (cause) {
    throw cannotLoad(`--${name}-file ${file} cannot be read: ${messageOf(cause)}`, cause);
  }
}

function report({ json }: TasksFlags, file: string | undefined, rows: number): void {
  if (file !== undefined) print(json ? JSON.stringify({ file, rows }) : `${file}: ${rows} rows`);
}
