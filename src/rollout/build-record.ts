// buildRecord(): describes a collection's settings and decides whether its existing files may be resumed.
import { createHash, randomUUID } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { dirname } from "node:path";
import { cannotLoad, invalidOption, messageOf } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { outputPaths } from "./output.ts";
import { differences, readRecord, type CollectionRecord } from "./collection-record.ts";
import { readRows, createNumbering, taskDigest, type BadRow, type ReadRow } from "./tasks.ts";
import type { Branching } from "./tree.ts";
import { fileIn, locate } from "./load.ts";
import { isUrl, type CollectionSettings, type RandomSeedPolicy, type Target } from "./collection-settings.ts";
import type { TaskRow } from "../core/rollout.ts";

type Settings = CollectionRecord["settings"];

/** Builds this collection's record. Refuses to resume a different collection. */
export async function buildRecord(
  target: Target | undefined,
  name: string,
  tasks: string,
  flags: CollectionSettings,
): Promise<CollectionRecord> {
  const { rows, inputs, failures, run } = outputPaths(flags.out);
  // Tasks are checked first, because the error about settings suggests --force, which does not help with changed tasks.
  const assertTasks = (systems: (Json | undefined)[] = []): Promise<void> =>
    assertSameTasks(
      inputs,
      tasks,
      flags,
      [flags.system, ...systems].filter((system) => system !== undefined),
    );
  const before = await readEarlierRecord(run, flags, assertTasks);
  const randomSeed = flags.randomSeed ?? (before ? defaultOf(before) : "per-task");
  const settings = await buildSettings(target, name, tasks, { ...flags, randomSeed });
  const there = [rows, inputs, failures].find((file) => existsSync(file));
  if (!before && there === undefined) return { run: randomUUID(), settings };
  if (!flags.resume)
    throw invalidOption(`${there ?? run} already exists; continue it with --resume, or choose another --out`);
  const changed = before && differences({ "random-seed": defaultOf(before), ...before.settings }, settings);
  if (changed?.length !== 0 || flags.force) await assertTasks([before?.settings["system"]]);
  if (flags.force || changed?.length === 0) return { run: before?.run ?? randomUUID(), settings };
  throw invalidOption(
    changed
      ? `${flags.out} was collected with different settings: ${changed.join("; ")}. Use the same settings, or --force`
      : `${run} is missing, so the settings of ${there} are unknown. Choose another --out, or use --force`,
  );
}

/** Returns the default for --random-seed. Collections of version 0.1 had no such setting, and resume as they began. */
const defaultOf = ({ settings }: CollectionRecord): RandomSeedPolicy =>
  settings["random-seed"] === undefined ? "per-rollout" : "per-task";

/** Reads the record next to existing files. With --resume --force, an unreadable record is ignored. */
async function readEarlierRecord(
  file: string,
  { resume, force }: CollectionSettings,
  assertTasks: () => Promise<void>,
): Promise<CollectionRecord | undefined> {
  try {
    return readRecord(file);
  } catch (thrown) {
    if (resume && force) return undefined;
    await assertTasks();
    const message = `${messageOf(thrown)}. Choose another --out, or continue with --resume --force`;
    throw cannotLoad(message, thrown);
  }
}

/**
 * Refuses changed tasks, even with --force. Otherwise one task number would mean two tasks, and an episode could
 * continue with a task that it did not start with.
 */
async function assertSameTasks(
  inputs: string,
  tasks: string,
  { out, limit }: CollectionSettings,
  systems: (Json | undefined)[],
): Promise<void> {
  if (!existsSync(inputs)) return;
  const changed = await changedTask(readRows(inputs), readRows(tasks), { limit, systems });
  if (!changed) return;
  const { task, line } = changed;
  throw invalidOption(
    `task ${task}, on line ${line} of ${tasks}, has changed since ${out} was collected. Choose another --out`,
  );
}

/**
 * Returns the settings that outcomes depend on, including the time limit. Concurrency, attempts and location may change
 * later, so they are not among them.
 */
async function buildSettings(
  target: Target | undefined,
  environment: string,
  tasks: string,
  flags: CollectionSettings,
): Promise<Settings> {
  const { repeats, branch, model, seed, randomSeed = null } = flags;
  const { maxSteps = null, temperature = null, limit = null, timeout = null } = flags;
  return {
    tasks: await digestFile(tasks),
    environment,
    ...(await digestFiles(target, flags)),
    ...(branch && { branches: formatBranches(branch) }),
    model: toModelName(model),
    repeats,
    limit,
    seed,
    "random-seed": randomSeed,
    temperature,
    ...requestSettings(flags),
    "max-steps": maxSteps,
    timeout,
  };
}

