// The record of a collection's settings, stored beside it. Resuming with other settings would mix two collections in
// one file.
import { readFileSync } from "node:fs";
import { showJson } from "../core/ellipsis.ts";
import { cannotLoad, messageOf } from "../core/errors.ts";
import { equalJson, type Json } from "../core/json.ts";
import { writeWhole } from "./output.ts";

export interface CollectionRecord {
  /** Id of the collection; the ids of its sessions derive from it. */
  run: string;
  /** By name: tasks, environment, model, and every setting. */
  settings: { [name: string]: Json };
  /** Location of the environment's code: a package, or a path relative to the record. It may have moved since. */
  target?: string;
}

export async function writeRecord(file: string, record: CollectionRecord): Promise<void> {
  await writeWhole(file, `${JSON.stringify(record, null, 2)}\n`);
}

/** Reads the record of an earlier run of `collect`; undefined if it does not exist. */
export function readRecord(file: string): CollectionRecord | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw cannotLoad(`${file} cannot be read: ${messageOf(cause)}`, cause);
  }
  try {
    const { run, settings, target } = Object(JSON.parse(text)) as Partial<CollectionRecord>;
    if (typeof run === "string" && typeof settings === "object" && settings !== null) {
      return { run, settings, ...(typeof target === "string" && { target }) };
    }
  } catch (cause) {
    throw cannotLoad(`${file} cannot be read: ${messageOf(cause)}`, cause);
  }
  throw cannotLoad(`${file} does not say what was collected`);
}

/** Lists the differing settings as text. */
export function differences(before: CollectionRecord["settings"], now: CollectionRecord["settings"]): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].flatMap((name) => {
    const [was, is] = [before[name] ?? null, now[name] ?? null];
    return equalJson(was, is) ? [] : [`${name} was ${showJson(was, 60)} and is ${showJson(is, 60)}`];
  });
}
