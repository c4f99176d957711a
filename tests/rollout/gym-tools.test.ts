// gymTools: an agent plays an environment behind the gym protocol, on Holdfast's own server and a third-party one.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import {
  createSessions,
  defineAgent,
  memoryStore,
  scriptedModel,
  type Conversations,
  type Json,
  type Store,
} from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { gymTools } from "../../src/rollout/gym-tools.ts";
import { serve } from "../../src/server/serve.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { codeOf, finish } from "../agent/engine.ts";

const engine = (): Conversations => createSessions({ app: "app", store: memoryStore() });

async function served(store: Store = memoryStore()): Promise<string> {
  const serving = await serve({ environments: [gymCounter], store, port: 0, log: { what: "none" } });
  onTestFinished(() => serving.close());
  return serving.url;
}

const adding = (...counts: Json[]) => ({
  calls: counts.map((count) => ({ name: "increment_counter", arguments: { count } })),
});
const reading = { calls: [{ name: "get_counter_value" }] };

const outputs = (events: { type: string; items?: unknown }[]): string[] =>
  events.flatMap(({ type, items }) =>
    type === "tools.answered" ? (items as { output: string }[]).map(({ output }) => output) : [],
  );

test("an agent plays an episode on a server, with the tools the server describes", async () => {
  const url = await served();
  const sessions = engine();
  const shown: unknown[] = [];
  const model = scriptedModel((request, turn) => {
    shown.push(request.tools);
    return [
      adding(1, 2),
      { calls: [{ name: "say" }, { name: "crash" }, { name: "picky" }] },
      reading,
      "Done.",
      reading,
      "Done.",
    ][turn];
  });
  const agent = defineAgent({ name: "player", model, toolsets: [gymTools(`${url}/`)] });
  const { session } = await sessions.open({ state: { task: { initial_count: 3, expected_count: 6 } } });
  const { events } = await finish(agent, { sessions, session, message: "go" });
  expect(shown[0]).toContainEqual({
    type: "function",
    name: "increment_counter",
    description: "Add to the counter.",
    parameters: expect.objectContaining({ type: "object", required: ["count"] }) as object,
  });
  const [first, second, said, crashed, picky, read] = outputs(events);
  expect([first, second, said, read]).toEqual(['{"success":true}', '{"success":true}', 'it is "6"', '{"count":6}']);
  expect(JSON.parse(crashed as string)).toMatchObject({ error: { code: "tool_failed", message: "boom" } });
  expect(JSON.parse(picky as string)).toMatchObject({ error: { code: "invalid_input" } });
  const cookies = (await sessions.state(session))[`gym:${url}`] as Record<string, string>;
  expect(Object.keys(cookies)).toEqual(["holdfast_gym_counter"]);
  // Another process has only the state.
  const other = defineAgent({ name: "player", model, toolsets: [gymTools(url)] });
  expect(outputs((await finish(other, { sessions, session, message: "and?" })).events)).toEqual(['{"count":6}']);
  const verified = await fetch(`${url}/verify`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json", cookie: `holdfast_gym_counter=${cookies["holdfast_gym_counter"]}` },
  });
  expect(await verified.json()).toMatchObject({ reward: 1, count: 6, holdfast: { reseeds: 0 } });

  const { version } = await sessions.info(session);
  expect(await sessions.replay(session, { agent })).toEqual({ same: true, events: version });
});

test("ONCE: interrupted after a call reached the server, it is not applied again", async () => {
  const url = await served();
  const sessions = engine();
  const tools = gymTools(url);
  const cut = new AbortController();
  let calls = 0;
  const cutting = {
    ...tools,
    call: async (...given: Parameters<typeof tools.call>) => {
      const output = await tools.call(...given);
      if (++calls === 2) cut.abort();
      return output;
    },
  };
  const model = scriptedModel([adding(1), adding(10), reading, "Done."]);
  const agent = (toolset: typeof tools) => defineAgent({ name: "player", model, toolsets: [toolset] });
  const { session } = await sessions.open({ state: { task: { initial_count: 0 } } });
  const running = finish(agent(cutting), { sessions, session, message: "go", signal: cut.signal });
  expect(await codeOf(running)).toBe("run_cancelled");
  // As another process.
  const { events } = await finish(agent(gymTools(url)), { sessions, session });
  expect(outputs(events)).toEqual(['{"success":true}', '{"count":11}']);
});

