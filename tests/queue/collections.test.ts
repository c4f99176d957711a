// A worker plays exactly the collector's rollouts, from the same files, with sessions in a store that all can reach.
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Json } from "../../src/core/json.ts";
import type { Rollout } from "../../src/core/rollout.ts";
import { digestFiles } from "../../src/rollout/build-record.ts";
import { createCollections, type Collections } from "../../src/queue/collections.ts";
import { assertStore } from "../../src/queue/allowed.ts";
import type { QueuedCollection } from "../../src/queue/job.ts";
import { fileAt } from "../files.ts";

/** A folder with an environment and its solution, and a worker that has loaded nothing yet. */
function newWorld(store?: string): { folder: string; collections: Collections; file: string } {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-worker-"));
  const file = join(folder, "environment.ts");
  // Without a schema, so that it needs no package.
  writeFileSync(
    file,
    `import { defineEnvironment, tool } from "holdfast";
     export default defineEnvironment({
       name: "one", seed: () => ({ n: 0 }),
       tools: { add: tool({ description: "Add.", run: ({ state }) => { state.n += 1; return state.n; } }) },
       verify: ({ state }) => state.n,
     });`,
  );
  writeFileSync(join(folder, "solution.ts"), `export default function* () { yield { tool: "add", input: {} }; }`);
  const queue = `sqlite:${join(folder, "queue.db")}`;
  const collections = createCollections({ queue, store, concurrency: 4, folder });
  onTestFinished(async () => {
    await collections.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { folder, collections, file };
}

async function collectionOf(
  target: string,
  more: { [name: string]: Json } = {},
  model = "scripted",
): Promise<QueuedCollection> {
  const files = await digestFiles(target, { model });
  return { run: "r", title: "t", settings: { target, model, seed: 0, files, ...more } };
}

const rollout: Rollout = {
  task: 0,
  repeat: 0,
  attempt: 0,
  random: 1,
  session: "session-of-a-rollout",
  row: { responses_create_params: { input: "Add." } },
};
const never = new AbortController().signal;

test("a collection is loaded once and played, with its sessions in the queue's own store", async () => {
  const { folder, collections } = newWorld();
  const collection = await collectionOf(folder);
  const play = await collections.openPlayer(collection);
  expect(await play(rollout, never)).toMatchObject({ fields: { reward: 1 } });
  // Already played: the result is looked up.
  const again = await (await collections.openPlayer(collection))(rollout, never);
  expect(again).toMatchObject({ fields: { reward: 1 } });
  expect(readFileSync(join(folder, "queue.db")).length).toBeGreaterThan(0);
});

test("changed files are refused, and so is code that was loaded before they changed", async () => {
  const { folder, collections, file } = newWorld();
  const before = await collectionOf(folder);
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace("state.n,", "2 * state.n,"));
  await expect(collections.openPlayer(before)).rejects.toThrow(
    /^the collector's files differ from this worker's: environment's file$/,
  );
  // After a correction it is played, also by another model.
  writeFileSync(file, text);
  await collections.openPlayer(before);
  await collections.openPlayer(await collectionOf(folder, {}, "random"));
  writeFileSync(file, text.replace("state.n,", "3 * state.n,"));
  const after = await collectionOf(folder);
  await expect(collections.openPlayer(after)).rejects.toThrow(
    `${folder} has changed since this worker loaded it; restart the worker`,
  );
});

test("sessions in a file of another machine are refused, unless the worker names their location", async () => {
  const elsewhere = { store: "sqlite:/data/x.db", host: "another-machine" };
  const { folder, collections } = newWorld();
  const message =
    "the sessions are in sqlite:/data/x.db on another-machine, which this worker cannot reach; use a shared store";
  await expect(collections.openPlayer(await collectionOf(folder, elsewhere))).rejects.toThrow(message);
  const other = newWorld("memory:");
  const play = await other.collections.openPlayer(await collectionOf(other.folder, elsewhere));
  expect(await play(rollout, never)).toMatchObject({ fields: { reward: 1 } });
});

test("a path in a job must lead into the worker's folder, also through a link", async () => {
  const [inside, outside] = [newWorld(), newWorld()];
  symlinkSync(outside.folder, join(inside.folder, "link"));
  writeFileSync(join(outside.folder, "answers.jsonl"), "");
  const foreign: [string, { [name: string]: Json }?, string?][] = [
    [outside.folder],
    [join(inside.folder, "link")],
    [inside.folder, { store: `sqlite:${join(outside.folder, "new.db")}` }],
    [inside.folder, { store: `sqlite:${join(inside.folder, "link/deeper/new.db")}` }],
    [inside.folder, { agent: outside.file }],
    [inside.folder, {}, `recorded:${join(outside.folder, "answers.jsonl")}`],
  ];
  for (const [target, more, model] of foreign) {
    const playing = inside.collections.openPlayer(await collectionOf(target, more, model));
    await expect(playing).rejects.toThrow(/^.* is outside the folder that this worker was started in$/);
  }
  expect(readdirSync(outside.folder)).not.toContain("new.db");
});

test.each([
  ["http://127.0.0.1:1/store", "http://token@127.0.0.1:1/store", "HOLDFAST_STORE_TOKEN"],
  ["postgres://me@127.0.0.1:1/x", "postgres://me:own@127.0.0.1:1/x", "PGPASSWORD"],
  ["s3://bucket?endpoint=http://127.0.0.1:1", "s3://bucket", "AWS_ACCESS_KEY_ID"],
  ["s3://bucket?style=path&region=127.0.0.1/", "s3://bucket?style=path", "AWS_SESSION_TOKEN"],
])("a store at %s is not sent the worker's key, %s may be opened", (bare, own, name) => {
  const variables = { [name]: "geheim" };
  const refused = `the job's store URL has no credentials, so it would get this worker's ${name}; to allow that, start the worker with this --store`;
  expect(() => assertStore(tmpdir(), bare, variables)).toThrow(refused);
  assertStore(tmpdir(), bare, {});
  assertStore(tmpdir(), own, variables);
});

test("stores of idle collections are closed", async () => {
  const { folder, collections } = newWorld();
  for (let n = 0; n < 10; n++) {
    const store = `sqlite:${join(folder, `${n}.db`)}`;
    const play = await collections.openPlayer(await collectionOf(folder, { store }));
    expect(await play(rollout, never)).toMatchObject({ fields: { reward: 1 } });
  }
  // SQLite keeps such a file while a store is open.
  const open = (): string[] => readdirSync(folder).filter((name) => name.endsWith(".db-wal"));
  await expect.poll(open).toHaveLength(8);
  // Opened again.
  const first = await collectionOf(folder, { store: `sqlite:${join(folder, "0.db")}` });
  expect(await (await collections.openPlayer(first))(rollout, never)).toMatchObject({ fields: { reward: 1 } });
});

test("missing files are refused with a clear message", async () => {
  const { folder, collections } = newWorld();
  const collection = await collectionOf(folder);
  const gone = { ...collection, settings: { ...collection.settings, target: "./gone" } };
  await expect(collections.openPlayer(gone)).rejects.toThrow("./gone does not exist");
  const closed = { ...collection, settings: { ...collection.settings, server: "http://127.0.0.1:1" } };
  await expect(collections.openPlayer(closed)).rejects.toThrow("http://127.0.0.1:1");
});

test("the docs state how long a worker's rollouts are kept for it", () => {
  const { text } = fileAt("src/queue/worker.ts");
  const [, lock, check] = /lockDuration = (\d+)000;[^]*stalledInterval = (\d+)000;/.exec(text) ?? [];
  expect(fileAt("docs/queue.md").text).toContain(`after ${lock} to ${Number(lock) + Number(check)} seconds`);
});
