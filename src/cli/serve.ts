// holdfast serve: environments and agents over HTTP, in one process or in several behind one port.
import cluster from "node:cluster";
import { Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { explainDeath } from "../stores/sqlite/explain-death.ts";
import { duration, jsonObject, positive, whole } from "./flags.ts";
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
  $ npx holdfast serve . --proxy chat:Qwen3 --proxy-calls 100

Each target is served under /NAME, and the first one also at the root. --model
replaces an agent's model. The viewer is at /view, and the API documentation at
/docs. To sign session cookies with your own key, set HOLDFAST_SECRET=new,old.
By default, the server keeps a key in the store.`;

export function add(program: Command): void {
  program
    .command("serve")
    .description("Serve environments and agents over HTTP: the gym protocol, and a REST API under /v1.")
    .argument("<target...>", "environments and agents (folders, files or packages)")
    .option("--port <number>", "port to listen on; 0 chooses a free one", whole(0, 65_535), 8080)
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--store <url>",
      "session store: memory:, sqlite:FILE, redis://…, postgres://…, s3://…, http://… (default: memory:)",
    )
    .option(
      "--cold <url>",
      "store for idle sessions, as in s3://bucket/sessions; the next call to a session moves it back",
    )
    .option("--cold-after <duration>", "idle time before a session moves to --cold (default: 1h)", duration)
    .option(
      "--workers <number>",
      "number of server processes on the port; they need a shared --store, such as sqlite:FILE",
      whole(1, 1024),
      1,
    )
    .option("--idle <duration>", "end sessions that had no call for this long, as in 30m or 1h", duration)
    .option(
      "--lease <duration>",
      "take over the agent turns of another server that has not responded for this long (default: 15s)",
      duration,
    )
    .option(
      "--max-sessions <number>",
      "maximum number of open sessions per environment or agent; above it, the sessions idle longest end first",
      whole(1),
    )
    .option("--log <what>", "requests to log to standard error: none, failures or all", "failures")
    .addOption(new Option("--token <text>", "bearer token that /v1 and /metrics require").env("HOLDFAST_TOKEN"))
    .option("--allow-origin <origin...>", "web origins whose pages may use the server, as in https://app.example")
    .option(
      "--rollouts <number>",
      "maximum number of concurrent episodes for /v1/rollouts; 0 disables this API",
      whole(0, 100_000),
      2_048,
    )
    .option("--queue <url>", "Redis URL of a job queue: `holdfast worker` processes run the episodes of /v1/rollouts")
    .option(
      "--allow-model <url...>",
      "model URLs that /v1/rollouts requests may use, in addition to URLs of this machine",
    )
    .option("--model <name>", "also serve POST /run, which runs an episode with this model, as in chat:llama3.2")
    .option(
      "--adk-web <folder>",
      "also serve ADK's web UI from this folder: dist/browser in the package @google/adk-devtools",
    )
    .option("--max-steps <number>", "maximum number of model answers per /run episode (default: 100)", whole(1))
    .option("--timeout <duration>", "time limit per /run episode, as in 10m", duration)
    .option("--proxy <model>", "serve this model, as in chat:Qwen3, to harnesses, and record each exchange")
    .option(
      "--proxy-request <json>",
      "fields to set in each model request, as in '{\"temperature\":0.7}'; a harness cannot change them",
      jsonObject,
    )
    .option("--proxy-calls <number>", "maximum number of model answers per harness episode", whole(1))
    .option("--proxy-tokens <number>", "maximum number of tokens per harness episode", whole(1))
    .option("--proxy-time <duration>", "time limit of a harness, from its first request, as in 10m", duration)
    .option("--proxy-cost <number>", "cost limit per harness episode, if the model's server reports costs", positive)
    .addHelpText("after", example)
    .action(run);
}

async function run(targets: string[], given: Flags): Promise<void> {
  const flags = { ...given, store: given.store ?? "memory:" };
  if (!["none", "failures", "all"].includes(flags.log)) {
    throw invalidOption(`--log must be none, failures or all, not ${flags.log}`);
  }
  if (flags.coldAfter !== undefined && flags.cold === undefined) {
    throw invalidOption("--cold-after needs --cold, which names the store for idle sessions");
  }
  if (flags.proxy === undefined && Object.keys(flags).some((name) => name.startsWith("proxy"))) {
    throw invalidOption("the --proxy-… options need a model to proxy; name it with --proxy MODEL");
  }
  if (flags.workers > 1 && flags.store.startsWith("memory:")) {
    throw invalidOption(
      "--workers needs a store that processes can share, and memory: cannot be shared; choose another --store, such as sqlite:sessions.db",
    );
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
  // Signals are handled before the URL is printed, because a program that reads the URL may immediately stop the server.
  closeOnSignals(serving);
  announce(serving.url, given, guarded);
}

function announce(url: string, flags: Flags, token: string | undefined): void {
  const made = token !== undefined && flags.token === undefined ? `bearer token ${token}\n` : "";
  const kept =
    flags.store === undefined
      ? "sessions are in memory only and are lost when this process ends; --store sqlite:sessions.db keeps them in a file\n"
      : "";
  // Prints everything in one write, so that a program that waits for the URL also finds the token.
  process.stdout.write(`listening on ${url}\n${made}viewer at ${url}/view, API at ${url}/docs\n${kept}`);
}
