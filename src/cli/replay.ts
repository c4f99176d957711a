// holdfast replay: runs stored episodes' calls again, and names the first event that differs.
import type { Command } from "commander";
import { cannotLoad } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { readLog } from "../rollout/episode-log.ts";
import { loadEnvironment } from "../rollout/load.ts";
import { replayEpisodes } from "../rollout/replay.ts";
import { createSessions } from "../session/sessions.ts";
import { createCounterLine } from "./counter-line.ts";
import { requiredOption } from "./help.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { print } from "../io/plain.ts";
import { openStoreFor } from "../rollout/store-location.ts";
import { createComplaints } from "./notes.ts";

const example = `
Examples:
  $ npx holdfast replay runs/scripted.jsonl --environment .
  $ npx holdfast replay --store sqlite:runs/scripted.db --environment .

The command repeats the seeds and tool calls in the log. External tools do not
run: their results come from the log. Without a file, the command replays all
sessions of the environment in the store. It never writes to the store. The exit
code is 1 if an episode differs or is missing from the store.`;

export function add(program: Command): void {
  program
    .command("replay")
    .description("Repeat the tool calls of stored episodes, and report the first event that differs.")
    .argument("[file]", "rollout file in JSON Lines format")
    .addOption(requiredOption("--environment <target>", "environment (folder, file or package)"))
    .option("--store <url>", "session store (default: the store in the run record, or FILE with .db instead of .jsonl)")
    .option("--json", "print one line of JSON per episode")
    .addHelpText("after", example)
    .action(run);
}

interface Flags {
  environment: string;
  store?: string;
  json?: boolean;
}

/** List at most this many missing sessions; with a wrong --store every one is missing. */
const mostMissing = 3;

async function run(file: string | undefined, flags: Flags): Promise<void> {
  const environment = await loadEnvironment(flags.environment);
  const store = await openStoreFor(file, flags.store);
  const counting = createCounterLine("episodes replayed");
  const counts = { same: 0, differs: 0, missing: 0 };
  const sessions = createSessions({ environment, store });
  try {
    for await (const episode of replayEpisodes(sessions, file, createComplaints())) {
      const { name, result } = episode;
      counts[result]++;
      counting.add();
      if (flags.json) print(JSON.stringify(episode));
      else if (result === "differs" || (result === "missing" && counts.missing <= mostMissing)) {
        counting.end();
        const whose = result === "missing" ? await findOwner(store, episode.session) : undefined;
        const missing =
          whose === undefined
            ? `the store does not have this episode of ${environment.name}`
            : `it belongs to ${whose}, not to ${environment.name}; choose another --environment or --store`;
        print(`${name}: ${result === "missing" ? missing : episode.message}`);
      }
    }
  } finally {
    counting.end();
    await sessions.stop();
    await store.close();
  }
  const { same, differs, missing } = counts;
  if (same + differs + missing === 0) {
    const where = file ?? hideSecrets(flags.store ?? "");
    throw cannotLoad(`${where} has no episodes of ${environment.name}; check the file, --store and --environment`);
  }
  if (differs + missing > 0) process.exitCode = 1;
  const parts = [
    `${same + differs + missing} episodes replayed: ${same} identical`,
    differs > 0 && `${differs} differ`,
    missing > 0 && `${missing} missing from the store`,
  ];
  print(flags.json ? JSON.stringify(counts) : parts.filter(Boolean).join(", "));
}

/** Returns the environment of a session; undefined if the store does not have the session. */
async function findOwner(store: Store, session: string): Promise<string | undefined> {
  const [first] = (session === "" ? undefined : await readLog(store, session)) ?? [];
  return first?.type === "session.opened" ? first.environment : undefined;
}
