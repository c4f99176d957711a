// Serves the viewer for rollouts files or a store, until it is stopped.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { relative } from "node:path";
import { invalidOption } from "../../core/errors.ts";
import type { Store } from "../../core/store.ts";
import { openCollection } from "../../rollout/collection-index.ts";
import { isTraining } from "../../rollout/curve.ts";
import { collectionFiles } from "../../rollout/list-collections.ts";
import { serve } from "../../server/serve.ts";
import { memoryStore } from "../../stores/memory.ts";
import { closeOnSignals, explainListen, tokenFor } from "../listening.ts";
import { offeredModels } from "../../rollout/offered-models.ts";
import { runBundle } from "./bundle.ts";
import { viewedEnvironments, type Viewed } from "../../rollout/viewed-environments.ts";
import { openCollections, type ViewedCollection } from "../../rollout/viewed-collections.ts";
import { note } from "../rollout-source.ts";

export interface ViewFlags {
  store?: string;
  /** The targets of all uses of the flag. */
  environment?: string[];
  port: number;
  host: string;
  token?: string;
  model?: string;
  open: boolean;
  bundle?: string;
}

export async function runView(given: string[], flags: ViewFlags): Promise<void> {
  const training = given.filter(isTraining);
  const files = given.flatMap(filesIn);
  if (flags.bundle !== undefined) {
    if (files.length === 0)
      throw invalidOption("--bundle needs files of rollouts: npx holdfast view --bundle OUT FILE");
    return runBundle(files, flags.bundle, flags.store);
  }
  if (files.length === 0 && training.length === 0 && flags.store === undefined) {
    throw invalidOption("name files of rollouts, a folder of collections, or a store with --store");
  }
  const { collections, store = memoryStore() } = await openCollections(files, flags.store, note);
  try {
    await serveViewer(collections, training, store, flags);
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}

/** Returns the collections in a folder, or the file itself. */
function filesIn(given: string): string[] {
  if (!existsSync(given) || !statSync(given).isDirectory()) return [given];
  const files = collectionFiles(given).filter((file) => existsSync(file));
  if (files.length > 0 || isTraining(given)) return files;
  throw invalidOption(`the folder ${given} has no collections: no file NAME.jsonl with NAME_run.json beside it`);
}

async function serveViewer(
  collections: ViewedCollection[],
  training: string[],
  store: Store,
  flags: ViewFlags,
): Promise<void> {
  const viewed = await viewedEnvironments({ targets: flags.environment ?? [], collections, store });
  if (collections.length === 0 && viewed.length === 0 && training.length === 0) {
    throw invalidOption("the store has no sessions; name an environment with --environment to start some");
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
    // Uses a temporary key, because a viewed store is not changed.
    secret: randomBytes(32).toString("base64url"),
  }).catch((thrown: unknown) => {
    throw explainListen(thrown, flags);
  });
  // Done before the announcement, because a program that reads it may end the server immediately.
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
  // Written at once, so that a program that waits for the address finds the token too.
  process.stdout.write(`${lines.join("\n")}\n`);
  if (flags.open && process.stdout.isTTY) openBrowser(url);
}

/** Describes each collection and environment. */
function describeAll(collections: ViewedCollection[], viewed: Viewed[]): string[] {
  const lines = collections.map(({ details: { file, sessions } }) =>
    sessions ? `${file}, with its sessions` : `${file}, without states: its sessions are in no known store`,
  );
  for (const { environment, target, recorded = "TARGET" } of viewed) {
    const missing = `without its code, so it cannot be played; add --environment ${recorded}`;
    lines.push(`${environment.name}, ${target === undefined ? missing : `with the code of ${shown(target)}`}`);
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
