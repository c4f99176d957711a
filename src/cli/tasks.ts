// holdfast tasks: checks, samples, splits and renders tasks files.
import { InvalidArgumentError, type Command } from "commander";
import { whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { readFileSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { cannotLoad, HoldfastError, invalidOption, messageOf } from "../core/errors.ts";
import { assertFile, assertNoFolder } from "../io/private-files.ts";
import { findProblems, readTaskRows, sampleRows, splitTasks, withPrompt, type Part } from "../rollout/task-sets.ts";
import { createNumbering, readRows } from "../rollout/tasks.ts";
import { assertFree, writeOutputs } from "../rollout/line-output.ts";
import { loadEnvironment } from "../rollout/load.ts";
import { counted, print } from "../io/plain.ts";
import { note } from "./notes.ts";

export function add(program: Command): void {
  const tasks = program
    .command("tasks")
    .description("Check, sample, split and render tasks files.")
    .addHelpText("after", "\nExample:\n  $ npx holdfast tasks check tasks.jsonl --environment .");
  const add = (name: string, description: string, example: string): Command =>
    tasks
      .command(name)
      .description(description)
      .argument("<file>", "tasks file in JSON Lines format")
      .option("--json", "print the result as JSON")
      .addHelpText("after", `\nExample:\n  $ npx holdfast tasks ${example}`);
  const addOut = (command: Command, what: string): Command =>
    command.option("--out <path>", what).option("--force", "overwrite existing files");
  const rowsOut = "output file (default: standard output)";

  add("check", "List invalid rows with their line numbers.", "check tasks.jsonl --environment .")
    .option("--environment <target>", "environment (folder, file or package); rows are checked against its task schema")
    .action(checkTasks);
  addOut(
    add("sample", "Draw rows at random, with equal probability.", "sample tasks.jsonl --number 20 --out few.jsonl"),
    rowsOut,
  )
    .addOption(requiredOption("--number <count>", "number of rows", whole(1)))
    .option("--seed <number>", "random seed: the same seed draws the same rows", whole(0), 0)
    .action(sampleTasks);
  addOut(
    add(
      "split",
      "Split a file into parts; all rows of a task go to one part.",
      "split tasks.jsonl --parts train=0.9,test=0.1",
    ),
    "output folder for FILE_train.jsonl and so on (default: the folder of FILE)",
  )
    .addOption(requiredOption("--parts <list>", "names and fractions, as in train=0.9,test=0.1", parseParts))
    .option("--seed <number>", "random seed: the same seed splits the same way", whole(0), 0)
    .action(splitFile);
  addOut(
    add(
      "render",
      "Build a prompt for every row from its fields.",
      'render tasks.jsonl --prompt "Count to {goal}." \\\n      --out prompted.jsonl',
    ),
    rowsOut,
  )
    .option("--prompt <text>", "user message; {field} inserts a field of the row, {{ and }} are literal braces")
    .option("--prompt-file <file>", "file with the text for --prompt")
    .option("--system <text>", "system message, placed before the prompt")
    .option("--system-file <file>", "file with the text for --system")
    .option("--replace", "replace the input of rows that already have one (default: report an error)")
    .action(renderTasks);
}

/** Parses a list of parts such as train=0.9,test=0.1. */
function parseParts(text: string): Part[] {
  const parts = text.split(",").map((part) => {
    const [, name, fraction] = /^([\w-]+)=(0?\.\d+|[01](?:\.0+)?)$/.exec(part.trim()) ?? [];
    return { name: name ?? "", fraction: Number(fraction) };
  });
  const total = parts.reduce((sum, { fraction }) => sum + fraction, 0);
  const isGood = parts.every(({ fraction }) => fraction > 0) && total < 1 + 1e-9;
  const hasNames = new Set(parts.map(({ name }) => name)).size === parts.length;
  if (isGood && hasNames) return parts;
  throw new InvalidArgumentError(
    "Give each part its own name and a fraction; the fractions add up to at most 1, as in train=0.9,test=0.1.",
  );
}

interface Flags {
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

async function checkTasks(file: string, flags: Flags): Promise<void> {
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
  else if (fit === 0) print(`${counted(rows, "row")}: 0 valid, ${wrong} invalid`);
  else print(`${rows} rows of ${tasks.size} tasks: ${wrong === 0 ? "all valid" : `${fit} valid, ${wrong} invalid`}`);
}

async function sampleTasks(file: string, flags: Flags): Promise<void> {
  const { out, number } = flags;
  assertFree([out], file, flags);
  const drawn = await sampleRows(readTaskRows(file), number, flags.seed);
  if (drawn.length < number) note(`${file} has only ${drawn.length} rows`);
  await writeOutputs([out], async (output) => {
    for (const { text } of drawn) await output.write(text);
  });
  report(flags, out, drawn.length);
}

async function splitFile(file: string, flags: Flags): Promise<void> {
  const stem = join(flags.out ?? dirname(file), basename(file, extname(file)));
  const files = flags.parts.map(({ name }) => `${stem}_${name}.jsonl`);
  assertFree(files, file, flags);
  const findPart = await splitTasks(readTaskRows(file), flags.parts, flags.seed);
  const counts = files.map(() => 0);
  await writeOutputs(files, async (...outputs) => {
    for await (const read of readTaskRows(file)) {
      const part = findPart(read);
      if (part === undefined) continue;
      await outputs[part]?.write(read.text);
      counts[part] = (counts[part] ?? 0) + 1;
    }
  });
  files.forEach((part, at) => report(flags, part, counts[at] ?? 0));
}

async function renderTasks(file: string, flags: Flags): Promise<void> {
  const { out, replace = false } = flags;
  const user = readText("prompt", flags.prompt, flags.promptFile);
  const system = readText("system", flags.system, flags.systemFile);
  if (user === undefined) throw invalidOption("pass the prompt with --prompt or --prompt-file");
  assertFree([out], file, flags);
  let count = 0;
  await writeOutputs([out], async (output) => {
    for await (const read of readTaskRows(file)) {
      await output.write(JSON.stringify(withPrompt(read, { user, system }, replace)));
      count++;
    }
  });
  report(flags, out, count);
}

function readText(name: string, text: string | undefined, file: string | undefined): string | undefined {
  if (file === undefined) return text;
  if (text !== undefined) throw invalidOption(`pass --${name} or --${name}-file, not both`);
  assertNoFolder(file);
  try {
    return readFileSync(file, "utf8").trimEnd();
  } catch (cause) {
    throw cannotLoad(`cannot read --${name}-file ${file}: ${messageOf(cause)}`, cause);
  }
}

function report({ json }: Flags, file: string | undefined, rows: number): void {
  if (file !== undefined) print(json ? JSON.stringify({ file, rows }) : `${file}: ${rows} rows`);
}
