// An agent over REST: every route with good and bad input, live runs, and abandoned runs.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  memoryStore,
  run,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type Conversations,
  type Model,
  type RunEvent,
} from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { restProtocol } from "../../src/protocols/rest.ts";
import { gate, onEveryStore } from "../agent/engine.ts";
import { clientFor, type Client } from "./rest-client.ts";

const greeter = (model: Model): Agent =>
  defineAgent({
    name: "greeter",
    description: "Greets.",
    model,
    outputKey: "answer",
    tools: {
      remember: tool({
        description: "Remember the name.",
        input: z.object({ name: z.string() }),
        run: ({ state }, { name }) => void (state["user:name"] = name),
      }),
    },
    callbacks: { beforeAgent: ({ state }) => void (state["turns"] = (state["turns"] ?? 0) + 1) },
  });

const remembering = { calls: [{ name: "remember", arguments: { name: "Ann" } }] };
const polite = (): Model => scriptedModel(({ input }) => (input.at(-1)?.type === "message" ? remembering : "Hi Ann!"));

function served(sessions: Conversations, agent = greeter(polite())): Client {
  return clientFor(restProtocol({ agent, sessions }));
}

function onMemory(model: Model = polite(), agent = greeter(model)): { sessions: Conversations; client: Client } {
  const sessions = createSessions({ app: "greeter", store: memoryStore(), keepEnded: true });
  onTestFinished(() => sessions.stop());
  return { sessions, client: served(sessions, agent) };
}

async function opened(client: Client, body: object = {}): Promise<string> {
  return `/v1/sessions/${(await client("POST", "/v1/sessions", { body })).body.session}`;
}

interface Sent {
  event: string;
  data: any; // eslint-disable-line typescript/no-explicit-any
}

function parse(text: string): Sent {
  const [, event = "", data = ""] = /^(?:id: \d+\n)?event: ([a-z.]+)\ndata: (.*)\n\n$/.exec(text) ?? [];
  return { event, data: JSON.parse(data) as unknown };
}

const accept = { accept: "text/event-stream" };

async function streamed(
  client: Client,
  at: string,
  body: object,
  signal?: AbortSignal,
): Promise<AsyncIterable<string>> {
  const asked = { body, headers: accept, ...(signal && { signal }) };
  const { status, stream, headers, body: refusal } = await client("POST", `${at}/run`, asked);
  expect([status, headers["content-type"]], JSON.stringify(refusal)).toEqual([200, "text/event-stream"]);
  return stream as AsyncIterable<string>;
}

const turn = ["invocation.began", "agent.began", "model.answered", "tools.answered", "model.answered", "agent.ended"];

onEveryStore("a session is opened, run, inspected, rewound and closed", async (place) => {
  const client = served(place.engine("greeter", { keepEnded: true }));
  const state = { room: 12, "app:hotel": "Ritz" };
  const info = await client("POST", "/v1/sessions", { body: { user: "ann", state } });
  expect(info).toMatchObject({ status: 201, body: { user: "ann", version: 1 } });
  const { session } = info.body;
  const at = `/v1/sessions/${session}`;
  const { status, body } = await client("POST", `${at}/run`, {
    body: { message: "I am Ann.", state_delta: { day: 1 } },
  });
  expect([status, body.session, body.outcome, body.text]).toEqual([200, session, "answered", "Hi Ann!"]);
  expect(body.events.map(({ type }: { type: string }) => type)).toEqual(turn);
  expect((await client("GET", at)).body).toMatchObject({ session, user: "ann", version: 7 });
  const after = { ...state, day: 1, turns: 1, answer: "Hi Ann!", "user:name": "Ann" };
  expect((await client("GET", `${at}/state`)).body).toEqual({ session, version: 7, state: after });
  expect((await client("GET", `${at}/state?version=2`)).body).toEqual({
    session,
    version: 2,
    // Shared state has its current values.
    state: { ...state, day: 1, "user:name": "Ann" },
  });
  const page = await client("GET", `${at}/events?after=1&limit=2`);
  expect(page.body).toMatchObject({ events: [{ version: 2 }, { version: 3 }], next: 3 });
  const rewound = await client("POST", `${at}/rewind`, { body: { invocation: body.invocation } });
  expect(rewound).toMatchObject({ status: 200, body: { session, version: 8 } });
  expect((await client("GET", `${at}/state`)).body.state).toEqual({ ...state, "user:name": "Ann" });
  expect((await client("DELETE", at)).body).toEqual({ closed: true });
  expect((await client("DELETE", at)).body).toEqual({ closed: false });
  expect((await client("GET", at)).body).toMatchObject({ ended: "closed" });
});

