// mcpTools: an agent uses the tools of an MCP server, over HTTP in both eras and as a child process.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  mcpTools,
  memoryStore,
  scriptedModel,
  tool,
  type Json,
  type McpToolsOptions,
  type Script,
  type Store,
} from "holdfast";
import { serve } from "holdfast/serve";
import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { createProcessServer } from "../../src/agent/mcp/process.ts";
import { finish } from "./engine.ts";

/** Called when a call of the tool `hang` has started. */
let onHang = (): void => undefined;

const tally = defineEnvironment({
  name: "tally",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ start: z.number() }),
  seed: ({ task }) => ({ count: task.start }),
  tools: {
    add: tool({
      description: "Add to the count.",
      input: z.object({ by: z.number() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
    hang: tool({
      description: "Hang.",
      concurrent: true,
      timeout: 1_000,
      run: () => {
        onHang();
        return new Promise<never>(() => undefined);
      },
    }),
  },
  verify: () => 0,
});

async function startServer(store: Store, port = 0) {
  const serving = await serve({ environments: [tally], store, port, log: { what: "none" } });
  onTestFinished(() => serving.close());
  return serving;
}

const adding = (by: number) => ({ calls: [{ name: "add", arguments: { by } }] });

function agentOf(script: Script, options: McpToolsOptions) {
  const toolset = mcpTools(options);
  onTestFinished(() => toolset.close());
  return defineAgent({ name: "player", model: scriptedModel(script), toolsets: [toolset] });
}

const outputs = (events: readonly { type: string }[]): Json[] =>
  (events as { type: string; items?: { output: string }[] }[]).flatMap((event) =>
    event.type === "tools.answered" ? (event.items ?? []).map(({ output }) => JSON.parse(output) as Json) : [],
  );

const countOf = async (store: Store): Promise<unknown[]> => {
  const sessions = createSessions({ environment: tally, store });
  const states: unknown[] = [];
  for await (const { session } of sessions.list()) states.push(await sessions.state(session));
  return states;
};

test("each conversation has a session on the server, which continues after both processes were replaced", async () => {
  const store = memoryStore();
  const first = await startServer(store);
  const url = `${first.url}/mcp`;
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open();
  const script = [
    {
      calls: [
        { name: "add", arguments: { by: 1 } },
        { name: "add", arguments: { by: 2 } },
      ],
    },
    "Done.",
    adding(4),
    "Done.",
  ];
  const { events } = await finish(agentOf(script, { url }), { sessions, session, message: "go" });
  expect(outputs(events)).toEqual([{ count: expect.any(Number) }, { count: expect.any(Number) }]);
  await first.close();
  await startServer(store, Number(new URL(url).port));
  const more = await finish(agentOf(script, { url }), { sessions, session, message: "more" });
  expect(outputs(more.events)).toEqual([{ count: 7 }]);
  const other = await finish(agentOf([adding(1), "Done."], { url }), { sessions, message: "go" });
  expect(outputs(other.events)).toEqual([{ count: 1 }]);
  expect(await countOf(store)).toEqual([{ count: 7 }, { count: 1 }]);
});

test("a session that the server has ended is replaced by a new one", async () => {
  const store = memoryStore();
  const { url } = await startServer(store);
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open();
  const script = [adding(1), "Done.", adding(5), "Done."];
  await finish(agentOf(script, { url: `${url}/mcp` }), { sessions, session, message: "go" });
  const [state] = Object.values(await sessions.state(session)) as { session: string; version: string }[];
  if (!state) throw new Error("the state has no greeting");
  expect(state.version).toBe("2025-11-25");
  await fetch(`${url}/mcp`, { method: "DELETE", headers: { "mcp-session-id": state.session } });
  const more = await finish(agentOf(script, { url: `${url}/mcp` }), { sessions, session, message: "go" });
  expect(outputs(more.events)).toEqual([{ count: 5 }]);
});

test("FORK: a fork has a session of its own on the server, and the state does not show the URL", async () => {
  const store = memoryStore();
  const { url } = await startServer(store);
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open();
  const agent = agentOf([adding(1), "Done.", adding(5), "Done."], { url: `${url}/mcp?key=secret` });
  await finish(agent, { sessions, session, message: "go" });
  expect(JSON.stringify(await sessions.state(session))).not.toContain("secret");
  const fork = await sessions.fork(session);
  const child = await finish(agent, { sessions, session: fork.session, message: "more" });
  expect(outputs(child.events)).toEqual([{ count: 5 }]);
  const parent = await finish(agent, { sessions, session, message: "more" });
  expect(outputs(parent.events)).toEqual([{ count: 6 }]);
});

test("a bound agent plays the session of its token, and reads refusals", async () => {
  const store = memoryStore();
  const { url } = await startServer(store);
  const headers = { "content-type": "application/json" };
  const opened = await fetch(`${url}/v1/sessions`, { method: "POST", headers, body: '{"task":{"start":10}}' });
  const { mcp } = (await opened.json()) as { mcp: { url_path: string; headers: { [name: string]: string } } };
  const script = [adding(1), { calls: [{ name: "add", arguments: { by: "x" } }] }, "Done."];
  const agent = agentOf(script, { url: url + mcp.url_path, headers: mcp.headers, effects: "once" });
  const { events } = await finish(agent, {
    sessions: createSessions({ app: "app", store: memoryStore() }),
    message: "go",
  });
  expect(outputs(events)).toEqual([
    { count: 11 },
    { error: { code: "tool_failed", message: expect.stringContaining("by: ") } },
  ]);
});

test("a server of the stateless era is used without a session", async () => {
  const seen: { method: string; header: string | undefined; meta: unknown }[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += String(chunk)));
    request.on("end", () => {
      const { id, method, params } = JSON.parse(text) as {
        id: number;
        method: string;
        params: { [key: string]: unknown };
      };
      seen.push({ method, header: request.headers["mcp-method"] as string | undefined, meta: params["_meta"] ?? null });
      const isOld = method === "initialize";
      const tools = [{ name: "add", inputSchema: { type: "object" } }];
      const result = {
        resultType: "complete",
        ...(method === "tools/list" ? { tools } : { content: [], structuredContent: [1] }),
      };
      const error = { code: -32601, message: "no such method" };
      const reply = { jsonrpc: "2.0", id, ...(isOld ? { error } : { result }) };
      response.writeHead(isOld ? 404 : 200, { "content-type": "text/event-stream" });
      response.end(
        `event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\ndata: ${JSON.stringify(reply)}\n\n`,
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const agent = agentOf([adding(1), "Done."], { url });
  const { events } = await finish(agent, {
    sessions: createSessions({ app: "app", store: memoryStore() }),
    message: "go",
  });
  expect(outputs(events)).toEqual([[1]]);
  expect(seen.map(({ method }) => method)).toContain("tools/call");
  for (const { method, header, meta } of seen.filter(({ method }) => method !== "initialize")) {
    expect(header).toBe(method);
    expect(meta).toMatchObject({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
  }
});

test("an interrupted call is not repeated, unless the server applies it once", async () => {
  const { url } = await startServer(memoryStore());
  for (const effects of ["external", "once"] as const) {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { session } = await sessions.open();
    const agent = agentOf([{ calls: [{ name: "hang" }] }, "Done."], { url: `${url}/mcp`, effects });
    const leaving = new AbortController();
    onHang = () => leaving.abort();
    await finish(agent, { sessions, session, message: "go", signal: leaving.signal }).catch(() => undefined);
    const again = agentOf(["Done."], { url: `${url}/mcp`, effects, timeout: 300 });
    const { events } = await finish(again, { sessions, session });
    const [failed] = outputs(events) as { error: { code: string; message: string } }[];
    const code = effects === "external" ? "outcome_unknown" : "server_failed";
    const message = expect.stringContaining(effects === "external" ? "before the run was cut short" : "300 ms");
    expect(failed?.error).toEqual({ code, message });
  }
});

test.each([
  [503, -32000, "outcome_unknown"],
  [200, -32603, "outcome_unknown"],
  [400, -32600, "server_failed"],
  // Many servers answer a model's mistakes with this code: an unknown tool, or invalid arguments.
  [200, -32602, "tool_failed"],
  [400, -32602, "tool_failed"],
  [500, -32602, "outcome_unknown"],
  // A Holdfast server sends its own error code.
  [409, -32600, "outcome_unknown", { code: "outcome_unknown" }],
])("an error with status %i and code %i is read as %s", async (status, code, wanted, data?: object) => {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += String(chunk)));
    request.on("end", () => {
      const { id, method } = JSON.parse(text) as { id: number; method: string };
      const isCall = method === "tools/call";
      const answer = isCall ? { error: { code, message: "no", data } } : { result: { tools: [{ name: "add" }] } };
      response.writeHead(isCall ? status : 200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { events } = await finish(agentOf([adding(1), "Done."], { url }), { sessions, message: "go" });
  const message = wanted === "tool_failed" || data ? "no" : expect.stringContaining(": no");
  expect(outputs(events)).toEqual([{ error: { code: wanted, message } }]);
});

test("a child process is a server, and is started again after it exits", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-mcp-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const calls = join(folder, "calls");
  const script = [
    adding(1),
    adding(2),
    { calls: [{ name: "refuse" }] },
    { calls: [{ name: "hang" }] },
    { calls: [{ name: "exit" }] },
    adding(4),
    "Done.",
  ];
  const agent = agentOf(script, {
    command: process.execPath,
    args: [join(import.meta.dirname, "mcp-server.mjs")],
    env: { CALLS: calls },
    timeout: 2_000,
  });
  const { events } = await finish(agent, {
    sessions: createSessions({ app: "app", store: memoryStore() }),
    message: "go",
  });
  expect(outputs(events)).toEqual([
    1,
    3,
    { error: { code: "tool_failed", message: "not today" } },
    { error: { code: "outcome_unknown", message: expect.stringContaining("did not answer within 2000 ms") } },
    { error: { code: "outcome_unknown", message: expect.stringContaining("exited (code 1)") } },
    4,
  ]);
  expect(await readFile(calls, "utf8")).toBe("add\nadd\nadd\n");
});

test("a child process does not get the secrets in the environment variables", async () => {
  vi.stubEnv("HOLDFAST_SECRET", "secret");
  vi.stubEnv("LC_TIME", "C");
  onTestFinished(() => void vi.unstubAllEnvs());
  for (const env of [undefined, { GIVEN: "1" }]) {
    const args = [join(import.meta.dirname, "mcp-server.mjs")];
    const agent = agentOf([{ calls: [{ name: "variables" }] }, "Done."], { command: process.execPath, args, env });
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { events } = await finish(agent, { sessions, message: "go" });
    const [names] = outputs(events);
    expect(names).toEqual(expect.arrayContaining(["PATH", "LC_TIME", ...Object.keys(env ?? {})]));
    expect(names).not.toContain("HOLDFAST_SECRET");
  }
});

test("wrong options and unreachable servers are named", async () => {
  expect(() => mcpTools({ url: "localhost:8080" })).toThrow("is not a valid MCP server URL");
  expect(() => mcpTools({ url: "http://localhost", timeout: -1 })).toThrow("the timeout of an MCP server must be");
  const context = { signal: new AbortController().signal } as never;
  await expect(mcpTools({ url: "http://127.0.0.1:9/mcp" }).list(context)).rejects.toMatchObject({
    code: "server_failed",
  });
  await expect(mcpTools({ command: "no-such-program" }).list(context)).rejects.toThrow("cannot be started");
});

test("a request that was cancelled before it is sent rejects with the reason, and leaves no timer behind", async () => {
  const server = createProcessServer({ command: process.execPath, args: ["-e", "process.stdin.resume()"] });
  const reason = new Error("no longer wanted");
  const call = { timeout: 600_000, signal: AbortSignal.abort(reason), isRepeatable: true };
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  await expect(server.greet(call)).rejects.toBe(reason);
  expect(timers()).toBe(before);
  await server.close();
});
