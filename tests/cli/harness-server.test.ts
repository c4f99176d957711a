// The server of `collect --harness`: a harness reaches the tools and the model of its own session, and nothing else.
import { createSessions, memoryStore, scriptedModel } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { openHarnessServer } from "../../src/cli/collect/harness-server.ts";
import { counter } from "../protocols/proxy-client.ts";

async function serving() {
  const store = memoryStore();
  const sessions = createSessions({ environment: counter, store });
  const { session } = await sessions.open({ task: { goal: 2 } });
  const model = scriptedModel(() => "Done.");
  let playing: string | undefined = session;
  const modelFor = (asked: string) => (asked === playing ? { model, settings: {}, limits: {} } : undefined);
  const server = await openHarnessServer({ sessions, store, modelFor });
  onTestFinished(() => server.close());
  const address = server.address(session);
  const post = async (url: string, body: object, headers: object = {}): Promise<{ status: number; body: unknown }> => {
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
    const reply = await fetch(url, { ...init, body: JSON.stringify(body) });
    return { status: reply.status, body: JSON.parse((await reply.text()) || "null") };
  };
  return { sessions, session, address, post, origin: new URL(address.mcp).origin, end: () => (playing = undefined) };
}

const rpc = (method: string, params: object = {}) => ({ jsonrpc: "2.0", id: 1, method, params });
const call = rpc("tools/call", { name: "add", arguments: { by: 2 } });
const opening = rpc("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c" } });

test("a harness calls its tools and its model with its token", async () => {
  const { sessions, session, address, post } = await serving();
  expect(await post(address.mcp, opening)).toMatchObject({ status: 200 });
  expect(await post(address.mcp, call)).toMatchObject({ status: 200 });
  expect(await sessions.state(session)).toEqual({ count: 2 });
  const asked = { messages: [{ role: "user", content: "Count." }] };
  expect(await post(`${address.model}/chat/completions`, asked)).toMatchObject({ status: 200 });
});

test("TOKEN: everything else is refused, and opens no session", async () => {
  const { sessions, address, post, origin } = await serving();
  const paths = ["/seed_session", "/add", "/verify", "/close_session", "/aggregate_metrics", "/v1/sessions", "/reset"];
  paths.push("/step", "/mcp", "/ws", "/list_environments", "/tasks", "/create_session", "/v1/responses", "/view");
  const key = { authorization: `Bearer ${address.key}` };
  const cookie = { cookie: `holdfast_counter=${address.key}` };
  for (const path of paths.flatMap((each) => [each, `/counter${each}`])) {
    const isMcp = path.endsWith("/mcp");
    const body = isMcp ? opening : { goal: 2 };
    expect([path, (await post(origin + path, body)).status]).toEqual([path, expect.toBeOneOf([401, 404])]);
    if (isMcp || path.endsWith("/responses")) continue;
    expect([path, (await post(origin + path, body, key)).status]).toEqual([path, expect.toBeOneOf([401, 404])]);
    expect([path, (await post(origin + path, body, cookie)).status]).toEqual([path, expect.toBeOneOf([401, 404])]);
  }
  for (const path of ["/", "/view", "/openapi.json", "/counter/openapi.json", "/metrics", "/counter/v1/sessions"])
    expect([path, (await fetch(origin + path)).status]).toEqual([path, expect.toBeOneOf([401, 404])]);
  expect(await post(`${origin}/counter/mcp`, call)).toMatchObject({ status: 401 });
  let opened = 0;
  for await (const _ of sessions.list()) opened++;
  expect(opened).toBe(1);
});

test("a model request after the episode is refused as late, and clients do not retry it", async () => {
  const { address, end } = await serving();
  end();
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: '{"input":"Count."}' };
  const reply = await fetch(`${address.model}/responses`, init);
  expect([reply.status, reply.headers.get("x-should-retry")]).toEqual([409, "false"]);
  expect(await reply.json()).toMatchObject({
    error: { code: "episode_over", message: expect.stringMatching(/ended/) },
  });
});
