// User tokens: a token names its user and opens no other user's conversations, on any wire of an agent.
import { defineAgent, defineEnvironment, memoryStore, scriptedModel, tool, type Agent, type Store } from "holdfast";
import { createClient } from "holdfast/client";
import { mount, serve, type MountOptions } from "holdfast/serve";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { conversationRoutes } from "../../src/protocols/rest/conversation-routes.ts";
import { createTokens } from "../../src/server/tokens.ts";
import { createUserTokens } from "../../src/server/user-tokens.ts";
import { codeOf, gate } from "../agent/engine.ts";
import type { Loose } from "../protocols/openenv-client.ts";
import { runs } from "../runs.ts";

const key = "a key for tests that is long enough";
const other = "another key that is as long as that";

const counter = defineEnvironment({
  name: "counter",
  tools: { add: tool({ description: "Add.", run: () => "added" }) },
  verify: () => 1,
});

/** Repeats everything that it can read, so that a leak shows in its answers. */
const named = (name: string): Agent =>
  defineAgent({
    name,
    instruction: "Repeat {user:secret?} and {secret?}.",
    model: scriptedModel(({ instructions, input }) => `heard ${instructions} ${JSON.stringify(input)}`.slice(0, 2_000)),
  });

interface Sent {
  method?: string;
  body?: unknown;
  token?: string;
  headers?: { [name: string]: string };
  signal?: AbortSignal;
}

async function mounted(options: Partial<MountOptions> = {}) {
  const store = options.store ?? memoryStore();
  const agents = [named("greeter"), named("helper")];
  const log = { what: "none" } as const;
  const app = await mount({ environments: [counter], agents, root: "greeter", store, log, ...options });
  onTestFinished(async () => {
    void app.close();
    await app.close();
  });
  async function ask(path: string, { method, body, token = app.token, headers, signal }: Sent = {}) {
    const init = {
      method: method ?? (body === undefined ? "GET" : "POST"),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    };
    const reply = await app.fetch(new Request(`http://localhost${path}`, init));
    const text = await reply.text();
    const isJson = reply.headers.get("content-type")?.includes("json");
    return { status: reply.status, text, body: (isJson ? JSON.parse(text) : undefined) as Loose };
  }
  const client = (token: string) =>
    createClient<Agent>("http://localhost", {
      token,
      retryFor: 0,
      fetch: (url, init) => app.fetch(new Request(url, init)),
    });
  return { app, ask, client };
}

const rpc = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
const sent = (contextId: string, messageId = "m1") => ({
  message: { role: "ROLE_USER", messageId, contextId, parts: [{ text: "Hi." }] },
});

