// A bundle: runs as files that a page can load from disk, with any content.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import type { NumberedEvent } from "../../src/core/event.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import type { BundleAbout, BundlePart, BundleRow, CollectionDetails } from "../../src/rollout/collection-view.ts";
import { writeBundle, type BundleOptions } from "../../src/rollout/bundle.ts";
import { newFolder } from "./folder.ts";

const index = '<!doctype html><meta name="holdfast-data" content=""><script defer src="app.js"></script>';

function world(...files: TaskRow[][]) {
  const folder = newFolder();
  const page = join(folder, "page");
  mkdirSync(page);
  writeFileSync(join(page, "index.html"), index);
  writeFileSync(join(page, "app.js"), "run()");
  const runs = files.map((rows, at): CollectionDetails => {
    const file = join(folder, `${at}.jsonl`);
    writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    return {
      run: String(at),
      name: String(at),
      file,
      environment: "counter",
      model: null,
      settings: {},
      sessions: true,
    };
  });
  const out = join(folder, "out");
  const long: string[] = [];
  const options: BundleOptions = {
    out,
    page,
    version: "1.2.3",
    collections: runs,
    events: async () => undefined,
    onRow: () => undefined,
    onBad: () => undefined,
    onLongLog: (session) => void long.push(session),
  };
  /** The data that a page receives from a file. */
  const data = <T>(name: string): T => {
    const given: unknown[] = [];
    const holdfastData = (...values: unknown[]): void => void given.push(...values);
    runInNewContext(readFileSync(join(out, "data", `${name}.js`), "utf8"), { holdfastData });
    expect(given[0]).toBe(name);
    return JSON.parse(given[1] as string) as T;
  };
  return { folder, page, out, options, data, long };
}

const rollout = (task: number, more: TaskRow = {}): TaskRow => ({ _ng_task_index: task, reward: 1, ...more });

test("a bundle has the page with the list of its data, and every row with its log", async () => {
  const { options, out, data } = world([rollout(0, { session_id: "s" }), rollout(1)], [rollout(2)]);
  const events = [{ type: "session.closed", reason: "closed", at: 1, version: 1 }] as NumberedEvent[];
  await writeBundle({ ...options, events: async (session) => (session === "s" ? events : undefined) });
  expect(readFileSync(join(out, "index.html"), "utf8")).toContain('<meta name="holdfast-data" content="data">');
  expect(readFileSync(join(out, "app.js"), "utf8")).toBe("run()");
  expect([".", "data", "data/about.js"].map((path) => statSync(join(out, path)).mode & 0o777)).toEqual([
    0o700, 0o700, 0o600,
  ]);
  const about = data<BundleAbout>("about");
  expect(about).toMatchObject({ version: "1.2.3", bundle: true, environments: [], agents: [], models: [] });
  expect(about.runs.map(({ run, rows, chunks, parts }) => [run, rows, chunks, parts])).toEqual([
    ["0", 2, 1, 1],
    ["1", 1, 1, 1],
  ]);
  expect(data<BundleRow[]>("runs/0/rows-0").map(({ row, task, part }) => [row, task, part])).toEqual([
    [0, 0, 0],
    [1, 1, 0],
  ]);
  expect(data<BundlePart[]>("runs/0/part-0")).toEqual([
    { row: 0, content: rollout(0, { session_id: "s" }), events },
    { row: 1, content: rollout(1), events: null },
  ]);
  expect(data<BundlePart[]>("runs/1/part-0")).toMatchObject([{ row: 0, content: { _ng_task_index: 2 } }]);
});

