// An agent over ADK's routes: sessions, runs, state, traces, and bad input of each kind.
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent, type Model } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { adkProtocol } from "../../src/protocols/adk.ts";
import type { AdkEvent } from "../../src/protocols/adk/events.ts";
import type { App } from "../../src/server/app.ts";
import { gate, onEveryStore } from "../agent/engine.ts";
import { appOf, asked } from "../server/serving.ts";

const counting = (model: Model): Agent =>
  defineAgent({
    name: "counter",
    description: "Counts.",
    model,
    tools: {
      add: tool({
        description: "Add.",
        input: z.object({ by: z.number() }),
        run: ({ state }, { by }) => {
          state["count"] = (state["count"] ?? 0) + by;
          state["seen"] = [...(state["seen"] ?? []), by];
          state["user:total"] = (state["user:total"] ?? 0) + by;
          return { count: state["count"] };
        },
      }),
    },
  });

const adding = { calls: [{ name: "add", arguments: { by: 2 } }] };
const polite = (): Model => scriptedModel(({ input }) => (input.at(-1)?.type === "message" ? adding : "It is 2."));

type Send = (method: string, path: string, body?: unknown, headers?: { [name: string]: string }) => Promise<Got>;
// eslint-disable-next-line typescript/no-explicit-any -- as loosely as a client in another language reads it
type Got = { status: number; body: any; frames: any[] };

function clientOf(app: App): Send {
  return async (method, path, body, headers = {}) => {
    const [at = "", query = ""] = path.split("?");
    const local = { host: "127.0.0.1", ...headers };
    const request = asked(`/v1/adk${at}`, { method, body, headers: local, query: new URLSearchParams(query) });
    const reply = await app.handle(request);
    const frames: unknown[] = [];
    for await (const text of reply.stream ?? []) frames.push(JSON.parse(text.replace(/^data: |\n\n$/g, "")));
    return { status: reply.status, body: reply.body, frames };
  };
}

function served(model = polite(), sessions = createSessions({ app: "counter", store: memoryStore() })) {
  onTestFinished(() => sessions.stop());
  const agent = counting(model);
  return { sessions, send: clientOf(appOf([adkProtocol({ agents: [{ agent, sessions }], version: "1" })])) };
}

const at = "/apps/counter/users/ann/sessions";
const message = (text: string): object => ({ role: "user", parts: [{ text }] });
const kinds = ({ content, actions }: AdkEvent): string =>
  content ? Object.keys(content.parts[0] ?? {}).join() : `state ${Object.keys(actions.stateDelta).join()}`;

onEveryStore("a session is opened, run, read again, changed and deleted", async (place) => {
  const sessions = place.engine("counter", { keepEnded: true });
  const { send } = served(polite(), sessions);
  expect((await send("GET", "/list-apps?relative_path=./")).body).toEqual(["counter"]);
  const opened = await send("POST", at, { state: { __session_metadata__: { displayName: "first" }, count: 1 } });
  expect(opened.body).toMatchObject({ appName: "counter", userId: "ann", state: { count: 1 }, events: [] });
  const { id } = opened.body;
  const run = { appName: "counter", userId: "ann", sessionId: id, newMessage: message("add 2"), streaming: true };
  const { frames } = await send("POST", "/run_sse", { ...run, stateDelta: null });
  expect(frames.filter(({ partial }) => !partial).map(kinds)).toEqual(["functionCall", "functionResponse", "text"]);
  expect(
    frames
      .filter(({ partial }) => partial)
      .map(({ content }) => content.parts[0].text)
      .join(""),
  ).toBe("It is 2.");
  const answered = frames.find((event) => kinds(event) === "functionResponse");
  expect(answered.actions.stateDelta).toEqual({ count: 3, seen: [2], "user:total": 2 });
  expect(answered.content.parts).toEqual([
    { functionResponse: { id: expect.any(String), name: "add", response: { count: 3 } } },
  ]);

  const again = await send("GET", `${at}/${id}`);
  expect(again.body.events.map(({ author }: AdkEvent) => author)).toEqual(["user", "counter", "counter", "counter"]);
  expect(again.body.events.slice(1)).toEqual(frames.filter(({ partial }) => !partial));
  expect(again.body.state).toMatchObject({ count: 3, "user:total": 2 });
  // In seconds, as the UI reads it.
  expect(Math.abs(again.body.lastUpdateTime - Date.now() / 1000)).toBeLessThan(60);

  const patched = await send("PATCH", `${at}/${id}`, { stateDelta: { count: 7 } });
  expect(patched.body.state.count).toBe(7);
  expect(patched.body.events.at(-1)).toMatchObject({ author: "user", actions: { stateDelta: { count: 7 } } });
  const listed = await send("GET", at);
  expect(listed.body).toMatchObject([{ id, state: { __session_metadata__: { displayName: "first" } } }]);
  expect(await send("DELETE", `${at}/${id}`)).toMatchObject({ status: 200, body: null });
  expect((await send("GET", at)).body).toEqual([]);
});

