// The MCP server: the official clients of both eras, bound and unbound, on the same path.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { gate } from "../agent/engine.ts";
import { gymCounter, countOpen } from "./gym-client.ts";
import { ask, clientV1, clientV2, modern, replicaOf, type ClientOptions, type Replica } from "./mcp-client.ts";

const counter = defineEnvironment({
  name: "counter",
  description: "Count to the goal.",
  state: z.object({ count: z.number().default(0), secret: z.string().default("hidden") }),
  task: z.object({ start: z.number(), goal: z.number() }),
  seed: ({ task }) => ({ count: task.start, secret: `goal ${task.goal}` }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
    slowly: tool({
      description: "Add one, with an await between reading and writing.",
      run: async ({ state }) => {
        const before = state.count;
        await sleep(1);
        state.count = before + 1;
        return { count: state.count };
      },
    }),
    say: tool({ description: "Say the count.", run: ({ state }) => `it is ${state.count}` }),
    list: tool({ description: "Give a list.", run: ({ state }) => [state.count] }),
    fail: tool({
      description: "Fail.",
      run: () => {
        throw new Error("the goal is blocked");
      },
    }),
    wait: tool({
      description: "Wait.",
      input: z.object({ ms: z.number() }),
      concurrent: true,
      run: async ({ signal, update }, { ms }) => {
        await sleep(ms, undefined, { signal });
        update((state) => void state.count++);
        return "done";
      },
    }),
  },
  verify: ({ state, task }) => ({ reward: Number(state.count === task.goal) }),
});

type Counter = typeof counter;

/** Opens a seeded session and returns its MCP address. */
async function bound({ sessions, bindings }: Replica<Counter>, tools?: string[]) {
  const { session } = await sessions.open({ task: { start: 0, goal: 5 } });
  const { headers, bound_url_path: path } = bindings.address(session, tools);
  return { session, headers, path };
}

const clients = [
  { name: "SDK v1", connect: (replica: Replica, options: ClientOptions) => clientV1(replica, options) },
  {
    name: "SDK v2, initialize",
    connect: (replica: Replica, options: ClientOptions) => clientV2(replica, { ...options, era: "legacy" }),
  },
  {
    name: "SDK v2, stateless",
    connect: (replica: Replica, options: ClientOptions) => clientV2(replica, { ...options, era: "modern" }),
  },
] as const;

