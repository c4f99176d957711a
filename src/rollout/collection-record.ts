// The record of a collection's settings, in a file next to its rows. It prevents a resume with other settings.
import { readFileSync } from "node:fs";
import { showJson } from "../core/ellipsis.ts";
import { cannotLoad, messageOf } from "../core/errors.ts";
import { equalJson, isObject, type Json } from "../core/json.ts";
import { writeWhole } from "./output.ts";

export interface CollectionRecord {
  /** The collection's id. Session ids are derived from the id. */
  run: string;
  /** The settings by name: tasks, environment, model and all others. */
  settings: { [name: string]: Json };
  /** Location of the environment's code: a package, or a path relative to the record. It may have moved since. */
  target?: string;
  /** The author's agent, if there is one: its name, or the URL of its server. */
  agent?: string;
  /** URL of the store with the sessions, without passwords. Absent if it is the file next to the output. */
  store?: string;
  /** The outcome, once the collection has ended or was stopped. */
  result?: CollectionSummary;
}

/** The outcome of a collection, for lists. */
export interface CollectionSummary {
  tasks: number;
  rollouts: number;
  scored: number;
  failed: number;
  /** The mean reward; null if no rollout was scored. */
  reward: number | null;
  /** When the collection ended, as an ISO date. */
  at: string;
  /** True if the collection was stopped before all rollouts had run. */
  stopped?: true;
}

export async function writeRecord(file: string, record: CollectionRecord): Promise<void> {
  await writeWhole(file, `${JSON.stringify(record, null, 2)}\n`);
}

/** Reads the record that an earlier `collect` wrote; returns undefined if it does not exist. */
export function readRecord(file: string): CollectionRecord | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw cannotLoad(`cannot read ${file}: ${messageOf(cause)}`, cause);
  }
  try {
    const { run, settings, target, agent, store, result } = Object(JSON.parse(text)) as Partial<CollectionRecord>;
    if (typeof run === "string" && typeof settings === "object" && settings !== null) {
      const code = typeof target === "string" && { target };
      return {
        run,
        settings,
        ...code,
        ...(typeof agent === "string" && { agent }),
        ...(typeof store === "string" && { store }),
        ...(isObject(result) && { result }),
      };
    }
  } catch (cause) {
    throw cannotLoad(`cannot read ${file}: ${messageOf(cause)}`, cause);
  }
  throw cannotLoad(`${file} is not a valid run record: it must have \`run\` and \`settings\``);
}

/** Lists the differing settings as strings for a message. */
export function differences(before: CollectionRecord["settings"], now: CollectionRecord["settings"]): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].flatMap((name) => {
    const [was, is] = [before[name] ?? null, now[name] ?? null];
    // The solution belongs to the scripted model, and a recording to its model.
    const isOfModel = (name === "solution" || name === "recording") && !equalJson(before["model"], now["model"]);
    return equalJson(was, is) || isOfModel ? [] : [`${name} was ${showJson(was, 60)} and is now ${showJson(is, 60)}`];
  });
}
