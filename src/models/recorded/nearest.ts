// Finds the recorded request nearest to an unrecorded one, and their first difference, to explain a missing answer.
import { showJson } from "../../core/ellipsis.ts";
import { equalJson, firstDifference, isObject, type Json } from "../../core/json.ts";
import type { Entry } from "./file.ts";

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
  const difference = nearest === undefined ? undefined : firstDifference(asked, nearest);
  if (!difference) return "the recording is empty";
  const [is, was] = difference.values.map((value) => showJson(value, 120));
  const place = difference.pointer || "its root";
  return `the nearest recorded request differs first at ${place}: recorded ${was}, asked ${is}`;
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