describe("a user's token", () => {
  test("opens, runs and lists the conversations of its user, on every wire", async () => {
    const { app, ask, client } = await mounted();
    const { token } = app.userToken("ann");
    const ann = client(token);
    const { session, user } = await ann.open({ labels: { title: "Mine" } });
    expect(user).toBe("ann");
    expect(await ann.ask({ session, message: "Hi." })).toMatchObject({ outcome: "answered" });
    await client(app.token).open({ user: "bob" });
    const own: string[] = [];
    for await (const row of ann.list({ user: "ann" })) own.push(row.session);
    expect(own).toEqual([session]);
    const response = await ask("/v1/responses", { token, body: { model: "greeter", input: "Hi." } });
    expect(response.body).toMatchObject({ status: "completed" });
    const next = { model: "greeter", input: "Again.", previous_response_id: response.body.id as string };
    expect((await ask("/helper/v1/responses", { token, body: { ...next, previous_response_id: null } })).status).toBe(
      200,
    );
    expect((await ask("/v1/responses", { token, body: next })).body.conversation).toEqual(response.body.conversation);
    const chat = { model: "greeter", messages: [{ role: "user", content: "Hi." }] };
    expect((await ask("/v1/chat/completions", { token, body: chat })).status).toBe(200);
    const a2a = await ask("/v1/a2a", { token, body: rpc("SendMessage", sent("")) });
    expect(a2a.body.result.task.status.state).toBe("TASK_STATE_COMPLETED");
    const adk = "/v1/adk/apps/greeter/users/ann/sessions";
    const made = await ask(adk, { token, body: {} });
    const run = {
      appName: "greeter",
      userId: "ann",
      sessionId: made.body.id,
      newMessage: { parts: [{ text: "Hi." }] },
    };
    expect((await ask("/v1/adk/run", { token, body: run })).status).toBe(200);
    const listed = (await ask(adk, { token })).body as { id: string; userId: string }[];
    expect(new Set(listed.map(({ userId }) => userId))).toEqual(new Set(["ann"]));
    expect(listed.length).toBe(5);
    expect((await ask("/v1/models", { token })).status).toBe(200);
    expect((await ask("/v1/agent", { token })).status).toBe(200);
  });

  test("finds no conversation of another user, and cannot name one", async () => {
    const { app, ask, client } = await mounted();
    const { session } = await client(app.token).open({ user: "bob", state: { secret: "s" } });
    const first = await client(app.token).ask({ session, message: "Hi." });
    const began = first.events[0]!.version;
    const { token } = app.userToken("ann");
    const at = `/v1/sessions/${session}`;
    const adk = "/v1/adk/apps/greeter/users";
    const refused: [string, Sent, number, string][] = [
      [at, {}, 404, "session_not_found"],
      [`${at}/state`, {}, 404, "session_not_found"],
      [`${at}/events`, {}, 404, "session_not_found"],
      [`${at}/run`, { body: { message: "Hi." } }, 404, "session_not_found"],
      [`${at}/fork`, { body: {} }, 404, "session_not_found"],
      [`${at}/rewind`, { body: { version: 1 } }, 404, "session_not_found"],
      [`${at}/label`, { body: { labels: { title: "Mine" } } }, 404, "session_not_found"],
      [`${at}/cancel`, { body: {} }, 404, "session_not_found"],
      [`/v1/sessions?after=${session}`, {}, 404, "session_not_found"],
      [`${at}/run`, { body: { message: "Hi.", user: "bob" } }, 403, "foreign_user"],
      ["/v1/sessions", { body: { user: "bob" } }, 403, "foreign_user"],
      ["/v1/sessions?user=bob", {}, 403, "foreign_user"],
      ["/v1/expire", { body: {} }, 403, "foreign_user"],
      ["/v1/tokens", { body: { user: "ann" } }, 403, "foreign_user"],
      ["/v1/responses", { body: { input: "Hi.", conversation: session } }, 404, "session_not_found"],
      ["/v1/responses", { body: { input: "Hi.", user: "bob" } }, 403, "foreign_user"],
      [`/v1/responses/resp_${session}_${began}`, {}, 404, "not_found"],
      [`/v1/responses/resp_${session}_${began}`, { method: "DELETE" }, 404, "not_found"],
      [
        "/v1/chat/completions",
        { body: { messages: [{ role: "user", content: "a" }], user: "bob" } },
        403,
        "foreign_user",
      ],
      [`${adk}/bob/sessions`, {}, 403, "foreign_user"],
      [`${adk}/bob/sessions`, { body: {} }, 403, "foreign_user"],
      [`${adk}/ann/sessions/${session}`, {}, 404, "session_not_found"],
      [`${adk}/bob/sessions/${session}`, {}, 404, "session_not_found"],
      [`/v1/adk/dev/apps/greeter/debug/trace/session/${session}`, {}, 404, "session_not_found"],
    ];
    for (const [path, request, status, code] of refused) {
      const reply = await ask(path, { ...request, token });
      const what = `${path} ${reply.text}`;
      expect([reply.status, reply.body.code ?? reply.body.error.code], what).toEqual([status, code]);
      if (status !== 404) continue;
      // The refusal does not tell whether the session exists.
      const unknown = JSON.parse(JSON.stringify(request).replaceAll(session, "nowhere")) as Sent;
      const nowhere = await ask(path.replace(session, "nowhere"), { ...unknown, token });
      expect([nowhere.status, nowhere.text], what).toEqual([404, reply.text.replaceAll(session, "nowhere")]);
    }
    expect((await ask(at, { method: "DELETE", token })).body).toEqual({ closed: false });
    for (const [method, params] of [
      ["SendMessage", sent(session)],
      ["GetTask", { id: `${session}.${began}` }],
      ["ListTasks", { contextId: session }],
      ["CancelTask", { id: `${session}.${began}` }],
    ] as const) {
      const { body } = await ask("/v1/a2a", { token, body: rpc(method, params) });
      expect(body.error, method).toBeDefined();
      const unknown = JSON.parse(JSON.stringify(params).replaceAll(session, "nowhere")) as object;
      const nowhere = await ask("/v1/a2a", { token, body: rpc(method, unknown) });
      expect(nowhere.body).toEqual(JSON.parse(JSON.stringify(body).replaceAll(session, "nowhere")));
    }
    expect((await client(app.token).info(session)).version).toBe(first.events.at(-1)!.version);
  });

  test.each([
    "/metrics",
    "/v1/about",
    "/v1/curves",
    "/v1/runs/0",
    "/counter/v1/sessions",
    "/counter/v1/environment",
    "/counter/v1/rollouts",
    "/v1/nothing",
    "/%761/about",
  ])("does not open %s", async (path) => {
    const { app, ask } = await mounted({ root: "counter" });
    expect((await ask(path)).status).not.toBe(403);
    const { status, body } = await ask(path, { token: app.userToken("ann").token });
    expect([status, body.error.code]).toEqual([403, "foreign_user"]);
  });

  test("does not open environments outside /v1, where the server's token and unknown tokens are accepted", async () => {
    const { app, ask } = await mounted({ root: "counter" });
    const reset = "/counter/openenv/reset";
    for (const path of [reset, "/seed_session", "/counter/mcp", "/ors/create_session"]) {
      const { status, text } = await ask(path, { token: app.userToken("ann").token, body: {} });
      expect([status, text], path).toEqual([403, expect.stringContaining("the token of user ann")]);
    }
    for (const token of [app.token, "a-token-of-another-protocol"]) {
      expect((await ask(reset, { token, body: {} })).status).toBe(200);
    }
    expect((await ask("/healthz", { token: app.userToken("ann").token })).status).toBe(200);
  });

  test("cannot write state that all users share", async () => {
    const { app, ask, client } = await mounted();
    const { token } = app.userToken("ann");
    const { session } = await client(token).open({ state: { "user:name": "Ann", room: 1 } });
    const state = { "app:rules": "none" };
    const at = `/v1/sessions/${session}`;
    for (const [path, sending] of [
      ["/v1/sessions", { body: { state } }],
      [`${at}/run`, { body: { message: "Hi.", state_delta: state } }],
      [`${at}/fork`, { body: { set: state } }],
      [`/v1/adk/apps/greeter/users/ann/sessions/${session}`, { method: "PATCH", body: { stateDelta: state } }],
    ] as const) {
      expect((await ask(path, { ...sending, token })).status, path).toBe(403);
    }
    expect((await ask("/v1/sessions", { token, body: { state, isolated: true } })).status).toBe(201);
    expect(await client(app.token).state(session)).toEqual({ "user:name": "Ann", room: 1 });
  });

  test("a message id that two users share opens a conversation for each", async () => {
    const { app, ask } = await mounted();
    const headers = { "idempotency-key": "the same key of two users" };
    const conversations = ["ann", "bob"].map(async (user) => {
      const { token } = app.userToken(user);
      const first = await ask("/v1/responses", { token, headers, body: { input: user } });
      const again = await ask("/v1/responses", { token, headers, body: { input: user } });
      expect([first.status, again.body.id]).toEqual([200, first.body.id]);
      return first.body.conversation.id as string;
    });
    const [ann, bob] = await Promise.all(conversations);
    expect(ann).not.toBe(bob);
  });
});

