// serve(): the environments and agents it accepts, and the interplay of its parts: every gym reply has its
// environment's cookie.
import {
  defineAgent,
  defineEnvironment,
  memoryStore,
  refuse,
  scriptedModel,
  tool,
  type Agent,
  type Model,
} from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import type { Collection } from "../../src/rollout/collection-view.ts";
import { conversationRoutes } from "../../src/protocols/rest/conversation-routes.ts";
import { serve, type ServeOptions } from "../../src/server/serve.ts";
import { gate } from "../agent/engine.ts";

const named = (name: string) =>
  defineEnvironment({
    name,
    tools: { ping: tool({ description: "Ping.", run: () => "pong" }) },
    verify: () => 1,
  });

async function served(names: string[], options: Partial<ServeOptions> = {}): Promise<string> {
  const store = memoryStore();
  const environments = names.map(named);
  const { url, close } = await serve({ environments, store, port: 0, log: { what: "none" }, ...options });
  onTestFinished(async () => {
    await close();
    await store.close();
  });
  return url;
}

test.each(["", "short", "two words", "é".repeat(10)])(
  "the token %j would guard nothing, and is refused",
  async (token) => {
    const refused = expect(served(["one"], { token })).rejects;
    await refused.toMatchObject({ code: "invalid_option", message: expect.stringContaining("token") as unknown });
  },
);

describe("environments", () => {
  test.each([
    [[], "nothing to serve: name at least one environment or agent"],
    [["one", "two", "one"], "two environments are called one"],
    // Their cookies would have the same name.
    [["a-b", "a_b"], "two environments are called a_b"],
    ...["v1", "ng-rollout", "metrics", "healthz", "readyz", "docs", "view"].map((name): [string[], string] => [
      ["one", name],
      `an environment called ${name} cannot be served`,
    ]),
  ])("%j are refused", async (names, message) => {
    const refused = expect(served(names)).rejects;
    await refused.toMatchObject({ code: "invalid_option", message: expect.stringContaining(message) as unknown });
  });

  test("with the name of a path of the first one are refused", async () => {
    for (const name of ["verify", "seed_session", "ping"]) {
      await expect(served(["one", name])).rejects.toMatchObject({ code: "invalid_option" });
    }
  });

  test("are served under their names, with a cookie each, and the first one also at the root", async () => {
    const url = await served(["one", "two-three"]);
    const cookieAt = async (path: string): Promise<unknown> =>
      (await fetch(url + path, { method: "POST" })).headers.get("set-cookie")?.split("=")[0];
    const paths = ["/ping", "/one/ping", "/two-three/ping", "/two/ping"];
    expect(await Promise.all(paths.map(cookieAt))).toEqual([
      "holdfast_one",
      "holdfast_one",
      "holdfast_two_three",
      "holdfast_one",
    ]);
  });
});

describe("a client that keeps only the cookies of the last reply keeps its session", () => {
  const token = "a-token-of-the-server";

  test.each([
    ["401", "GET", "/v1/sessions", 401],
    ["401 below its name", "GET", "/one/v1/sessions", 401],
    ["401 of /metrics", "GET", "/metrics", 401],
    ["405", "OPTIONS", "/ping", 405],
    ["405 with a body", "PROPFIND", "/seed_session", 405],
    ["405 of /v1", "PUT", "/v1/sessions", 405],
    ["405 of /healthz", "POST", "/healthz", 405],
    ["404", "GET", "/nowhere", 404],
  ])("through a %s", async (_, method, path, status) => {
    const url = await served(["one", "two"], { token });
    const headers = (cookie: string, path = ""): Record<string, string> => ({
      cookie,
      ...(status !== 401 && path.startsWith("/v1") && { authorization: `Bearer ${token}` }),
    });
    const cookieOf = (response: Response): string => response.headers.get("set-cookie")?.split(";", 1)[0] ?? "";
    const seeded = await fetch(`${url}/seed_session`, { method: "POST" });
    const { session_id: session } = (await seeded.json()) as { session_id: string };
    const refused = await fetch(url + path, { method, headers: headers(cookieOf(seeded), path) });
    expect(refused.status).toBe(status);
    const verified = await fetch(`${url}/verify`, { method: "POST", headers: headers(cookieOf(refused)) });
    expect(await verified.json()).toMatchObject({ session_id: session, holdfast: { episode: 1 } });
  });
});