describe.each(clients)("$name", ({ connect }) => {
  test("reads the schema of a tool's result, and a result that it refuses is an error of the tool", async () => {
    const output = z.object({ count: z.number() });
    const environment = defineEnvironment({
      name: "checked",
      state: z.object({ count: z.number().default(0) }),
      tools: {
        right: tool({ description: "Right.", output, run: ({ state }) => ({ count: ++state.count }) }),
        wrong: tool({ description: "Wrong.", output, run: async ({ state }) => ({ count: `${++state.count}` }) }),
        listed: tool({ description: "A list.", output: z.array(z.number()), run: () => [1] }),
      },
      unseeded: "defaults",
    });
    const replica = replicaOf(environment);
    const { session } = await replica.sessions.open();
    const client = await connect(replica, { path: replica.bindings.address(session).bound_url_path });
    const { tools } = await client.listTools();
    const outputSchema = { type: "object", properties: { count: { type: "number" } }, required: ["count"] };
    expect(tools).toMatchObject([{ outputSchema }, { outputSchema }, { name: "listed" }]);
    expect(tools[2]).not.toHaveProperty("outputSchema");
    expect(await client.callTool({ name: "right" })).toMatchObject({ structuredContent: { count: 1 } });
    const wrong = await client.callTool({ name: "wrong" });
    expect(wrong).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("count: ") }] });
    expect(await client.callTool({ name: "listed" })).toMatchObject({ content: [{ text: "[1]" }] });
    expect(await replica.sessions.state(session)).toEqual({ count: 1 });
  });

  test("lists and calls the tools of a session that the path names, and gets no session id", async () => {
    const replica = replicaOf(counter);
    const { session, path } = await bound(replica);
    const client = await connect(replica, { path });
    expect(client.sessionId()).toBeUndefined();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["add", "slowly", "say", "list", "fail", "wait"]);
    expect(tools[0]?.inputSchema).toMatchObject({ type: "object", required: ["by"] });
    const added = await client.callTool({ name: "add", arguments: { by: 5 } });
    expect(added).toMatchObject({ content: [{ type: "text", text: '{"count":5}' }], structuredContent: { count: 5 } });
    expect(await client.callTool({ name: "say" })).toMatchObject({ content: [{ type: "text", text: "it is 5" }] });
    const listed = await client.callTool({ name: "list" });
    expect(listed).toMatchObject({ content: [{ text: "[5]" }] });
    expect(listed).not.toHaveProperty("structuredContent");
    await client.close();
    expect(await replica.sessions.info(session)).not.toHaveProperty("ended");
    expect(await replica.sessions.verify(session)).toMatchObject({ reward: 1 });
  });

  test("is bound by the header as NeMo Gym sends it", async () => {
    const replica = replicaOf(counter);
    const { session, headers } = await bound(replica);
    const client = await connect(replica, { path: "/counter/mcp", headers });
    await client.callTool({ name: "add", arguments: { by: 2 } });
    expect(await replica.sessions.state(session)).toMatchObject({ count: 2 });
  });

  test("reads the model's mistakes as results that it can use", async () => {
    const replica = replicaOf(counter);
    const { path } = await bound(replica);
    const client = await connect(replica, { path });
    const wrong = await client.callTool({ name: "add", arguments: { by: "two" } });
    expect(wrong).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("by: ") }] });
    const failed = await client.callTool({ name: "fail" });
    expect(failed).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining("the goal is blocked") }],
    });
    const unknown = await client.callTool({ name: "verify" });
    expect(unknown).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("add, slowly, say") }] });
  });

  test("continues in the same session after the client and the server were replaced, and no call runs twice", async () => {
    const store = memoryStore();
    const first = replicaOf(counter, { store });
    const { session, path } = await bound(first);
    const call = { name: "add", arguments: { by: 2 }, _meta: { "claudecode/toolUseId": "toolu_1" } };
    await (await connect(first, { path })).callTool(call);
    const second = replicaOf(counter, { store });
    const client = await connect(second, { path });
    expect(await client.callTool(call)).toMatchObject({ structuredContent: { count: 2 } });
    await client.callTool({ ...call, _meta: { "claudecode/toolUseId": "toolu_2" } });
    expect(await second.sessions.state(session)).toMatchObject({ count: 4 });
  });

  test("64 parallel calls of one session run one at a time", async () => {
    const replica = replicaOf(counter);
    const { session, path } = await bound(replica);
    const several = await Promise.all([1, 2, 3, 4].map(() => connect(replica, { path })));
    const results = await Promise.all(
      Array.from({ length: 64 }, (_, at) => several[at % 4]!.callTool({ name: "slowly" })),
    );
    const counts = results.map(({ structuredContent }) => (structuredContent as { count: number }).count);
    expect(counts.sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, at) => at + 1));
    expect(await replica.sessions.state(session)).toMatchObject({ count: 64 });
  });

  test("gets notices of progress during a long call", async () => {
    const passing = gate();
    const slow = defineEnvironment({
      name: "slow",
      tools: { wait: tool({ description: "Wait.", run: () => passing.opened.then(() => "done") }) },
    });
    const replica = replicaOf(slow, { pace: { after: 10, every: 10 } });
    const { session } = await replica.sessions.open({ task: {} });
    const client = await connect(replica, { path: replica.bindings.address(session).bound_url_path });
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }): void => {
      if (seen.push(progress) === 3) passing.open();
    };
    expect(await client.callTool({ name: "wait" }, { onprogress })).toMatchObject({ content: [{ text: "done" }] });
    expect([...seen].sort((a, b) => a - b)).toEqual(seen);
  });

  test("gets the progress that a tool reports", async () => {
    const reporting = defineEnvironment({
      name: "reporting",
      state: z.object({ pages: z.number().default(0) }),
      tools: {
        read: tool({
          description: "Read pages.",
          input: z.object({ pages: z.array(z.number()) }),
          run: async ({ progress, state }, { pages }) => {
            for (const page of pages) {
              progress(page, 3, `page ${page}`);
              state.pages++;
              await sleep(5);
            }
          },
        }),
      },
    });
    const replica = replicaOf(reporting, { pace: { after: 10_000, every: 10_000 } });
    const { session } = await replica.sessions.open({ task: {} });
    const client = await connect(replica, { path: replica.bindings.address(session).bound_url_path });
    const seen: object[] = [];
    const options = { onprogress: (progress: object) => void seen.push(progress) };
    await client.callTool({ name: "read", arguments: { pages: [1, 2, 2] } }, options);
    const values = seen.map(({ progress }: { progress?: number }) => progress);
    expect(seen).toMatchObject([1, 2, 2].map((page) => ({ total: 3, message: `page ${page}` })));
    expect(values).toEqual([1, 2, expect.closeTo(2)]);
    expect(values[2]).toBeGreaterThan(2);
    await client.callTool({ name: "read", arguments: { pages: [1] } });
    expect(await replica.sessions.state(session)).toEqual({ pages: 4 });
  });

  test("cancels a running call, which then changes nothing", async () => {
    const store = memoryStore();
    const replica = replicaOf(counter, { store });
    const { session, path } = await bound(replica);
    const client = await connect(replica, { path });
    const leaving = new AbortController();
    const calling = client.callTool({ name: "wait", arguments: { ms: 3_000 } }, { signal: leaving.signal });
    const refused = expect(calling).rejects.toThrow();
    await sleep(50);
    leaving.abort(new Error("enough"));
    await refused;
    // An engine stops when nothing runs: a call that continues would add one before that.
    await replica.sessions.stop();
    const { sessions } = replicaOf(counter, { store });
    expect(await sessions.state(session)).toMatchObject({ count: 0 });
  }, 10_000);
});