describe("bad tokens open nothing", () => {
  test("TOKEN: altered tokens, tokens of other keys, and session tokens", async () => {
    const { app, ask } = await mounted({ secret: key });
    const { token } = app.userToken("ann");
    const [value = "", signature = ""] = token.split(".");
    const bob = Buffer.from(Buffer.from(value, "base64url").toString().replace("ann", "bob")).toString("base64url");
    const bad = [
      token.slice(0, -1),
      `${token}A`,
      `${bob}.${signature}`,
      createUserTokens([other]).issue("ann").token,
      // A session token with the value of a user token.
      createTokens([key]).issue(Buffer.from(value, "base64url").toString()),
      createTokens([key]).issue("any session"),
      "",
    ];
    for (const each of bad) expect((await ask("/v1/sessions", { token: each })).status, each).toBe(401);
    expect((await ask("/v1/sessions", { token })).status).toBe(200);
    expect((await ask("/v1/sessions", { headers: { authorization: token } })).status).toBe(401);
  });

  test("TOKEN: a user's token is not a session token", async () => {
    const { app, ask } = await mounted({ secret: key, root: "counter" });
    const { token } = app.userToken("ann");
    expect(createTokens([key]).check(token)).toBeUndefined();
    expect((await ask(`/counter/s/${token}/mcp`, { body: rpc("tools/list", {}) })).status).not.toBe(200);
    expect((await ask(`/openenv/state?session_id=${token}`)).status).not.toBe(200);
  });

  test("TOKEN: a token ends at its time", async () => {
    const { app, ask } = await mounted();
    const soon = app.userToken("ann", Date.now() + 1_000);
    expect((await ask("/v1/sessions", { token: soon.token })).status).toBe(200);
    vi.spyOn(Date, "now").mockReturnValue(soon.expires);
    onTestFinished(() => void vi.restoreAllMocks());
    expect((await ask("/v1/sessions", { token: soon.token })).status).toBe(401);
  });

  test("ends a stream of events when it expires, before the next event", async () => {
    const { app, client } = await mounted();
    const issued = app.userToken("ann");
    const { session } = await client(issued.token).open();
    const headers = { authorization: `Bearer ${issued.token}`, accept: "text/event-stream" };
    const reply = await app.fetch(new Request(`http://localhost/v1/sessions/${session}/events`, { headers }));
    const reader = reply.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toContain("session.opened");
    vi.spyOn(Date, "now").mockReturnValue(issued.expires);
    onTestFinished(() => void vi.restoreAllMocks());
    await client(app.token).label(session, { title: "Later" });
    expect((await reader.read()).done).toBe(true);
  });

  test("ends a stream that follows a task when it expires, and lets the run that it began finish", async () => {
    const told = gate();
    const model = scriptedModel(async () => (await told.opened, "Done."));
    const { app } = await mounted({ agents: [defineAgent({ name: "greeter", model })] });
    const { token, expires } = app.userToken("ann");
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const stream = async (method: string, params: object) => {
      const init = { method: "POST", headers, body: JSON.stringify(rpc(method, params)) };
      const reader = (await app.fetch(new Request("http://localhost/v1/a2a", init))).body!.getReader();
      return async () => new TextDecoder().decode((await reader.read()).value);
    };
    const run = await stream("SendStreamingMessage", sent(""));
    const { id } = (JSON.parse((await run()).slice("data: ".length)) as Loose).result.task;
    const follow = await stream("SubscribeToTask", { id });
    expect(await follow()).toContain("TASK_STATE_WORKING");
    vi.spyOn(Date, "now").mockReturnValue(expires);
    onTestFinished(() => void vi.restoreAllMocks());
    told.open();
    expect(await follow()).toBe("");
    let rest = "";
    for (let text = await run(); text !== ""; text = await run()) rest += text;
    expect(rest).toContain("TASK_STATE_COMPLETED");
  });

  test("TOKEN: keys rotate, and replicas and restarts accept the token", async () => {
    const store = memoryStore();
    const on = async (given: { store: Store; secret?: string }, token: string): Promise<number> =>
      (await (await mounted(given)).ask("/v1/sessions", { token })).status;
    const kept = (await mounted({ store })).app.userToken("ann").token;
    expect(await on({ store }, kept)).toBe(200);
    const old = createUserTokens([other]).issue("ann").token;
    expect(await on({ store, secret: `${key},${other}` }, old)).toBe(200);
    expect(await on({ store, secret: key }, old)).toBe(401);
  });
});

