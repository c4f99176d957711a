// What a collection is made of, and whether it may go on with what is in its files.
import { createHash, randomUUID } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { changedTask } from "./changed-task.ts";
import { pathsOf } from "./output.ts";
import { differences, readRecord, type RunRecord } from "./run-record.ts";
import { readRows } from "./tasks.ts";
import type { Branching } from "./tree.ts";
import { locate } from "./load.ts";
import { isUrl, type CollectionSettings, type Target } from "./collection-settings.ts";

type Settings = RunRecord["settings"];

/** The record of this collection. Refuses to go on with another one. */
export async function recordOf(
  target: Target | undefined,
  name: string,
  tasks: string,
  flags: CollectionSettings,
): Promise<RunRecord> {
  const { rows, inputs, failures, run } = pathsOf(flags.out);
  const settings = await settingsOf(target, name, tasks, flags);
  // Before anybody is told of --force, which does not help against it.
  const assertTasks = (): Promise<void> => assertSameTasks(inputs, tasks, flags);
  const before = await recordIn(run, flags, assertTasks);
  const there = [rows, inputs, failures].find((file) => existsSync(file));
  if (!before && there === undefined) return { run: randomUUID(), settings };
  if (!flags.resume) throw refusal(`${there ?? run} is there already; go on with --resume, or choose another --out`);
  const changed = before && differences(before.settings, settings);
  if (changed?.length !== 0 || flags.force) await assertTasks();
  if (flags.force || changed?.length === 0) return { run: before?.run ?? randomUUID(), settings };
  throw refusal(
    changed
      ? `${flags.out} was collected with other settings: ${changed.join("; ")}. Use the same, or --force`
      : `${run} is not there: nobody knows how ${there} was collected. Choose another --out, or use --force`,
  );
}

/** What was collected before. One that cannot be read says nothing, to who wants to go on in any case. */
async function recordIn(
  file: string,
  { resume, force }: CollectionSettings,
  assertTasks: () => Promise<void>,
): Promise<RunRecord | undefined> {
  try {
    return readRecord(file);
  } catch (thrown) {
    if (resume && force) return undefined;
    await assertTasks();
    const message = `${messageOf(thrown)}. Choose another --out, or go on with --resume --force`;
    throw new HoldfastError("cannot_load", message, { cause: thrown });
  }
}

/** Whatever else has changed: rows of one number would be of two tasks, and episodes would go on with another one. */
async function assertSameTasks(inputs: string, tasks: string, { out, limit }: CollectionSettings): Promise<void> {
  if (!existsSync(inputs)) return;
  const changed = await changedTask(readRows(inputs), readRows(tasks), limit);
  if (!changed) return;
  const { task, line } = changed;
  throw refusal(`task ${task}, on line ${line} of ${tasks}, is not what it was in ${out}. Choose another --out`);
}

/** What outcomes depend on, the time that they may take too. How many at once, how often and where may be others later. */
async function settingsOf(
  target: Target | undefined,
  environment: string,
  tasks: string,
  flags: CollectionSettings,
): Promise<Settings> {
  const { repeats, branch, model, seed, maxSteps = null, temperature = null, limit = null, timeout = null } = flags;
  return {
    tasks: await digestOf(tasks),
    environment,
    ...(await filesOf(target, flags)),
    ...(branch && { branches: textOf(branch) }),
    model: nameOf(model),
    repeats,
    limit,
    seed,
    temperature,
    "max-steps": maxSteps,
    timeout,
  };
}

/** The files that episodes are played with, by their digests: on every machine that plays them they have to be the same. */
export async function filesOf(target: Target | undefined, flags: FileFlags): Promise<Settings> {
  return {
    // Of what its file imports nothing is known.
    "environment's file": typeof target === "string" ? await digestOf(await locate(target, "environment")) : null,
    agent: await agentIn(flags),
    ...(await playedFrom(target, flags)),
  };
}

/** An agent's address, the digest of its file, or the name of one that was given as an object. */
async function agentIn({ agent }: FileFlags): Promise<string | null> {
  if (typeof agent !== "string") return agent?.name ?? null;
  return isUrl(agent) ? agent : digestOf(await locate(agent, "agent"));
}

/** What records and titles call a model. */
const nameOf = (model: CollectionSettings["model"]): string => (typeof model === "string" ? model : model.name);

type FileFlags = Pick<CollectionSettings, "model" | "agent">;

/** What the model's answers come from, where that is a file or a server of one's own. */
async function playedFrom(target: Target | undefined, { model, agent }: FileFlags): Promise<Settings> {
  if (typeof model !== "string") return {};
  const [, recording] = /^recorded:(.+)$/.exec(model) ?? [];
  if (recording !== undefined && existsSync(recording)) return { recording: await digestOf(recording) };
  if (model === "scripted" && agent === undefined && typeof target === "string" && !isUrl(target)) {
    const file = solutionBeside(await locate(target, "environment"));
    return file === undefined ? {} : { solution: await digestOf(file) };
  }
  const variable = model.startsWith("anthropic:") ? "ANTHROPIC_BASE_URL" : "OPENAI_BASE_URL";
  const url = /^(openai|chat|anthropic):/.test(model) ? process.env[variable] : undefined;
  // Without a password that may be in it.
  return url !== undefined && URL.canParse(url) ? { server: new URL(url).host } : {};
}

function solutionBeside(file: string): string | undefined {
  const endings = [".ts", ".mts", ".js", ".mjs"];
  return endings.map((ending) => join(dirname(file), `solution${ending}`)).find((path) => existsSync(path));
}

/** In whatever order they were given. */
function textOf(branches: Branching[]): string {
  const sorted = [...branches].sort((a, b) => a.step - b.step);
  return sorted.map(({ ways, step }) => `${ways}@${step}`).join(" ");
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return `sha256:${hash.digest("hex").slice(0, 16)}`;
}

const refusal = (message: string): HoldfastError => new HoldfastError("invalid_option", message);
