// holdfast tasks: checks, samples, splits and renders files of tasks.
import { InvalidArgumentError, type Command } from "commander";
import type { Part } from "../rollout/task-sets.ts";
import { whole } from "./flags.ts";
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
      .argument("<file>", "tasks, as JSON lines")
      .option("--json", "print what was done as JSON")
      .addHelpText("after", `\nExample:\n  $ npx holdfast tasks ${example}`);
  const addOut = (command: Command, what: string): Command =>
    command.option("--out <path>", what).option("--force", "write over what is there");
  const rowsOut = "where the rows go; by default they are printed";

  add("check", "Say which rows are wrong, by their lines.", "check tasks.jsonl --environment .")
    .option("--environment <target>", "what they are for: a folder, file or package with an environment")
    .action(async (file: string, flags: TasksFlags) => (await commands()).checkTasks(file, flags));
  addOut(
    add("sample", "Draw rows, each as likely as any other.", "sample tasks.jsonl --number 20 --out few.jsonl"),
    rowsOut,
  )
    .requiredOption("--number <count>", "how many", whole(1))
    .option("--seed <number>", "the same seed draws the same rows", whole(0), 0)
    .action(async (file: string, flags: TasksFlags) => (await commands()).sampleTasks(file, flags));
  addOut(
    add("split", "Cut a file into parts, no task in two of them.", "split tasks.jsonl --parts train=0.9,test=0.1"),
    "the folder of FILE_train.jsonl and so on; by default that of FILE",
  )
    .requiredOption("--parts <list>", "names and fractions, as in train=0.9,test=0.1", parseParts)
    .option("--seed <number>", "the same seed cuts the same way", whole(0), 0)
    .action(async (file: string, flags: TasksFlags) => (await commands()).splitFile(file, flags));
  addOut(
    add(
      "render",
      "Give every row a prompt made of its fields.",
      'render tasks.jsonl --prompt "Count to {goal}." \\\n      --out prompted.jsonl',
    ),
    rowsOut,
  )
    .option("--prompt <text>", "what the user says; {field} is that field of the row, {{ and }} are braces")
    .option("--prompt-file <file>", "a file with that text")
    .option("--system <text>", "what the system says before it")
    .option("--system-file <file>", "a file with that text")
    .option("--replace", "also where a row has an input")
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
    "Parts are different names with fractions that add up to at most 1, as in train=0.9,test=0.1.",
  );
}
