// The older part of a log: entries and snapshots in objects that never change, and pages that list such objects.
import type { Snapshot } from "../../core/store.ts";
import type { Call } from "../front.ts";
import { backgroundCall, type Client } from "./client.ts";
import { nameOf, parse, type Head, type Kept, type Ref } from "./head.ts";

/** The newest part of a log moves out of the head when it has this many entries or characters. */
const tailEntries = 32;
const tailSize = 64 * 1024;
/** Maximum size of one object. */
const chunkEntries = 128;
const chunkSize = 1024 * 1024;
/** This many objects at one level become a page at the next level. */
const fan = 16;
/** Maximum number of requests that one operation sends concurrently. */
export const parallel = 16;
/** Size of the cache of objects, in characters. */
const cacheSize = 16 * 1024 * 1024;

interface Chunk {
  entries: Kept[];
}

interface Page {
  refs: Ref[];
  /** The keys of all entries below the page; empty in a page of snapshots. */
  keys: [key: string, version: number][];
}

/** Entries moved out of a head, for the head's next put. */
export interface Moved {
  from: Head;
  chunks: Ref[];
  snapshots: Ref[];
}

/** Thrown for a missing object: the session was deleted after its head was read. */
export class Gone extends Error {}

export type Chunks = ReturnType<typeof createChunks>;

export function createChunks(client: Client) {
  const cache = new Map<string, { value: unknown; size: number }>();
  let cached = 0;

  async function fetch(key: string, call: Call): Promise<unknown> {
    const known = cache.get(key);
    if (known) {
      cache.delete(key);
      cache.set(key, known);
      return known.value;
    }
    const found = await client.get(key, call);
    if (found === undefined || found === "same") throw new Gone(`${client.name} has no ${key}`);
    const value = parse(found.text, `${key} of ${client.name}`);
    const size = found.text.length;
    if (size < cacheSize / 4 && !cache.has(key)) {
      cache.set(key, { value, size });
      cached += size;
      for (const [oldest, { size }] of cache) {
        if (cached <= cacheSize) break;
        cache.delete(oldest);
        cached -= size;
      }
    }
    return value;
  }

  const chunkOf = (head: Head, ref: Ref, call: Call): Promise<Chunk> =>
    fetch(keyOf(head, "e", ref), call) as Promise<Chunk>;
  const pageOf = (head: Head, kind: "e" | "s", ref: Ref, call: Call): Promise<Page> =>
    fetch(keyOf(head, kind, ref), call) as Promise<Page>;

  /** Returns the chunks that contain versions from `first` to `last`, including chunks below pages. */
  async function chunksIn(head: Head, refs: Ref[], first: number, last: number, call: Call): Promise<Ref[]> {
    const wanted = refs.filter((ref) => ref[1] <= last && ref[2] >= first);
    const found = await inParallel(wanted, parallel, async (ref) =>
      ref[0] === 0 ? [ref] : chunksIn(head, (await pageOf(head, "e", ref, call)).refs, first, last, call),
    );
    return found.flat();
  }

  /** Reads the entries from version `first` to `last`: at least one entry, and up to this number of bytes. */
  async function entries(head: Head, first: number, last: number, call: Call, bytes = Infinity): Promise<Kept[]> {
    const start = head.version - head.tail.length;
    const found: Kept[] = [];
    let left = bytes;
    const add = (entries: Kept[]): void => {
      for (const entry of entries) {
        if (left <= 0) return;
        found.push(entry);
        left -= entry.body.length;
      }
    };
    if (first <= start) {
      const refs = await chunksIn(head, head.chunks, first, Math.min(last, start), call);
      for (let at = 0; at < refs.length; at += parallel) {
        if (left <= 0) break;
        const parts = await inParallel(refs.slice(at, at + parallel), parallel, async (ref) => {
          const chunk = await chunkOf(head, ref, call);
          return chunk.entries.slice(Math.max(first - ref[1], 0), last - ref[1] + 1);
        });
        parts.forEach(add);
      }
    }
    add(head.tail.slice(Math.max(first - 1 - start, 0), Math.max(last - start, 0)));
    return found;
  }

  /** Reads the newest snapshot up to a version. */
  async function snapshotUpTo(head: Head, version: number, call: Call): Promise<Snapshot | undefined> {
    const fresh = head.fresh.findLast((snapshot) => snapshot.version <= version);
    if (fresh) return { ...fresh };
    // The first version of a chunk is the version of its snapshot.
    let ref = head.snapshots.findLast((ref) => ref[1] <= version);
    while (ref && ref[0] > 0) {
      ref = (await pageOf(head, "s", ref, call)).refs.findLast((ref) => ref[1] <= version);
    }
    if (!ref) return undefined;
    const { body } = (await fetch(keyOf(head, "s", ref), call)) as { body: string };
    return { version: ref[1], body };
  }

  /** Reads the keys of the entries after a version. */
  async function keys(head: Head, after: number, call: Call): Promise<[string, number][]> {
    const start = head.version - head.tail.length;
    const refs = head.chunks.filter((ref) => ref[2] > after);
    const parts = await inParallel(refs, parallel, async (ref) =>
      ref[0] === 0
        ? keysIn((await chunkOf(head, ref, call)).entries, ref[1])
        : (await pageOf(head, "e", ref, call)).keys,
    );
    return [...parts.flat(), ...keysIn(head.tail, start + 1)].filter(([, version]) => version > after);
  }

  /**
   * Writes a head's contents into separate objects, and lists many of these objects in pages. The head does not change:
   * its next put may refer to the objects. The objects never change, so two processes write the same objects.
   */
  async function move(head: Head, keys: ReadonlyMap<string, number>): Promise<Moved> {
    const puts: { key: string; body: string }[] = [];
    let first = head.version - head.tail.length + 1;
    const chunks = splits(head.tail).map((entries): Ref => {
      const ref: Ref = [0, first, first + entries.length - 1];
      first += entries.length;
      puts.push({ key: keyOf(head, "e", ref), body: JSON.stringify({ entries } satisfies Chunk) });
      return ref;
    });
    const snapshots = head.fresh.map(({ version, body }): Ref => {
      puts.push({ key: keyOf(head, "s", [0, version, version]), body: JSON.stringify({ body }) });
      return [0, version, version];
    });
    const moved = { from: head, chunks: [...head.chunks, ...chunks], snapshots: [...head.snapshots, ...snapshots] };
    for (const kind of ["e", "s"] as const) {
      const refs = kind === "e" ? moved.chunks : moved.snapshots;
      for (const { ref, children } of fold(refs)) {
        const inside = ([, version]: [string, number]): boolean => version >= ref[1] && version <= ref[2];
        const page: Page = { refs: children, keys: kind === "e" ? [...keys].filter(inside) : [] };
        page.keys.sort((a, b) => a[1] - b[1]);
        puts.push({ key: keyOf(head, kind, ref), body: JSON.stringify(page) });
      }
    }
    await inParallel(puts, parallel, ({ key, body }) => client.put(key, body, backgroundCall(body.length)));
    return moved;
  }

  return { entries, snapshotUpTo, keys, move };
}

