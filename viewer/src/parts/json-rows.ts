// A JSON value as the rows of a tree. Only unfolded parts are walked, and rows are made on demand.
import { escapeKey, isContainer, unescapeKey, type Json } from "../../../src/core/json.ts";
import { showInvisible } from "./format.ts";

export interface JsonRow {
  /** A JSON Pointer from the root. */
  path: string;
  /** Undefined at the root. */
  key: string | undefined;
  value: Json;
  depth: number;
  /** The number of children; undefined for a value that cannot have children. */
  size: number | undefined;
  isOpen: boolean;
}

export interface JsonRows {
  readonly length: number;
  at(index: number): JsonRow;
  /** The row of a path; undefined if it is folded away or missing. */
  indexOf(path: string): number | undefined;
}

export interface Folding {
  isOpen(path: string, depth: number, size: number): boolean;
  /** Paths that are unfolded explicitly. In a wide container only these are checked, so that it need not be walked. */
  named: Iterable<string>;
}

/** In a container with more children than this, only `named` paths are unfolded. */
const wide = 200;

type Container = Json[] | { [key: string]: Json };

/** An unfolded container. Each child takes one row, and an unfolded child takes several. */
interface Open {
  path: string;
  key: string | undefined;
  value: Container;
  depth: number;
  /** Undefined for a list. */
  keys: string[] | undefined;
  size: number;
  /** The unfolded children in order, each with its index among all children. */
  inside: { place: number; open: Open }[];
  /** The number of rows, including the container's own row. */
  total: number;
}

export function createJsonRows(root: Json, { isOpen, named }: Folding): JsonRows {
  const namedIn = new Map<string, string[]>();
  for (const path of named) {
    if (path === "") continue;
    const above = path.slice(0, path.lastIndexOf("/"));
    const known = namedIn.get(above);
    if (known) known.push(path);
    else namedIn.set(above, [path]);
  }

  function open(value: Json, key: string | undefined, path: string, depth: number): Open | undefined {
    if (!isContainer(value)) return undefined;
    const keys = keysOf(value);
    const size = keys ? keys.length : (value as Json[]).length;
    if (size === 0 || !isOpen(path, depth, size)) return undefined;
    const inside: Open["inside"] = [];
    for (const place of size <= wide ? Array.from({ length: size }).keys() : placesOf(path, keys, size)) {
      const name = keys ? (keys[place] as string) : String(place);
      const found = open(childOf(value, name), name, `${path}/${escapeKey(name)}`, depth + 1);
      if (found) inside.push({ place, open: found });
    }
    const total = inside.reduce((sum, child) => sum + child.open.total - 1, size + 1);
    return { path, key, value, depth, keys, size, inside, total };
  }

  function placesOf(path: string, keys: string[] | undefined, size: number): number[] {
    const names = (namedIn.get(path) ?? []).map((one) => unescapeKey(one.slice(path.length + 1)));
    // Linear search is faster for a few names.
    const places = keys && names.length > 8 ? new Map(keys.map((key, place) => [key, place])) : undefined;
    const found = names.map((name) => (keys ? (places ? (places.get(name) ?? -1) : keys.indexOf(name)) : Number(name)));
    return [...new Set(found)].filter((place) => place >= 0 && place < size).sort((a, b) => a - b);
  }

  const top = open(root, undefined, "", 0);
  return {
    length: top?.total ?? 1,
    at: (index) => (top ? findRow(top, index) : foldedRow(root, undefined, "", 0)),
    indexOf: (path) => (path === "" ? 0 : top && findIndex(top, path)),
  };
}

function findRow(open: Open, index: number): JsonRow {
  const { path, key, value, depth, size, keys, inside } = open;
  if (index === 0) return { path, key, value, depth, size, isOpen: true };
  let place = index - 1;
  for (const child of inside) {
    if (place < child.place) break;
    if (place < child.place + child.open.total) return findRow(child.open, place - child.place);
    place -= child.open.total - 1;
  }
  const name = keys ? (keys[place] as string) : String(place);
  return foldedRow(childOf(value, name), name, `${path}/${escapeKey(name)}`, depth + 1);
}

function foldedRow(value: Json, key: string | undefined, path: string, depth: number): JsonRow {
  const size = isContainer(value) ? (keysOf(value) ?? (value as Json[])).length : undefined;
  return { path, key, value, depth, size, isOpen: false };
}

