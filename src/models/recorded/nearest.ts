// Which recorded request is nearest to one that was not recorded, and where the two differ first: to find out what changed.
import { equalJson, escapeKey, type Json } from "../../core/json.ts";
import type { Entry } from "./file.ts";

interface Difference {
  /** A JSON Pointer. */
  path: string;
  recorded: Json | undefined;
  asked: Json | undefined;
}

/** In words, where the nearest of the recorded requests differs first. */
export async function nearestTo(asked: Json, entries: AsyncIterable<Pick<Entry, "request">>): Promise<string> {
  let nearest: Json | undefined;
  let most = [-1, -1];
  for await (const { request } of entries) {
    const alike = likeness(request, asked);
    if (compare(alike, most) <= 0) continue;
    nearest = request;
    most = alike;
  }
  const difference = nearest === undefined ? undefined : firstDifference(nearest, asked);
  if (!difference) return "the recording is empty";
  const { path, recorded, asked: now } = difference;
  return `the nearest recorded request differs first at ${path || "its root"}: recorded ${shown(recorded)}, asked ${shown(now)}`;
}

/** How many items of the input are the same from its start on, and then how many of the other fields. */
function likeness(recorded: Json, asked: Json): number[] {
  const [before, now] = [fieldsOf(recorded), fieldsOf(asked)];
  const items = Array.isArray(now["input"]) ? now["input"] : [];
  const others = Array.isArray(before["input"]) ? before["input"] : [];
  const end = items.findIndex((item, at) => !equalJson(item, others[at]));
  return [end < 0 ? items.length : end, Object.keys(now).filter((key) => equalJson(now[key], before[key])).length];
}

const fieldsOf = (value: Json): { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};

const compare = (a: number[], b: number[]): number => (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);

function firstDifference(recorded: Json | undefined, asked: Json | undefined, path = ""): Difference | undefined {
  if (equalJson(recorded, asked)) return undefined;
  if (!isContainer(recorded) || !isContainer(asked) || Array.isArray(recorded) !== Array.isArray(asked)) {
    return { path, recorded, asked };
  }
  for (const key of new Set([...Object.keys(asked), ...Object.keys(recorded)])) {
    const found = firstDifference(at(recorded, key), at(asked, key), `${path}/${escapeKey(key)}`);
    if (found) return found;
  }
  return undefined;
}

type Container = Json[] | { [key: string]: Json };

const isContainer = (value: Json | undefined): value is Container => typeof value === "object" && value !== null;

const at = (value: Container, key: string): Json | undefined =>
  Object.hasOwn(value, key) ? (value as { [key: string]: Json })[key] : undefined;

function shown(value: Json | undefined): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