/** Returns the prefix of the keys of a log's objects. */
export function folderOf({ session, life }: Pick<Head, "session" | "life">): string {
  return `logs/${nameOf(session)}/${life}/`;
}

function keyOf(head: Head, kind: "e" | "s", [level, first, last]: Ref): string {
  return `${folderOf(head)}${kind}${level}-${String(first).padStart(10, "0")}-${String(last).padStart(10, "0")}`;
}

/** Returns whether the newest part of a log should move out of its head. */
export function isDue(head: Head): boolean {
  return head.tail.length >= tailEntries || sizeOf(head) >= tailSize;
}

export function sizeOf({ tail, fresh }: Head): number {
  const add = (sum: number, { body }: { body: string }): number => sum + body.length;
  return tail.reduce(add, 0) + fresh.reduce(add, 0);
}

/** Removes entries that were moved out of this head or an earlier head; undefined if another process moved them. */
export function without(head: Head, { from, chunks, snapshots }: Moved): Head | undefined {
  const isSame = (a: Ref[], b: Ref[]): boolean => a.length === b.length && String(a.at(-1)) === String(b.at(-1));
  if (head.life !== from.life || head.version < from.version) return undefined;
  if (!isSame(head.chunks, from.chunks) || !isSame(head.snapshots, from.snapshots)) return undefined;
  return {
    ...head,
    chunks,
    snapshots,
    tail: head.tail.slice(from.version - (head.version - head.tail.length)),
    fresh: head.fresh.slice(from.fresh.length),
  };
}

/** Replaces long runs of chunks by pages, in place. Levels never rise from left to right. */
function fold(refs: Ref[]): { ref: Ref; children: Ref[] }[] {
  const pages: { ref: Ref; children: Ref[] }[] = [];
  for (let level = 0; refs.some((ref) => ref[0] === level); level++) {
    const start = refs.findIndex((ref) => ref[0] === level);
    for (let at = start; refs.slice(at, at + fan).filter((ref) => ref[0] === level).length === fan; at++) {
      const children = refs.slice(at, at + fan);
      const ref: Ref = [level + 1, children[0]![1], children.at(-1)![2]];
      refs.splice(at, fan, ref);
      pages.push({ ref, children });
    }
  }
  return pages;
}

function splits(entries: Kept[]): Kept[][] {
  const parts: Kept[][] = [];
  let size = 0;
  for (const entry of entries) {
    const part = parts.at(-1);
    if (part && part.length < chunkEntries && size + entry.body.length <= chunkSize) {
      part.push(entry);
      size += entry.body.length;
    } else {
      parts.push([entry]);
      size = entry.body.length;
    }
  }
  return parts;
}

function keysIn(entries: Kept[], first: number): [string, number][] {
  return entries.flatMap(({ key }, at) => (key === undefined ? [] : [[key, first + at] as [string, number]]));
}

/** Runs a function for each item, at most `limit` concurrently. Stops at the first failure. */
export async function inParallel<T, U>(items: T[], limit: number, run: (item: T) => Promise<U>): Promise<U[]> {
  const results: U[] = [];
  let next = 0;
  let failed = false;
  const work = async (): Promise<void> => {
    while (next < items.length && !failed) {
      const at = next++;
      try {
        results[at] = await run(items[at]!);
      } catch (thrown) {
        failed = true;
        throw thrown;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  return results;
}
