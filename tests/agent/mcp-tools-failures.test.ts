// mcpTools: servers that lose a session, refuse a request, exit, or send an unusual answer.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mcpTools, type Json, type McpToolsOptions } from "holdfast";
import { expect, onTestFinished, test, vi } from "vitest";

interface Asked {
  id: number;
  method: string;
  /** The session in the request's header. */
  session: string | undefined;
}

const json = { "content-type": "application/json" };

const send = (response: ServerResponse, status: number, { id }: Asked, answer: object, headers = {}): void => {
  response.writeHead(status, { ...json, ...headers }).end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
};

/** Starts an MCP server with the sessions s1, s2 and so on. `answer` answers each call, and may answer other requests. */
async function startServer(answer: (asked: Asked, response: ServerResponse) => boolean | void) {
  let sessions = 0;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += String(chunk)));
    request.on("end", () => {
      const asked: Asked = { ...JSON.parse(text), session: request.headers["mcp-session-id"] };
      const isCall = asked.method === "tools/call";
      if (answer(asked, response) === true || isCall) return;
      if (asked.method === "initialize") {
        const headers = { "mcp-session-id": `s${++sessions}` };
        send(response, 200, asked, { result: { protocolVersion: "2025-11-25" } }, headers);
      } else if (asked.id === undefined) response.writeHead(202).end();
      else send(response, 200, asked, { result: { tools: [{ name: "add" }] } });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** Returns the options of a child process. The code in `onCall` runs for each call, with its `id` and its tool's `name`. */
const child = (onCall: string): McpToolsOptions => ({
  command: process.execPath,
  args: [
    "-e",
    `const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
    const text = (text) => ({ result: { content: [{ type: "text", text }] } });
    const calls = [];
    let initialized = 0;
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method === "initialize" && ++initialized) send({ id, result: { protocolVersion: "2025-11-25" } });
      if (method !== "tools/call") return;
      const { name } = params;
      calls.push({ id, name });
      ${onCall}
    });`,
  ],
});

const text = (text: string): object => ({ result: { content: [{ type: "text", text }] } });

/** Creates the tools, and functions that list and call them in one conversation. */
function use(options: McpToolsOptions) {
  const tools = mcpTools(options);
  onTestFinished(() => tools.close());
  const state: { [key: string]: unknown } = {};
  const contextOf = (session: string, signal: AbortSignal) => {
    const update = (key: string, change: () => unknown): unknown => (state[key] = change());
    return { session, invocation: "invocation", state, update, signal } as never;
  };
  const never = new AbortController().signal;
  return {
    state,
    list: (signal = never) => tools.list(contextOf("session", signal)),
    call: (tool = "add", { session = "session", signal = never } = {}): Promise<Json> =>
      tools.call(contextOf(session, signal), { tool, call: "c1", input: {}, once: "1" }),
    close: () => tools.close(),
  };
}

test("a status of 404 without a JSON-RPC message means that the session is lost, and a new one is initialized", async () => {
  const url = await startServer((asked, response) => {
    if (asked.method !== "tools/call") return;
    if (asked.session === "s1") response.writeHead(404).end("no such session");
    else send(response, 200, asked, text("added"));
  });
  const { call, state } = use({ url });
  expect(await call()).toBe("added");
  expect(Object.values(state)).toMatchObject([{ session: "s2" }]);
});

test.each([
  { id: null, error: { code: -32000, message: "Bad Request: Server not initialized" } },
  { id: null, error: { code: -32600, message: "Bad Request: No valid session ID provided" } },
  "Bad Request: No valid session ID provided",
])("a status of 400 about the session means that the session is lost: %j", async (refusal) => {
  const url = await startServer((asked, response) => {
    if (asked.method !== "tools/call") return;
    if (asked.session === "s1")
      response.writeHead(400).end(typeof refusal === "string" ? refusal : JSON.stringify(refusal));
    else send(response, 200, asked, text("added"));
  });
  expect(await use({ url }).call()).toBe("added");
});

test("a status of 400 about the arguments is a refusal of the call", async () => {
  const calls: unknown[] = [];
  const url = await startServer((asked, response) => {
    if (asked.method !== "tools/call") return;
    calls.push(asked.session);
    send(response, 400, asked, { error: { code: -32602, message: "the session ID must be a number" } });
  });
  await expect(use({ url }).call()).rejects.toMatchObject({ code: "tool_failed" });
  expect(calls).toEqual(["s1"]);
});

test.each([
  [401, "server_failed"],
  [307, "server_failed"],
  [202, "outcome_unknown"],
  [502, "outcome_unknown"],
])("a call that gets status %i without a JSON-RPC message fails as %s", async (status, code) => {
  const url = await startServer(({ method }, response) => {
    if (method === "tools/call") response.writeHead(status).end("no message");
  });
  const message = expect.stringContaining(`answered with status ${status}, without a JSON-RPC message`);
  await expect(use({ url }).call()).rejects.toMatchObject({ code, message });
});

test("a call that waits for a new session continues when another call that waits for it is cancelled", async () => {
  let open: (() => void) | undefined;
  const url = await startServer((asked, response) => {
    if (asked.method !== "initialize") return false;
    open = () => send(response, 200, asked, { result: { protocolVersion: "2025-11-25" } });
    return true;
  });
  const { list } = use({ url });
  const leaving = new AbortController();
  const [left, stayed] = [list(leaving.signal), list()];
  await vi.waitFor(() => expect(open).toBeDefined());
  leaving.abort(new Error("cancelled"));
  await expect(left).rejects.toThrow("cancelled");
  open?.();
  expect(await stayed).toMatchObject([{ name: "add" }]);
});

test("a list with repeated tools or a repeated cursor has each tool once", async () => {
  let pages = 0;
  const url = await startServer((asked, response) => {
    if (asked.method !== "tools/list") return false;
    const tools = [{ name: "add" }, { name: `page${++pages}` }, { name: "add", description: "again" }];
    send(response, 200, asked, { result: { tools, nextCursor: pages % 2 === 0 ? "a" : "b" } });
    return true;
  });
  const names = (await use({ url }).list()).map(({ name }) => name);
  expect(names).toEqual(["add", "page1", "page2", "page3"]);
});

const refused = { code: -32601, message: "the client does not support roots/list" };

test("a server's requests during a call are answered, over HTTP", async () => {
  const answers: unknown[] = [];
  const url = await startServer((asked, response) => {
    if (asked.method === undefined) {
      answers.push(asked);
      response.writeHead(200, { "content-type": "text/event-stream" });
      // A request in the reply to an answer is wrong, and is ignored.
      response.end(`data: {"jsonrpc":"2.0","id":"again","method":"ping"}\n\n`);
      return true;
    }
    if (asked.method !== "tools/call") return false;
    response.writeHead(200, { "content-type": "text/event-stream" });
    const stream = (message: object) => response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
    // The ids of the server and the client may be equal.
    stream({ id: asked.id, method: "ping" });
    stream({ id: "r", method: "roots/list" });
    stream({ method: "notifications/message", params: {} });
    void vi.waitFor(() => expect(answers).toHaveLength(2)).then(() => stream({ id: asked.id, ...text("added") }));
    return true;
  });
  expect(await use({ url }).call()).toBe("added");
  expect(answers).toContainEqual({ jsonrpc: "2.0", id: 2, result: {}, session: "s1" });
  expect(answers).toHaveLength(2);
  expect(answers).toContainEqual({ jsonrpc: "2.0", id: "r", error: refused, session: "s1" });
});

test("a server's requests during a call are answered, by a child process's input", async () => {
  const { call } = use({
    command: process.execPath,
    args: [
      "-e",
      `const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
      const answers = [];
      let called;
      require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
        const { id, method, result, error } = JSON.parse(line);
        if (method === "initialize") send({ id, result: { protocolVersion: "2025-11-25" } });
        if (method === "tools/call") {
          called = id;
          send({ id, method: "ping" });
          send({ id: "r", method: "roots/list" });
        }
        if (method === undefined && answers.push({ id, result, error }) === 2)
          send({ id: called, result: { content: [], structuredContent: { answers } } });
      });`,
    ],
  });
  expect(await call()).toEqual({
    answers: [
      { id: 2, result: {} },
      { id: "r", error: refused },
    ],
  });
});

test("a child process's reply without an id is not given to a call", async () => {
  const { call } = use(
    child(`
      if (calls.length < 2) return;
      send({ id: null, error: { code: -32700, message: "a line that is not JSON" } });
      for (const { id, name } of calls) send({ id, ...text(name) });
    `),
  );
  expect(await Promise.all([call("a"), call("b")])).toEqual(["a", "b"]);
});

test("a call fails as server_failed if the server fails before it gets the call", async () => {
  const url = await startServer(({ method }, response) => {
    if (method === "initialize") response.writeHead(502).end();
    return method === "initialize";
  });
  const message = expect.stringMatching(/without a JSON-RPC message$/);
  await expect(use({ url }).call()).rejects.toMatchObject({ code: "server_failed", message });
});

test("calls that find the child process gone initialize the next one once", async () => {
  const { call } = use(child(`if (name === "exit") process.exit(); else send({ id, ...text(String(initialized)) });`));
  await expect(call("exit")).rejects.toMatchObject({ code: "outcome_unknown" });
  expect(await Promise.all([call(), call(), call()])).toEqual(["1", "1", "1"]);
});

test("a child process that cannot be spawned fails at once, and leaves no timer behind", async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const message = expect.stringContaining("cannot be started: spawn ENOTDIR");
  const { list } = use({ command: process.execPath, cwd: import.meta.filename });
  await expect(list()).rejects.toMatchObject({ code: "server_failed", message });
  expect(timers()).toBeLessThanOrEqual(before);
});

test("a call during close() gets a new child process, which the end of the old one does not disturb", async () => {
  const { call, close } = use(
    child(`
      if (name !== "held") for (const { id } of calls.splice(0)) send({ id, ...text(String(process.pid)) });
    `),
  );
  const first = await call();
  const closing = close();
  const held = call("held");
  await closing;
  const [second] = await Promise.all([held, call()]);
  expect(Number(second)).not.toBe(Number(first));
});

test("close() ends although the child process could not be started", async () => {
  const { list, close } = use({ command: "no-such-program" });
  const listing = list();
  await close();
  await expect(listing).rejects.toThrow("cannot be started");
});

test("a child process's output may contain U+2028, which some Node versions read as the end of a line", async () => {
  const { call } = use(child(`send({ id, ...text("a\\u2028b") });`));
  expect(await call()).toBe("a\u2028b");
});

test("a child process that sends a message larger than 64 MB is ended, and its calls fail", async () => {
  const { call } = use(
    child(`
      if (name === "small") return send({ id, ...text("small") });
      for (let part = 0; part < 65; part++) process.stdout.write("x".repeat(1024 * 1024));
    `),
  );
  const message = expect.stringContaining("sent a message larger than 64 MB");
  await expect(call("large")).rejects.toMatchObject({ code: "outcome_unknown", message });
  expect(await call("small")).toBe("small");
});

test("a call ends with its reply, although the server keeps the event stream open", async () => {
  // The client closes the stream after a moment, which never comes.
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const url = await startServer(({ id, method }, response) => {
    if (method !== "tools/call") return;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", id, ...text("added") })}\n\n`);
  });
  expect(await use({ url }).call()).toBe("added");
});

test("a reply with `structuredContent: null` returns its text", async () => {
  const url = await startServer((asked, response) => {
    const result = { content: [{ type: "text", text: "added" }], structuredContent: null };
    if (asked.method === "tools/call") send(response, 200, asked, { result });
  });
  expect(await use({ url }).call()).toBe("added");
});
