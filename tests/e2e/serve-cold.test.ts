// `holdfast serve --cold`: idle sessions move to another store, and return transparently.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sqliteStore } from "holdfast/stores/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { createClient, startServing } from "./serve-process.ts";

test("an idle session moves to the cold store and returns with the next call, on any server", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-cold-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const stores = ["--store", `sqlite:${join(folder, "hot.db")}`, "--cold", `sqlite:${join(folder, "cold.db")}`];
  const serving = ["examples/counter", "--port", "0", ...stores, "--cold-after", "1s"];
  const [one, two] = await Promise.all([startServing(serving), startServing(serving)]);
  const client = createClient(one.url);
  const task = { initial_count: 1, expected_count: 6 };
  await client.post("/seed_session", task);
  await client.post("/increment_counter", { count: 2 });
  const cold = sqliteStore({ file: join(folder, "cold.db") });
  onTestFinished(() => cold.close());
  const isCold = async (): Promise<boolean> => {
    for await (const { version } of cold.list()) if (version > 0) return true;
    return false;
  };
  while (!(await isCold())) await sleep(50);
  expect(await client.post(`${two.url}/increment_counter`, { count: 3 })).toMatchObject({ status: 200 });
  expect(await client.post("/get_counter_value", {})).toMatchObject({ body: { count: 6 } });
  const verdict = await client.post(`${two.url}/verify`, { ...task, response: { output: [] } });
  expect(verdict).toMatchObject({ body: { reward: 1 } });
});