test("a list leaves out a session that is deleted while the list is read", async () => {
  const sessions = createSessions({ app: "counter", store: memoryStore() });
  const gone = await sessions.open({ user: "ann" });
  const kept: string[] = [];
  for (let count = 0; count < 40; count++) kept.push((await sessions.open({ user: "ann" })).session);
  let [reading, most] = [0, 0];
  const state: typeof sessions.state = async (session, version) => {
    most = Math.max(most, ++reading);
    if (session === gone.session) await sessions.close(session);
    return sessions.state(session, version).finally(() => reading--);
  };
  const { send } = served(polite(), { ...sessions, state });
  const { status, body } = await send("GET", at);
  expect([status, body.map(({ id }: { id: string }) => id).toSorted()]).toEqual([200, kept.toSorted()]);
  expect(most).toBe(16);
});

test("a trace has a span for the turn, the agent, each answer and each call, within one another", async () => {
  const { send } = served();
  const { id } = (await send("POST", at, null)).body;
  const run = { app_name: "counter", user_id: "ann", session_id: id, new_message: message("add 2") };
  const events = (await send("POST", "/run", run)).body as AdkEvent[];
  const spans = (await send("GET", `/dev/apps/counter/debug/trace/session/${id}`)).body;
  expect(spans.map(({ name }: { name: string }) => name)).toEqual([
    "invocation",
    "invoke_agent counter",
    "call_llm",
    "execute_tool add",
    "call_llm",
  ]);
  const [turn, agent, ...steps] = spans;
  expect([turn.parent_span_id, agent.parent_span_id]).toEqual([null, turn.span_id]);
  for (const step of steps) {
    expect(step.parent_span_id).toBe(agent.span_id);
    expect(step.start_time).toBeGreaterThanOrEqual(agent.start_time);
    expect(step.end_time).toBeLessThanOrEqual(turn.end_time);
  }
  const tied = steps.map(({ attributes }: { attributes: object }) => Object(attributes)["gcp.vertex.agent.event_id"]);
  expect(tied).toEqual(events.map((event) => event.id));
});

test("events that a rewind undid are not shown", async () => {
  const { send, sessions } = served();
  const { id } = (await send("POST", at, {})).body;
  const run = { appName: "counter", userId: "ann", sessionId: id, newMessage: message("add 2") };
  await send("POST", "/run", run);
  await sessions.rewind(id, 1);
  expect((await send("GET", `${at}/${id}`)).body).toMatchObject({ events: [], state: {} });
  await send("POST", "/run", run);
  expect((await send("GET", `${at}/${id}`)).body).toMatchObject({ state: { count: 2, seen: [2] } });
});

