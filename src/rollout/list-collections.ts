// listCollections(): lists the collections in a folder. Reads only their records, because reading all rows takes long.
import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { cannotLoad, invalidOption, messageOf } from "../core/errors.ts";
import { readRecord } from "./collection-record.ts";
import { isTraining } from "./curve.ts";
import { outputPaths } from "./output.ts";

/** Unknown values are null, for example in a collection that has not ended. */
export interface ListedCollection {
  file: string;
  model: string | null;
  /** The author's agent: its name, or its server's URL. Collections from earlier versions do not name it. */
  agent: string | null;
  environment: string | null;
  tasks: number | null;
  rollouts: number | null;
  reward: number | null;
  failed: number | null;
  /** When the collection ended or was stopped, as an ISO date. */
  at: string | null;
  /** True if the collection was stopped before all rollouts had run. */
  stopped: boolean;
}

/** Returns the collections in a folder, sorted by name. Calls `note` for records that cannot be read. */
export function listCollections(folder: string, note: (text: string) => void): ListedCollection[] {
  return collectionFiles(folder).flatMap((file) => {
    try {
      return [describe(file)];
    } catch (thrown) {
      note(messageOf(thrown));
      return [];
    }
  });
}

/** Returns the rows files that have a record next to them, in a folder and in the folders directly below it. */
function collectionFiles(folder: string): string[] {
  if (!existsSync(folder)) throw cannotLoad(`the folder ${folder} does not exist`);
  if (!statSync(folder).isDirectory()) throw cannotLoad(`${folder} is not a folder`);
  const ending = "_run.json";
  const below = readdirSync(folder, { withFileTypes: true }).filter((each) => each.isDirectory());
  return [folder, ...below.map(({ name }) => join(folder, name)).sort()].flatMap((each) => {
    const names = readdirSync(each).filter((name) => name.endsWith(ending) && name.length > ending.length);
    return names.map((name) => join(each, `${name.slice(0, -ending.length)}.jsonl`)).sort();
  });
}

/** Returns the collections in a folder, or the file itself. */
export function filesOf(given: string): string[] {
  if (!existsSync(given) || !statSync(given).isDirectory()) return [given];
  const files = collectionFiles(given).filter((file) => existsSync(file));
  if (files.length > 0 || isTraining(given)) return files;
  throw invalidOption(`the folder ${given} has no collections (pairs of files NAME.jsonl and NAME_run.json)`);
}

function describe(file: string): ListedCollection {
  const paths = outputPaths(file);
  const { settings = {}, agent = null, result } = readRecord(paths.run) ?? {};
  const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
  const number = (value: unknown): number | null => (typeof value === "number" ? value : null);
  const about = { file, model: text(settings["model"]), agent, environment: text(settings["environment"]) };
  if (result) {
    const { tasks, rollouts, reward, failed, at, stopped = false } = result;
    const counts = { tasks: number(tasks), rollouts: number(rollouts), reward: number(reward), failed: number(failed) };
    return { ...about, ...counts, at: text(at), stopped };
  }
  // Version 0.1 wrote no result. Its metrics file starts with the means.
  const isEnded = existsSync(paths.metrics);
  const reward = isEnded ? readMean(paths.metrics) : null;
  const at = isEnded ? statSync(paths.metrics).mtime.toISOString() : null;
  return { ...about, tasks: null, rollouts: null, failed: null, reward, at, stopped: false };
}

/** Reads the mean reward from the start of a metrics file, which may be as large as the rows file. */
function readMean(file: string): number | null {
  const handle = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(64 * 1024);
    const text = buffer.toString("utf8", 0, readSync(handle, buffer));
    const [, mean] = /"mean\/reward": (-?[\d.e+-]+)/.exec(text) ?? [];
    return mean === undefined ? null : Number(mean);
  } finally {
    closeSync(handle);
  }
}