function findIndex(open: Open, path: string): number | undefined {
  const [step = ""] = path.slice(open.path.length + 1).split("/");
  const name = unescapeKey(step);
  const place = open.keys ? open.keys.indexOf(name) : Number(name);
  if (!(place >= 0 && place < open.size)) return undefined;
  const before = open.inside.filter((child) => child.place < place);
  const index = before.reduce((sum, child) => sum + child.open.total - 1, place + 1);
  if (path.length === open.path.length + 1 + step.length) return index;
  const child = open.inside.find((one) => one.place === place);
  const below = child && findIndex(child.open, path);
  return below === undefined ? undefined : index + below;
}

const childOf = (value: Container, name: string): Json => (value as { [key: string]: Json })[name] as Json;

/** Shown values never change, so the keys of a wide object are listed once. */
const listed = new WeakMap<object, string[]>();

function keysOf(value: Container): string[] | undefined {
  if (Array.isArray(value)) return undefined;
  const known = listed.get(value);
  if (known) return known;
  const keys = Object.keys(value);
  listed.set(value, keys);
  return keys;
}

/** Formats a value in one line of about `room` characters. The cost is proportional to the output. */
export function preview(value: Json, room = 80): string {
  const parts: string[] = [];
  write(value, room, parts);
  return showInvisible(parts.join(""));
}

/** Returns the remaining room; below zero nothing more fits. */
function write(value: Json, room: number, parts: string[]): number {
  if (room < 0) return room;
  if (typeof value === "string") return push(quoted(value, room), room, parts);
  if (typeof value !== "object" || value === null) return push(String(value), room, parts);
  const isList = Array.isArray(value);
  let left = push(isList ? "[" : "{", room, parts);
  let isFirst = true;
  // `for in`, because Object.entries() would walk all of a large container.
  for (const key in value) {
    if (left < 2) {
      left = push(isFirst ? "…" : ", …", left, parts);
      break;
    }
    if (!isFirst) left = push(", ", left, parts);
    if (!isList) left = push(`${JSON.stringify(key.slice(0, 60))}: `, left, parts);
    left = write((value as { [key: string]: Json })[key] as Json, Math.max(left, 0), parts);
    isFirst = false;
  }
  return push(isList ? "]" : "}", left, parts);
}

const quoted = (text: string, room: number): string =>
  text.length > room + 8 ? `${JSON.stringify(text.slice(0, room)).slice(0, -1)}…"` : JSON.stringify(text);

function push(text: string, room: number, parts: string[]): number {
  parts.push(text);
  return room - text.length;
}

/**
 * Formats a value for reading: in one line if it is short, otherwise in several. Line breaks in strings become real
 * line breaks.
 * A string that contains JSON is formatted as JSON.
 */
export function formatForReading(value: Json): string {
  const meant = typeof value === "string" ? parseJsonText(value) : value;
  if (typeof meant === "string") return meant;
  const line = preview(meant, 100);
  if (line.length <= 100 && !line.includes("…")) return line;
  if (!isWithin(meant, deepest)) return preview(meant, 2000);
  return JSON.stringify(meant, null, 2).replaceAll(/\\(.)/g, (escape, letter) => (letter === "n" ? "\n" : escape));
}

/** The depth limit of a log. Beyond it the indentation alone takes megabytes, and JSON.stringify() fails. */
const deepest = 500;

function isWithin(value: Json, levels: number): boolean {
  if (!isContainer(value)) return true;
  return levels > 0 && Object.values(value).every((inside) => isWithin(inside, levels - 1));
}

/** Longer strings are not tried as JSON. */
const longestParsed = 200_000;

/**
 * Parses a string as JSON. Returns the string if parsing would lose something: digits of a number, a duplicate key, or
 * levels beyond the depth limit.
 */
export function parseJsonText(text: string): Json {
  if (!/^\s*[[{]/.test(text) || text.length > longestParsed) return text;
  try {
    const value = JSON.parse(text) as Json;
    if (!isWithin(value, deepest)) return text;
    const bare = (of: string): string => of.replaceAll(/\s/g, "");
    return bare(JSON.stringify(value)) === bare(text) ? value : text;
  } catch {
    return text;
  }
}

/** Writes a path in JavaScript notation: cart.items[3]. */
export function readablePath(path: string): string {
  const keys = path.split("/").slice(1);
  const shown = keys.map((key) => {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    if (/^\d+$/.test(name)) return `[${name}]`;
    return /^[A-Za-z_$][\w$:-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
  });
  return shown.join("").replace(/^\./, "") || "the whole state";
}
