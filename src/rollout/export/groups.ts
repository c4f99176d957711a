// rowsByTask(): groups the rows of a file by task. Rows are stored in the order they ended; only their positions stay
// in memory.
import { open } from "node:fs/promises";
import type { TaskRow } from "../../core/rollout.ts";
import { assertFile, rolloutIndex } from "../finished.ts";
import { createRowNumbering } from "../number-rows.ts";
import { readRowAt, readRows, type BadRow, type Span } from "../tasks.ts";

export interface RowsOfTask {
  task: number;
  /** Sorted by repeat. */
  rows: TaskRow[];
}

interface Place extends Span {
  repeat: number;
}

export async function* rowsByTask(
  file: string,
  onBad: (bad: BadRow, file: string) => void,
): AsyncGenerator<RowsOfTask, void, undefined> {
  assertFile(file);
  const places = await placesIn(file, onBad);
  const handle = await open(file);
  try {
    for (const task of [...places.keys()].sort((a, b) => a - b)) {
      const ordered = (places.get(task) ?? []).sort((a, b) => a.repeat - b.repeat);
      const rows: TaskRow[] = [];
      for (const place of ordered) rows.push((await readRowAt(handle, place)) as TaskRow);
      yield { task, rows };
    }
  } finally {
    await handle.close();
  }
}

async function placesIn(file: string, onBad: (bad: BadRow, file: string) => void): Promise<Map<number, Place[]>> {
  const places = new Map<number, Place[]>();
  const number = createRowNumbering([file]);
  for await (const read of readRows(file)) {
    if (!("row" in read)) {
      onBad(read, file);
      continue;
    }
    const { task = 0, repeat = 0 } = rolloutIndex(await number(read.row));
    const place = { repeat, at: read.at, bytes: read.bytes };
    const known = places.get(task);
    if (known) known.push(place);
    else places.set(task, [place]);
  }
  return places;
}