onEveryStore("LIFECYCLE: events of a run are stored before they are sent, and pieces never are", async (place) => {
  const client = served(place.engine("greeter"));
  const at = await opened(client);
  const told: string[] = [];
  for await (const text of await streamed(client, at, { message: "I am Ann." })) {
    const { event, data } = parse(text);
    if (event !== "partial" || told.at(-1) !== "partial") told.push(event);
    if (event === "done") expect(data).toMatchObject({ outcome: "answered", text: "Hi Ann!" });
    else expect(data.type).toBe(event);
    if (event !== "partial" && event !== "done") {
      const { events } = (await client("GET", `${at}/events?after=${data.version - 1}`)).body;
      expect(events[0]).toEqual(data);
    }
  }
  expect(told.filter((event) => event !== "partial")).toEqual([...turn, "done"]);
  expect(told.filter((event) => event === "partial")).toHaveLength(2);
  const { events } = (await client("GET", `${at}/events`)).body;
  expect(events).toHaveLength(1 + turn.length);
});

describe("live events", () => {
  test("of a session arrive as they are committed, resume after a version, and end with it", async () => {
    const { client } = onMemory();
    const at = await opened(client);
    const { stream } = await client("GET", `${at}/events`, { headers: accept });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const text of stream as AsyncIterable<string>) seen.push(parse(text).event);
    })();
    await client("POST", `${at}/run`, { body: { message: "I am Ann." } });
    await client("DELETE", at);
    await reading;
    expect(seen).toEqual(["session.opened", ...turn, "session.closed"]);
    const late = await client("GET", `${at}/events`, { headers: { ...accept, "last-event-id": "7" } });
    const rest: string[] = [];
    for await (const text of late.stream as AsyncIterable<string>) rest.push(parse(text).event);
    expect(rest).toEqual(["session.closed"]);
    const over = await client("GET", `${at}/events?after=8`, { headers: accept });
    expect(over.status).toBe(204);
  });
});

