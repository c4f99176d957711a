// Collections that version 0.1 wrote, finished, failed in part and killed half-way: they resume, and every command reads them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { sqliteStore } from "holdfast/stores/sqlite";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { built } from "../built.ts";
import { linesOf, rowsIn } from "../cli/rollout-files.ts";
import { start } from "../e2e/serve-process.ts";
import { copyOfAll, expected } from "./fixtures.ts";
import { byRollout, rowOf } from "./rows.ts";

interface Expected {
  args: [environment: string, ...flags: string[]];
  rows: object[];
  reverified: object[];
  metrics: object;
  steps: object[];
}

const collections = expected<Record<string, Expected>>("collections");

// A build takes long on a busy machine, so it is done before the first test.
beforeAll(built, 240_000);

/** Runs the command in a folder. A failure fails the test. */
async function holdfast(folder: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await (await start(args, { cwd: folder })).ended;
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) });
  return stdout;
}

async function sessionsIn(file: string): Promise<string[]> {
  const store = sqliteStore({ file });
  const ids: string[] = [];
  for await (const { session } of store.list()) ids.push(session);
  await store.close();
  return ids;
}

describe.each(Object.entries(collections))("the collection %s of version 0.1", (name, { args, rows }) => {
  test("RESUME: is completed without losing or repeating a rollout", async () => {
    const folder = copyOfAll();
    const [file, store] = [join(folder, `collections/${name}.jsonl`), join(folder, `collections/${name}.db`)];
    const written = readFileSync(file, "utf8");
    const before = await sessionsIn(store);
    // Rollouts that failed then do not fail now.
    vi.stubEnv("MENDED", "1");
    onTestFinished(() => void vi.unstubAllEnvs());
    await holdfast(folder, "collect", ...args, "--out", `collections/${name}.jsonl`, "--resume");
    // Finished rollouts stay as they were, to the byte.
    expect(readFileSync(file, "utf8").startsWith(written)).toBe(true);
    expect(rowsIn(file).map(rowOf).sort(byRollout)).toEqual(rows);
    const now = await sessionsIn(store);
    expect(now).toEqual(expect.arrayContaining(before));
    expect(now).toEqual(expect.arrayContaining(rowsIn(file).map((row) => row["session_id"])));
    // Each has an episode and a conversation: a running rollout is continued, not left behind.
    if (name === "half") expect(now).toHaveLength(2 * rows.length);
  });
});

test("metrics, show, export, reverify and replay read collections of version 0.1", async () => {
  const folder = copyOfAll();
  const { args, rows, reverified, metrics, steps } = collections["half-branched"] as Expected;
  const [file, again] = ["collections/half-branched.jsonl", "collections/again.jsonl"];
  await holdfast(folder, "collect", ...args, "--out", file, "--resume");
  const counted = JSON.parse(await holdfast(folder, "metrics", file, "--json")) as object;
  expect(counted).toMatchObject({ scored: rows.length, pass_metrics: metrics });
  expect(JSON.parse(await holdfast(folder, "show", file, "--task", "0", "--json"))).toMatchObject({ steps });
  expect(linesOf(await holdfast(folder, "export", file, "--format", "chat"))).toHaveLength(rows.length);
  await holdfast(folder, "reverify", file, "--environment", args[0], "--every-step", "--out", again);
  expect(rowsIn(join(folder, again)).map(rowOf).sort(byRollout)).toEqual(reverified);
  const replayed = linesOf(await holdfast(folder, "replay", file, "--environment", args[0], "--json"));
  const results = replayed.flatMap(({ result }) => result ?? []);
  expect(results).toEqual(rows.map(() => "same"));
});