describe("an unbound client", () => {
  test("of the era with initialize gets a session of its own, which every replica accepts", async () => {
    const store = memoryStore();
    const first = replicaOf(counter, { store });
    const client = await clientV1(first);
    const id = client.sessionId();
    expect(id).toBeTypeOf("string");
    expect(await countOpen(first.sessions)).toBe(0);
    await client.callTool({ name: "add", arguments: { by: 2 } });
    expect(await countOpen(first.sessions)).toBe(1);
    const headers = { "mcp-session-id": id ?? "" };
    const second = replicaOf(counter, { store });
    const { json } = await ask(second, {
      method: "tools/call",
      params: { name: "add", arguments: { by: 1 } },
      headers,
    });
    expect(json.result.structuredContent).toEqual({ count: 3 });
    await client.terminate();
    expect(await countOpen(first.sessions)).toBe(0);
    const after = await ask(second, { method: "tools/call", params: { name: "say" }, headers });
    expect(after).toMatchObject({ status: 404, json: { error: { code: -32001, data: { code: "session_closed" } } } });
    expect(await ask(second, { headers })).toMatchObject({ status: 404 });
  });

  test("of a session that was lost has to initialize again, and never gets an empty one", async () => {
    const store = memoryStore();
    const initialize = async (replica: Replica<Counter>) => {
      const { headers } = await ask(replica, { method: "initialize" });
      return { "mcp-session-id": headers.get("mcp-session-id") ?? "" };
    };
    const say = (replica: Replica<Counter>, headers: { [name: string]: string }, method = "tools/call") =>
      ask(replica, { method, params: { name: "say" }, headers });
    const sessionsIn = async (store: Store): Promise<string[]> => {
      const found: string[] = [];
      for await (const { session } of store.list({ environment: counter.name })) found.push(session);
      return found;
    };
    const [first, second] = [replicaOf(counter, { store }), replicaOf(counter, { store })];
    const used = await initialize(first);
    expect(await say(second, used)).toMatchObject({ status: 200 });
    expect(await say(first, used)).toMatchObject({ status: 200 });
    const unused = await initialize(first);
    const fresh = await initialize(first);
    await ask(first, { verb: "DELETE", headers: fresh });
    expect(await say(first, fresh)).toMatchObject({ status: 404, json: { error: { code: -32001 } } });
    // A client that calls nothing leaves no session, even if it ends its connection.
    expect(await sessionsIn(store)).toHaveLength(1);
    for (const session of await sessionsIn(store)) await store.delete(session);
    for (const replica of [first, second]) expect(await say(replica, used)).toMatchObject({ status: 404 });
    // Starts later, so it cannot know whether the session was opened.
    await sleep(2);
    const restarted = replicaOf(counter, { store });
    for (const method of ["tools/call", "tools/list", "ping"]) {
      for (const headers of [used, unused])
        expect(await say(restarted, headers, method)).toMatchObject({ status: 404 });
    }
    expect(await say(first, unused)).toMatchObject({ status: 200 });
    expect(await say(restarted, unused)).toMatchObject({ status: 200 });
    vi.useFakeTimers({ now: Date.now(), toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const early = await initialize(first);
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(await say(second, early)).toMatchObject({ status: 404 });
    expect(await say(first, early)).toMatchObject({ status: 200 });
  });

  test("does not open a session by guessing names of tools", async () => {
    const replica = replicaOf(counter);
    const client = await clientV1(replica);
    expect(await client.callTool({ name: "nope" })).toMatchObject({ isError: true });
    expect(await countOpen(replica.sessions)).toBe(0);
  });

  test("of the stateless era is told how to bind", async () => {
    const replica = replicaOf(counter);
    const client = await clientV2(replica, { era: "modern" });
    expect((await client.listTools()).tools).toHaveLength(6);
    await expect(client.callTool({ name: "say" })).rejects.toThrow("bound_url_path");
    const { json } = await ask(replica, { method: "server/discover", era: "modern" });
    expect(json.result).toMatchObject({
      supportedVersions: [modern],
      instructions: expect.stringContaining("/seed_session"),
    });
    expect(await countOpen(replica.sessions)).toBe(0);
  });
});

describe("a bound client", () => {
  test("may be bound by the cookie of the gym protocol, but a token wins over it", async () => {
    const replica = replicaOf(counter);
    const row = JSON.stringify({ start: 3, goal: 5 });
    const seeded = await replica.fetch("http://localhost/seed_session", { method: "POST", body: row });
    const cookie = seeded.headers.get("set-cookie")?.split(";")[0] ?? "";
    const say = { method: "tools/call", params: { name: "say" } };
    const byCookie = await ask(replica, { ...say, headers: { cookie } });
    expect(byCookie.json.result.content[0].text).toBe("it is 3");
    const { headers } = await bound(replica);
    const byToken = await ask(replica, { ...say, headers: { cookie, ...headers } });
    expect(byToken.json.result.content[0].text).toBe("it is 0");
    expect(byToken.headers.get("set-cookie")).toBeNull();
  });

  test("cannot end, seed or verify its session, and reads nothing but tools", async () => {
    const replica = replicaOf(counter);
    const { session, path, headers } = await bound(replica);
    expect(await ask(replica, { verb: "DELETE", path })).toMatchObject({ status: 405 });
    expect(await ask(replica, { verb: "GET", path })).toMatchObject({ status: 405 });
    for (const name of ["seed_session", "verify", "close_session", "state", "seed", "mcp", "v1/sessions"]) {
      const { json } = await ask(replica, { method: "tools/call", params: { name }, path });
      expect(json.result).toMatchObject({ isError: true });
    }
    for (const method of ["resources/list", "resources/read", "prompts/list", "tasks/get", "logging/setLevel"]) {
      expect((await ask(replica, { method, path })).json.error.code).toBe(-32601);
      expect(
        await ask(replica, { method, path, era: "modern", params: { uri: "x" }, headers: { "mcp-name": "x" } }),
      ).toMatchObject({
        status: 404,
        json: { error: { code: -32601 } },
      });
    }
    // The token is not a cookie: with it nobody can ask for the reward.
    const token = headers["X-NeMo-Gym-Session-Token"];
    const verified = await replica.fetch("http://localhost/verify", {
      method: "POST",
      body: JSON.stringify({ response: {} }),
      headers: { cookie: `holdfast_counter=${token}` },
    });
    expect(await verified.text()).not.toContain(session);
    expect(JSON.stringify(await replica.sessions.info(session))).not.toContain("ended");
    const everything = await ask(replica, { method: "tools/list", path });
    expect(everything.text).not.toContain("goal 5");
  });

  test("uses only the tools on the allow-list of its token", async () => {
    const replica = replicaOf(counter);
    const { path } = await bound(replica, ["say"]);
    const client = await clientV1(replica, { path });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["say"]);
    const refused = await client.callTool({ name: "add", arguments: { by: 1 } });
    expect(refused).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("not allowed") }] });
    const none = await bound(replica, []);
    expect((await ask(replica, { path: none.path })).json.result.tools).toEqual([]);
  });

  test("may send null in place of a tool's arguments", async () => {
    const replica = replicaOf(counter);
    const { path } = await bound(replica);
    const { json } = await ask(replica, { method: "tools/call", path, params: { name: "say", arguments: null } });
    expect(json.result.content).toEqual([{ type: "text", text: "it is 0" }]);
  });

  test("gives calls their ids in _meta, and never by the id of the request", async () => {
    const replica = replicaOf(counter);
    const { session, path } = await bound(replica);
    const add = (meta: object, id = 1) =>
      ask(replica, { method: "tools/call", id, path, params: { name: "add", arguments: { by: 1 }, _meta: meta } });
    for (const key of ["claudecode/toolUseId", "callId", "dev.holdfast/call"]) {
      const first = await add({ [key]: `${key}-1` }, 1);
      const second = await add({ [key]: `${key}-1` }, 2);
      expect(second.json.result).toEqual(first.json.result);
      expect(second.headers.get("holdfast-repeated")).toBe("true");
    }
    expect(await replica.sessions.state(session)).toMatchObject({ count: 3 });
    await Promise.all([add({}), add({})]);
    expect(await replica.sessions.state(session)).toMatchObject({ count: 5 });
  });

  test("is told of failures of the server by errors, not by results of tools", async () => {
    const replica = replicaOf(counter);
    const { session, path } = await bound(replica);
    await replica.sessions.close(session);
    const asked = { method: "tools/call", params: { name: "say" }, path, id: "a" };
    const closed = await ask(replica, asked);
    expect(closed).toMatchObject({
      status: 410,
      json: { id: "a", error: { code: -32001, data: { code: "session_closed" } } },
    });
    await replica.sessions.stop();
    const stopped = await ask(replica, { ...asked, era: "modern" });
    expect(stopped).toMatchObject({ status: 503, json: { id: "a", error: { code: -32603 } } });
    expect(stopped.headers.get("retry-after")).toBe("1");
  });

  test("ONCE, SCORED: gets an error for a call with an unknown outcome, and a result for a call id that it used before", async () => {
    const never = () => new Promise<never>(() => undefined);
    const mailer = defineEnvironment({
      name: "mailer",
      state: z.object({}),
      unseeded: "defaults",
      tools: {
        send: tool({
          description: "Send.",
          input: z.object({ to: z.string() }),
          effects: "external",
          timeout: 20,
          run: never,
        }),
      },
    });
    const replica = replicaOf(mailer);
    const { session } = await replica.sessions.open();
    const { bound_url_path: path } = replica.bindings.address(session);
    const send = (to: string) =>
      ask(replica, {
        method: "tools/call",
        path,
        params: { name: "send", arguments: { to }, _meta: { callId: "c1" } },
      });
    const lost = await send("ann");
    expect(lost).toMatchObject({ status: 409, json: { error: { data: { code: "outcome_unknown" } } } });
    const again = await send("ann");
    expect(again.json).toEqual(lost.json);
    expect(again.headers.get("holdfast-repeated")).toBe("true");
    const other = await send("bob");
    const meta = { "dev.holdfast/code": "call_conflict" };
    expect(other).toMatchObject({ status: 200, json: { result: { isError: true, _meta: meta } } });
  });

  test("must not call an episode that was never seeded", async () => {
    const replica = replicaOf(counter);
    const { session } = await replica.sessions.open();
    const { bound_url_path: path } = replica.bindings.address(session);
    const { status, json } = await ask(replica, { method: "tools/call", params: { name: "say" }, path });
    expect({ status, code: json.error.data.code }).toEqual({ status: 409, code: "session_unseeded" });
  });
});

