// Finds an episode and its log, and prints them.
import { cannotLoad, invalidOption, messageOf, type HoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { logWithParents } from "../../rollout/episode-log.ts";
import { findRollout, buildTranscript, type RolloutChoice } from "../../rollout/show.ts";
import { locateStore } from "../../rollout/store-location.ts";
import { createComplaints, note, openStoreFor, storeHint } from "../rollout-source.ts";
import { transcriptText } from "./text.ts";

export interface ShowFlags extends RolloutChoice {
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

function missing(file: string, { task, repeat, failed, worst }: ShowFlags, repeats: number[]): HoldfastError {
  if (task === undefined && repeats.length === 0) return cannotLoad(`${file} has no rollouts`);
  const parts = [task === undefined ? "" : ` of task ${task}`, repeat === undefined ? "" : `, repeat ${repeat}`];
  const what = failed ? "failed rollout" : worst ? "rollout with a reward" : "rollout";
  const there = task !== undefined && repeats.length > 0 ? `; it has repeat ${repeats.join(", ")} of that task` : "";
  return invalidOption(`${file} has no ${what}${parts.join("")}${there}`);
}

/** Reads the episode's log, if it exists. Without it, the transcript lacks only the states. */
async function readEvents(file: string, row: TaskRow, url: string | undefined): Promise<NumberedEvent[] | undefined> {
  const session = row["session_id"];
  const located = locateStore(file);
  if (url === undefined && !located?.isTrusted) {
    note(`the states are left out: ${storeHint(file, located)}`);
    return undefined;
  }
  try {
    const store = await openStoreFor(file, url);
    try {
      const events = typeof session === "string" ? await logWithParents(store, session) : undefined;
      if (!events) note("the states are left out: the store does not have the session");
      return events;
    } finally {
      await store.close();
    }
  } catch (thrown) {
    if (url !== undefined) throw thrown;
    note(
      `the states are left out: ${located?.url} cannot be read: ${messageOf(thrown)}; name another store with --store`,
    );
    return undefined;
  }
}