test("ONCE: a run that is sent again under its Idempotency-Key is applied once", async () => {
  const { send } = served();
  const { id } = (await send("POST", at, {})).body;
  const run = { appName: "counter", userId: "ann", sessionId: id, newMessage: message("add 2") };
  const first = await send("POST", "/run_sse", run, { "idempotency-key": "m1" });
  const second = await send("POST", "/run_sse", run, { "idempotency-key": "m1" });
  expect(second.frames).toEqual(first.frames);
  expect((await send("GET", `${at}/${id}`)).body.state.count).toBe(2);
});

test("a model that fails is an event with the reason, and the next message is answered", async () => {
  let isDown = true;
  const { send } = served(
    scriptedModel(() => {
      if (isDown) throw new Error("the model is down");
      return "Hello!";
    }),
  );
  const { id } = (await send("POST", at, {})).body;
  const run = { appName: "counter", userId: "ann", sessionId: id, newMessage: message("hello") };
  const { frames } = await send("POST", "/run_sse", run);
  expect(frames.at(-1)).toMatchObject({ errorCode: "model_failed", errorMessage: expect.stringContaining("is down") });
  isDown = false;
  // Without a message, the turn continues.
  const continued = await send("POST", "/run_sse", { ...run, newMessage: undefined });
  expect(continued.frames.map(kinds)).toEqual(["text"]);
});

test("ISOLATION: a session of another user does not exist", async () => {
  const { send } = served();
  const { id } = (await send("POST", at, {})).body;
  const bobs = "/apps/counter/users/bob/sessions";
  const run = { appName: "counter", userId: "bob", sessionId: id, newMessage: message("hello") };
  for (const [method, path, body] of [
    ["GET", `${bobs}/${id}`],
    ["PATCH", `${bobs}/${id}`, { stateDelta: { count: 9 } }],
    ["DELETE", `${bobs}/${id}`],
    ["POST", "/run", run],
    ["POST", "/run_sse", run],
  ] as const) {
    const { status, body: refusal } = await send(method, path, body);
    expect([status, refusal.code]).toEqual([404, "session_not_found"]);
  }
  expect((await send("GET", bobs)).body).toEqual([]);
  expect((await send("GET", `${at}/${id}`)).body).toMatchObject({ state: {}, events: [] });
});

test("ISOLATION: an id that a client chose belongs to one user of one app, and can be chosen again", async () => {
  const store = memoryStore();
  const agents = ["counter", "other"].map((app) => {
    const sessions = createSessions({ app, store, keepEnded: true });
    onTestFinished(() => sessions.stop());
    return { agent: { ...counting(polite()), name: app }, sessions };
  });
  const send = clientOf(appOf([adkProtocol({ agents, version: "1" })]));
  // A session that was stored under the client's id, as in earlier versions.
  await agents[0]?.sessions.open({ session: "s1", user: "old", state: { place: 0 } });
  const id = "a/b: c%";
  const places = ["/apps/counter/users/ann", "/apps/counter/users/bob", "/apps/other/users/a:n%2Fn"];
  for (const [index, place] of places.entries()) {
    const path = `${place}/sessions`;
    for (const sessionId of [id, "s1"]) {
      const opened = await send("POST", path, { sessionId, state: { place: index } });
      expect(opened).toMatchObject({ status: 200, body: { id: sessionId, state: { place: index } } });
      expect(await send("POST", path, { sessionId })).toMatchObject({ status: 409, body: { code: "session_exists" } });
    }
  }
  const old = "/apps/counter/users/old/sessions";
  expect((await send("POST", `${old}/s1`, {})).status).toBe(409);
  expect(await send("GET", `${old}/s1`)).toMatchObject({ body: { id: "s1", state: { place: 0 } } });
  for (const [index, place] of places.entries()) {
    const path = `${place}/sessions/${encodeURIComponent(id)}`;
    const [, , appName = "", , user = ""] = place.split("/");
    const run = { appName, userId: decodeURIComponent(user), sessionId: id, newMessage: message("add 2") };
    const ran = await send("POST", "/run", run);
    expect(ran.status).toBe(200);
    const patched = await send("PATCH", path, { stateDelta: { changed: true } });
    expect(patched.body).toMatchObject({ id, state: { place: index, changed: true, count: 2 } });
    expect((await send("GET", path)).body).toEqual(patched.body);
    const listed: { id: string }[] = (await send("GET", `${place}/sessions`)).body;
    expect(listed.map((session) => session.id).toSorted()).toEqual([id, "s1"]);
    const trace = `/dev/apps/${appName}/debug/trace/session/${encodeURIComponent(id)}?userId=${user}`;
    const spans = (await send("GET", trace)).body as { attributes: { [name: string]: string } }[];
    const tied = spans.flatMap(({ attributes }) => attributes["gcp.vertex.agent.event_id"] ?? []);
    expect(tied).toEqual((ran.body as AdkEvent[]).map((event) => event.id));
    for (let times = 1; times <= 2; times++) {
      expect((await send("DELETE", path)).status).toBe(200);
      for (const [method, gone, body] of [
        ["GET", path],
        ["GET", trace],
        ["DELETE", path],
        ["PATCH", path, {}],
        ["POST", "/run", run],
      ] as const) {
        expect([method, await send(method, gone, body)]).toMatchObject([method, { status: 404 }]);
      }
      // The deprecated route takes the state itself.
      expect((await send("POST", path, { again_and: times })).body.state).toEqual({
        again_and: times,
        "user:total": 2,
      });
    }
  }
});

