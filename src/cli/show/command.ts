// Finds an episode and its log, and prints them.
import { existsSync } from "node:fs";
import { invalidOption, type HoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { logWithParents } from "../../rollout/episode-log.ts";
import { findRollout, buildTranscript } from "../../rollout/show.ts";
import { createComplaints, note, openStoreFor } from "../rollout-source.ts";
import { storeFileFor } from "../../rollout/output.ts";
import { transcriptText } from "./text.ts";

export interface ShowFlags {
  task: number;
  repeat?: number;
  store?: string;
  json?: boolean;
}

export async function showRollout(file: string, flags: ShowFlags): Promise<void> {
  const { row, repeats } = await findRollout(file, flags, createComplaints());
  if (!row) throw missing(file, flags, repeats);
  const transcript = buildTranscript(row, await readEvents(file, row, flags.store));
  const { stdout, env } = process;
  const isColoured = stdout.isTTY && !env["NO_COLOR"];
  stdout.write(flags.json ? `${JSON.stringify(transcript)}\n` : transcriptText(transcript, isColoured));
}

function missing(file: string, { task, repeat }: ShowFlags, repeats: number[]): HoldfastError {
  const there = repeats.length > 0 ? `; of that task it has repeat ${repeats.join(", ")}` : "";
  const wanted = repeat === undefined ? `task ${task}` : `task ${task}, repeat ${repeat}`;
  return invalidOption(`${file} has no rollout of ${wanted}${there}`);
}

/** Reads the log of the episode, if it exists. Without it the transcript lacks only the states. */
async function readEvents(file: string, row: TaskRow, url: string | undefined): Promise<NumberedEvent[] | undefined> {
  const session = row["session_id"];
  if (url === undefined && !existsSync(storeFileFor(file))) {
    note(`there is no ${storeFileFor(file)}: the states are left out; --store names another store`);
    return undefined;
  }
  const store = await openStoreFor(file, url);
  try {
    const events = typeof session === "string" ? await logWithParents(store, session) : undefined;
    if (!events) note("the store does not have the session: the states are left out");
    return events;
  } finally {
    await store.close();
  }
}