/** A third-party server: cookies come and go, and replies are any text. */
async function foreign(reply: (request: IncomingMessage, body: string, seen: number) => [number, string, string[]?]) {
  const requests: { path: string; cookie: string | undefined; body: string }[] = [];
  let atOnce = 0;
  const server = createServer(async (request, response) => {
    expect(++atOnce).toBe(1);
    let body = "";
    for await (const chunk of request) body += String(chunk);
    await new Promise((resolve) => setTimeout(resolve, 2));
    requests.push({ path: request.url ?? "", cookie: request.headers.cookie, body });
    const [status, text, cookies = []] = reply(request, body, requests.length);
    if (cookies.length > 0) response.setHeader("set-cookie", cookies);
    atOnce--;
    response.writeHead(status).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

const parameters = { type: "object", properties: {} };

test("a third-party server gets one call at a time, cookies are merged, and the model reads any reply", async () => {
  const { url, requests } = await foreign((_, __, seen) => {
    if (seen === 1) return [200, "{}", ["a=1; Path=/; HttpOnly", 'b="x=y"; Path=/']];
    if (seen === 2) return [500, "\"KeyError('boom')\""];
    if (seen === 3) return [200, '{"a": 1}', ["a=2"]];
    return [200, "plain"];
  });
  const sessions = engine();
  const model = scriptedModel([
    { calls: [{ name: "one" }, { name: "two", arguments: [1] }, { name: "one" }] },
    "Done.",
  ]);
  const tools = ["one", "two"].map((name) => ({ type: "function" as const, name, parameters }));
  const task = () => ({ row: 7 });
  const agent = defineAgent({ name: "player", model, toolsets: [gymTools(url, { tools, task })] });
  const { session } = await sessions.open();
  const { events } = await finish(agent, { sessions, session, message: "go" });
  expect(requests).toEqual([
    { path: "/seed_session", cookie: undefined, body: '{"row":7}' },
    { path: "/one", cookie: 'a=1; b="x=y"', body: "{}" },
    { path: "/two", cookie: 'a=1; b="x=y"', body: "[1]" },
    { path: "/one", cookie: 'a=2; b="x=y"', body: "{}" },
  ]);
  const [failed, spaced, plain] = outputs(events);
  expect(failed).toContain("the server answered 500: \\\"KeyError('boom')\\\"");
  // Unchanged, spaces included.
  expect([spaced, plain]).toEqual(['{"a": 1}', "plain"]);
});

test("an unreachable server, or one that does not describe its tools, is reported", async () => {
  const sessions = engine();
  const { url } = await foreign(() => [404, '{"detail":"Not Found"}']);
  const asking = defineAgent({ name: "player", model: scriptedModel(["Hi."]), toolsets: [gymTools(url)] });
  const { events, outcome } = await finish(asking, { sessions, message: "go" });
  expect(outcome).toBe("failed");
  expect(events.at(-1)).toMatchObject({ type: "agent.failed", step: "tools", error: { code: "invalid_agent" } });

  const gone = "http://127.0.0.1:1";
  const tools = [{ type: "function" as const, name: "one", parameters }];
  const model = scriptedModel([{ calls: [{ name: "one" }] }, "Done."]);
  const calling = defineAgent({ name: "player", model, toolsets: [gymTools(gone, { tools })] });
  const [output] = outputs((await finish(calling, { sessions, message: "go" })).events);
  expect(JSON.parse(output as string)).toMatchObject({
    error: {
      code: "server_failed",
      message: expect.stringContaining(`the server at ${gone} could not be reached`) as string,
    },
  });
  expect(() => gymTools("localhost:8080")).toThrow("not a valid server URL");
});

test("an abort ends a call that the server does not answer", async () => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const tools = [{ type: "function" as const, name: "one", parameters }];
  const model = scriptedModel([{ calls: [{ name: "one" }] }, "Done."]);
  const agent = defineAgent({ name: "player", model, toolsets: [gymTools(url, { tools })] });
  const running = finish(agent, { sessions: engine(), message: "go", signal: AbortSignal.timeout(100) });
  expect(await codeOf(running)).toBe("run_cancelled");
});