describe("agents", () => {
  const agentNamed = (name: string, model: Model = scriptedModel(() => `I am ${name}.`)): Agent =>
    defineAgent({ name, model });
  const json = { "content-type": "application/json" };
  const nameAt = async (url: string): Promise<unknown> =>
    ((await (await fetch(`${url}/v1/agent`)).json()) as { name?: string }).name;
  const openAt = async (url: string): Promise<string> => {
    const { session } = (await (await fetch(`${url}/v1/sessions`, { method: "POST" })).json()) as { session: string };
    return `${url}/v1/sessions/${session}`;
  };

  test("are served alone, under their names, the first one also at the root", async () => {
    const url = await served([], { agents: ["one", "two"].map((name) => agentNamed(name)) });
    const names = await Promise.all([url, `${url}/one`, `${url}/two`].map(nameAt));
    expect(names).toEqual(["one", "one", "two"]);
    const at = await openAt(`${url}/two`);
    const body = JSON.stringify({ message: "Who are you?" });
    const said = await fetch(`${at}/run`, { method: "POST", headers: json, body });
    expect(await said.json()).toMatchObject({ outcome: "answered" });
  });

  test("have the API of environments: a document, a page, forks and replays, under their prefix too", async () => {
    const url = await served(["one"], { agents: [agentNamed("helper")] });
    const post = (target: string, body: object = {}): Promise<Response> =>
      fetch(target, { method: "POST", headers: json, body: JSON.stringify(body) });
    const about = await (await fetch(`${url}/helper/openapi.json`)).json();
    expect(about).toMatchObject({ info: { title: "helper" }, paths: { "/v1/sessions/{id}/run": {} } });
    const page = await fetch(`${url}/helper/docs`);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const at = await openAt(`${url}/helper`);
    await post(`${at}/run`, { message: "Who are you?" });
    expect(await (await post(`${at}/fork`, { version: 2 })).json()).toMatchObject({ parent: { version: 2 } });
    expect(await (await post(`${at}/replay`)).json()).toEqual({ same: true, events: 4 });
  });

  test("have a document that names the routes of OpenAI's and A2A's clients, and serve each", async () => {
    const at = `${await served([], { agents: [agentNamed("helper")] })}/helper`;
    const { paths } = (await (await fetch(`${at}/openapi.json`)).json()) as { paths: { [path: string]: object } };
    const others = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { externalDocs }]) => (externalDocs ? [[method, path] as const] : [])),
    );
    expect(new Set(others.map(([, path]) => path.split("/")[2]))).toEqual(
      new Set(["responses", "chat", "models", "a2a", "agent-card.json"]),
    );
    for (const [method, path] of others) {
      const { status } = await fetch(at + path, { method: method === "post" ? "PUT" : method.toUpperCase() });
      expect(status, path).toBe(method === "post" ? 405 : path.includes("{id}") ? 404 : 200);
    }
  });

  test("TOKEN: no route of an agent is answered without the token of the server", async () => {
    const token = "let-me-in";
    const url = await served([], { agents: [agentNamed("helper")], token });
    for (const [path, { method, path: template }] of Object.entries(conversationRoutes)) {
      if (!template.startsWith("/v1/")) continue;
      const target = url + template.replace("{id}", "any");
      const refused = ["", "Bearer let-me-on"].map((authorization) =>
        fetch(target, { method, headers: { authorization } }),
      );
      for (const { status } of await Promise.all(refused)) expect(status, path).toBe(401);
    }
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${url}/v1/agent`, { headers })).status).toBe(200);
  });

  test("CLEANUP: the server's limits end conversations as they end episodes", async () => {
    const agents = [agentNamed("helper")];
    const crowded = await served(["one"], { agents, maxSessions: 1 });
    const impatient = await served(["one"], { agents, idle: 50 });
    for (const kind of ["one", "helper"]) {
      const [first, second] = [await openAt(`${crowded}/${kind}`), await openAt(`${crowded}/${kind}`)];
      expect([(await fetch(first)).status, (await fetch(second)).status], kind).toEqual([404, 200]);
      const idle = await openAt(`${impatient}/${kind}`);
      await expect.poll(async () => (await fetch(idle)).status, { interval: 100, timeout: 10_000 }).toBe(404);
    }
  });

  test("are served beside environments; the first environment is at the root unless another is named", async () => {
    const agents = [agentNamed("helper")];
    const url = await served(["one"], { agents });
    expect((await fetch(`${url}/v1/environment`)).status).toBe(200);
    expect(await nameAt(`${url}/helper`)).toBe("helper");
    const about = (await (await fetch(`${url}/v1/about`)).json()) as object;
    expect(about).toMatchObject({ environments: [{ at: "/one" }], agents: [{ name: "helper", at: "/helper" }] });
    const turned = await served(["one"], { agents, root: "helper" });
    expect(await nameAt(turned)).toBe("helper");
    expect((await fetch(`${turned}/one/v1/environment`)).status).toBe(200);
  });

  test.each([
    [["one"], ["one"], "two agents, or an agent and an environment, are called one"],
    [["a-b"], ["a_b"], "are called a_b"],
    [[], ["one", "one"], "are called one"],
    [["one"], ["v1"], "an agent called v1 cannot be served"],
    [["one"], ["ping"], "an agent called ping cannot be served"],
    // Conversations of rollouts are stored under that name.
    [["one"], ["rollouts"], "an agent called rollouts cannot be served"],
  ])("environments %j and agents %j are refused", async (environments, agents, message) => {
    const refused = expect(served(environments, { agents: agents.map((name) => agentNamed(name)) })).rejects;
    await refused.toMatchObject({ code: "invalid_option", message: expect.stringContaining(message) as unknown });
  });

  test.each([{}, { accept: "text/event-stream" }])(
    "a run whose request is aborted is cancelled (%j)",
    async (headers: object) => {
      const [asked, cancelled] = [gate(), gate()];
      const model: Model = {
        name: "waiting",
        respond: (_, { signal } = {}) =>
          new Promise((_resolve, reject) => {
            asked.open();
            signal?.addEventListener("abort", () => {
              cancelled.open();
              reject(new Error("cancelled"));
            });
          }),
      };
      const url = await served([], { agents: [agentNamed("slow", model)] });
      const at = await openAt(url);
      const leaving = new AbortController();
      const body = JSON.stringify({ message: "Hello." });
      const run = { method: "POST", headers: { ...json, ...headers }, body, signal: leaving.signal };
      const running = fetch(`${at}/run`, run)
        .then((response) => response.text())
        .catch(() => "gone");
      await asked.opened;
      leaving.abort();
      expect(await running).toBe("gone");
      await cancelled.opened;
      const types = async (): Promise<string[]> => {
        const { events } = (await (await fetch(`${at}/events`)).json()) as { events: { type: string }[] };
        return events.map(({ type }) => type);
      };
      await expect.poll(types).toEqual(["session.opened", "invocation.began", "turn.released"]);
    },
  );
});

describe("models", () => {
  test("continue sessions of their environments, and are listed", async () => {
    const pinging = () => scriptedModel([{ calls: [{ name: "ping" }] }, "Done."]);
    const models: ServeOptions["models"] = new Map([["pinging", ({ name }) => (name === "one" ? pinging : undefined)]]);
    const url = await served(["one", "two"], { models });
    expect(await (await fetch(`${url}/v1/about`)).json()).toMatchObject({ models: ["pinging"] });
    const headers = { "content-type": "application/json" };
    const play = async (name: string): Promise<unknown> => {
      const opened = await fetch(`${url}/${name}/v1/sessions`, { method: "POST", headers, body: '{"task":{}}' });
      const { session } = (await opened.json()) as { session: string };
      const body = '{"model":"pinging"}';
      return (await fetch(`${url}/${name}/v1/sessions/${session}/play`, { method: "POST", headers, body })).json();
    };
    expect(await play("one")).toMatchObject({ outcome: "answered", steps: 2, version: 3 });
    expect(await play("two")).toMatchObject({ error: { code: "not_found" } });
  });
});

describe("the viewer's API", () => {
  test("describes the served environments and agents, at the root only", async () => {
    const url = await served(["one", "two"], { bare: new Set(["two"]) });
    const about = (await (await fetch(`${url}/v1/about`)).json()) as object;
    expect(about).toMatchObject({
      environments: [
        { name: "one", at: "/one", bare: false },
        { name: "two", at: "/two", bare: true },
      ],
      version: manifest.version,
      agents: [],
      models: [],
      runs: [],
    });
    for (const path of ["/one/v1/about", "/v1/runs/0"]) expect((await fetch(url + path)).status).toBe(404);
  });

  test("needs no environment if there are runs", async () => {
    const details = {
      run: "0",
      name: "a",
      file: "a.jsonl",
      environment: null,
      model: null,
      settings: {},
      sessions: false,
    };
    const none = async function* () {};
    const totals = { rollouts: 0, tasks: 0, failed: 0, reward: null, tokens: null, began: null, wallSeconds: null };
    const run: Collection = {
      details,
      rows: none,
      search: none,
      totals: async () => totals,
      row: async () => undefined,
    };
    const url = await served([], { collections: [run] });
    expect(await (await fetch(`${url}/v1/runs/0`)).json()).toEqual(details);
    expect((await fetch(`${url}/v1/sessions`)).status).toBe(404);
  });

  test("does not shadow a tool's name", async () => {
    const view = tool({ description: "View.", run: () => "seen" });
    const environments = [defineEnvironment({ name: "one", tools: { view }, verify: () => 1 })];
    const url = await served([], { environments });
    expect(await (await fetch(`${url}/view`, { method: "POST" })).text()).toBe("seen");
    const redirected = await fetch(`${url}/view`, { redirect: "manual" });
    expect([redirected.status, redirected.headers.get("location")]).toEqual([302, "/view/"]);
  });
});

test("a refusal reaches the client over every protocol, and is not logged as an error of the code", async () => {
  const buy = tool({
    description: "Buy.",
    run: () => {
      throw refuse("out of stock");
    },
  });
  const shop = defineEnvironment({ name: "shop", tools: { buy }, verify: () => 1 });
  const model = scriptedModel([{ calls: [{ name: "buy" }] }, "Done."]);
  const lines: string[] = [];
  const log = { destination: { write: (line: string) => void lines.push(line) } };
  const agents = [defineAgent({ name: "clerk", model, tools: { buy } })];
  const url = await served([], { environments: [shop], agents, log });
  const sent = async (path: string, body: unknown, cookie = "") => {
    const headers = { "content-type": "application/json", cookie };
    const reply = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: reply.status, cookie: reply.headers.get("set-cookie") ?? "", text: await reply.text() };
  };
  const error = { code: "tool_failed", message: "out of stock" };

  const { cookie } = await sent("/seed_session", {});
  const overGym = await sent("/buy", {}, cookie.split(";")[0]);
  expect({ ...overGym, json: JSON.parse(overGym.text) as unknown }).toMatchObject({ status: 422, json: { error } });

  const { session } = JSON.parse((await sent("/v1/sessions", {})).text) as { session: string };
  const overRest = await sent(`/v1/sessions/${session}/call`, { tool: "buy", input: {} });
  expect(JSON.parse(overRest.text)).toMatchObject({ ok: false, error });

  const opened = JSON.parse((await sent("/clerk/v1/sessions", {})).text) as { session: string };
  const turn = await sent(`/clerk/v1/sessions/${opened.session}/run`, { message: "buy" });
  expect(turn.text).toContain("out of stock");
  expect(turn.text).not.toContain("thrown");
  expect(lines).toEqual([]);
});
