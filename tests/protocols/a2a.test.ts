// An agent over A2A: tasks, streams, cancellation, repeats, and bad input of each kind.
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent, type Model } from "holdfast";
import { expect, onTestFinished, test, vi } from "vitest";
import { a2aProtocol } from "../../src/protocols/a2a.ts";
import { gate, onEveryStore } from "../agent/engine.ts";
import { appOf, asked } from "../server/serving.ts";
import { parallelAgents, parallelAnswers } from "./parallel-agents.ts";

const adding = (model: Model): Agent =>
  defineAgent({
    name: "counter",
    description: "Counts.",
    model,
    tools: { add: tool({ description: "Add 1.", run: ({ state }) => (state["count"] = (state["count"] ?? 0) + 1) }) },
  });
const polite = (): Model =>
  scriptedModel(({ input }) => (input.at(-1)?.type === "message" ? { calls: [{ name: "add" }] } : "It is done."));

/* eslint-disable typescript/no-explicit-any -- as loosely as a client in another language reads it */
type Got = { status: number; result: any; error: any; frames: any[]; body: any };

function served(given: Model | Agent = polite(), sessions = createSessions({ app: "counter", store: memoryStore() })) {
  onTestFinished(() => sessions.stop());
  const options = {
    agent: "respond" in given ? adding(given) : given,
    sessions,
    at: "/counter",
    version: "1",
    isGuarded: false,
  };
  const app = appOf([a2aProtocol(options)]);
  const post = async (body: unknown, headers: { [name: string]: string } = {}): Promise<Got> => {
    const local = { host: "127.0.0.1:1", ...headers };
    const reply = await app.handle(asked("/v1/a2a", { method: "POST", body, headers: local }));
    const frames: any[] = [];
    for await (const text of reply.stream ?? []) {
      for (const line of text.split("\n\n").filter(Boolean))
        frames.push(JSON.parse(line.slice("data: ".length)).result);
    }
    return { status: reply.status, ...(reply.body as { result: any; error: any }), frames, body: reply.body };
  };
  const call = (method: string, params: object): Promise<Got> => post({ jsonrpc: "2.0", id: 1, method, params });
  return { sessions, app, post, call };
}

const text = (said: string, messageId: string, more: object = {}): { message: object } => ({
  message: { messageId, role: "ROLE_USER", parts: [{ text: said }], ...more },
});
/** Ids that are unique enough to name a conversation. */
const long = (name: string): string => `message-of-this-test-${name}`;

test("the card names the agent, its address and its abilities", async () => {
  const { app } = served();
  const headers = { host: "agents.example:81", "x-forwarded-proto": "https" };
  const { body } = await app.handle(asked("/.well-known/agent-card.json", { headers }));
  expect(body).toMatchObject({
    name: "counter",
    supportedInterfaces: [{ url: "https://agents.example:81/counter/v1/a2a", protocolBinding: "JSONRPC" }],
    capabilities: { streaming: true, pushNotifications: false },
  });
});