/** Returns the settings that records of earlier versions do not have, if the settings are given. */
function requestSettings(flags: CollectionSettings): Settings {
  const { topP, maxTokens, maxTotalTokens, maxCost, system, request, labels, harness } = flags;
  return {
    ...(harness !== undefined && { harness }),
    ...(maxTotalTokens !== undefined && { "max-total-tokens": maxTotalTokens }),
    ...(maxCost !== undefined && { "max-cost": maxCost }),
    ...(topP !== undefined && { "top-p": topP }),
    ...(maxTokens !== undefined && { "max-tokens": maxTokens }),
    ...(system !== undefined && { system }),
    ...(request && { request }),
    ...(labels && { labels }),
  };
}

/** Returns digests of the files used to run episodes. They must be equal on every machine that runs episodes. */
export async function digestFiles(target: Target | undefined, flags: FileFlags): Promise<Settings> {
  return {
    // Modules imported by the environment's file are not covered.
    "environment's file": typeof target === "string" ? await digestFile(await locate(target, "environment")) : null,
    agent: await describeAgent(flags),
    ...(await findSource(target, flags)),
  };
}

/** Returns the agent's URL, the digest of its file, or the name of an agent object. */
async function describeAgent({ agent }: FileFlags): Promise<string | null> {
  if (typeof agent !== "string") return agent?.name ?? null;
  return isUrl(agent) ? agent : digestFile(await locate(agent, "agent"));
}

/** Returns a model's name, as records and titles show it. */
const toModelName = (model: CollectionSettings["model"]): string => (typeof model === "string" ? model : model.name);

type FileFlags = Pick<CollectionSettings, "model" | "agent">;

/** Describes where the model's answers come from, if that is a local file or a custom server. */
async function findSource(target: Target | undefined, { model, agent }: FileFlags): Promise<Settings> {
  if (typeof model !== "string") return {};
  const [, recording] = /^recorded:(.+)$/.exec(model) ?? [];
  if (recording !== undefined && existsSync(recording)) return { recording: await digestFile(recording) };
  if (model === "scripted" && agent === undefined && typeof target === "string" && !isUrl(target)) {
    const file = fileIn(dirname(await locate(target, "environment")), "solution");
    return file === undefined ? {} : { solution: await digestFile(file) };
  }
  const variable = model.startsWith("anthropic:") ? "ANTHROPIC_BASE_URL" : "OPENAI_BASE_URL";
  const url = /^(openai|chat|anthropic):/.test(model) ? process.env[variable] : undefined;
  // Records only the host, because the URL may contain a password.
  return url !== undefined && URL.canParse(url) ? { server: new URL(url).host } : {};
}

/** Formats the branches in the order of their steps, whatever order they were given in. */
function formatBranches(branches: Branching[]): string {
  const sorted = [...branches].sort((a, b) => a.step - b.step);
  return sorted.map(({ ways, step }) => `${ways}@${step}`).join(" ");
}

async function digestFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return `sha256:${hash.digest("hex").slice(0, 16)}`;
}

type Rows = AsyncIterable<ReadRow | BadRow>;

/**
 * Returns the first task that differs from the input stored under its number. Tasks present in only one file are
 * ignored. `systems`: system prompts from a setting, now and before. They replace the tasks' instructions.
 */
async function changedTask(
  inputs: Rows,
  tasks: Rows,
  { limit = Infinity, systems }: { limit: number | undefined; systems: (Json | undefined)[] },
): Promise<{ task: number; line: number } | undefined> {
  const before = new Map<number, string>();
  /** Tasks whose instructions come from a setting. */
  const told = new Set<number>();
  for await (const read of inputs) {
    if (!("row" in read)) continue;
    const task = Number(read.row["_ng_task_index"]);
    const isTold = systems.includes((Object(read.row["responses_create_params"]) as TaskRow)["instructions"]);
    if (isTold) told.add(task);
    before.set(task, taskDigest(isTold ? withoutInstructions(read.row) : read.row));
  }
  const numberTask = createNumbering();
  let count = 0;
  for await (const read of tasks) {
    if (++count > limit) break;
    const numbered = numberTask(read);
    const was = before.get(numbered.task);
    // `collect` refuses a row with another task's number.
    if (was === undefined || ("row" in read && "problem" in numbered)) continue;
    if (!("row" in read)) return { task: numbered.task, line: read.line };
    const row = told.has(numbered.task) ? withoutInstructions(read.row) : read.row;
    if (taskDigest(row) !== was) return { task: numbered.task, line: read.line };
  }
  return undefined;
}

function withoutInstructions(row: TaskRow): TaskRow {
  const { instructions: _, ...params } = Object(row["responses_create_params"]) as TaskRow;
  return { ...row, responses_create_params: params };
}