test("a client's tool is a long-running call, and a functionResponse continues the turn", async () => {
  const agent = defineAgent({
    name: "counter",
    model: scriptedModel(({ input }) => {
      const outputs = input.flatMap((item) => (item.type === "function_call_output" ? [String(item["output"])] : []));
      if (outputs.length > 0) return `Got ${outputs.join(" and ")}.`;
      return { calls: [{ name: "add" }, { name: "locate" }, { name: "locate" }] };
    }),
    tools: { add: tool({ description: "Add.", run: ({ state }) => (state["count"] = (state["count"] ?? 0) + 1) }) },
    clientTools: [{ type: "function", name: "locate", parameters: { type: "object" } }],
  });
  const sessions = createSessions({ app: "counter", store: memoryStore() });
  onTestFinished(() => sessions.stop());
  const send = clientOf(appOf([adkProtocol({ agents: [{ agent, sessions }], version: "1" })]));
  const { id } = (await send("POST", at, {})).body;
  const run = { appName: "counter", userId: "ann", sessionId: id };
  const first = (await send("POST", "/run", { ...run, newMessage: message("go") })).body;
  expect(first.map(kinds)).toEqual(["functionCall", "functionResponse"]);
  const [one, two] = first[0].longRunningToolIds;
  expect(first[0].content.parts.map((part: { functionCall: { id: string } }) => part.functionCall.id)).toEqual([
    "call_0_0",
    one,
    two,
  ]);
  expect((await send("POST", "/run", { ...run, newMessage: message("hello") })).status).toBe(409);
  const response = (call: string, given: object) => ({
    functionResponse: { id: call, name: "locate", response: given },
  });
  const part = { role: "user", parts: [response(one, { result: "Oslo" })] };
  expect((await send("POST", "/run", { ...run, newMessage: part })).body.code).toBe("results_missing");
  const whole = { role: "user", parts: [response(one, { result: "Oslo" }), response(two, { city: "Rome" })] };
  const { frames } = await send("POST", "/run_sse", { ...run, newMessage: whole });
  expect(frames.map(kinds)).toEqual(["functionResponse", "text"]);
  expect(frames[0].content.parts[0].functionResponse).toEqual({
    id: one,
    name: "locate",
    response: { result: "Oslo" },
  });
  expect(frames[1].content.parts[0].text).toBe('Got 1 and Oslo and {"city":"Rome"}.');
  expect((await send("POST", "/run", { ...run, newMessage: whole })).body.code).toBe("call_not_open");
  const { events, state } = (await send("GET", `${at}/${id}`)).body;
  expect(events.map(kinds)).toEqual(["text", "functionCall", "functionResponse", "functionResponse", "text"]);
  expect(state).toEqual({ count: 1 });
});

