// Tasks files: validates their rows against an environment, samples and splits them, and adds prompts.
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { toFields, type Json } from "../core/json.ts";
import { randomStream } from "../core/random.ts";
import { inputItems, pickTask, readRandomSeed, type TaskRow } from "../core/rollout.ts";
import { check } from "../core/schema.ts";
import { assertFile } from "../io/private-files.ts";
import { createNumbering, readRows, renderPrompt, type ReadRow } from "./tasks.ts";

/** Reads a file in which every line must be a row. */
export async function* readTaskRows(file: string): AsyncGenerator<ReadRow> {
  assertFile(file);
  for await (const read of readRows(file)) {
    if ("row" in read) yield read;
    else throw new HoldfastError("invalid_task", `line ${read.line} of ${file}: ${read.problem}`);
  }
}

/** Returns a row's problems that can be found before running it. */
export async function findProblems(row: TaskRow, environment: AnyEnvironment | undefined): Promise<string[]> {
  const problems: string[] = [];
  const items = inputItems(row);
  if (typeof items === "string") problems.push(items);
  const { tools } = toFields(row["responses_create_params"]);
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) problems.push("its `tools` are not a list");
  try {
    readRandomSeed(row);
  } catch (thrown) {
    problems.push(messageOf(thrown));
  }
  if (!environment) return problems;
  const checked = await check(environment.task, pickTask(row));
  if (!checked.ok) problems.push(`it is invalid for ${environment.name}: ${checked.message}`);
  for (const name of toolNamesIn(row)) {
    if (typeof name === "string" && environment.definitions.has(name)) continue;
    problems.push(`it names a tool ${JSON.stringify(name)} that ${environment.name} does not have`);
  }
  return problems;
}

/** Returns the tools that a row names, which limit the offered tools; empty if the environment decides. */
export function toolNamesIn(row: TaskRow): (Json | undefined)[] {
  const { tools } = toFields(row["responses_create_params"]);
  return Array.isArray(tools) ? tools.map((tool) => toFields(tool)["name"]) : [];
}

/** Draws `count` rows with equal probability, in file order. The same seed draws the same rows. */
export async function sampleRows(rows: AsyncIterable<ReadRow>, count: number, seed: number): Promise<ReadRow[]> {
  const random = randomStream(seed, 0);
  const drawn: ReadRow[] = [];
  let seen = 0;
  for await (const row of rows) {
    seen++;
    if (drawn.length < count) drawn.push(row);
    else {
      const at = Math.floor(random() * seen);
      if (at < count) drawn[at] = row;
    }
  }
  return drawn.sort((a, b) => a.line - b.line);
}

export interface Part {
  name: string;
  fraction: number;
}

/**
 * Assigns every task to one part, so that a task's rows stay together. Returns a function to call with each row, in
 * file order. The function returns the row's part; undefined if the row is in no part, because the fractions add up to
 * less than 1.
 */
export async function splitTasks(
  rows: AsyncIterable<ReadRow>,
  parts: Part[],
  seed: number,
): Promise<(read: ReadRow) => number | undefined> {
  const numberTask = createNumbering();
  const tasks = new Set<number>();
  for await (const row of rows) {
    const numbered = numberTask(row);
    if ("problem" in numbered) throw new HoldfastError("invalid_task", `line ${row.line}: ${numbered.problem}`);
    tasks.add(numbered.task);
  }
  const shuffled = shuffle([...tasks], randomStream(seed, 0));
  const partByTask = new Map<number, number>();
  let [share, from] = [0, 0];
  parts.forEach(({ fraction }, part) => {
    share += fraction;
    const to = Math.round(Math.min(1, share) * shuffled.length);
    for (const task of shuffled.slice(from, to)) partByTask.set(task, part);
    from = to;
  });
  const again = createNumbering();
  return (read) => partByTask.get(again(read).task);
}

function shuffle(values: number[], random: () => number): number[] {
  for (let at = values.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [values[at], values[other]] = [values[other] as number, values[at] as number];
  }
  return values;
}

export interface Prompt {
  user: string;
  system: string | undefined;
}

/** Returns the row with a prompt built from its fields. `replace`: replaces an existing prompt too. */
export function withPrompt({ row, line }: ReadRow, { user, system }: Prompt, replace: boolean): TaskRow {
  const params = toFields(row["responses_create_params"]);
  if (params["input"] !== undefined && !replace) {
    throw new HoldfastError("invalid_task", `line ${line} already has an input; use --replace to replace it`);
  }
  try {
    const input: Json[] = [
      ...(system === undefined ? [] : [{ role: "system", content: renderPrompt(system, row) }]),
      { role: "user", content: renderPrompt(user, row) },
    ];
    return { ...row, responses_create_params: { ...params, input } };
  } catch (cause) {
    throw new HoldfastError("invalid_task", `line ${line}: ${messageOf(cause)}`, { cause });
  }
}
