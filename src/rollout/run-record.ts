// What a collection was made of, kept beside it: going on with other settings would mix two collections in one file.
import { readFileSync } from "node:fs";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { equalJson, type Json } from "../core/json.ts";
import { writeWhole } from "./output.ts";

export interface RunRecord {
  /** Names the collection: its sessions are known by it. */
  run: string;
  /** By name: the tasks, the environment, the model, each setting. */
  settings: { [name: string]: Json };
  /** Where the code of the environment was: a package, or a path from the record's folder. It may be elsewhere later. */
  target?: string;
}

export async function writeRecord(file: string, record: RunRecord): Promise<void> {
  await writeWhole(file, `${JSON.stringify(record, null, 2)}\n`);
}

/** The record of an earlier run; undefined if there was none. */
export function readRecord(file: string): RunRecord | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new HoldfastError("cannot_load", `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
  try {
    const { run, settings, target } = Object(JSON.parse(text)) as Partial<RunRecord>;
    if (typeof run === "string" && typeof settings === "object" && settings !== null) {
      return { run, settings, ...(typeof target === "string" && { target }) };
    }
  } catch (cause) {
    throw new HoldfastError("cannot_load", `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
  throw new HoldfastError("cannot_load", `${file} does not say what was collected`);
}

/** What differs, in words. */
export function differences(before: RunRecord["settings"], now: RunRecord["settings"]): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].flatMap((name) => {
    const [was, is] = [before[name] ?? null, now[name] ?? null];
    return equalJson(was, is) ? [] : [`${name} was ${shown(was)} and is ${shown(is)}`];
  });
}

const shown = (value: Json): string => {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
};
