// Files of tasks: whether their rows fit an environment, and how to draw from them, cut them up and give them prompts.
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { randomStream } from "../core/random.ts";
import { inputItems, taskOf, type TaskRow } from "../core/rollout.ts";
import { check } from "../core/schema.ts";
import { assertFile } from "./finished.ts";
import { fieldsOf } from "./conversation.ts";
import { createNumbering, readRows, renderPrompt, type ReadRow } from "./tasks.ts";

/** The rows of a file in which every line must be one. */
export async function* readTaskRows(file: string): AsyncGenerator<ReadRow, void, undefined> {
  assertFile(file);
  for await (const read of readRows(file)) {
    if ("row" in read) yield read;
    else throw new HoldfastError("invalid_task", `line ${read.line} of ${file}: ${read.problem}`);
  }
}

/** What is wrong with a row, as far as can be told before it is played. */
export async function problemsOf(row: TaskRow, environment: AnyEnvironment | undefined): Promise<string[]> {
  const problems: string[] = [];
  const items = inputItems(row);
  if (typeof items === "string") problems.push(items);
  const { tools } = fieldsOf(row["responses_create_params"]);
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) problems.push("its `tools` are no list");
  if (!environment) return problems;
  const checked = await check(environment.task, taskOf(row));
  if (!checked.ok) problems.push(`it does not fit ${environment.name}: ${checked.message}`);
  for (const name of toolNamesIn(row)) {
    if (typeof name === "string" && environment.definitions.has(name)) continue;
    problems.push(`it names a tool ${JSON.stringify(name)} that ${environment.name} does not have`);
  }
  return problems;
}

/** The tools that a row brings, which are all that its model is offered; none if it leaves them to the environment. */
export function toolNamesIn(row: TaskRow): (Json | undefined)[] {
  const { tools } = fieldsOf(row["responses_create_params"]);
  return Array.isArray(tools) ? tools.map((tool) => fieldsOf(tool)["name"]) : [];
}

/** So many rows, each as likely as any other, in the order of the file. The same for the same seed. */
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
 * Gives every task to one part, so that rows of the same task stay together. Gives for each row of the file, in order, the
 * number of its part; undefined for what the fractions leave over.
 */
export async function splitTasks(
  rows: AsyncIterable<ReadRow>,
  parts: Part[],
  seed: number,
): Promise<(read: ReadRow) => number | undefined> {
  const numberOf = createNumbering();
  const tasks = new Set<number>();
  for await (const row of rows) {
    const numbered = numberOf(row);
    if ("problem" in numbered) throw new HoldfastError("invalid_task", `line ${row.line}: ${numbered.problem}`);
    tasks.add(numbered.task);
  }
  const shuffled = shuffle([...tasks], randomStream(seed, 0));
  const partOf = new Map<number, number>();
  let [share, from] = [0, 0];
  parts.forEach(({ fraction }, part) => {
    share += fraction;
    const to = Math.round(Math.min(1, share) * shuffled.length);
    for (const task of shuffled.slice(from, to)) partOf.set(task, part);
    from = to;
  });
  const again = createNumbering();
  return (read) => partOf.get(again(read).task);
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

/** The row with the prompt that its fields make. `replace`: also where it has one. */
export function withPrompt({ row, line }: ReadRow, { user, system }: Prompt, replace: boolean): TaskRow {
  const params = fieldsOf(row["responses_create_params"]);
  if (params["input"] !== undefined && !replace) {
    throw new HoldfastError(
      "invalid_task",
      `line ${line} has an input already; --replace puts the prompt in its place`,
    );
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