describe("POST /v1/tokens", () => {
  test("gives a token to the owner of the server's token only", async () => {
    const { app, ask, client } = await mounted();
    const expires = Date.now() + 60_000;
    const issued = await client(app.token).userToken("ann", expires);
    expect(issued).toMatchObject({ user: "ann", expires });
    expect(await client(issued.token).open()).toMatchObject({ user: "ann" });
    const inADay = (await client(app.token).userToken("ann")).expires - Date.now();
    expect(Math.round(inADay / 3_600_000)).toBe(24);
    expect((await ask("/v1/tokens", { token: "wrong-token", body: { user: "ann" } })).status).toBe(401);
    const wrong = [
      {},
      { user: "" },
      { user: 1 },
      { user: "x".repeat(201) },
      { user: "\ud800" },
      { user: "a", expires: 5 },
    ];
    for (const body of wrong) expect((await ask("/v1/tokens", { body })).status, JSON.stringify(body)).toBe(400);
  });

  test("is not served without a token of the server, but a user's token is still limited to its user", async () => {
    const store = memoryStore();
    const log = { what: "none" } as const;
    const serving = await serve({ environments: [], agents: [named("greeter")], store, port: 0, log });
    onTestFinished(() => serving.close());
    expect(await codeOf(createClient<Agent>(serving.url).userToken("ann"))).toBe("not_found");
    const ann = createClient<Agent>(serving.url, { token: serving.userToken("ann").token });
    expect(await ann.open()).toMatchObject({ user: "ann" });
    expect(await codeOf(ann.open({ user: "bob" }))).toBe("foreign_user");
  });
});