test("a second run is refused while the first one runs", async () => {
  const [started, told] = [gate(), gate()];
  const { send } = served(
    scriptedModel(async () => {
      started.open();
      await told.opened;
      return "Hello!";
    }),
  );
  const { id } = (await send("POST", at, {})).body;
  const run = { appName: "counter", userId: "ann", sessionId: id, newMessage: message("hello") };
  const first = send("POST", "/run", run);
  await started.opened;
  expect(await send("POST", "/run_sse", run)).toMatchObject({ status: 409, body: { code: "session_busy" } });
  told.open();
  expect((await first).body.map(kinds)).toEqual(["text"]);
});

const run = { appName: "counter", userId: "ann", sessionId: "any", newMessage: message("hello") };
test.each([
  ["POST", "/run_sse", undefined, 400],
  ["POST", "/run_sse", [], 400],
  ["POST", "/run_sse", { ...run, appName: 3 }, 400],
  ["POST", "/run_sse", { ...run, appName: "other" }, 404],
  ["POST", "/run_sse", run, 404],
  ["GET", "/run_sse", undefined, 405],
  ["POST", at, { state: [] }, 400],
  ["POST", at, { sessionId: 3 }, 400],
  ["POST", at, { sessionId: "holdfast:keys" }, 400],
  ["POST", at, { events: [{ id: "1" }] }, 400],
  ["GET", `${at}/none`, undefined, 404],
  ["GET", "/apps/counter/users/%zz/sessions", undefined, 400],
  ["GET", "/apps/other/users/ann/sessions", undefined, 404],
  ["PATCH", `${at}/none`, { stateDelta: { a: 1 } }, 404],
  ["DELETE", `${at}/none`, undefined, 404],
  ["GET", "/dev/apps/counter/debug/trace/session/none", undefined, 404],
  ["GET", "/dev/apps/counter/build_graph", undefined, 404],
  ["GET", "/__proto__", undefined, 404],
])("%s %s with %j is refused with %i, in the form that ADK's clients read", async (method, path, body, status) => {
  const { send } = served();
  const refusal = await send(method, path, body);
  expect([refusal.status, refusal.body]).toEqual([
    status,
    { code: expect.any(String), detail: expect.any(String), error: refusal.body.detail },
  ]);
});

test.each([{ parts: [] }, { parts: "hello" }, { parts: [{ functionResponse: { id: "1" } }] }, "hello", 3])(
  "the message %j is refused, and nothing is recorded",
  async (newMessage) => {
    const { send } = served();
    const { id } = (await send("POST", at, {})).body;
    const refusal = await send("POST", "/run", { ...run, sessionId: id, newMessage });
    expect(refusal).toMatchObject({ status: 400, body: { code: "invalid_option" } });
    expect((await send("GET", `${at}/${id}`)).body.events).toEqual([]);
  },
);

test("images and files of a message reach the model, and are shown again", async () => {
  const seen: unknown[] = [];
  const { send } = served(
    scriptedModel(({ input }) => {
      seen.push(...input);
      return "A picture.";
    }),
  );
  const { id } = (await send("POST", at, {})).body;
  const parts = [
    { text: "what is this?" },
    { inlineData: { mimeType: "image/png", data: "aGk_" } },
    { inlineData: { mimeType: "application/pdf", data: "aGk=", displayName: "a.pdf" } },
  ];
  await send("POST", "/run", { ...run, sessionId: id, newMessage: { role: "user", parts } });
  expect(seen[0]).toMatchObject({
    content: [
      { type: "input_text" },
      { type: "input_image", image_url: "data:image/png;base64,aGk/" },
      { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,aGk=" },
    ],
  });
  const { events } = (await send("GET", `${at}/${id}`)).body;
  expect(events[0].content.parts[2]).toEqual(parts[2]);
});