describe("a run", () => {
  /** A model that answers on command, or never. */
  function waiting(): { model: Model; asked: Promise<void>; answer(): void } {
    const [asked, told] = [gate(), gate()];
    const model = scriptedModel(async () => {
      asked.open();
      await told.opened;
      return "Hello!";
    });
    return { model, asked: asked.opened, answer: told.open };
  }

  test("on a session with another run is refused at once, streamed or not, and does not disturb it", async () => {
    const { model, asked, answer } = waiting();
    const { client } = onMemory(model);
    const at = await opened(client);
    const first = client("POST", `${at}/run`, { body: { message: "one" } });
    await asked;
    for (const headers of [{}, accept]) {
      const second = await client("POST", `${at}/run`, { body: { message: "two" }, headers });
      expect(second).toMatchObject({ status: 409, body: { error: { code: "session_busy" } } });
    }
    answer();
    expect((await first).body).toMatchObject({ outcome: "answered" });
    expect(await client("POST", `${at}/run`, { body: { message: "three" } })).toMatchObject({ status: 200 });
  });

  test("ONCE: sent again under its Idempotency-Key gives the recorded outcome and events, and nothing is added", async () => {
    const { client } = onMemory(scriptedModel(() => "Hello!"));
    const at = await opened(client);
    const headers = { "idempotency-key": "m1" };
    const first = await client("POST", `${at}/run`, { body: { message: "I am Ann." }, headers });
    const again = await client("POST", `${at}/run`, { body: { message: "I am Ann." }, headers });
    const { repeated: _, ...recorded } = first.body as { repeated: boolean };
    expect(again.body).toEqual({ ...recorded, repeated: true });
    const byBody = await client("POST", `${at}/run`, { body: { message: "I am Ann.", call: "m1" } });
    expect(byBody.body).toEqual(again.body);
    const other = await client("POST", `${at}/run`, { body: { message: "I am Bob." }, headers });
    expect(other).toMatchObject({ status: 409, body: { error: { code: "call_conflict" } } });
  });

  test("whose client disconnects is cancelled: committed events stay, and it can resume", async () => {
    const { model, asked, answer } = waiting();
    const { client } = onMemory(model);
    const at = await opened(client);
    const leaving = new AbortController();
    const stream = await streamed(client, at, { message: "hello" }, leaving.signal);
    const told: string[] = [];
    const reading = (async () => {
      for await (const text of stream) told.push(parse(text).event);
    })();
    await asked;
    leaving.abort();
    await reading;
    expect(told).toEqual(["invocation.began", "agent.began"]);
    // The last event releases the turn.
    expect((await client("GET", at)).body).toMatchObject({ version: 4 });
    answer();
    const { body } = await client("POST", `${at}/run`);
    expect(body.outcome).toBe("answered");
    expect((await client("GET", `${at}/state`)).body.state).toEqual({ turns: 1, answer: "Hello!" });
  });

  test("whose reader stops reading is cancelled too", async () => {
    const { client } = onMemory();
    const at = await opened(client);
    for await (const text of await streamed(client, at, { message: "hello" })) {
      if (parse(text).event === "agent.began") break;
    }
    expect((await client("GET", at)).body).toMatchObject({ version: 4 });
    expect((await client("POST", `${at}/run`)).body.outcome).toBe("answered");
  });

  test("that fails is reported with its reason, as an outcome", async () => {
    const { client } = onMemory(scriptedModel([]));
    const at = await opened(client);
    const sent: Sent[] = [];
    for await (const text of await streamed(client, at, { message: "hello" })) sent.push(parse(text));
    expect(sent.slice(-2)).toMatchObject([
      { event: "agent.failed", data: { error: { code: "model_exhausted" } } },
      { event: "done", data: { outcome: "failed" } },
    ]);
  });

  test("is not disturbed by a run on another server, which is refused; if its turn is taken, the stream says so", async () => {
    const store = memoryStore();
    const [sessions, others] = [1, 2].map(() => createSessions({ app: "greeter", store })) as [
      Conversations,
      Conversations,
    ];
    onTestFinished(async () => void (await Promise.all([sessions.stop(), others.stop()])));
    const client = served(sessions);
    const at = await opened(client);
    const elsewhere = served(others);
    const sent: Sent[] = [];
    for await (const text of await streamed(client, at, { message: "hello" })) {
      sent.push(parse(text));
      if (sent.length > 1) continue;
      const refused = await elsewhere("POST", `${at}/run`, { body: { message: "me first" } });
      expect(refused).toMatchObject({ status: 409, body: { error: { code: "session_busy" } } });
      expect(refused.body.error.detail.lapsesIn).toBeGreaterThan(10_000);
    }
    expect(sent.at(-1)).toMatchObject({ event: "done", data: { outcome: "answered" } });
    for await (const text of await streamed(client, at, { message: "hello again" })) {
      sent.push(parse(text));
      if (sent.at(-1)?.event !== "invocation.began") continue;
      const taking = { sessions: others, session: at.split("/").at(-1), message: "me first", busy: "take" as const };
      for await (const _ of run(greeter(polite()), taking));
    }
    expect(sent.at(-1)).toMatchObject({ event: "error", data: { error: { code: "turn_lost" } } });
  });

  test("that fails with an unknown error reveals nothing, and the server's log has it", async () => {
    const sessions = createSessions({ app: "greeter", store: memoryStore() });
    onTestFinished(() => sessions.stop());
    const agent = greeter(polite());
    async function* broken(): AsyncGenerator<RunEvent, never, undefined> {
      yield { type: "agent.began" } as RunEvent;
      throw new Error("a secret");
    }
    const client = clientFor(restProtocol({ agent, sessions, run: broken }));
    const stream = await streamed(client, "/v1/sessions/any", { message: "hello" });
    let text = "";
    const reading = (async () => {
      for await (const each of stream) text += each;
    })();
    await expect(reading).rejects.toThrow("a secret");
    expect(text).toContain('event: error\ndata: {"error":{"code":"internal"');
    expect(text).not.toContain("secret");
  });
});

test("sessions are listed in pages, in the order of opening", async () => {
  const { client } = onMemory();
  const ids: string[] = [];
  for (const user of ["ann", "bob", "cid"])
    ids.push((await client("POST", "/v1/sessions", { body: { user } })).body.session);
  const first = await client("GET", "/v1/sessions?limit=2");
  expect(first.body).toMatchObject({ sessions: [{ user: "ann" }, { user: "bob" }], next: ids[1], more: true });
  const second = await client("GET", `/v1/sessions?limit=2&after=${ids[1]}`);
  expect(second.body).toMatchObject({ sessions: [{ session: ids[2], user: "cid" }], next: null, more: false });
});

