// holdfast reverify: computes collected episodes' rewards again, with the current verifier.
import type { Command } from "commander";
import { assertFile } from "../io/private-files.ts";
import { assertFree } from "../rollout/line-output.ts";
import { loadEnvironment } from "../rollout/load.ts";
import { outputPaths } from "../rollout/output.ts";
import { reverifyFile, type ReverifyCounts } from "../rollout/reverify-file.ts";
import { createCounterLine } from "./counter-line.ts";
import { whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { figure } from "./metrics/table.ts";
import { print } from "../io/plain.ts";
import { openStoreFor } from "../rollout/store-location.ts";
import { createComplaints } from "./notes.ts";

const example = `
Examples:
  $ npx holdfast reverify runs/scripted.jsonl --environment . \\
      --out runs/again.jsonl
  $ npx holdfast reverify runs/scripted.jsonl --environment . --every-step \\
      --out runs/steps.jsonl

The command verifies the last state of each episode. It never writes to the
store. It retries episodes whose verify failed, and copies other failures to
OUT_failures.jsonl. With --every-step, each row has step_rewards: a reward for
each version that changed the state. OUT is written only when all episodes are
verified. The exit code is 1 if an episode could not be verified.`;

export function add(program: Command): void {
  program
    .command("reverify")
    .description("Recompute the rewards of stored sessions with the environment's current verify.")
    .argument("<file>", "rollout file in JSON Lines format")
    .addOption(requiredOption("--environment <target>", "environment (folder, file or package)"))
    .addOption(requiredOption("--out <file>", "output file for the rows with the new rewards"))
    .option("--store <url>", "session store (default: the store in the run record, or FILE with .db instead of .jsonl)")
    .option("--every-step", "also compute a reward for every version that changed the state")
    .option("--concurrency <number>", "number of concurrent episodes", whole(1, 10_000), 16)
    .option("--force", "overwrite existing files")
    .option("--json", "print the result as JSON")
    .addHelpText("after", example)
    .action(run);
}

interface Flags {
  environment: string;
  store?: string;
  everyStep?: boolean;
  out: string;
  concurrency: number;
  force?: boolean;
  json?: boolean;
}

async function run(file: string, flags: Flags): Promise<void> {
  const { out, everyStep = false, concurrency } = flags;
  const { rows, failures } = outputPaths(out);
  assertFree([rows, failures], file, flags);
  const environment = await loadEnvironment(flags.environment);
  assertFile(file);
  const store = await openStoreFor(file, flags.store);
  const counting = createCounterLine("episodes judged");
  const options = { store, environment, everyStep, out, concurrency, onBad: createComplaints(), onRow: counting.add };
  const counts = await reverifyFile(file, options).finally(async () => {
    counting.end();
    await store.close();
  });
  if (counts.failed > 0) process.exitCode = 1;
  if (flags.json) return print(JSON.stringify({ file: out, ...counts }));
  print(`${out}: ${inWords(counts, failures)}`);
  if (counts.judged > 0) print(`Compare the rewards: npx holdfast metrics ${file} ${out}`);
}

function inWords(counts: ReverifyCounts, failures: string): string {
  const { judged, changed, new: added, failed, missing, copied, mean_before, mean_after } = counts;
  const lost = missing > 0 ? ` (${missing} sessions are missing from the store; check --store)` : "";
  const parts = [
    `${judged} episodes verified again`,
    changed > 0
      ? `${changed} rewards changed (mean ${figure(mean_before)} before, ${figure(mean_after)} now)`
      : "no reward changed",
    ...(added > 0 ? [`${added} had no reward before`] : []),
    ...(failed > 0 ? [`${failed} could not be verified${lost}: see ${failures}`] : []),
    ...(copied > 0 ? [`${copied} other failures copied unchanged`] : []),
  ];
  return parts.join(", ");
}
