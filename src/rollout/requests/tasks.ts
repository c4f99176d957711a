// readRequestTasks(): reads a request's tasks, from its body or from a file next to the environment.
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { cannotLoad, HoldfastError, invalidOption } from "../../core/errors.ts";
import { locate } from "../load.ts";
import { taskFileName } from "../task-files.ts";
import { createNumbering, readLine, readRows, type BadRow, type ReadRow } from "../tasks.ts";
import type { RolloutRequest } from "./request.ts";

export interface RequestTasks {
  /** Reads the rows again at each call. */
  rows(): AsyncIterable<ReadRow | BadRow>;
  /** The number of rows. */
  count: number;
  /** The number of rows per task, by task number. */
  occurrences: Map<number, number>;
  /** Changes when a row changes. */
  digest: string;
}

/** Reads a request's tasks. `target`: the environment's folder, file or package, for requests without tasks. */
export async function readRequestTasks(asked: RolloutRequest, target: string | undefined): Promise<RequestTasks> {
  const file = asked.tasks ? undefined : await findFile(asked, target);
  const rows = (): AsyncIterable<ReadRow | BadRow> =>
    file === undefined ? given(asked.tasks ?? []) : part(readRows(file), asked);
  const number = createNumbering();
  const digest = createHash("sha256");
  const occurrences = new Map<number, number>();
  let count = 0;
  for await (const read of rows()) {
    const { task } = number(read);
    occurrences.set(task, (occurrences.get(task) ?? 0) + 1);
    digest.update(`${read.text}\n`);
    count++;
  }
  if (count === 0) throw new HoldfastError("invalid_task", "the request has no tasks; check `offset` and `limit`");
  return { rows, count, occurrences, digest: digest.digest("base64url") };
}

async function findFile({ split }: RolloutRequest, target: string | undefined): Promise<string> {
  if (target === undefined) throw invalidOption("`tasks` is missing; this server has no tasks file");
  const name = taskFileName(split);
  const file = join(dirname(await locate(target, "environment")), name);
  if (existsSync(file)) return file;
  throw cannotLoad(
    `the environment has no file ${name}; send \`tasks\`, or create the file with \`holdfast tasks split\``,
  );
}

async function* given(tasks: NonNullable<RolloutRequest["tasks"]>): AsyncGenerator<ReadRow | BadRow> {
  let line = 0;
  for (const row of tasks) yield readLine(JSON.stringify(row), ++line);
}

async function* part(
  rows: AsyncIterable<ReadRow | BadRow>,
  { offset = 0, limit = Infinity }: RolloutRequest,
): AsyncGenerator<ReadRow | BadRow> {
  let at = 0;
  for await (const row of rows) {
    if (at >= offset + limit) return;
    if (at++ >= offset) yield row;
  }
}