test("rows come in chunks, and their contents in parts of about a megabyte or one long row", async () => {
  const sizes = [10, 2_500_000, ...Array.from({ length: 2_000 }, () => 1_000)];
  const { options, data } = world(sizes.map((size, at) => rollout(at, { text: "x".repeat(size) })));
  const [run] = await writeBundle(options);
  expect(run).toMatchObject({ rows: 2_002, chunks: 2, parts: 5 });
  const rows = [0, 1].flatMap((chunk) => data<BundleRow[]>(`runs/0/rows-${chunk}`));
  expect(rows.map(({ row }) => row)).toEqual(sizes.map((_, at) => at));
  const parts = [0, 1, 2, 3, 4].map((part) => data<BundlePart[]>(`runs/0/part-${part}`));
  for (const { row, part } of rows) expect(parts[part]?.some((found) => found.row === row)).toBe(true);
  expect(parts.map(({ length }) => length).slice(0, 2)).toEqual([1, 1]);
});

test("nothing in a row is executed as a program", async () => {
  const text = '</script><img src=x onerror=alert(1)> "); alert(1); ("\\u0022 \u2028\u2029\uD800 ${`}` \n\r\0';
  const { options, data } = world([rollout(0, { text })]);
  await writeBundle(options);
  expect(data<BundlePart[]>("runs/0/part-0")[0]?.content["text"]).toBe(text);
});

test("a log that no page could show is left out, and reported", async () => {
  const { options, data, long } = world([rollout(0, { session_id: "s" })]);
  const input = "x".repeat(9_000_000);
  const event = {
    type: "tool.called",
    version: 1,
    at: 0,
    episode: 1,
    tool: "t",
    input,
    outcome: { ok: true, output: 1 },
  };
  await writeBundle({ ...options, events: async () => Array.from({ length: 8 }, () => event as NumberedEvent) });
  expect(data<BundlePart[]>("runs/0/part-0")).toMatchObject([{ row: 0, events: null }]);
  expect(long).toEqual(["s"]);
});

describe("the folder of a bundle", () => {
  test("may have an older bundle, which is replaced completely", async () => {
    const { options, out, data } = world([rollout(0)], [rollout(1)]);
    await writeBundle(options);
    await writeBundle({ ...options, collections: options.collections.slice(0, 1) });
    expect(data<BundleAbout>("about").runs).toHaveLength(1);
    expect(readdirSync(join(out, "data/runs"))).toEqual(["0"]);
  });

  test("may be empty", async () => {
    const { options, out } = world([rollout(0)]);
    mkdirSync(out);
    await writeBundle(options);
    expect(existsSync(join(out, "data/about.js"))).toBe(true);
  });

  test.each(["notes.txt", "index.html", "data"])("is refused if it has %s of somebody else", async (name) => {
    const { options, out } = world([rollout(0)]);
    mkdirSync(out);
    writeFileSync(join(out, name), index);
    await expect(writeBundle(options)).rejects.toThrow(expect.objectContaining({ code: "invalid_option" }));
    expect(readdirSync(out)).toEqual([name]);
  });

  test("is refused if it is a file, or cannot be created", async () => {
    const { options, page } = world([rollout(0)]);
    const [file, below] = [join(page, "app.js"), join(page, "app.js/site")];
    await expect(writeBundle({ ...options, out: file })).rejects.toThrow("is a file");
    await expect(writeBundle({ ...options, out: below })).rejects.toThrow(`${file} is not a folder`);
  });

  test("is not created if the page was not built", async () => {
    const { options, out, folder } = world([rollout(0)]);
    await expect(writeBundle({ ...options, page: join(folder, "no") })).rejects.toThrow("the viewer is not built");
    expect(existsSync(out)).toBe(false);
  });

  test("gets its list of runs last, when all of them are written", async () => {
    const { options, out } = world([rollout(0, { session_id: "s" })]);
    const events = () => Promise.reject(new Error("the store is gone"));
    await expect(writeBundle({ ...options, events })).rejects.toThrow("the store is gone");
    expect(existsSync(join(out, "data/about.js"))).toBe(false);
    await writeBundle(options);
    expect(existsSync(join(out, "data/about.js"))).toBe(true);
  });
});
