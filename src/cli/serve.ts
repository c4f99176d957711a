// holdfast serve: environments and agents over HTTP, in one process or in several behind one port.
import cluster from "node:cluster";
import { Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { duration, whole } from "./flags.ts";
import { closeOnSignals, tokenFor } from "./listening.ts";
import type { ServingFlags } from "./serving.ts";

interface Flags extends Omit<ServingFlags, "token" | "peers"> {
  token?: string;
  workers: number;
}

const example = `
Examples:
  $ npx holdfast serve . --port 8080 --store sqlite:sessions.db
  $ npx holdfast serve thermostat mail-room --workers 4 \\
      --store sqlite:runs.db --idle 1h
  $ npx holdfast serve . --model scripted
  $ npx holdfast serve thermostat shopping-list

Each is served under /NAME, the first one also at the root. On an agent --model
takes the place of its own. The viewer is at /view.
HOLDFAST_SECRET=new,old signs session cookies with a key of your own; by default
one is kept in the store.`;

export function addServe(program: Command): void {
  program
    .command("serve")
    .description("Serve environments and agents over HTTP: the gym protocol, and a REST API under /v1.")
    .argument("<target...>", "folders, files or packages with an environment or an agent")
    .option("--port <number>", "where to listen; 0 picks a free port", whole(0, 65_535), 8080)
    .option("--host <address>", "the address to listen on", "127.0.0.1")
    .option(
      "--store <url>",
      "where sessions live: memory:, sqlite:FILE, redis://…, postgres://…, s3://…, http://…",
      "memory:",
    )
    .option(
      "--cold <url>",
      "a store for sessions that are idle, as in s3://bucket/sessions; they come back when called",
    )
    .option("--cold-after <duration>", "how long they are idle before they move; by default 1h", duration)
    .option("--workers <number>", "processes behind the port; they need a store that they can share", whole(1, 1024), 1)
    .option("--idle <duration>", "end sessions that nobody called for this long, as in 30m or 1h", duration)
    .option("--lease <duration>", "continue turns of a server that is silent for this long; by default 15s", duration)
    .option("--max-sessions <number>", "open sessions of an environment or agent; the longest idle make room", whole(1))
    .option("--log <what>", "requests to log on the error stream: none, failures or all", "failures")
    .addOption(new Option("--token <text>", "the bearer token that /v1 and /metrics want").env("HOLDFAST_TOKEN"))
    .option("--allow-origin <origin...>", "sites whose pages may use the server, as in https://app.example")
    .option(
      "--model <name>",
      "also be an agent: play the row that is posted to /run with this model, as in chat:llama3.2",
    )
    .option("--max-steps <number>", "answers of the model in an episode of /run; by default 100", whole(1))
    .option("--timeout <duration>", "how long an episode of /run may take, as in 10m", duration)
    .addHelpText("after", example)
    .action(run);
}

async function run(targets: string[], flags: Flags): Promise<void> {
  if (!["none", "failures", "all"].includes(flags.log)) {
    throw invalidOption(`--log is none, failures or all, not ${flags.log}`);
  }
  if (flags.coldAfter !== undefined && flags.cold === undefined) {
    throw invalidOption("--cold-after goes with --cold, the store that idle sessions move to");
  }
  if (flags.workers > 1 && flags.store.startsWith("memory:")) {
    throw invalidOption("workers cannot share memory:; give them a --store such as sqlite:runs.db");
  }
  // A worker is the same command, started by the supervisor with the shared port and token.
  const given = cluster.isWorker ? process.env["HOLDFAST_WORKER"] : undefined;
  const { token, port } = given === undefined ? flags : (JSON.parse(given) as Pick<Flags, "token" | "port">);
  const guarded = tokenFor(flags.host, token);
  if (cluster.isPrimary && flags.workers > 1) {
    const { superviseWorkers } = await import("../server/workers.ts");
    return superviseWorkers({ ...flags, token: guarded, announce: (url) => announce(url, flags, guarded) });
  }
  const { open } = await import("./serving.ts");
  if (cluster.isWorker) {
    const { askPeers, followSupervisor } = await import("../server/workers.ts");
    return followSupervisor(open(targets, { ...flags, port, token: guarded, peers: askPeers }));
  }
  const serving = await open(targets, { ...flags, port, token: guarded });
  // Before the announcement: a reader of it may end the server at once.
  closeOnSignals(serving);
  announce(serving.url, flags, guarded);
}

function announce(url: string, flags: Flags, token: string | undefined): void {
  const made = token !== undefined && flags.token === undefined ? `bearer token ${token}\n` : "";
  // In one write: a program that waits for the address finds the token too.
  process.stdout.write(`listening on ${url}\n${made}`);
}
