// The official A2A client against a served agent: messages, streams, and a server killed in the middle of a stream.
// @module-tag full
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { built } from "../built.ts";
import { startServing } from "./serve-process.ts";

/* eslint-disable typescript/no-explicit-any -- the SDK is installed for the test, so its types are not known */
let folder = "";
let factory: { createFromUrl(url: string): Promise<any> };

beforeAll(async () => {
  await built();
  folder = await mkdtemp(join(tmpdir(), "holdfast-a2a-"));
  const flags = ["--prefix", folder, "--no-audit", "--no-fund", "--silent"];
  await promisify(execFile)("npm", ["install", ...flags, "@a2a-js/sdk@1.3.0"]);
  const entry = pathToFileURL(join(folder, "node_modules/@a2a-js/sdk/dist/client/index.js")).href;
  const { ClientFactory } = (await import(/* @vite-ignore */ entry)) as { ClientFactory: new () => typeof factory };
  factory = new ClientFactory();
  return () => rm(folder, { recursive: true, force: true });
}, 180_000);

const message = (text: string, messageId: string, contextId = ""): object => ({
  message: {
    messageId,
    contextId,
    taskId: "",
    role: 1,
    parts: [{ content: { $case: "text", value: text }, filename: "", mediaType: "" }],
    extensions: [],
    referenceTaskIds: [],
  },
});
const completed = 3;
const said = ({ artifacts }: any): string =>
  artifacts
    .at(-1)
    .parts.map(({ content }: any) => content.value as string)
    .join("");

test("the official client sends, streams, reads and lists, and finds its task after the server was killed", async () => {
  const args = ["tests/e2e/agent/slow", "--store", `sqlite:${join(folder, "a2a.db")}`, "--lease", "1s"];
  const first = await startServing([...args, "--port", "0"]);
  const client = await factory.createFromUrl(first.url);
  const task = await client.sendMessage(message("add", crypto.randomUUID()));
  expect([task.status.state, said(task)]).toEqual([completed, "Added one."]);
  const { contextId } = task;
  const pieces: string[] = [];
  const kinds: string[] = [];
  for await (const { payload } of client.sendMessageStream(message("add", crypto.randomUUID(), contextId))) {
    kinds.push(payload.$case);
    if (payload.$case === "artifactUpdate") pieces.push(payload.value.artifact.parts[0].content.value);
  }
  expect(pieces.join("")).toBe("Added one.");
  expect([kinds[0], kinds.at(-1)]).toEqual(["task", "statusUpdate"]);
  expect(said(await client.getTask({ id: task.id }))).toBe("Added one.");

  // Killed in the middle of a stream, after the tool and before the answer.
  const { port } = new URL(first.url);
  first.process.kill("SIGKILL");
  await first.ended;
  const slow = await startServing([...args, "--port", port], { env: { SLOW_MS: "60000" } });
  const repeated = message("add", crypto.randomUUID(), contextId);
  const cut = (async () => {
    for await (const _ of client.sendMessageStream(repeated));
  })();
  cut.catch(() => undefined);
  const state = async (): Promise<number> => {
    const reply = await fetch(`${slow.url}/v1/sessions/${contextId}/state`);
    return ((await reply.json()) as { state: { count: number } }).state.count;
  };
  await expect.poll(state).toBe(3);
  slow.process.kill("SIGKILL");
  await slow.ended;
  await cut.catch(() => undefined);
  await startServing([...args, "--port", port]);
  const again = await client.sendMessage(repeated);
  expect([again.status.state, said(again)]).toEqual([completed, "Added one."]);
  expect((await client.sendMessage(repeated)).id).toBe(again.id);
  expect(await state()).toBe(3);
  const listed = await client.listTasks({ contextId, pageSize: 10, tenant: "", pageToken: "", status: 0 });
  expect(listed.tasks).toHaveLength(3);
}, 120_000);