onEveryStore("ONCE: a message is answered, streamed, read and listed; its id is applied once", async (place) => {
  const { call, sessions } = served(polite(), place.engine("counter", { keepEnded: true }));
  const first = await call("SendMessage", text("add", long("a")));
  expect(first.error).toBeUndefined();
  const { task } = first.result;
  const answer = [{ artifactId: "answer-1", parts: [{ text: "It is done." }] }];
  expect(task).toMatchObject({ status: { state: "TASK_STATE_COMPLETED" }, artifacts: answer });
  expect(task.history).toMatchObject([{ messageId: long("a"), role: "ROLE_USER", parts: [{ text: "add" }] }]);
  // A client that lost the answer does not know the context yet.
  expect((await call("SendMessage", text("add", long("a")))).result.task).toEqual(task);
  const { contextId } = task;
  const streamed = await call("SendStreamingMessage", text("add", "2", { contextId }));
  expect(streamed.frames[0].task).toMatchObject({ contextId, status: { state: "TASK_STATE_WORKING" } });
  const updates = streamed.frames.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
  expect(updates.map(({ artifact }) => artifact.parts[0].text).join("")).toBe("It is done.");
  expect(updates.map(({ append }) => append)).toEqual(updates.map((_, at) => at > 0));
  expect(updates.map(({ lastChunk }) => lastChunk)).toEqual(updates.map((_, at) => at === updates.length - 1));
  expect(streamed.frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
  const { id } = streamed.frames[0].task;
  expect((await call("GetTask", { id, historyLength: 0 })).result).toMatchObject({ artifacts: answer, history: [] });
  const repeated = await call("SendStreamingMessage", text("add", "2", { contextId }));
  expect(repeated.frames.at(-1)).toEqual(streamed.frames.at(-1));
  expect((await sessions.state(contextId))["count"]).toBe(2);
  const listed = await call("ListTasks", { contextId, pageSize: 1 });
  expect(listed.result).toMatchObject({ tasks: [{ id }], nextPageToken: "1", totalSize: 2 });
  const rest = await call("ListTasks", { contextId, pageSize: 1, pageToken: "1", includeArtifacts: true });
  expect(rest.result).toMatchObject({ tasks: [{ id: task.id, artifacts: answer }], nextPageToken: "" });
});

test("ISOLATION: short message ids of two clients are two conversations", async () => {
  const { call } = served();
  const [one, two] = [await call("SendMessage", text("add", "1")), await call("SendMessage", text("add", "1"))];
  expect(one.result.task.contextId).not.toBe(two.result.task.contextId);
});

function waiting(): { model: Model; asked: Promise<void>; answer(): void } {
  const [started, told] = [gate(), gate()];
  const model = scriptedModel(async () => {
    started.open();
    await told.opened;
    return "It is done.";
  });
  return { model, asked: started.opened, answer: told.open };
}

test("a task that is not waited for can be watched, and continues when its readers leave", async () => {
  const { model, answer } = waiting();
  const { call } = served(model);
  const { task } = (await call("SendMessage", { ...text("add", "1"), configuration: { returnImmediately: true } }))
    .result;
  expect(task.status.state).toBe("TASK_STATE_WORKING");
  const watched = call("SubscribeToTask", { id: task.id });
  answer();
  const { frames } = await watched;
  expect(frames[0].task.id).toBe(task.id);
  expect(frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
  expect((await call("SubscribeToTask", { id: task.id })).error.code).toBe(-32004);
});

test("a reader that falls behind loses pieces, never an answer or the status", async () => {
  const answers = ["one ".repeat(2_000), "two ".repeat(2_000)];
  const model = scriptedModel(({ input }) => {
    const isFirst = input.at(-1)?.type === "message";
    return isFirst ? { text: answers[0]!, calls: [{ name: "add" }] } : answers[1]!;
  });
  const { app, call } = served(model);
  const body = { jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: text("go", "1") };
  const { stream } = await app.handle(asked("/v1/a2a", { method: "POST", body, headers: { host: "127.0.0.1:1" } }));
  const reader = stream![Symbol.asyncIterator]();
  const read = async (): Promise<any[]> => {
    const { value = "", done } = await reader.next();
    return done
      ? []
      : (value as string).split("\n\n").flatMap((line) => (line ? JSON.parse(line.slice(6)).result : []));
  };
  const [{ task }] = await read();
  await vi.waitFor(async () => {
    expect((await call("GetTask", { id: task.id })).result.status.state).toBe("TASK_STATE_COMPLETED");
  });
  const frames: any[] = [];
  for (let some = await read(); some.length > 0; some = await read()) frames.push(...some);
  expect(frames.length).toBeLessThan(300);
  const updates = frames.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
  const whole = updates.filter(({ lastChunk }) => lastChunk);
  expect(whole.map(({ artifact, append }) => [artifact.parts[0].text, append])).toEqual(answers.map((a) => [a, false]));
  expect(frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
});

test("the streamed artifacts of parallel agents are the artifacts of the task", async () => {
  const { call } = served(parallelAgents());
  const { frames } = await call("SendStreamingMessage", text("go", "1"));
  const updates = frames.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
  const said: { [id: string]: string[] } = {};
  for (const { artifact, append } of updates) {
    if (!append) said[artifact.artifactId] = [];
    said[artifact.artifactId]?.push(artifact.parts[0].text);
  }
  expect(Object.values(said).map((pieces) => pieces.join(""))).toEqual(parallelAnswers);
  expect(said["answer-3"]).toEqual(["Both ", "spoke."]);
  // No artifact is replaced.
  expect(updates.filter(({ append }) => !append)).toHaveLength(parallelAnswers.length);
  const { artifacts } = (await call("GetTask", { id: frames[0].task.id })).result;
  expect(artifacts.map(({ parts }: any) => parts[0].text)).toEqual(parallelAnswers);
});

test("a repeated message that continues a failed task streams the rest of its answers once", async () => {
  let failures = 1;
  const model = scriptedModel(({ input }) => {
    if (input.at(-1)?.type === "message") return { text: "Let me look.", calls: [{ name: "add" }] };
    if (failures-- > 0) throw new Error("the model's server is gone");
    return "It is done.";
  });
  const { call } = served(model);
  const first = await call("SendStreamingMessage", text("add", long("resumed")));
  expect(first.frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_FAILED");
  const { frames } = await call("SendStreamingMessage", text("add", long("resumed")));
  expect(frames[0].task.artifacts).toMatchObject([{ artifactId: "answer-1" }]);
  const updates = frames.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
  expect(new Set(updates.map(({ artifact }) => artifact.artifactId))).toEqual(new Set(["answer-2"]));
  expect(updates.map(({ artifact }) => artifact.parts[0].text).join("")).toBe("It is done.");
  expect(frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
});

test("a running task is cancelled, and its waiting client gets it as canceled", async () => {
  const { model, asked: isAsked } = waiting();
  const { call, sessions } = served(model);
  const { session: contextId } = await sessions.open();
  const sent = call("SendMessage", text("hello", "1", { contextId }));
  await isAsked;
  const busy = await call("SendMessage", text("more", "2", { contextId }));
  expect(busy.error).toMatchObject({ code: -32000, data: [{ reason: "SESSION_BUSY" }] });
  const [{ id }] = (await call("ListTasks", { contextId })).result.tasks;
  expect((await call("CancelTask", { id })).result.status.state).toBe("TASK_STATE_CANCELED");
  expect((await sent).result.task).toMatchObject({ id, status: { state: "TASK_STATE_CANCELED" } });
  expect((await call("CancelTask", { id })).error.code).toBe(-32002);
});

/** Asks the client for as many cities as the message says, and then says them. */
const asking = (): Agent =>
  defineAgent({
    name: "counter",
    model: scriptedModel(({ input }) => {
      const last = input.at(-1);
      const outputs = input.flatMap((item) => (item.type === "function_call_output" ? [String(item["output"])] : []));
      if (last?.type !== "message") return `Got ${outputs.join(" and ")}.`;
      return { text: "Wait.", calls: Array.from({ length: Number(last["content"]) }, () => ({ name: "locate" })) };
    }),
    clientTools: [{ type: "function", name: "locate", parameters: { type: "object" } }],
  });

test("ONCE: a task that calls a client's tool needs input, and a message with the result continues it", async () => {
  const { call, sessions } = served(asking());
  const { task } = (await call("SendMessage", text("1", long("input")))).result;
  const { id, contextId, status } = task;
  expect(status).toMatchObject({
    state: "TASK_STATE_INPUT_REQUIRED",
    message: { role: "ROLE_AGENT", parts: [{ data: { type: "function_call", call_id: "call_0_0", name: "locate" } }] },
  });
  expect((await call("GetTask", { id })).result).toEqual(task);
  // A new message in the context is refused: the call is open.
  const other = await call("SendMessage", text("hello", "2", { contextId }));
  expect(other.error).toMatchObject({ code: -32602, data: [{ reason: "RESULTS_MISSING" }] });
  const sent = text("Oslo", "3", { taskId: id });
  const last = (await call("SendMessage", sent)).result.task;
  expect(last).toMatchObject({ id, contextId, status: { state: "TASK_STATE_COMPLETED" } });
  expect(last.artifacts.map(({ parts }: any) => parts[0].text)).toEqual(["Wait.", "Got Oslo."]);
  expect(last.history.map(({ messageId }: any) => messageId)).toEqual([long("input"), "3"]);
  expect((await call("SendMessage", sent)).result.task).toEqual(last);
  expect((await call("SendMessage", text("Rome", "4", { taskId: id }))).error.code).toBe(-32004);
  const results = (await sessions.save(contextId)).events.filter(({ type }) => type === "client.answered");
  expect(results).toHaveLength(1);
});

test("a stream ends when its task needs input, and the stream of the results has the rest", async () => {
  const { call } = served(asking());
  const first = await call("SendStreamingMessage", text("2", long("streamed")));
  const { id } = first.frames[0].task;
  const { state, message } = first.frames.at(-1).statusUpdate.status;
  expect(state).toBe("TASK_STATE_INPUT_REQUIRED");
  const calls = message.parts.map(({ data }: any) => data.call_id);
  expect(calls).toHaveLength(2);
  // A text cannot answer two calls.
  expect((await call("SendMessage", text("Oslo", "2", { taskId: id }))).error.code).toBe(-32602);
  const data = (call_id: string, output: unknown) => ({ data: { type: "function_call_output", call_id, output } });
  const one = { message: { messageId: "3", role: "ROLE_USER", taskId: id, parts: [data(calls[0], "Oslo")] } };
  expect((await call("SendMessage", one)).error.data[0].reason).toBe("RESULTS_MISSING");
  const parts = [data(calls[0], "Oslo"), data(calls[1], { city: "Rome" })];
  const watched = call("SubscribeToTask", { id });
  const sent = { message: { messageId: "4", role: "ROLE_USER", taskId: id, parts } };
  const rest = await call("SendStreamingMessage", sent);
  expect(rest.frames[0].task).toMatchObject({ id, artifacts: [{ artifactId: "answer-1" }] });
  const texts = (frames: any[]): any[] => frames.flatMap(({ artifactUpdate }) => artifactUpdate ?? []);
  const said = texts(rest.frames).map(({ artifact }) => [artifact.artifactId, artifact.parts[0].text]);
  expect(said.map(([name]) => name)).toContain("answer-2");
  expect(said.map(([, piece]) => piece).join("")).toBe('Got Oslo and {"city":"Rome"}.');
  expect(rest.frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
  const { frames } = await watched;
  expect(frames[0].task.status.state).toBe("TASK_STATE_INPUT_REQUIRED");
  expect(texts(frames)).toMatchObject([{ artifact: { parts: [{ text: 'Got Oslo and {"city":"Rome"}.' }] } }]);
  expect(frames.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
});

test("a task that needs input is cancelled, and then its context takes a new message", async () => {
  const { call } = served(asking());
  const { id, contextId } = (await call("SendMessage", text("1", long("cancel")))).result.task;
  expect((await call("CancelTask", { id })).result.status.state).toBe("TASK_STATE_CANCELED");
  for (const late of [text("Oslo", "3", { taskId: id }), output("call_0_0", "4", { taskId: id })]) {
    expect((await call("SendMessage", late)).error.code).toBe(-32004);
  }
  expect((await call("GetTask", { id })).result.status.state).toBe("TASK_STATE_CANCELED");
  const next = await call("SendMessage", text("1", "2", { contextId }));
  expect(next.result.task.status.state).toBe("TASK_STATE_INPUT_REQUIRED");
});

/** A message with Oslo as the result of a call. */
const output = (call_id: string, messageId: string, more: object): { message: object } => ({
  message: {
    messageId,
    role: "ROLE_USER",
    parts: [{ data: { type: "function_call_output", call_id, output: "Oslo" } }],
    ...more,
  },
});

test("results that name another task of the context are refused, and a repeat gets its own task", async () => {
  const { call } = served(asking());
  const { id: first, contextId } = (await call("SendMessage", text("1", long("first")))).result.task;
  const sent = output("call_0_0", "2", { taskId: first });
  const ended = (await call("SendMessage", sent)).result.task;
  expect(ended.status.state).toBe("TASK_STATE_COMPLETED");
  const { id, status } = (await call("SendMessage", text("1", "3", { contextId }))).result.task;
  const open = status.message.parts[0].data.call_id;
  expect((await call("SendMessage", output(open, "4", { taskId: first }))).error.code).toBe(-32004);
  expect((await call("GetTask", { id })).result.status.state).toBe("TASK_STATE_INPUT_REQUIRED");
  expect((await call("SendMessage", sent)).result.task).toEqual(ended);
  const last = await call("SendMessage", output(open, "5", { taskId: id }));
  expect(last.result.task).toMatchObject({ id, status: { state: "TASK_STATE_COMPLETED" } });
});

test("a task whose model failed is failed with the reason; its message sent again continues it", async () => {
  let isDown = true;
  const { call } = served(
    scriptedModel(() => {
      if (isDown) throw new Error("the model is down");
      return "Hello!";
    }),
  );
  const failed = (await call("SendMessage", text("hello", long("f")))).result.task;
  expect(failed.status).toMatchObject({ state: "TASK_STATE_FAILED", message: { role: "ROLE_AGENT" } });
  expect(failed.status.message.parts[0].text).toContain("the model is down");
  isDown = false;
  const again = (await call("SendMessage", text("hello", long("f")))).result.task;
  expect(again).toMatchObject({ id: failed.id, status: { state: "TASK_STATE_COMPLETED" } });
  const streamed = await call("SendStreamingMessage", text("hello", long("f")));
  expect(streamed.frames[0].task.id).toBe(failed.id);
});

const rpc = (method: string, params: unknown): object => ({ jsonrpc: "2.0", id: 7, method, params });
test.each([
  [undefined, -32600],
  [[], -32600],
  [{ jsonrpc: "1.0", id: 7, method: "GetTask" }, -32600],
  [{ jsonrpc: "2.0", method: "GetTask" }, -32600],
  [rpc("GetTask", []), -32602],
  [rpc("Nothing", {}), -32601],
  [rpc("message/send", {}), -32009],
  [rpc("CreateTaskPushNotificationConfig", {}), -32003],
  [rpc("GetExtendedAgentCard", {}), -32004],
  [rpc("GetTask", { id: "none.2" }), -32001],
  [rpc("GetTask", { id: 3 }), -32602],
  [rpc("CancelTask", { id: "none" }), -32001],
  [rpc("SubscribeToTask", { id: "none.2" }), -32001],
  [rpc("ListTasks", {}), -32004],
  [rpc("ListTasks", { contextId: "none" }), -32602],
  [rpc("ListTasks", { contextId: "none", pageSize: 1000 }), -32602],
  [rpc("SendMessage", {}), -32602],
  [rpc("SendMessage", { message: { messageId: "1", role: "ROLE_AGENT", parts: [{ text: "a" }] } }), -32602],
  [rpc("SendMessage", { message: { messageId: "1", role: "ROLE_USER", parts: [] } }), -32602],
  [rpc("SendMessage", { message: { messageId: "1", role: "ROLE_USER", parts: [{ odd: 1 }] } }), -32602],
  [rpc("SendMessage", { message: { role: "ROLE_USER", parts: [{ text: "a" }] } }), -32602],
  [rpc("SendMessage", text("a", "1", { contextId: "of nobody" })), -32602],
  [rpc("SendStreamingMessage", text("a", "1", { contextId: "of nobody" })), -32602],
  [rpc("SendMessage", text("a", "1", { taskId: "any.2" })), -32001],
  [
    rpc("SendMessage", { ...text("a", "1"), configuration: { taskPushNotificationConfig: { url: "http://a.test" } } }),
    -32003,
  ],
])("%j is refused with %i", async (body, code) => {
  const { post } = served();
  const { status, error, body: whole } = await post(body);
  expect([status, error.code, whole.jsonrpc]).toEqual([200, code, "2.0"]);
  expect(error.message).not.toBe("");
  expect(whole.id).toBe((body as { id?: number } | undefined)?.id ?? null);
});

test("another version of A2A is refused", async () => {
  const { post } = served();
  expect((await post(rpc("GetTask", { id: "a" }), { "a2a-version": "0.3" })).error.code).toBe(-32009);
  expect((await post(rpc("GetTask", { id: "a" }), { "a2a-version": "1.0" })).error.code).toBe(-32001);
});
