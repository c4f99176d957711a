// holdfast serve: environments and agents over HTTP, in one process or in several behind one port.
import cluster from "node:cluster";
import { Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { explainDeath } from "./explain-death.ts";
import { duration, whole } from "./flags.ts";
import { closeOnSignals, explainListen, tokenFor } from "./listening.ts";
import type { Serving } from "../server/serve.ts";
import type { ServingFlags } from "./serving.ts";

interface Flags extends Omit<ServingFlags, "store" | "token" | "peers"> {
  store?: string;
  token?: string;
  workers: number;
}

const example = `
Examples:
  $ npx holdfast serve . --port 8080 --store sqlite:sessions.db
  $ npx holdfast serve environment.ts other/environment.ts --workers 4 \\
      --store sqlite:sessions.db --idle 1h
  $ npx holdfast serve . --model scripted
  $ npx holdfast serve environment.ts agent.ts

Each target is served under /NAME, and the first one also at the root. --model
replaces the model of an agent. The viewer is at /view, and the API is described
at /docs. HOLDFAST_SECRET=new,old signs session cookies with your own key;
without it, a key is kept in the store.`;

export function addServe(program: Command): void {
  program
    .command("serve")
    .description("Serve environments and agents over HTTP: the gym protocol, and a REST API under /v1.")
    .argument("<target...>", "folders, files or packages of environments and agents")
    .option("--port <number>", "port to listen on; 0 chooses a free one", whole(0, 65_535), 8080)
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--store <url>",
      "store of the sessions: memory:, sqlite:FILE, redis://…, postgres://…, s3://…, http://… (default: memory:)",
    )
    .option("--cold <url>", "store for idle sessions, as in s3://bucket/sessions; a call brings them back")
    .option("--cold-after <duration>", "idle time before a session moves to --cold (default: 1h)", duration)
    .option(
      "--workers <number>",
      "processes behind the port; they need a --store that they can share",
      whole(1, 1024),
      1,
    )
    .option("--idle <duration>", "end sessions without a call for this long, as in 30m or 1h", duration)
    .option(
      "--lease <duration>",
      "take over agent turns from another server after it was silent for this long (default: 15s)",
      duration,
    )
    .option(
      "--max-sessions <number>",
      "maximum number of open sessions per environment or agent; beyond it, the longest idle ones end",
      whole(1),
    )
    .option("--log <what>", "requests to log on the error stream: none, failures or all", "failures")
    .addOption(new Option("--token <text>", "bearer token that /v1 and /metrics require").env("HOLDFAST_TOKEN"))
    .option("--allow-origin <origin...>", "sites whose pages may use the server, as in https://app.example")
    .option(
      "--rollouts <number>",
      "maximum number of episodes that requests to /v1/rollouts play at once; 0 does not serve it",
      whole(0, 100_000),
      2_048,
    )
    .option("--queue <url>", "Redis URL of a queue: `holdfast worker` processes run these episodes")
    .option("--allow-model <url...>", "models that such requests may name, beside those on this machine")
    .option("--model <name>", "also play rows that are posted to /run with this model, as in chat:llama3.2")
    .option("--max-steps <number>", "maximum number of model answers in an episode of /run (default: 100)", whole(1))
    .option("--timeout <duration>", "time limit of an episode of /run, as in 10m", duration)
    .addHelpText("after", example)
    .action(run);
}

async function run(targets: string[], given: Flags): Promise<void> {
  const flags = { ...given, store: given.store ?? "memory:" };
  if (!["none", "failures", "all"].includes(flags.log)) {
    throw invalidOption(`--log must be none, failures or all, not ${flags.log}`);
  }
  if (flags.coldAfter !== undefined && flags.cold === undefined) {
    throw invalidOption("--cold-after needs --cold, the store of idle sessions");
  }
  if (flags.workers > 1 && flags.store.startsWith("memory:")) {
    throw invalidOption("workers cannot share memory:; choose another --store, such as sqlite:sessions.db");
  }
  // A worker is the same command, started by the supervisor with the shared port and token.
  const shared = cluster.isWorker ? process.env["HOLDFAST_WORKER"] : undefined;
  const { token, port } = shared === undefined ? flags : (JSON.parse(shared) as Pick<Flags, "token" | "port">);
  const guarded = tokenFor(flags.host, token);
  if (cluster.isPrimary && flags.workers > 1) {
    const { superviseWorkers } = await import("../server/workers.ts");
    return superviseWorkers({ ...flags, token: guarded, announce: (url) => announce(url, given, guarded) });
  }
  const { open } = await import("./serving.ts");
  const start = (peers?: ServingFlags["peers"]): Promise<Serving> =>
    open(targets, { ...flags, port, token: guarded, peers }).catch((thrown: unknown) => {
      throw explainListen(thrown, { host: flags.host, port });
    });
  if (cluster.isWorker) {
    const { askPeers, followSupervisor } = await import("../server/workers.ts");
    return followSupervisor(start(askPeers));
  }
  const serving = await start();
  explainDeath(flags.store);
  // Done before the announcement, because a program that reads it may end the server immediately.
  closeOnSignals(serving);
  announce(serving.url, given, guarded);
}

function announce(url: string, flags: Flags, token: string | undefined): void {
  const made = token !== undefined && flags.token === undefined ? `bearer token ${token}\n` : "";
  const kept =
    flags.store === undefined
      ? "sessions end with this process; --store sqlite:sessions.db keeps them in a file\n"
      : "";
  // Written at once, so that a program that waits for the address finds the token too.
  process.stdout.write(`listening on ${url}\n${made}viewer at ${url}/view, API at ${url}/docs\n${kept}`);
}
