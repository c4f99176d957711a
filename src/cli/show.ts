// holdfast show: prints one episode from a rollouts file as a transcript.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import { cannotLoad, invalidOption, messageOf, type HoldfastError } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { TaskRow } from "../core/rollout.ts";
import { logWithParents } from "../rollout/episode-log.ts";
import { findRollout, buildTranscript, type RolloutChoice } from "../rollout/show.ts";
import { locateStore, openStoreFor, storeHint } from "../rollout/store-location.ts";
import { createComplaints, note } from "./notes.ts";
import { transcriptText } from "./show/text.ts";

const example = `
Examples:
  $ npx holdfast show runs/scripted.jsonl
  $ npx holdfast show runs/scripted.jsonl --task 3 --repeat 1
  $ npx holdfast show runs/scripted.jsonl --failed
  $ npx holdfast show runs/scripted.jsonl --worst

State changes, log lines and stack traces come from the session store: --store,
the store in the run record, or FILE with .db instead of .jsonl. Control
characters are escaped, as in \\u001b. In a terminal, the output has colours
unless NO_COLOR is set.`;

export function add(program: Command): void {
  program
    .command("show")
    .description("Print an episode: messages, tool calls with their results, and the state after each call.")
    .argument("<file>", "rollout file in JSON Lines format")
    .option("--task <number>", "task number (default: the first task)", whole(0))
    .option("--repeat <number>", "repeat number of the task (default: the first)", whole(0))
    .option("--failed", "show the first failed rollout")
    .option("--worst", "show the rollout with the lowest reward")
    .option("--store <url>", "session store, as in sqlite:FILE")
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(show);
}

interface Flags extends RolloutChoice {
  store?: string;
  json?: boolean;
}

async function show(file: string, flags: Flags): Promise<void> {
  const { row, repeats } = await findRollout(file, flags, createComplaints());
  if (!row) throw missing(file, flags, repeats);
  const transcript = buildTranscript(row, await readEvents(file, row, flags.store));
  const { stdout, env } = process;
  const isColoured = stdout.isTTY && !env["NO_COLOR"];
  stdout.write(flags.json ? `${JSON.stringify(transcript)}\n` : transcriptText(transcript, isColoured));
}

function missing(file: string, { task, repeat, failed, worst }: Flags, repeats: number[]): HoldfastError {
  if (task === undefined && repeats.length === 0) return cannotLoad(`${file} has no rollouts`);
  const parts = [task === undefined ? "" : ` of task ${task}`, repeat === undefined ? "" : `, repeat ${repeat}`];
  const what = failed ? "failed rollout" : worst ? "rollout with a reward" : "rollout";
  const there = task !== undefined && repeats.length > 0 ? `; the repeats of that task are ${repeats.join(", ")}` : "";
  return invalidOption(`${file} has no ${what}${parts.join("")}${there}`);
}

/** Reads the episode's log, if it exists. Without it, the transcript lacks only the states. */
async function readEvents(file: string, row: TaskRow, url: string | undefined): Promise<NumberedEvent[] | undefined> {
  const session = row["session_id"];
  const located = locateStore(file);
  if (url === undefined && !located?.isTrusted) {
    note(`states are not shown: ${storeHint(file, located)}`);
    return undefined;
  }
  try {
    const store = await openStoreFor(file, url);
    try {
      const events = typeof session === "string" ? await logWithParents(store, session) : undefined;
      if (!events) note("states are not shown: the store does not have the session");
      return events;
    } finally {
      await store.close();
    }
  } catch (thrown) {
    if (url !== undefined) throw thrown;
    note(
      `states are not shown: cannot read the store ${located?.url}: ${messageOf(thrown)}; name another store with --store`,
    );
    return undefined;
  }
}