test("an agent describes its model, its tools and its sub-agents", async () => {
  const { client, sessions } = onMemory();
  const { body } = await client("GET", "/v1/agent");
  expect(body).toMatchObject({ name: "greeter", description: "Greets.", model: "scripted", agents: [] });
  expect(body.tools).toMatchObject([
    { name: "remember", description: "Remember the name.", input: { type: "object", required: ["name"] } },
  ]);
  const helper = greeter(polite());
  const asking = defineAgent({ name: "asking", model: polite(), tools: { ask: helper }, agents: [] });
  expect((await served(sessions, asking)("GET", "/v1/agent")).body.tools).toMatchObject([
    { name: "ask", description: "Greets.", input: { required: ["request"] } },
  ]);
  const composed = sequence({ name: "composed", agents: [helper] });
  expect((await served(sessions, composed)("GET", "/v1/agent")).body).toEqual({
    name: "composed",
    description: "",
    model: null,
    tools: [],
    agents: ["greeter"],
  });
});

onEveryStore(
  "FORK: a conversation is forked, rewound by version, replayed and listed by user and label",
  async (place) => {
    const agent = greeter(polite());
    const sessions = place.engine("greeter", { agent });
    const client = served(sessions, agent);
    const labels = { topic: "bill" };
    const { session } = (await client("POST", "/v1/sessions", { body: { user: "ann", labels } })).body;
    const at = `/v1/sessions/${session}`;
    await client("POST", `${at}/run`, { body: { message: "I am Ann." } });
    const fork = await client("POST", `${at}/fork`, { body: { version: 3, set: { room: 7 } } });
    expect(fork).toMatchObject({ status: 201, body: { user: "ann", version: 4, parent: { session, version: 3 } } });
    expect((await client("GET", `/v1/sessions/${fork.body.session}/state`)).body.state).toMatchObject({ room: 7 });
    expect((await client("GET", at)).body).toMatchObject({ version: 7 });
    expect((await client("POST", `${at}/rewind`, { body: { version: 2 } })).body).toMatchObject({ version: 8 });
    expect((await client("POST", `${at}/replay`)).body).toEqual({ same: true, events: 8 });
    const other = (await client("POST", "/v1/sessions", { body: { user: "bob" } })).body.session as string;
    const ids = async (query: string): Promise<string[]> =>
      (await client("GET", `/v1/sessions?${query}`)).body.sessions.map((one: { session: string }) => one.session);
    expect(await ids("user=bob")).toEqual([other]);
    expect(await ids(`labels=${encodeURIComponent(JSON.stringify(labels))}`)).toEqual([session, fork.body.session]);
    expect(await ids("user=bob&labels=%7B%22topic%22%3A%22bill%22%7D")).toEqual([]);
    const titled = await client("POST", `/v1/sessions/${session}/label`, { body: { labels: { title: "May" } } });
    expect(titled).toMatchObject({ status: 200, body: { session, labels: { topic: "bill", title: "May" } } });
    expect(await ids(`labels=${encodeURIComponent('{"title":"May"}')}`)).toEqual([session]);
    const moved = await client("POST", `/v1/sessions/${session}/label`, { body: { labels: { user: "bob" } } });
    expect(moved).toMatchObject({ status: 400, body: { error: { code: "invalid_option" } } });
    await client("DELETE", `/v1/sessions/${other}`);
    expect(await ids("open=true&limit=1")).toEqual([session]);
  },
);

test("CLEANUP: conversations over a limit end on request", async () => {
  const agent = greeter(polite());
  const sessions = createSessions({ app: "greeter", agent, store: memoryStore(), limits: { idle: 1 } });
  onTestFinished(() => sessions.stop());
  const client = served(sessions, agent);
  await opened(client);
  await expect.poll(async () => (await client("POST", "/v1/expire")).body).toEqual({ ended: 1 });
  expect((await client("POST", "/v1/expire")).body).toEqual({ ended: 0 });
});

