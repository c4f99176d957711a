// holdfast view: opens the viewer on rollouts files or on a store, or writes it with its data as a folder of files.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join, relative } from "node:path";
import { Option, type Command } from "commander";
import { cannotLoad, HoldfastError, invalidOption } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { writeBundle } from "../rollout/bundle.ts";
import { openCollection } from "../rollout/collection-index.ts";
import { assertNoTrainerFile, isTraining } from "../rollout/curve.ts";
import { readLog } from "../rollout/episode-log.ts";
import { finishedRollouts } from "../rollout/finished.ts";
import { filesOf } from "../rollout/list-collections.ts";
import { offeredModels } from "../rollout/offered-models.ts";
import { openCollections, type ViewedCollection } from "../rollout/viewed-collections.ts";
import { viewedEnvironments, type Viewed } from "../rollout/viewed-environments.ts";
import { serve } from "../server/serve.ts";
import { packageVersion } from "../server/version.ts";
import { viewerFolder } from "../server/viewer.ts";
import { memoryStore } from "../stores/memory.ts";
import { createCounterLine } from "./counter-line.ts";
import { whole } from "./flags.ts";
import { closeOnSignals, explainListen, tokenFor } from "./listening.ts";
import { createComplaints, note } from "./notes.ts";

const example = `
Examples:
  $ npx holdfast view runs
  $ npx holdfast view runs/scripted.jsonl --environment .
  $ npx holdfast view runs/before.jsonl runs/after.jsonl
  $ npx holdfast view --store sqlite:sessions.db --environment .
  $ npx holdfast view --bundle site runs/*.jsonl

A folder means all collections in it. Sessions come from --store, from the store
in the run record, or from FILE with .db instead of .jsonl. The viewer runs only
the code that --environment names. Without it, you can read and fork episodes,
but not call tools. A bundle needs no server: open its index.html.`;

const more = (value: string, before: string[] = []): string[] => [...before, value];

export function add(program: Command): void {
  program
    .command("view")
    .description("Show rollouts and sessions in a browser: episodes, the state after each step, and metrics.")
    .argument("[files...]", "rollout files in JSON Lines format, or folders of collections or training runs")
    .option("--store <url>", "session store, as in sqlite:FILE; without files, the viewer shows all its sessions")
    .option(
      "--environment <target>",
      "environment whose code continues episodes: a folder, file or package (repeatable)",
      more,
    )
    .option("--model <name>", "model that can continue episodes, as in chat:llama3.2")
    .option("--port <number>", "port to listen on; 0 chooses a free one", whole(0, 65_535), 0)
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .addOption(new Option("--token <text>", "bearer token that /v1 and /metrics require").env("HOLDFAST_TOKEN"))
    .option("--no-open", "do not open a browser")
    .option("--bundle <folder>", "write a static copy of the viewer to this folder, and exit")
    .addHelpText("after", example)
    .action(run);
}

interface Flags {
  store?: string;
  /** The values of all --environment options. */
  environment?: string[];
  port: number;
  host: string;
  token?: string;
  model?: string;
  open: boolean;
  bundle?: string;
}

