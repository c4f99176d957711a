// holdfast tasks: checks, samples, splits and renders tasks files.
import { InvalidArgumentError, type Command } from "commander";
import type { Part } from "../rollout/task-sets.ts";
import { whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import type { TasksFlags } from "./tasks/command.ts";

export function addTasks(program: Command): void {
  const tasks = program
    .command("tasks")
    .description("Check, sample, split and render files of tasks.")
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
  const rowsOut = "file for the rows (default: print them)";

  add("check", "List invalid rows by their lines.", "check tasks.jsonl --environment .")
    .option(
      "--environment <target>",
      "folder, file or package of the environment, to check rows against its task schema",
    )
    .action(async (file: string, flags: TasksFlags) => (await commands()).checkTasks(file, flags));
  addOut(
    add("sample", "Draw rows at random, with equal probability.", "sample tasks.jsonl --number 20 --out few.jsonl"),
    rowsOut,
  )
    .addOption(requiredOption("--number <count>", "number of rows", whole(1)))
    .option("--seed <number>", "random seed: the same seed draws the same rows", whole(0), 0)
    .action(async (file: string, flags: TasksFlags) => (await commands()).sampleTasks(file, flags));
  addOut(
    add(
      "split",
      "Split a file into parts; all rows of a task go to one part.",
      "split tasks.jsonl --parts train=0.9,test=0.1",
    ),
    "folder for FILE_train.jsonl and so on (default: the folder of FILE)",
  )
    .addOption(requiredOption("--parts <list>", "names and fractions, as in train=0.9,test=0.1", parseParts))
    .option("--seed <number>", "random seed: the same seed splits the same way", whole(0), 0)
    .action(async (file: string, flags: TasksFlags) => (await commands()).splitFile(file, flags));
  addOut(
    add(
      "render",
      "Build the prompt of every row from its fields.",
      'render tasks.jsonl --prompt "Count to {goal}." \\\n      --out prompted.jsonl',
    ),
    rowsOut,
  )
    .option("--prompt <text>", "user message; {field} is a field of the row, {{ and }} are braces")
    .option("--prompt-file <file>", "a file with the text of --prompt, in place of it")
    .option("--system <text>", "system message before it")
    .option("--system-file <file>", "a file with the text of --system, in place of it")
    .option("--replace", "replace inputs that rows already have; without it, such a row is an error")
    .action(async (file: string, flags: TasksFlags) => (await commands()).renderTasks(file, flags));
}

const commands = () => import("./tasks/command.ts");

/** Parses a text such as train=0.9,test=0.1. */
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
    "Give different names with fractions that add up to at most 1, as in train=0.9,test=0.1.",
  );
}