test("an agent lists the tools of its toolsets", async () => {
  const environment = defineEnvironment({
    name: "lamp",
    tools: { switch_on: tool({ description: "Switch on.", run: () => true }) },
  });
  const episodes = createSessions({ environment, store: memoryStore() });
  const agent = defineAgent({ name: "keeper", model: polite(), toolsets: [environmentTools(episodes)] });
  const { client } = onMemory(polite(), agent);
  expect((await client("GET", "/v1/agent")).body.tools).toMatchObject([
    { name: "switch_on", description: "Switch on." },
  ]);
});

describe("bad requests", () => {
  const bad = (message: string) => ({
    status: 400,
    body: { error: { code: "invalid_option", message: expect.stringContaining(message) as unknown } },
  });

  test("are refused with the reason, and change nothing", async () => {
    const { client } = onMemory();
    const at = await opened(client);
    for (const [target, body, message] of [
      ["/v1/sessions", [], "the body must be an object"],
      ["/v1/sessions", { user: 3 }, "user must be a string"],
      ["/v1/sessions", { user: "" }, "1 to 200 characters"],
      ["/v1/sessions", { state: [] }, "state must be an object"],
      ["/v1/sessions", { session: "mine" }, 'the body has no field "session"'],
      [`${at}/run`, "hello", "the body must be an object"],
      [`${at}/run`, null, "the body must be an object"],
      [`${at}/run`, { message: 3 }, "message must be a string or an array"],
      [`${at}/run`, { message: [{ type: "message", role: "nobody", content: "x" }] }, "without a role"],
      [`${at}/run`, { message: "x", state_delta: 3 }, "state_delta must be an object"],
      [`${at}/run`, { state_delta: {} }, "`stateDelta` needs a message or results"],
      [`${at}/rewind`, {}, "the body must have 1 of these fields: version, invocation"],
      [`${at}/rewind`, { version: 1, invocation: "x" }, "the body must have 1 of these fields: version, invocation"],
      [`${at}/fork`, { set: 3 }, "set must be an object"],
      [`${at}/rewind`, { invocation: 3 }, "invocation must be a string"],
    ] as const) {
      expect(await client("POST", target, { body }), JSON.stringify(body)).toMatchObject(bad(message));
      expect(await client("POST", target, { body, headers: accept }), JSON.stringify(body)).toMatchObject(bad(message));
    }
    expect(await client("GET", "/v1/sessions?limit=0")).toMatchObject(bad("limit"));
    expect(await client("GET", `${at}/state?version=x`)).toMatchObject(bad("version"));
    expect((await client("GET", at)).body).toMatchObject({ version: 1 });
  });

  test("for missing or impossible targets have their codes", async () => {
    const { client } = onMemory();
    const at = await opened(client);
    const message = { message: "hello" };
    for (const [method, target, body, status, code] of [
      ["POST", `${at}/run`, {}, 409, "nothing_to_continue"],
      ["POST", `${at}/rewind`, { invocation: "none" }, 404, "version_not_found"],
      ["GET", `${at}/state?version=9`, undefined, 404, "version_not_found"],
      ["GET", "/v1/sessions?after=nobody", undefined, 404, "session_not_found"],
      ["GET", "/v1/sessions/nobody", undefined, 404, "session_not_found"],
      ["GET", "/v1/sessions/nobody/state", undefined, 404, "session_not_found"],
      ["GET", "/v1/sessions/nobody/events", undefined, 404, "session_not_found"],
      ["POST", "/v1/sessions/nobody/run", message, 404, "session_not_found"],
      ["POST", "/v1/sessions/nobody/rewind", { invocation: "none" }, 404, "session_not_found"],
      ["GET", "/v1/nothing", undefined, 404, "not_found"],
      ["PUT", at, undefined, 405, "method_not_allowed"],
      ["GET", "/v1/sessions/%", undefined, 400, "invalid_request"],
    ] as const) {
      const refused = { status, body: { error: { code } } };
      expect(await client(method, target, { body }), `${method} ${target}`).toMatchObject(refused);
    }
    expect((await client("DELETE", "/v1/sessions/nobody")).body).toEqual({ closed: false });
    await client("DELETE", at);
    const closed = { status: 410, body: { error: { code: "session_closed" } } };
    for (const headers of [{}, accept]) {
      expect(await client("POST", `${at}/run`, { body: message, headers })).toMatchObject(closed);
    }
    expect(await client("POST", `${at}/rewind`, { body: { invocation: "none" } })).toMatchObject(closed);
  });
});
