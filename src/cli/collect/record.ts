// What a collection is made of, and whether it may go on with what is in its files.
import { createHash, randomUUID } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { HoldfastError } from "../../core/errors.ts";
import { pathsOf } from "../../rollout/output.ts";
import { differences, readRecord, type RunRecord } from "../../rollout/run-record.ts";
import { locate } from "../load.ts";
import { isUrl } from "../url.ts";
import type { CollectFlags } from "./flags.ts";

type Settings = RunRecord["settings"];

/** The record of this collection. Refuses to go on with another one. */
export async function recordOf(
  target: string | undefined,
  name: string,
  tasks: string,
  flags: CollectFlags,
): Promise<RunRecord> {
  const { rows, inputs, failures, run } = pathsOf(flags.out);
  const settings = await settingsOf(target, name, tasks, flags);
  const before = readRecord(run);
  const there = [rows, inputs, failures].find((file) => existsSync(file));
  if (!before && there === undefined) return { run: randomUUID(), settings };
  if (!flags.resume) throw refusal(`${there ?? run} is there already; go on with --resume, or choose another --out`);
  if (before) assertSame(before.settings, settings, flags);
  else if (!flags.force) {
    throw refusal(`${run} is not there: nobody knows how ${there} was collected. Choose another --out, or use --force`);
  }
  return { run: before?.run ?? randomUUID(), settings };
}

function assertSame(before: Settings, settings: Settings, { out, force }: CollectFlags): void {
  const changed = differences(before, settings);
  if (changed.length === 0 || force) return;
  throw refusal(`${out} was collected with other settings: ${changed.join("; ")}. Use the same, or --force`);
}

/** Not how fast, how patiently and where it is played: that may be another when it goes on. */
async function settingsOf(
  target: string | undefined,
  environment: string,
  tasks: string,
  flags: CollectFlags,
): Promise<Settings> {
  const { repeats, model, agent, seed, maxSteps = null, temperature = null, limit = null, timeout = null } = flags;
  // Of what its file imports nothing is known.
  const code = target === undefined ? null : await digestOf(await locate(target, "environment"));
  return {
    ...{ tasks: await digestOf(tasks), environment, "environment's file": code },
    ...{ agent: agent === undefined || isUrl(agent) ? (agent ?? null) : await digestOf(await locate(agent, "agent")) },
    ...{ model, repeats, limit, seed, temperature, "max-steps": maxSteps, timeout },
  };
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return `sha256:${hash.digest("hex").slice(0, 16)}`;
}

const refusal = (message: string): HoldfastError => new HoldfastError("invalid_option", message);
