// collectRollouts(): creates one collection, from its settings to its files. `holdfast collect` adds a progress line.
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { cannotLoad, HoldfastError, invalidOption } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { Store } from "../core/store.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { assertNoFolder } from "../io/private-files.ts";
import { openStore, reachStore } from "../stores/open.ts";
import { collect, type Collected, type CollectOptions } from "./collect.ts";
import { isUrl, type CollectionSettings, type RandomSeedPolicy, type Target } from "./collection-settings.ts";
import { forgetIn } from "./forget.ts";
import type { HarnessServer } from "./harness/server.ts";
import { locate } from "./load.ts";
import { createMetrics, type CollectionMetrics } from "./metrics.ts";
import { claimOutput } from "./output-lock.ts";
import { fileOutput, outputPaths, storeFileFor, writeWhole } from "./output.ts";
import { assertHarness, assertRequest } from "./prepare.ts";
import { buildRecord } from "./build-record.ts";
import { writeRecord, type CollectionRecord, type CollectionSummary } from "./collection-record.ts";
import { openPlaySource, type OnEvent, type Player, type Source } from "./source.ts";
import { describeStore, storeToResume } from "./store-location.ts";
import { countLines, readRows } from "./tasks.ts";
import { createTree } from "./tree.ts";
import { finishedRollouts } from "./finished.ts";

/** Observes a collection. */
export type CollectionHooks = Pick<
  CollectOptions,
  "signal" | "onStart" | "onRow" | "onRetry" | "onFewer" | "onRunning"
> & {
  /** Called with the events of conversations that run in this process. */
  onEvent?: OnEvent | undefined;
  /** Called with the errors that the author's code throws in this process, with their stack traces. */
  onError?: ((error: Thrown) => void) | undefined;
  /** Called once, before the first rollout, with the total number of rollouts. */
  onPlan?: ((total: number) => void) | undefined;
  /** Opens the server that a harness talks to. Required with `harness`. */
  harnessServer?: HarnessServer | undefined;
  /** Runs the rollouts elsewhere, for example on a queue. Default: in this process. */
  playerFor?: ((record: CollectionRecord) => Promise<Player>) | undefined;
};

export interface CollectionResult extends Collected {
  metrics: CollectionMetrics;
}

type Settings = Partial<CollectionSettings> & { out: string; environment?: Target | undefined } & CollectionHooks;

const defaults = { model: "scripted", repeats: 1, concurrency: 32, attempts: 3, seed: 0 };

/** Milliseconds that a player may take to stop. A handler that ignores its signal may still be running afterwards. */
const stopWithin = 2_000;

/**
 * Runs an environment's tasks with a model or an agent and writes the scored rows to `out`. Failures, metrics and the
 * settings are written next to it. `resume: true` continues a collection that was stopped or killed. It has the
 * settings of `holdfast collect`; the environment, the model and the agent may also be objects.
 *
 * @example
 * const { scored, metrics } = await collectRollouts({
 *   environment: "examples/counter", // or the environment itself
 *   model: "chat:llama3.2", // or a Model
 *   repeats: 4,
 *   out: "runs/counter.jsonl",
 * });
 */
export async function collectRollouts(given: Settings): Promise<CollectionResult> {
  const { environment, harnessServer, ...rest } = given;
  const settings = { ...defaults, ...rest };
  assertRequest(settings);
  assertHarness(settings);
  if (settings.queue !== undefined && !settings.playerFor)
    throw invalidOption("a queue needs a player; pass `playerFor`, or use `holdfast collect`");
  // Tasks are read later, one by one, because they may not fit in memory.
  const source = await openPlaySource(environment, settings, harnessServer);
  const tasks = await findTasks(environment, settings);
  // Lock before checking for output. Otherwise two collections could both find none and start.
  const lock = await claimOutput(settings.out);
  try {
    return await collectLocked(environment, source, tasks, settings);
  } finally {
    lock.release();
  }
}

