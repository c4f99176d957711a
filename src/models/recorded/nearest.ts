// Finds the recorded request nearest to an unrecorded one, and their first difference, to explain a missing answer.
import { showJson } from "../../core/ellipsis.ts";
import { equalJson, escapeKey, isObject, type Json } from "../../core/json.ts";
import type { Entry } from "./file.ts";

interface Difference {
  /** A JSON Pointer. */
  path: string;
  recorded: Json | undefined;
  asked: Json | undefined;
}

/** Describes the first difference to the nearest recorded request. */
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
  const [was, is] = [showJson(recorded, 120), showJson(now, 120)];
  return `the nearest recorded request differs first at ${path || "its root"}: recorded ${was}, asked ${is}`;
}

/** Counts the equal items at the start of the input, then the equal fields. */
function likeness(recorded: Json, asked: Json): number[] {
  const [before, now] = [toFields(recorded), toFields(asked)];
  const items = Array.isArray(now["input"]) ? now["input"] : [];
  const others = Array.isArray(before["input"]) ? before["input"] : [];
  const end = items.findIndex((item, at) => !equalJson(item, others[at]));
  return [end < 0 ? items.length : end, Object.keys(now).filter((key) => equalJson(now[key], before[key])).length];
}

const toFields = (value: Json): { [key: string]: Json } => (isObject(value) ? value : {});

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
