// Answers that open a session carry how an MCP client reaches it, and verify reads the names of harnesses.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineEnvironment, tool } from "holdfast";
import { ask, clientV1, replicaOf, origin, type Replica } from "./mcp-client.ts";

const counterOf = (reseed: "guard" | "replace") =>
  defineEnvironment({
    name: "counter",
    reseed,
    state: z.object({ count: z.number().default(0) }),
    task: z.looseObject({ goal: z.number() }),
    tools: {
      add: tool({
        description: "Add.",
        input: z.object({ by: z.number() }),
        run: ({ state }, { by }) => ({ count: (state.count += by) }),
      }),
      read: tool({ description: "Read.", run: ({ state }) => state.count }),
    },
    verify: ({ state, task, response }) => {
      const { output = [] } = (response ?? {}) as { output?: { name?: string }[] };
      return { reward: Number(state.count === task.goal), called: output.map(({ name }) => name ?? null) };
    },
  });
const counter = counterOf("guard");

interface Address {
  server_name: string;
  url_path: string;
  transport: string;
  headers: { [name: string]: string };
  bound_url_path: string;
}

async function post({ fetch }: Replica, path: string, body: object, headers: { [name: string]: string } = {}) {
  const response = await fetch(`${origin}${path}`, { method: "POST", body: JSON.stringify(body), headers });
  const cookie = response.headers.get("set-cookie")?.split(";")[0] ?? "";
  // eslint-disable-next-line typescript/no-explicit-any -- tests inspect any shape
  return { status: response.status, cookie, json: (await response.json()) as any };
}

const row = (task: object) => ({ responses_create_params: { input: [] }, ...task });

describe("the answer of a seed", () => {
  test("names server, path, transport and headers as NeMo Gym and verifiers read them", async () => {
    const replica = replicaOf(counter);
    const { json, cookie } = await post(replica, "/seed_session", row({ goal: 5 }));
    const mcp = json.mcp as Address;
    expect(mcp).toMatchObject({ server_name: "counter", url_path: "/counter/mcp", transport: "http" });
    const client = await clientV1(replica, { path: mcp.url_path, headers: mcp.headers });
    await client.callTool({ name: "add", arguments: { by: 5 } });
    const call = { type: "function_call", name: "mcp__counter__add", arguments: "{}", call_id: "c" };
    const response = {
      output: [call, { type: "message" }, { ...call, name: "read" }, { ...call, name: "mcp__other__add" }],
    };
    const verified = await post(replica, "/verify", { ...row({ goal: 5 }), response }, { cookie });
    expect(verified.json).toMatchObject({ reward: 1, called: ["add", null, "read", "mcp__other__add"] });
    expect(verified.json.response).toEqual(response);
    const again = await post(replica, "/verify", { ...row({ goal: 5 }), response }, { cookie: verified.cookie });
    expect(again.json).toMatchObject({ reward: 1 });
  });

  test("has a token for the tools that the seed allows", async () => {
    const replica = replicaOf(counter);
    const { json } = await post(replica, "/seed_session", row({ goal: 5 }), { "holdfast-tools": "read, other" });
    const { headers } = json.mcp as Address;
    const listed = await ask(replica, { headers });
    expect(listed.json.result.tools.map(({ name }: { name: string }) => name)).toEqual(["read"]);
    const refused = await post(replica, "/seed_session", { goal: 5 }, { "holdfast-tools": "a.b" });
    expect(refused).toMatchObject({ status: 400, json: { error: { code: "invalid_option" } } });
    const message = expect.stringContaining('there is no tool "raed"; the tools are: add, read');
    const error = { code: "invalid_option", message };
    const misspelt = await post(replica, "/seed_session", { goal: 5 }, { "holdfast-tools": "raed" });
    expect(misspelt).toMatchObject({ status: 400, json: { error } });
    const over = await post(replica, "/v1/sessions", { task: { goal: 5 }, tools: ["raed"] });
    expect(over).toMatchObject({ status: 400, json: { error } });
  });
});

test("the cookie of a seed allows the tools of the seed, over both protocols, and a later seed cannot add others", async () => {
  const replica = replicaOf(counterOf("replace"));
  const only = { "holdfast-tools": "read" };
  const seeded = await post(replica, "/seed_session", row({ goal: 5 }), only);
  const call = { method: "tools/call", params: { name: "add", arguments: { by: 1 } } };
  const wider = { "holdfast-tools": "read,add", cookie: seeded.cookie };
  const again = await post(replica, "/seed_session", row({ goal: 5 }), wider);
  for (const { cookie, json } of [seeded, again]) {
    const refused = await post(replica, "/add", { by: 1 }, { cookie });
    expect(refused).toMatchObject({ status: 404, json: { error: { code: "unknown_tool" } } });
    expect(await post(replica, "/read", {}, { cookie: refused.cookie })).toMatchObject({ status: 200, json: 0 });
    for (const headers of [{ cookie: refused.cookie }, (json.mcp as Address).headers]) {
      expect((await ask(replica, { ...call, headers })).json).toMatchObject({ result: { isError: true } });
    }
  }
  const verified = await post(replica, "/verify", { ...row({ goal: 5 }), response: {} }, { cookie: again.cookie });
  expect(verified).toMatchObject({ status: 200, json: { session_id: seeded.json.session_id } });
});

test("an agent of the gym protocol keeps its session when its model makes up a tool called mcp", async () => {
  const replica = replicaOf(counter);
  const { cookie } = await post(replica, "/seed_session", row({ goal: 5 }));
  const madeUp = await post(replica, "/mcp", { by: 1 }, { cookie });
  expect(madeUp).toMatchObject({ status: 404, json: { error: { code: "unknown_tool" } } });
  // The same token, with the version of this answer behind it.
  expect(madeUp.cookie.startsWith(cookie.slice(0, cookie.lastIndexOf(".")))).toBe(true);
  const rpc = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "read" } };
  const spoken = await post(replica, "/mcp", rpc, { cookie: madeUp.cookie });
  expect(spoken).toMatchObject({ status: 200, cookie: madeUp.cookie, json: { result: { content: [{ text: "0" }] } } });
  const refused = await post(replica, "/mcp", rpc, { cookie, origin: "https://evil.example" });
  expect(refused).toMatchObject({ status: 403, cookie });
});

describe("a session opened over REST", () => {
  test("has the address of its MCP server, with the tools that were asked for", async () => {
    const replica = replicaOf(counter);
    const { json } = await post(replica, "/v1/sessions", { task: { goal: 2 }, tools: ["add"] });
    const { bound_url_path: path } = json.mcp as Address;
    const client = await clientV1(replica, { path });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["add"]);
    await client.callTool({ name: "add", arguments: { by: 2 } });
    const response = { output: [{ type: "function_call", name: "mcp__counter__add" }] };
    const verified = await post(replica, `/v1/sessions/${json.session}/verify`, { response });
    expect(verified.json).toMatchObject({ reward: 1, verdict: { called: ["add"] } });
    const wrong = await post(replica, "/v1/sessions", { task: { goal: 2 }, tools: ["a b"] });
    expect(wrong).toMatchObject({ status: 400, json: { error: { code: "invalid_option" } } });
  });
});