async function collectLocked(
  target: Target | undefined,
  source: Source,
  tasks: string,
  settings: CollectionSettings & CollectionHooks,
): Promise<CollectionResult> {
  const { out, seed, limit, repeats, branch: branches = [], onPlan, onEvent, onError, playerFor } = settings;
  const record = await buildRecord(target, source.environment, tasks, settings);
  const lines = await countLines(tasks, limit);
  if (lines === 0) throw new HoldfastError("invalid_task", `${tasks} has no tasks; write one JSON object per line`);
  onPlan?.(lines * repeats * createTree(branches).leaves(0));
  const url = settings.store ?? settings.queue ?? storeToResume(out) ?? source.store ?? `sqlite:${storeFileFor(out)}`;
  const store: Store = await openStore(url);
  try {
    // Fails now if the store cannot be reached. Otherwise every rollout would fail.
    await reachStore(store);
    const player = playerFor ? await playerFor(record) : source.player(store, { onEvent, onError });
    const located = {
      ...record,
      ...locateCode(target, settings),
      ...describeStore(url, out),
      ...nameAgent(source, settings),
    };
    await writeRecord(outputPaths(out).run, located);
    const collected = await collect({
      ...settings,
      output: fileOutput(out),
      randomSeed: record.settings["random-seed"] as RandomSeedPolicy,
      branches,
      run: record.run,
      tasks: readRows(tasks),
      prepare: source.prepare,
      play: player.play,
      forget: forgetIn(store),
    });
    const metrics = await writeMetrics(out, source.agent, seed);
    await writeRecord(outputPaths(out).run, { ...located, result: summarize(metrics, collected.stopped) });
    await Promise.race([player.stop(), delay(stopWithin, undefined, { ref: false })]);
    return { ...collected, metrics };
  } finally {
    await store.close();
  }
}

function summarize(
  { tasks, rollouts, scored, failures, estimates }: CollectionMetrics,
  stopped: boolean,
): CollectionSummary {
  const reward = estimates.find(({ name }) => name === "mean/reward")?.value ?? null;
  const at = new Date().toISOString();
  return {
    tasks: tasks.length,
    rollouts,
    scored,
    failed: failures.reduce((sum, { count }) => sum + count, 0),
    reward,
    at,
    ...(stopped && ({ stopped } as const)),
  };
}

async function findTasks(target: Target | undefined, { tasks, out }: CollectionSettings): Promise<string> {
  if (tasks === undefined && typeof target !== "string") throw invalidOption("name a tasks file with --tasks");
  const file = tasks ?? join(dirname(await locate(target as string, "environment")), "tasks.jsonl");
  if (resolve(file) === resolve(out)) throw invalidOption("--out must not be the tasks file");
  assertNoFolder(file);
  if (existsSync(file)) return file;
  throw cannotLoad(`the tasks file ${file} does not exist; name one with --tasks`);
}

/**
 * Returns the name or URL of the agent given with `--agent`, which `holdfast runs` shows. It is kept outside the
 * settings, which identify an agent by the digest of its file.
 */
function nameAgent({ agent: name }: Source, { agent }: CollectionSettings): { agent?: string } {
  if (agent === undefined) return {};
  return { agent: isUrl(agent) ? hideSecrets(agent) : name };
}

/** Returns the location of the code, for readers of the collection. It is not a setting, because the code may move. */
function locateCode(target: Target | undefined, { out, server, agent }: CollectionSettings): { target?: string } {
  if (typeof target !== "string" || server !== undefined || isUrl(agent)) return {};
  if (!existsSync(target)) return { target };
  const way = relative(resolve(dirname(out)), resolve(target)).replaceAll("\\", "/");
  return { target: isAbsolute(way) || way.startsWith("..") ? way : `./${way}` };
}

async function writeMetrics(out: string, agent: string, seed: number): Promise<CollectionMetrics> {
  const metrics = createMetrics({ seed });
  // Invalid lines are ignored, because this collection did not write them.
  for await (const { row } of finishedRollouts(out, () => undefined)) metrics.add(row);
  const result = metrics.result();
  const { agent_metrics, key_metrics, pass_metrics } = result;
  const entry = { agent_ref: { name: agent }, agent_metrics: { ...agent_metrics, ...pass_metrics }, key_metrics };
  const opening = JSON.stringify([{ ...entry, group_level_metrics: [] }], null, 2).replace(/\[\]\s*\}\s*\]$/, "[");
  const planned = new Map<number, number>();
  for await (const read of readRows(outputPaths(out).inputs)) {
    const task = "row" in read ? Number(read.row["_ng_task_index"]) : Number.NaN;
    planned.set(task, (planned.get(task) ?? 0) + 1);
  }
  await writeWhole(
    outputPaths(out).metrics,
    toText(
      opening,
      metrics.groups((task) => planned.get(task)),
    ),
  );
  return result;
}

/** Yields one group at a time, because all groups together would need as much memory as all rows. */
function* toText(opening: string, groups: Iterable<unknown>): Generator<string> {
  yield opening;
  let separator = "\n";
  for (const group of groups) {
    yield `${separator}      ${JSON.stringify(group)}`;
    separator = ",\n";
  }
  yield "\n    ]\n  }\n]\n";
}
