// Tasks by split and index, from the files next to an environment, and over /v1/tasks.
import { appendFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessions, defineEnvironment, memoryStore } from "holdfast";
import { expect, test } from "vitest";
import { restProtocol } from "../../src/protocols/rest.ts";
import { createTaskFiles } from "../../src/rollout/task-files.ts";
import { clientFor } from "../protocols/rest-client.ts";

function folderWith(files: { [name: string]: string }): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-tasks-"));
  writeFileSync(join(folder, "environment.js"), "");
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const rows = (count: number): string =>
  Array.from(
    { length: count },
    (_, goal) => `${JSON.stringify({ goal, responses_create_params: { input: "é" } })}\n`,
  ).join("");

test("each file of tasks is a split, and a task is found by its index", async () => {
  const tasks = createTaskFiles(
    folderWith({
      "tasks.jsonl": rows(2),
      "tasks_train.jsonl": rows(5),
      "tasks_a b.jsonl": rows(1),
      "other.jsonl": rows(1),
    }),
  );
  expect(await tasks.splits()).toEqual([
    { name: "default", count: 2 },
    { name: "train", count: 5 },
  ]);
  expect(await tasks.row("train", 3)).toMatchObject({ goal: 3 });
  const goals: unknown[] = [];
  for await (const { goal } of tasks.rows("train", 3)) goals.push(goal);
  expect(goals).toEqual([3, 4]);
  for (const index of [5, -1, 0.5]) {
    await expect(tasks.row("train", index)).rejects.toThrow(`has 5 tasks, numbered from 0; it has no task ${index}`);
  }
  await expect(tasks.count("../train")).rejects.toThrow("the splits are: default, train");
});

test("an invalid line keeps its index, and is refused by its line", async () => {
  const tasks = createTaskFiles(folderWith({ "tasks.jsonl": `${rows(1)}\n{bad\n${rows(1)}` }));
  expect(await tasks.count("default")).toBe(3);
  await expect(tasks.row("default", 1)).rejects.toThrow("line 3 of tasks.jsonl: it is not JSON");
  expect(await tasks.row("default", 2)).toMatchObject({ goal: 0 });
});

test("a file that changes is read again", async () => {
  const folder = folderWith({ "tasks.jsonl": rows(1) });
  const tasks = createTaskFiles(folder);
  expect(await tasks.count("default")).toBe(1);
  appendFileSync(join(folder, "tasks.jsonl"), rows(2));
  expect(await tasks.count("default")).toBe(3);
});

test("the REST API lists the splits and returns their rows", async () => {
  const environment = defineEnvironment({ name: "empty", tools: {} });
  const sessions = createSessions({ environment, store: memoryStore() });
  const tasks = createTaskFiles(folderWith({ "tasks_test.jsonl": rows(3) }));
  const client = clientFor(restProtocol({ sessions, tasks }));
  expect((await client("GET", "/v1/tasks")).body).toEqual({ splits: [{ name: "test", count: 3 }] });
  const page = await client("GET", "/v1/tasks/test?start=1&limit=1");
  expect(page.body).toMatchObject({ split: "test", count: 3, tasks: [{ goal: 1 }], next: 2 });
  expect((await client("GET", "/v1/tasks/test?start=2")).body).toMatchObject({ tasks: [{ goal: 2 }], next: null });
  expect((await client("GET", "/v1/tasks/test?start=9")).body).toMatchObject({ tasks: [], next: null });
  expect((await client("GET", "/v1/tasks/none")).body).toMatchObject({ error: { code: "not_found" } });
  expect((await client("GET", "/v1/tasks/test?start=-1")).status).toBe(400);
  expect((await client("POST", "/v1/tasks/test")).status).toBe(405);
  expect((await clientFor(restProtocol({ sessions }))("GET", "/v1/tasks")).body).toEqual({ splits: [] });
});
