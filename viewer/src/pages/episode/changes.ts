// What changed between two states. What they share is not looked into, so the cost is that of the change.
import type { Delta } from "../../../../src/core/delta.ts";
import { equalJson, escapeKey, unescapeKey, type Json } from "../../../../src/core/json.ts";

export interface Change {
  kind: "added" | "replaced" | "removed";
  /** A JSON Pointer. Of what was removed, into the state before; otherwise into the state after. */
  path: string;
  before?: Json;
  after?: Json;
}

/** More than these nobody reads. */
const mostShown = 1000;

/**
 * Between the states before and after a delta: only what it names is looked at, so that the cost is that of the change
 * and not of the state. `isCut`: there are more.
 */
export function changesOf(before: Json, after: Json, delta: Delta): { changes: Change[]; isCut: boolean } {
  const changes: Change[] = [];
  for (const path of rootsOf(delta, before, after)) {
    const [was, is] = [valueAt(before, path), valueAt(after, path)];
    if (was !== undefined && is !== undefined) compare(was, is, path, changes);
    else if (is !== undefined) changes.push({ kind: "added", path, after: is });
    else if (was !== undefined) changes.push({ kind: "removed", path, before: was });
  }
  const isCut = changes.length > mostShown;
  return { changes: isCut ? changes.slice(0, mostShown) : changes, isCut };
}

/** The paths of a delta that are not within one another. What is put into a list moves the rest of it: the list counts. */
function rootsOf(delta: Delta, before: Json, after: Json): string[] {
  const paths = new Set(delta.map(({ path }) => pathOfChange(path, before, after)));
  return [...paths].filter((path) => {
    for (let above = path; above !== "";) {
      above = above.slice(0, above.lastIndexOf("/"));
      if (paths.has(above)) return false;
    }
    return true;
  });
}

/** Where its way leads through a list whose entries may have moved, the first such list. */
function pathOfChange(path: string, before: Json, after: Json): string {
  for (let end = path === "" ? -1 : 0; end >= 0; end = path.indexOf("/", end + 1)) {
    const above = path.slice(0, end);
    const [was, is] = [valueAt(before, above), valueAt(after, above)];
    if (was === undefined || is === undefined) return above;
    if (Array.isArray(was) || Array.isArray(is)) return above;
  }
  return path;
}

function valueAt(state: Json, path: string): Json | undefined {
  let at: Json | undefined = state;
  for (const step of path.split("/").slice(1)) {
    const key = unescapeKey(step);
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as { [key: string]: Json })[key];
  }
  return at;
}

function compare(before: Json, after: Json, path: string, changes: Change[]): void {
  if (before === after || changes.length > mostShown) return;
  const isSameKind = isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after);
  if (!isSameKind) changes.push({ kind: "replaced", path, before, after });
  else if (Array.isArray(before)) compareLists(before, after as Json[], path, changes);
  else compareObjects(before, after as { [key: string]: Json }, path, changes);
}

const isContainer = (value: Json): value is Json[] | { [key: string]: Json } =>
  typeof value === "object" && value !== null;

function compareObjects(
  before: { [key: string]: Json },
  after: { [key: string]: Json },
  path: string,
  changes: Change[],
): void {
  for (const key of Object.keys(after)) {
    const [was, is] = [before[key], after[key] as Json];
    if (was === is) continue;
    const inside = `${path}/${escapeKey(key)}`;
    if (Object.hasOwn(before, key)) compare(was as Json, is, inside, changes);
    else changes.push({ kind: "added", path: inside, after: is });
  }
  for (const key of Object.keys(before)) {
    if (Object.hasOwn(after, key)) continue;
    changes.push({ kind: "removed", path: `${path}/${escapeKey(key)}`, before: before[key] as Json });
  }
}

/** What is the same at both ends has not changed, so that what was put in or taken out anywhere is found as such. */
function compareLists(before: Json[], after: Json[], path: string, changes: Change[]): void {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && equalJson(before[start], after[start])) start++;
  let same = 0;
  while (same < most - start && equalJson(before.at(-1 - same), after.at(-1 - same))) same++;
  const [oldEnd, newEnd] = [before.length - same, after.length - same];
  for (let at = start; at < Math.max(oldEnd, newEnd); at++) {
    const inside = `${path}/${at}`;
    if (at >= oldEnd) changes.push({ kind: "added", path: inside, after: after[at] as Json });
    else if (at >= newEnd) changes.push({ kind: "removed", path: inside, before: before[at] as Json });
    else compare(before[at] as Json, after[at] as Json, inside, changes);
  }
}

/** For a tree: what each path was changed by, and what is on the way to a change. */
export interface Marks {
  kinds: ReadonlyMap<string, "added" | "replaced">;
  touched: ReadonlySet<string>;
}

export function marksOf(changes: readonly Change[]): Marks {
  const kinds = new Map<string, "added" | "replaced">();
  const touched = new Set<string>();
  for (const { kind, path } of changes) {
    if (kind !== "removed") kinds.set(path, kind);
    for (let at = path.lastIndexOf("/"); at >= 0; at = path.lastIndexOf("/", at - 1)) {
      const above = path.slice(0, at);
      if (touched.has(above)) break;
      touched.add(above);
      if (at === 0) break;
    }
  }
  return { kinds, touched };
}
