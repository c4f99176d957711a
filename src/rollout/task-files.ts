// createTaskFiles(): the tasks of an environment by split and index, from the files next to it.
import { readdir, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import { locate } from "./load.ts";
import { readRowAt, readRows, type Span } from "./tasks.ts";

export interface Split {
  name: string;
  /** The number of its tasks. */
  count: number;
}

export interface TaskFiles {
  /**
   * Lists the splits, with `default` first.
   * @example const [{ name, count }] = await tasks.splits();
   */
  splits(): Promise<Split[]>;
  /**
   * Returns the number of tasks in a split. Throws `not_found` for an unknown split.
   * @example const count = await tasks.count("train");
   */
  count(split: string): Promise<number>;
  /**
   * Returns one row. Throws `not_found` if there is no such task.
   * @example const row = await tasks.row("train", 3);
   */
  row(split: string, index: number): Promise<TaskRow>;
  /**
   * Returns the rows from an index to the end.
   * @example for await (const row of tasks.rows("train", 0)) console.log(row);
   */
  rows(split: string, start: number): AsyncIterable<TaskRow>;
}

/** The split in tasks.jsonl. */
export const defaultSplit = "default";

/** The positions of a file's rows. `stamp` identifies the content of the file. */
interface Index {
  stamp: string;
  rows: (Span & { line: number; problem?: string })[];
}

/** Returns the name of the file with a split's tasks. */
export function taskFileName(split = defaultSplit): string {
  if (split === defaultSplit) return "tasks.jsonl";
  if (/^[\w-]{1,100}$/.test(split)) return `tasks_${split}.jsonl`;
  throw invalidOption(`${JSON.stringify(ellipsis(split, 100))} is not the name of a split`);
}

/**
 * Reads the files next to an environment: tasks.jsonl, and tasks_NAME.jsonl for the split NAME. A file that changes is
 * read again. `target`: the environment's folder, file or package; without it there are no tasks.
 *
 * @example
 * const tasks = createTaskFiles("examples/counter");
 * const row = await tasks.row("train", 0);
 */
export function createTaskFiles(target: string | undefined): TaskFiles {
  const indexes = new Map<string, Index>();
  let located: Promise<string> | undefined;

  const folder = (): Promise<string> => (located ??= locate(target ?? "", "environment").then(dirname));

  async function names(): Promise<string[]> {
    if (target === undefined) return [];
    const found = (await readdir(await folder())).flatMap((file) => {
      const match = /^tasks(?:_([\w-]{1,100}))?\.jsonl$/.exec(file);
      return match ? [match[1] ?? defaultSplit] : [];
    });
    return found.sort((a, b) => Number(b === defaultSplit) - Number(a === defaultSplit) || (a < b ? -1 : 1));
  }

  async function indexed(split: string): Promise<{ file: string; rows: Index["rows"] }> {
    const known = await names();
    if (!known.includes(split)) {
      const message = `there is no split ${JSON.stringify(ellipsis(split, 100))}; the splits are: ${known.join(", ") || "none"}`;
      throw new HoldfastError("not_found", message);
    }
    const file = join(await folder(), taskFileName(split));
    const { mtimeMs, size, ino } = await stat(file);
    const stamp = `${mtimeMs} ${size} ${ino}`;
    let index = indexes.get(split);
    if (index?.stamp !== stamp) {
      index = { stamp, rows: [] };
      for await (const { at, bytes, line, ...read } of readRows(file)) {
        index.rows.push({ at, bytes, line, ...("problem" in read && { problem: read.problem }) });
      }
      indexes.set(split, index);
    }
    return { file, rows: index.rows };
  }

  const count = async (split: string): Promise<number> => (await indexed(split)).rows.length;

  async function* rowsFrom(split: string, start: number): AsyncGenerator<TaskRow> {
    const { file, rows } = await indexed(split);
    if (!(start in rows)) return;
    const handle = await open(file);
    try {
      for (let at = start; at < rows.length; at++) {
        const { line, problem, ...span } = rows[at]!;
        const row = problem === undefined ? await readRowAt(handle, span) : undefined;
        if (!row) {
          const why = problem ?? "the file changed while it was read";
          throw new HoldfastError("invalid_task", `line ${line} of ${taskFileName(split)}: ${why}`);
        }
        yield row;
      }
    } finally {
      await handle.close();
    }
  }

  return {
    count,
    async splits() {
      return Promise.all((await names()).map(async (name) => ({ name, count: await count(name) })));
    },
    async row(split, index) {
      for await (const row of rowsFrom(split, index)) return row;
      const message = `the split ${split} has ${await count(split)} tasks, numbered from 0; it has no task ${index}`;
      throw new HoldfastError("not_found", message);
    },
    rows: rowsFrom,
  };
}
