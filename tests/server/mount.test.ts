// mount(): environments and agents inside another server, over a handler of node:http with real sockets, and over a web
// fetch handler without a port.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  defineAgent,
  defineEnvironment,
  memoryStore,
  scriptedModel,
  tool,
  type Agent,
  type RunEvent,
  type Store,
} from "holdfast";
import { createClient, type ClientOptions } from "holdfast/client";
import { mount, type Mounted, type MountOptions } from "holdfast/serve";
import { sqliteStore } from "holdfast/stores/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { gate } from "../agent/engine.ts";
import { openEnvClient, type Loose } from "../protocols/openenv-client.ts";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ goal: z.number().int() }),
  tools: {
    add: tool({
      description: "Add.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});

const greeter = (): Agent =>
  defineAgent({ name: "greeter", instruction: "Greet.", model: scriptedModel(() => "Hello Ann, how are you?") });

/** Waits at the gate before it answers. */
const slow = (passing: Promise<void>): Agent =>
  defineAgent({
    name: "greeter",
    model: scriptedModel(async () => {
      await passing;
      return "Hello at last.";
    }),
  });

const at = "/holdfast";

async function mounted(options: Partial<MountOptions> = {}): Promise<Mounted> {
  const store = options.store ?? memoryStore();
  const log = { what: "none" } as const;
  const made = await mount({ environments: [counter], agents: [greeter()], store, at, log, ...options });
  onTestFinished(async () => {
    void made.close();
    await made.close();
  });
  return made;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function listening(handler: Handler, upgrade?: Mounted["upgrade"]): Promise<string> {
  const server = createServer(handler);
  if (upgrade) server.on("upgrade", (...given) => void (upgrade(...given) || given[1].destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Fetch = NonNullable<ClientOptions["fetch"]>;

/** Ways to reach a mounted app. Each returns an address and how to send requests to it. */
const ways: { [name: string]: (app: Mounted) => Promise<{ url: string; send: Fetch }> } = {
  node: async (app) => ({
    url: await listening((request, response) => app.node(request, response)),
    send: (url, init) => fetch(url, init),
  }),
  fetch: async (app) => ({
    url: "http://127.0.0.1:9",
    send: (url, init) => app.fetch(new Request(url, init)),
  }),
};

const json = { "content-type": "application/json" };

describe.each(Object.entries(ways))("over %s", (_, reach) => {
  async function reached(options: Partial<MountOptions> = {}) {
    const app = await mounted(options);
    const { url, send } = await reach(app);
    const client = { token: app.token, fetch: send, retryFor: 0 };
    const authorization = `Bearer ${app.token}`;
    const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
      send(url + at + path, { ...init, headers: { authorization, ...init.headers } });
    return {
      app,
      ask,
      base: url + at,
      environment: createClient<typeof counter>(url + at, client),
      agent: createClient<Agent>(`${url}${at}/greeter`, client),
    };
  }

  test("plays an episode over REST and over the gym protocol, with a cookie for its path", async () => {
    const { environment, ask } = await reached();
    const { session } = await environment.open({ task: { goal: 2 } });
    expect(await environment.call(session, "add", { by: 2 })).toMatchObject({ output: { count: 2 } });
    expect(await environment.verify(session)).toMatchObject({ reward: 1 });
    const seeded = await ask("/seed_session", { method: "POST", headers: json, body: '{"goal":1}' });
    const cookie = seeded.headers.get("set-cookie") ?? "";
    expect([seeded.status, cookie]).toEqual([200, expect.stringContaining(`; Path=${at};`)]);
    const headers = { ...json, cookie: cookie.split(";")[0]! };
    const added = await ask("/counter/add", { method: "POST", headers, body: '{"by":1}' });
    expect(await added.json()).toEqual({ count: 1 });
  });

  test("streams an agent's turn, and follows its events", async () => {
    const { agent } = await reached();
    const { session } = await agent.open({ user: "ann" });
    const seen: RunEvent["type"][] = [];
    for await (const event of agent.run({ session, message: "Hi.", stream: true })) seen.push(event.type);
    expect(seen).toContain("partial");
    expect(seen.at(-1)).toBe("agent.ended");
    const followed: string[] = [];
    for await (const event of agent.follow(session)) {
      followed.push(event.type);
      if (event.type === "agent.ended") break;
    }
    expect(followed[0]).toBe("session.opened");
    expect(await agent.replay(session)).toMatchObject({ same: true });
  });

  test("DURABLE: another mount on the same store continues the session, and accepts the user's token", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-mount-"));
    const stores: Store[] = [];
    onTestFinished(async () => {
      for (const store of stores) await store.close();
      await rm(folder, { recursive: true });
    });
    const open = (): Store => stores[stores.push(sqliteStore({ file: join(folder, "sessions.db") })) - 1]!;
    const first = await reached({ store: open() });
    const episode = await first.environment.open({ task: { goal: 3 } });
    await first.environment.call(episode.session, "add", { by: 1 });
    const { token } = first.app.userToken("ann");
    await first.app.close();
    const second = await reached({ store: open() });
    await second.environment.call(episode.session, "add", { by: 2 });
    expect(await second.environment.verify(episode.session)).toMatchObject({ reward: 1 });
    const asked = await second.ask("/greeter/v1/sessions", { headers: { authorization: `Bearer ${token}` } });
    expect(asked.status).toBe(200);
  });

  test.each<[string, RequestInit & { path?: string }, number, string]>([
    ["text that is not JSON", { body: "{" }, 400, "invalid_json"],
    ["bytes that are not UTF-8", { body: new Uint8Array([34, 255, 34]) }, 400, "invalid_json"],
    ["deep JSON", { body: "[".repeat(2_000) + "]".repeat(2_000) }, 400, "invalid_json"],
    ["a large body", { body: JSON.stringify("x".repeat(20_000)) }, 413, "body_too_large"],
    ["another content type", { body: "a=1", headers: { "content-type": "text/plain" } }, 415, "unsupported_media_type"],
    ["a compressed body", { body: "{}", headers: { "content-encoding": "gzip" } }, 415, "unsupported_media_type"],
    ["a broken path", { path: "/v1/sessions/%zz" }, 400, "invalid_request"],
    ["no token", { headers: { authorization: "" } }, 401, "unauthorized"],
    ["a page of another site", { headers: { origin: "http://evil.example" } }, 403, "foreign_origin"],
    ["an unknown route", { path: "/v1/nothing" }, 404, "not_found"],
  ])("refuses %s", async (_, { path = "/v1/sessions", ...init }, status, code) => {
    const { ask } = await reached({ limits: { body: 10_000 } });
    const reply = await ask(path, { method: "POST", body: "{}", ...init, headers: { ...json, ...init.headers } });
    expect([reply.status, await reply.json()]).toMatchObject([status, { error: { code } }]);
  });

  test("a path outside is not found, even if it starts with the same letters", async () => {
    const app = await mounted();
    const { url, send } = await reach(app);
    const headers = { authorization: `Bearer ${app.token}` };
    for (const path of ["/v1/about", "/", `${at}fast/v1/about`, "/HOLDFAST/v1/about", `/x${at}/v1/about`]) {
      expect((await send(url + path, { headers })).status, path).toBe(404);
    }
    expect((await send(`${url}${at}/v1/about`, { headers })).status).toBe(200);
  });

  test("every address in a reply has the path", async () => {
    const { ask, base } = await reached({ root: "greeter" });
    const init = { method: "POST", headers: json, body: '{"task":{"goal":1}}' };
    const { mcp } = (await (await ask("/counter/v1/sessions", init)).json()) as Loose;
    expect(mcp.url_path).toBe("/holdfast/counter/mcp");
    expect(mcp.bound_url_path).toMatch(/^\/holdfast\/counter\/s\/[^/]+\/mcp$/);
    const initialize = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } },
    };
    const headers = { ...json, accept: "application/json, text/event-stream" };
    const bound = mcp.bound_url_path.slice(at.length) as string;
    const begun = await ask(bound, { method: "POST", headers, body: JSON.stringify(initialize) });
    expect(begun.status).toBe(200);
    const card = (await (await ask("/greeter/.well-known/agent-card.json")).json()) as Loose;
    expect(card.supportedInterfaces[0].url).toBe(`${base}/greeter/v1/a2a`);
    const view = await ask("/view", { redirect: "manual" });
    expect([view.status, view.headers.get("location")]).toEqual([302, "/holdfast/view/"]);
    const document = (await (await ask("/openapi.json")).json()) as Loose;
    expect(document.servers).toEqual([{ url: "." }]);
  });

  test("a client that leaves cancels its run", async () => {
    const passing = gate();
    const { agent } = await reached({ agents: [slow(passing.opened)] });
    const { session } = await agent.open();
    const leaving = new AbortController();
    const running = agent.run({ session, message: "Hi.", stream: true, signal: leaving.signal });
    expect((await running.next()).value).toMatchObject({ type: "invocation.began" });
    leaving.abort();
    await expect(running.next()).rejects.toThrow();
    await expect.poll(async () => (await agent.info(session)).version, { interval: 20, timeout: 5_000 }).toBe(3);
    const types: string[] = [];
    for await (const event of agent.events(session)) types.push(event.type);
    expect(types).toEqual(["session.opened", "invocation.began", "turn.released"]);
    passing.open();
  });

  test("close finishes requests in flight, ends streams of events, and refuses new requests", async () => {
    const passing = gate();
    const { app, agent, ask } = await reached({ agents: [slow(passing.opened)] });
    const { session } = await agent.open();
    const following = await ask(`/greeter/v1/sessions/${session}/events`, { headers: { accept: "text/event-stream" } });
    const body = JSON.stringify({ message: "Hi." });
    const answering = ask(`/greeter/v1/sessions/${session}/run`, { method: "POST", headers: json, body });
    await expect.poll(async () => (await agent.info(session)).version, { interval: 20 }).toBeGreaterThan(1);
    const closing = app.close();
    expect(await following.text()).toContain("session.opened");
    const refused = await ask("/v1/sessions");
    expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: "server_stopping" } }]);
    passing.open();
    const answered = await answering;
    expect([answered.status, ((await answered.json()) as Loose).text]).toEqual([200, "Hello at last."]);
    await closing;
    expect((await ask("/readyz")).status).toBe(503);
    expect((await ask("/healthz")).status).toBe(200);
    expect((await ask("/v1/sessions")).status).toBe(503);
  });

  const streamed = async ({ agent, ask }: Awaited<ReturnType<typeof reached>>): Promise<Response> => {
    const { session } = await agent.open();
    const headers = { ...json, accept: "text/event-stream" };
    return ask(`/greeter/v1/sessions/${session}/run`, { method: "POST", headers, body: '{"message":"Hi."}' });
  };

  test("close lets a streamed run finish", async () => {
    const passing = gate();
    const server = await reached({ agents: [slow(passing.opened)] });
    const reply = await streamed(server);
    const closing = server.app.close();
    passing.open();
    expect(await reply.text()).toContain("event: agent.ended");
    await closing;
  });

  test("close lets a streamed call finish", async () => {
    const passing = gate();
    const waiting = defineEnvironment({
      name: "waiting",
      state: z.object({ done: z.boolean().default(false) }),
      tools: {
        wait: tool({
          description: "Wait.",
          concurrent: true,
          run: async ({ progress, update }) => {
            progress(0, 1);
            await passing.opened;
            update((state) => void (state.done = true));
          },
        }),
      },
    });
    const { app, ask } = await reached({ environments: [waiting] });
    const init = { method: "POST", headers: json, body: '{"task":{}}' };
    const { mcp } = (await (await ask("/waiting/v1/sessions", init)).json()) as Loose;
    const call = { name: "wait", _meta: { progressToken: 1 } };
    const reply = await ask(mcp.bound_url_path.slice(at.length), {
      method: "POST",
      headers: { ...json, accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: call }),
    });
    const closing = app.close();
    passing.open();
    expect(await reply.text()).toContain('"id":1,"result"');
    await closing;
  });

  test("a second close cuts a streamed run, so that no client takes a part for the whole", async () => {
    const server = await reached({ agents: [slow(gate().opened)] });
    const reply = await streamed(server);
    void server.app.close();
    void server.app.close();
    await expect(reply.text()).rejects.toThrow();
  });

  test("too many requests at once are refused", async () => {
    const passing = gate();
    const { agent, ask } = await reached({ agents: [slow(passing.opened)], limits: { maxInflight: 1 } });
    const { session } = await agent.open();
    const init = { method: "POST", headers: json, body: JSON.stringify({ message: "Hi." }) };
    const waiting = ask(`/greeter/v1/sessions/${session}/run`, init);
    await expect.poll(async () => (await ask("/v1/about")).status, { interval: 20 }).toBe(503);
    expect((await ask("/healthz")).status).toBe(200);
    passing.open();
    expect((await waiting).status).toBe(200);
    expect((await ask("/v1/about")).status).toBe(200);
  });
});

