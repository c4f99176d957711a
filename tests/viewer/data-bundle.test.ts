// Reading runs and rows from the files of a bundle instead of a server.
import { describe, expect, test } from "vitest";
import { bundleSource } from "../../viewer/src/data/bundle.ts";

const rows = 25;
const [perChunk, perPart] = [10, 2];

/** The files of a bundle with one run, and the names of the loaded files. */
function filesOf() {
  const loaded: string[] = [];
  const load = async (name: string): Promise<unknown> => {
    loaded.push(name);
    if (name === "about") return { bundle: true, runs: [{ run: "0", name: "r", rows, chunks: 3, parts: 13 }] };
    const [, kind, at] = /^runs\/0\/(rows|part)-(\d+)$/.exec(name) ?? [];
    const [size, from] = kind === "rows" ? [perChunk, Number(at) * perChunk] : [perPart, Number(at) * perPart];
    const indexes = Array.from({ length: Math.min(size, rows - from) }, (_, index) => from + index);
    if (kind === undefined || indexes.length === 0) throw new Error(`the bundle file ${name}`);
    return indexes.map((row) =>
      kind === "rows"
        ? { row, part: Math.floor(row / perPart), text: `row ${row}` }
        : { row, content: { reward: row, session_id: `s-${row}.` }, events: row % 2 === 0 ? [{ version: 1 }] : null },
    );
  };
  return { load, loaded };
}

const never = new AbortController().signal;

describe("a bundle", () => {
  test("passes all rows of a run in order", async () => {
    const seen: number[] = [];
    await bundleSource(filesOf().load).rows("0", (some) => seen.push(...some.map(({ row }) => row)), never);
    expect(seen).toEqual(Array.from({ length: rows }, (_, row) => row));
  });

  test("passes no rows after the signal aborts", async () => {
    const stop = new AbortController();
    const chunks: number[] = [];
    const take = (some: unknown[]): void => {
      chunks.push(some.length);
      stop.abort();
    };
    await bundleSource(filesOf().load).rows("0", take, stop.signal);
    expect(chunks).toEqual([perChunk]);
  });

  test("finds a row from a link alone, with its log if it has one", async () => {
    const source = bundleSource(filesOf().load);
    expect(await source.row("0", 17)).toEqual({ reward: 17, session_id: "s-17." });
    expect(await source.eventsOf("0", { row: 4 } as never)).toEqual([{ version: 1 }]);
    expect(await source.eventsOf("0", { row: 5 } as never)).toBeUndefined();
  });

  test("searches the full text of every row, part by part", async () => {
    const found: number[] = [];
    const source = bundleSource(filesOf().load);
    await source.search("0", "S-7.", (some) => found.push(...some), never);
    expect(found).toEqual([7]);
  });

  test("names a missing row in the error", async () => {
    await expect(bundleSource(filesOf().load).row("0", 99)).rejects.toThrow("the bundle has no row 99");
  });

  test("keeps only the most recently used parts", async () => {
    const { load, loaded } = filesOf();
    const source = bundleSource(load);
    const look = (part: number) => source.row("0", part * perPart);
    for (let part = 0; part < 9; part++) await look(part);
    const before = loaded.length;
    await look(8);
    expect(loaded.length).toBe(before);
    await look(0);
    expect(loaded.slice(before)).toEqual(["runs/0/part-0"]);
  });
});
