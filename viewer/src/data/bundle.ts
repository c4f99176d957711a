// Reads runs and their rows from the files of a bundle.
import type { BundleAbout, BundleCollection, BundlePart, BundleRow } from "../../../src/rollout/collection-view.ts";
import { matchesRow } from "../../../src/rollout/collection-index/search.ts";
import type { Source } from "./source.ts";

/** Loads a file of a bundle, as in load("runs/0/part-3"). */
export type LoadFile = (name: string) => Promise<unknown>;

/** Maximum number of parts in the cache. A page shows about this many neighbouring parts, of about 1 MB each. */
const mostKept = 8;

export function bundleSource(load: LoadFile): Source {
  const kept = new Map<string, Promise<unknown>>();

  function read<T>(name: string): Promise<T> {
    const known = kept.get(name) ?? load(name);
    // Moves the entry to the end: the newest is last.
    kept.delete(name);
    kept.set(name, known);
    known.catch(() => kept.delete(name));
    const [oldest] = kept.keys();
    if (kept.size > mostKept && oldest !== undefined) kept.delete(oldest);
    return known as Promise<T>;
  }

  /** Per run and row, the number of the part that holds the full row. */
  const parts = new Map<string, number[]>();
  const about = load("about") as Promise<BundleAbout>;

  async function entry(run: string, row: number): Promise<BundlePart> {
    const part = parts.get(run)?.[row] ?? (await partOf(run, row));
    const found = (await read<BundlePart[]>(`runs/${run}/part-${part}`)).find((known) => known.row === row);
    if (!found) throw new Error(`the bundle has no row ${row}`);
    return found;
  }

  /** Finds the part of a row. A link may open an episode before its run is loaded. */
  async function partOf(run: string, row: number): Promise<number> {
    await source.rows(run, () => undefined, new AbortController().signal);
    const part = parts.get(run)?.[row];
    if (part === undefined) throw new Error(`the bundle has no row ${row}`);
    return part;
  }

  async function collection(run: string): Promise<BundleCollection> {
    const found = (await about).runs.find((known) => known.run === run);
    if (!found) throw new Error(`the bundle has no run ${run}`);
    return found;
  }

  const source: Source = {
    isLive: false,
    about: () => about,
    async rows(run, take, signal) {
      const chunks = (await about).runs.find((known) => known.run === run)?.chunks ?? 0;
      for (let chunk = 0; chunk < chunks && !signal.aborted; chunk++) {
        const rows = (await load(`runs/${run}/rows-${chunk}`)) as BundleRow[];
        const known = parts.get(run) ?? [];
        for (const { row, part } of rows) known[row] = part;
        parts.set(run, known);
        if (!signal.aborted) take(rows);
      }
    },
    async search(run, text, take, signal) {
      const { parts: count } = await collection(run);
      const wanted = text.toLowerCase();
      for (let part = 0; part < count && !signal.aborted; part++) {
        // Not kept: a search reads every part once.
        const rows = (await load(`runs/${run}/part-${part}`)) as BundlePart[];
        const found = rows.filter(({ content }) => matchesRow(content, wanted)).map(({ row }) => row);
        if (!signal.aborted) take(found);
      }
    },
    details: collection,
    totals: async (run) => (await collection(run)).totals,
    row: async (run, row) => (await entry(run, row)).content,
    eventsOf: async (run, { row }) => (await entry(run, row)).events ?? undefined,
  };
  return source;
}