test.each(["holdfast", "/", "/a/", "/a b", "//a", "/a?b"])("the path %j is refused", async (wrong) => {
  const refused = expect(mount({ environments: [counter], store: memoryStore(), at: wrong })).rejects;
  await refused.toMatchObject({ code: "invalid_option" });
});

describe("node", () => {
  test("works as middleware: other paths reach the app, and headers of other middleware stay", async () => {
    const app = await mounted();
    const url = await listening((request, response) => {
      response.setHeader("x-app", "kept");
      app.node(request, response, () => response.end("the app's own page"));
    });
    expect(await (await fetch(`${url}/other`)).text()).toBe("the app's own page");
    const reply = await fetch(`${url}${at}/healthz`);
    expect([await reply.json(), reply.headers.get("x-app")]).toEqual([{ status: "ok" }, "kept"]);
  });

  test("finds the path and the body again after a router and a parser, as in Express", async () => {
    const app = await mounted();
    const url = await listening((request, response) => {
      const parsed: Buffer[] = [];
      request.on("data", (chunk: Buffer) => parsed.push(chunk));
      request.on("end", () => {
        const body = parsed.length === 0 ? undefined : (JSON.parse(Buffer.concat(parsed).toString()) as unknown);
        setImmediate(() => {
          const given = { body, originalUrl: request.url, url: request.url?.slice(at.length) };
          app.node(Object.assign(request, given), response);
        });
      });
    });
    const client = createClient<typeof counter>(url + at, { token: app.token, retryFor: 0 });
    const { session } = await client.open({ task: { goal: 3 } });
    for (const by of [1, 2]) await client.call(session, "add", { by });
    expect(await client.verify(session)).toMatchObject({ reward: 1 });
  });

  test.each([
    ["bytes", Buffer.from('{"goal":3}'), 200],
    ["text", '{"goal":3}', 200],
    ["nothing", undefined, 400],
  ])("takes a body that another parser left as %s", async (_, body, status) => {
    const app = await mounted();
    const url = await listening((request, response) => {
      request.resume().on("end", () => setImmediate(() => app.node(Object.assign(request, { body }), response)));
    });
    const reply = await fetch(`${url}${at}/seed_session`, { method: "POST", headers: json, body: '{"goal":3}' });
    expect(reply.status).toBe(status);
  });

  test("a request that offers HTTP/2 keeps its whole path", async () => {
    const app = await mounted();
    const paths: string[] = [];
    const url = await listening((request, response) => {
      paths.push(request.url ?? "");
      app.node(request, response);
    }, app.upgrade);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.write(`GET ${at}/healthz HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n`);
    const [reply] = (await once(socket, "data")) as [Buffer];
    expect([reply.toString().slice(0, 15), paths]).toEqual(["HTTP/1.1 200 OK", [`${at}/healthz`]]);
  });

  test("accepts WebSockets at its path, and leaves others to the app", async () => {
    const app = await mounted();
    const url = await listening((request, response) => app.node(request, response), app.upgrade);
    const client = await openEnvClient(`${url}${at}/openenv`);
    expect(await client.ask("state")).toMatchObject({ type: "state" });
    await expect(openEnvClient(`${url}/openenv`)).rejects.toThrow();
    client.socket.terminate();
  });
});