async function run(given: string[], flags: Flags): Promise<void> {
  const training = given.filter(isTraining);
  const files = given.flatMap(filesIn);
  for (const file of files) await assertNoTrainerFile(file);
  if (flags.bundle !== undefined) {
    if (files.length === 0) throw invalidOption("--bundle needs rollout files: npx holdfast view --bundle OUT FILE");
    return writeFiles(files, flags.bundle, flags.store);
  }
  if (files.length === 0 && training.length === 0 && flags.store === undefined) {
    throw invalidOption("name rollout files, a folder of collections, or a store with --store");
  }
  const { collections, store = memoryStore() } = await openCollections(files, flags.store, note);
  try {
    await assertRows(collections);
    await serveViewer(collections, training, store, flags);
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}

function filesIn(given: string): string[] {
  try {
    return filesOf(given);
  } catch (thrown) {
    if (!(thrown instanceof HoldfastError)) throw thrown;
    throw invalidOption(`${thrown.message} and no metrics.jsonl of a trainer`);
  }
}

/** Refuses a file without rollouts, unless its record says that a collection may still write some. */
async function assertRows(collections: ViewedCollection[]): Promise<void> {
  for (const { details, record } of collections) {
    if (!record && !(await hasRows(details.file))) throw cannotLoad(`${details.file} has no rollouts`);
  }
}

async function hasRows(file: string): Promise<boolean> {
  for await (const _ of finishedRollouts(file, () => undefined)) return true;
  return false;
}

/** Writes a bundle from the given files, and reports its contents. */
async function writeFiles(files: string[], out: string, storeUrl: string | undefined): Promise<void> {
  const { collections, store } = await openCollections(files, storeUrl, note);
  const counting = createCounterLine("rows written");
  let long = 0;
  try {
    await assertRows(collections);
    const written = await writeBundle({
      out,
      page: viewerFolder,
      version: packageVersion(),
      collections: collections.map(({ details }) => details),
      events: async (session) => store && readLog(store, session),
      onRow: counting.add,
      onBad: createComplaints(),
      onLongLog: () => void long++,
    });
    counting.end();
    for (const { file, rows, sessions } of written) {
      process.stdout.write(
        `${file}: ${rows} rows${sessions ? "" : ", without states (the sessions were not found)"}\n`,
      );
    }
    if (long > 0) note(`${long} sessions have too many events for a page, so their states are not included`);
    process.stdout.write(`Open ${join(out, "index.html")} in a browser\n`);
  } finally {
    counting.end();
    await store?.close();
  }
}

async function serveViewer(
  collections: ViewedCollection[],
  training: string[],
  store: Store,
  flags: Flags,
): Promise<void> {
  const viewed = await viewedEnvironments({ targets: flags.environment ?? [], collections, store });
  if (collections.length === 0 && viewed.length === 0 && training.length === 0) {
    throw invalidOption("the store has no sessions; name an environment with --environment to create some");
  }
  const solutions = viewed.flatMap(({ environment: { name }, solution }) =>
    solution ? [[name, solution] as const] : [],
  );
  const isPlayable = viewed.some(({ target }) => target !== undefined);
  const { host, port } = flags;
  const token = tokenFor(host, flags.token);
  const serving = await serve({
    store,
    host,
    port,
    token,
    environments: viewed.map(({ environment }) => environment),
    bare: new Set(viewed.flatMap(({ environment, target }) => (target === undefined ? environment.name : []))),
    ...(isPlayable && { models: await offeredModels(new Map(solutions), flags.model) }),
    collections: collections.map(({ details }) => openCollection(details)),
    training,
    // Signs cookies with a temporary key, because a key in the store would change a store that is only viewed.
    secret: randomBytes(32).toString("base64url"),
  }).catch((thrown: unknown) => {
    throw explainListen(thrown, flags);
  });
  // Signals are handled before the URL is printed, because a program that reads the URL may immediately stop the server.
  closeOnSignals({
    async close() {
      await serving.close();
      await store.close();
    },
  });
  const start = training.length > 0 ? "#at=training" : collections.length === 1 ? "#at=runs/0" : "";
  const url = `${serving.url}/view/${start}`;
  const curves = training.map((folder) => `${folder}, a training run`);
  const lines = [...describeAll(collections, viewed), ...curves, `viewer at ${url}`];
  if (token !== undefined && flags.token === undefined) lines.push(`bearer token ${token}`);
  // Prints everything in one write, so that a program that waits for the URL also finds the token.
  process.stdout.write(`${lines.join("\n")}\n`);
  if (flags.open && process.stdout.isTTY) openBrowser(url);
}

/** Returns a line for each collection and each environment. */
function describeAll(collections: ViewedCollection[], viewed: Viewed[]): string[] {
  const lines = collections.map(({ details: { file, sessions } }) =>
    sessions ? `${file}, with states` : `${file}, without states (its sessions were not found)`,
  );
  for (const { environment, target, recorded = "TARGET" } of viewed) {
    const missing = `its code is not loaded, so episodes cannot be continued; add --environment ${recorded}`;
    lines.push(environment.name + (target === undefined ? `: ${missing}` : `, with the code in ${shown(target)}`));
  }
  return lines;
}

const shown = (target: string): string => (target.startsWith("/") ? relative(process.cwd(), target) || "." : target);

const browsers: { [platform: string]: [string, ...string[]] } = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};

/** Opens an address in the user's browser. Ignores failures, because the address is printed in any case. */
function openBrowser(url: string): void {
  const [command, ...words] = browsers[process.platform] ?? ["xdg-open"];
  const child = spawn(command, [...words, url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
