// A gymnasium agent's call of an unknown tool is in the log, as over every other wire.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { post, served } from "./openenv-client.ts";

const echo = defineEnvironment({ name: "echo", tools: { ping: tool({ description: "Ping.", run: () => "pong" }) } });
const item = { type: "function_call", call_id: "c", name: "nope", arguments: "{}" };

test.each([
  ["gym", "/nope", {}],
  ["gymnasium", "/step", { response: { output: [item] } }],
])("over %s", async (_, path, body) => {
  const store = memoryStore();
  const server = await served([echo], store);
  onTestFinished(() => server.close());
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  const seeded = await fetch(`${server.url}/seed_session`, init);
  const [cookie = ""] = seeded.headers.get("set-cookie")?.split(";") ?? [];
  const { session_id: session } = (await seeded.json()) as { session_id: string };
  await post(`${server.url}${path}`, body, { cookie });
  const types: string[] = [];
  for await (const event of createSessions({ environment: echo, store }).events(session)) types.push(event.type);
  expect(types).toContain("tool.called");
});