describe("fetch", () => {
  const told = (init: RequestInit & { duplex?: "half" } = {}) => new Request(`https://app.example${at}/v1/about`, init);

  test("needs the token on every host, and knows the scheme of the address", async () => {
    const app = await mounted();
    expect((await app.fetch(told())).status).toBe(401);
    const authorization = `Bearer ${app.token}`;
    expect((await app.fetch(told({ headers: { authorization } }))).status).toBe(200);
    const card = await app.fetch(new Request(`https://app.example${at}/greeter/.well-known/agent-card.json`));
    const { supportedInterfaces } = (await card.json()) as Loose;
    expect(supportedInterfaces[0].url).toBe(`https://app.example${at}/greeter/v1/a2a`);
  });

  test("HEAD has the headers of GET and no body", async () => {
    const app = await mounted();
    const reply = await app.fetch(new Request(`http://localhost${at}/healthz`, { method: "HEAD" }));
    expect([reply.status, await reply.text(), reply.headers.get("content-type")]).toEqual([
      200,
      "",
      "application/json",
    ]);
  });

  test("the recipe for Next.js exports a handler for preflights, and for every method that they allow", async () => {
    const origin = "https://page.example";
    const app = await mounted({ origins: [origin] });
    const preflight = await app.fetch(told({ method: "OPTIONS", headers: { origin } }));
    const allowed = preflight.headers.get("access-control-allow-methods")?.split(", ") ?? [];
    const recipe = /^\| Next.js \| (.*)$/m.exec(await readFile("docs/mount.md", "utf8"))?.[1] ?? "";
    expect(allowed).toContain("PUT");
    for (const method of ["OPTIONS", ...allowed]) expect(recipe).toMatch(new RegExp(`\\b${method}\\b`));
  });

  test("a body that does not arrive is refused in time", async () => {
    const app = await mounted({ limits: { requestTimeout: 50 } });
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({ cancel: () => void (isCancelled = true) });
    const headers = { ...json, authorization: `Bearer ${app.token}` };
    const url = `http://localhost${at}/v1/sessions`;
    const reply = await app.fetch(new Request(url, { method: "POST", body, headers, duplex: "half" } as RequestInit));
    expect([reply.status, isCancelled]).toEqual([408, true]);
  });

  test("close cuts a streamed run that is not read, but not one that waits for its agent", async () => {
    const passing = gate();
    const app = await mounted({ agents: [slow(passing.opened)], limits: { requestTimeout: 50 } });
    const headers = { ...json, authorization: `Bearer ${app.token}`, accept: "text/event-stream" };
    const send = (path: string, body: string): Promise<Response> =>
      app.fetch(new Request(`http://localhost${at}/greeter/v1/sessions${path}`, { method: "POST", headers, body }));
    const started = async (): Promise<Response> => {
      const { session } = (await (await send("", "{}")).json()) as Loose;
      return send(`/${session}/run`, '{"message":"Hi."}');
    };
    const [unread, read] = [await started(), await started()];
    const text = read.text();
    const closing = app.close();
    await sleep(200);
    await expect(unread.text()).rejects.toThrow();
    passing.open();
    expect(await text).toContain("event: agent.ended");
    await closing;
  });

  test("a client that left before its stream began leaves no stream open", async () => {
    const app = await mounted();
    const headers = { authorization: `Bearer ${app.token}`, accept: "text/event-stream", ...json };
    const send = (path: string, init: RequestInit = {}): Promise<Response> =>
      app.fetch(new Request(`http://localhost${at}${path}`, { headers, ...init }));
    const { open } = createClient<Agent>(`http://localhost${at}/greeter`, {
      token: app.token,
      fetch: (url, init) => app.fetch(new Request(url, init)),
    });
    for (let steps = 0; steps < 60; steps++) {
      const { session } = await open();
      const leaving = new AbortController();
      const init = { method: "POST", body: '{"message":"Hi."}', signal: leaving.signal };
      const asked = send(`/greeter/v1/sessions/${session}/run`, init);
      for (let step = 0; step < steps; step++) await Promise.resolve();
      leaving.abort();
      await asked;
    }
    expect(await (await send("/metrics")).text()).toMatch(/^holdfast_streams_open 0$/m);
  });

  test("a cancelled stream lets go of its session, and a silent one sends comments", async () => {
    const app = await mounted({ limits: { heartbeat: 10 } });
    const headers = { authorization: `Bearer ${app.token}`, accept: "text/event-stream" };
    const client = createClient<Agent>(`http://localhost${at}/greeter`, {
      token: app.token,
      fetch: (url, init) => app.fetch(new Request(url, init)),
    });
    const { session } = await client.open();
    const reply = await app.fetch(
      new Request(`http://localhost${at}/greeter/v1/sessions/${session}/events`, { headers }),
    );
    const reader = reply.body!.getReader();
    let text = "";
    while (!text.includes(": still here")) text += new TextDecoder().decode((await reader.read()).value);
    expect(text).toContain("session.opened");
    await reader.cancel();
    const metrics = async (): Promise<string> =>
      (await app.fetch(new Request(`http://localhost${at}/metrics`, { headers }))).text();
    expect(await metrics()).toMatch(/^holdfast_streams_open 0$/m);
  });
});