describe("a wrong request gets the right error", () => {
  const initialize = {
    method: "initialize",
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: {} },
  };
  const meta = (version: unknown, capabilities: unknown = {}) => ({
    _meta: {
      "io.modelcontextprotocol/protocolVersion": version,
      "io.modelcontextprotocol/clientCapabilities": capabilities,
    },
  });
  const cases: [string, Parameters<typeof ask>[1], number, number][] = [
    ["not JSON", { body: "{" }, 400, -32700],
    ["no message", { body: "7" }, 400, -32600],
    ["a batch", { body: [{ jsonrpc: "2.0", id: 1, method: "ping" }] }, 400, -32600],
    ["an empty batch", { body: [] }, 400, -32600],
    ["another JSON-RPC", { body: { jsonrpc: "1.0", id: 1, method: "ping" } }, 400, -32600],
    ["no method", { body: { jsonrpc: "2.0", id: 1 } }, 400, -32600],
    ["null as id", { body: { jsonrpc: "2.0", id: null, method: "ping" } }, 400, -32600],
    ["params in a list", { body: { jsonrpc: "2.0", id: 1, method: "ping", params: [] } }, 400, -32602],
    ["an unknown method", { method: "nope" }, 200, -32601],
    ["an unknown method, stateless", { method: "nope", era: "modern" }, 404, -32601],
    ["ping, stateless", { method: "ping", era: "modern" }, 404, -32601],
    ["initialize, stateless", { method: "initialize", era: "modern" }, 404, -32601],
    ["an unknown version", { headers: { "mcp-protocol-version": "2020-01-01" } }, 400, -32600],
    [
      "an unknown version, stateless",
      { era: "modern", params: meta("v9"), headers: { "mcp-protocol-version": "v9" } },
      400,
      -32022,
    ],
    ["a version unlike its header", { era: "modern", headers: { "mcp-protocol-version": "2025-06-18" } }, 400, -32020],
    ["a method unlike its header", { era: "modern", headers: { "mcp-method": "ping" } }, 400, -32020],
    [
      "a name unlike its header",
      { era: "modern", method: "tools/call", params: { name: "say" }, headers: { "mcp-name": "add" } },
      400,
      -32020,
    ],
    ["no capabilities", { era: "modern", params: meta(modern, null) }, 400, -32602],
    ["a version only in the header", { headers: { "mcp-protocol-version": modern } }, 400, -32602],
    ["an unknown session", { headers: { "mcp-session-id": "nope" } }, 404, -32001],
    ["an unknown token in the path", { path: "/s/nope/mcp" }, 404, -32001],
    ["an unknown token in the header", { headers: { "x-nemo-gym-session-token": "nope" }, era: "modern" }, 404, -32001],
    ["a call without a session", { method: "tools/call", params: { name: "say" } }, 400, -32602],
    ["a call without a name", { method: "tools/call" }, 400, -32602],
    ["arguments in a list", { method: "tools/call", params: { name: "say", arguments: [] } }, 400, -32602],
    ["a client that reads no JSON", { headers: { accept: "text/html" } }, 406, -32600],
    ["a page of another site", { headers: { origin: "https://evil.example" } }, 403, -32600],
    ["a name that a site chose", { headers: { origin: "http://evil.example", host: "evil.example" } }, 403, -32600],
    ["GET", { verb: "GET" }, 405, -32600],
    ["PUT", { verb: "PUT" }, 405, -32600],
    ["DELETE without a session", { verb: "DELETE" }, 405, -32600],
    ["DELETE of an unknown session", { verb: "DELETE", headers: { "mcp-session-id": "x" } }, 404, -32001],
  ];
  test.each(cases)("%s", async (_, asked, status, code) => {
    const replica = replicaOf(counter);
    const reply = await ask(replica, asked);
    expect({ status: reply.status, code: reply.json.error.code }).toEqual({ status, code });
    expect(reply.json.jsonrpc).toBe("2.0");
    expect(reply.headers.get("set-cookie")).toBeNull();
    if (status === 400 && code <= -32602 && code > -32700 && !("body" in asked)) expect(reply.json.id).toBe(1);
  });

  test("a token of another environment", async () => {
    const replica = replicaOf(counter);
    const other = replicaOf(gymCounter);
    const { session } = await other.sessions.open({ task: { initial_count: 1 } });
    const { headers } = other.bindings.address(session);
    const { status } = await ask(replica, { method: "tools/call", params: { name: "say" }, headers });
    expect(status).toBe(404);
  });

  test("initialize answers with the asked version, or else the newest of its era", async () => {
    const replica = replicaOf(counter);
    const { json } = await ask(replica, initialize);
    expect(json.result).toEqual({
      protocolVersion: "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "counter", version: "1.2.3" },
      instructions: "Count to the goal.",
    });
    const newer = await ask(replica, { ...initialize, params: { protocolVersion: "2030-01-01" } });
    expect(newer.json.result.protocolVersion).toBe("2025-11-25");
    expect((await ask(replica, { method: "ping" })).json.result).toEqual({});
    expect(await ask(replica, { method: "notifications/initialized", id: null })).toMatchObject({
      status: 202,
      text: "",
    });
  });
});
