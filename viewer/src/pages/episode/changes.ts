// Finds the changes between two states. Shared parts are skipped, so the cost is proportional to the change.
import type { Delta } from "../../../../src/core/delta.ts";
import { equalJson, escapeKey, isContainer, unescapeKey, type Json } from "../../../../src/core/json.ts";

export interface Change {
  kind: "added" | "replaced" | "removed";
  /** A JSON Pointer: into the state before for a removed value, otherwise into the state after. */
  path: string;
  before?: Json;
  after?: Json;
}

/** Limits the list to a readable length. */
const mostShown = 1000;

/**
 * Returns the changes between the states before and after a delta.
 * Visits only the paths in the delta, so the cost depends on the change and not on the size of the state.
 * `isCut` says that there are more changes.
 */
export function findChanges(before: Json, after: Json, delta: Delta): { changes: Change[]; isCut: boolean } {
  const changes: Change[] = [];
  for (const path of outermostPaths(delta, before, after)) {
    const [was, is] = [valueAt(before, path), valueAt(after, path)];
    if (was !== undefined && is !== undefined) compare(was, is, path, changes);
    else if (is !== undefined) changes.push({ kind: "added", path, after: is });
    else if (was !== undefined) changes.push({ kind: "removed", path, before: was });
  }
  const isCut = changes.length > mostShown;
  return { changes: isCut ? changes.slice(0, mostShown) : changes, isCut };
}

/** The outermost paths of a delta. An insertion shifts the rest of its list, so the whole list is one path. */
function outermostPaths(delta: Delta, before: Json, after: Json): string[] {
  const paths = new Set(delta.map(({ path }) => pathToFirstList(path, before, after)));
  return [...paths].filter((path) => {
    for (let above = path; above !== "";) {
      above = above.slice(0, above.lastIndexOf("/"));
      if (paths.has(above)) return false;
    }
    return true;
  });
}

/** Shortens a path to the first list on it, because the list's entries may have shifted. */
function pathToFirstList(path: string, before: Json, after: Json): string {
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

/** Skips equal entries at both ends of the lists, so that an insertion or removal in the middle is reported as such. */
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

/** Marks for a tree: how each path changed, and which paths contain a change. */
export interface Marks {
  kinds: ReadonlyMap<string, "added" | "replaced">;
  touched: ReadonlySet<string>;
}

export function toMarks(changes: readonly Change[]): Marks {
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