/** One request: which user sends it, and choices that pick its parts. */
const choice = fc.nat({ max: 1_000 });
const asking = fc.record({ who: fc.boolean(), kind: choice, pick: choice, user: choice, key: choice, text: choice });

test(
  "TOKEN: two users who send each other's ids over every wire see nothing of each other and change nothing",
  { timeout: 60_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(asking, { minLength: 20, maxLength: 40 }), async (steps) => {
        const { app, ask, client } = await mounted();
        const users: [string, string] = ["ann", "bob"];
        const tokens = new Map(users.map((user): [string, string] => [user, app.userToken(user).token]));
        const owner = client(app.token);
        const secretOf = (user: string): string => `secret-of-${user}`;
        for (const user of users) {
          const state = { secret: `${secretOf(user)}-1`, "user:secret": `${secretOf(user)}-2` };
          const { session } = await owner.open({ user, state, labels: { title: `${secretOf(user)}-3` } });
          await owner.ask({ session, message: `${secretOf(user)}-4` });
        }
        const rowsOf = async (user: string): Promise<{ session: string; version: number }[]> => {
          const rows: { session: string; version: number }[] = [];
          for await (const { session, version } of owner.list({ user })) rows.push({ session, version });
          return rows;
        };
        for (const step of steps) {
          const [self, them] = step.who ? users : (users.toReversed() as [string, string]);
          const [mine, theirs] = [await rowsOf(self), await rowsOf(them)];
          const sessions = [...theirs, ...mine];
          // A user may have closed every session.
          const row = sessions[step.pick % sessions.length] ?? { session: "no-session-at-all", version: 1 };
          const { path, ...request } = pickRequest(step, row.session, row.version, users);
          // A user's own task may be interrupted, by a rewind into its turn. Then a subscription waits for its end.
          const signal = AbortSignal.timeout(500);
          const reply = await ask(path, { ...request, token: tokens.get(self)!, signal });
          const what = `${self} ${JSON.stringify({ path, ...request })} ${reply.status} ${reply.text}`;
          expect(reply.status, what).toBeLessThan(500);
          expect(await rowsOf(them), what).toEqual(theirs);
          expect(reply.text.includes(secretOf(them)), what).toBe(false);
          const told = JSON.stringify({ path, ...request });
          // Over ADK, a user may choose the other's id for an own session, whose stored id then contains it.
          const own = [...mine, ...(await rowsOf(self))].map(({ session }) => session).join(" ");
          const isKnown = (id: string): boolean => told.includes(id) || own.includes(`adk:greeter:${self}:${id}:`);
          const leaked = theirs.filter(({ session }) => reply.text.includes(session) && !isKnown(session));
          expect(leaked, what).toEqual([]);
        }
      }),
      { numRuns: runs(25) },
    );
  },
);

interface Step {
  kind: number;
  pick: number;
  user: number;
  key: number;
  text: number;
}

/** Makes a request of one of the routes of agents, with the given session in it. */
function pickRequest(step: Step, id: string, version: number, users: readonly string[]): Sent & { path: string } {
  const user = users[step.user % 2]!;
  const began = (step.text % version) + 1;
  const prefix = step.text % 3 === 0 ? "/helper" : "";
  const message = `message ${step.text % 5}`;
  const headers: Sent["headers"] =
    step.key % 2 === 0 ? { "idempotency-key": `an idempotency key that is long ${step.key % 3}` } : {};
  const adk = `/v1/adk/apps/greeter/users/${user}/sessions`;
  const bodies: { [route: string]: object } = {
    openSession: { ...(step.text % 2 && { user }), labels: { title: message }, state: { "user:note": message } },
    issueToken: { user },
    runAgent: { message },
    labelSession: { labels: { title: message } },
    forkSession: { version: began },
    rewindSession: { version: began },
    replaySession: {},
    expireSessions: {},
    cancelTurn: {},
  };
  const rest = Object.entries(conversationRoutes).map(([name, { method, path }]) => ({
    path: prefix + path.replace("{id}", id) + (name === "listSessions" && step.text % 2 ? `?user=${user}` : ""),
    method,
    ...(method === "POST" && { body: bodies[name] ?? {} }),
  }));
  const tasks = ["GetTask", "CancelTask", "SubscribeToTask"].map((method) => rpc(method, { id: `${id}.${began}` }));
  const messageId = `a message id that is long enough ${step.key % 3}`;
  const calls = [
    ...tasks,
    rpc("ListTasks", { contextId: id, includeArtifacts: true }),
    rpc("SendMessage", sent(id, messageId)),
    rpc("SendMessage", sent("", messageId)),
    rpc("SendStreamingMessage", sent(id, messageId)),
  ];
  const wires = [
    ...calls.map((body) => ({ path: `${prefix}/v1/a2a`, body })),
    { path: `${prefix}/v1/responses`, body: { input: message, conversation: id } },
    { path: `${prefix}/v1/responses`, body: { input: message, previous_response_id: `resp_${id}_${began}` } },
    { path: `${prefix}/v1/responses`, body: { input: message, stream: true, ...(step.text % 2 && { user }) } },
    { path: `${prefix}/v1/responses/resp_${id}_${began}` },
    { path: `${prefix}/v1/responses/resp_${id}_${began}`, method: "DELETE" },
    { path: `${prefix}/v1/chat/completions`, body: { messages: [{ role: "user", content: message }], user } },
    { path: adk },
    { path: adk, body: { sessionId: step.text % 2 ? id : undefined, state: { note: message } } },
    { path: `${adk}/${id}` },
    { path: `${adk}/${id}`, method: "PATCH", body: { stateDelta: { note: message } } },
    { path: `${adk}/${id}`, method: "DELETE" },
    { path: `/v1/adk/dev/apps/greeter/debug/trace/session/${id}` },
    ...["/run", "/run_sse"].map((path) => ({
      path: `/v1/adk${path}`,
      body: { appName: "greeter", userId: user, sessionId: id, newMessage: { parts: [{ text: message }] } },
    })),
    { path: `/v1/sessions/${id}/events?after=0` },
    { path: "/metrics" },
    { path: "/v1/about" },
  ];
  const all: (Sent & { path: string })[] = [...rest, ...wires];
  return { headers, ...all[step.kind % all.length]! };
}
