// Stored responses behind the official OpenAI client: read, streamed again, cancelled, deleted, and their input.
import { setTimeout as delay } from "node:timers/promises";
import { createSessions, defineAgent, memoryStore, scriptedModel, tool } from "holdfast";
import type OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { gate } from "../agent/engine.ts";
import { asked } from "../server/serving.ts";
import { openaiClient } from "./openai-client.ts";

const model = "clerk";
const parameters = { type: "object", properties: {} };
const tools = [{ type: "function" as const, name: "locate", parameters, strict: false }];

/** Works until the gate opens if it is told to, and then says a sentence in pieces. */
function served() {
  const store = memoryStore();
  const work = gate();
  const agent = defineAgent({
    name: "clerk",
    model: scriptedModel(({ input }) => {
      const last = input.at(-1);
      if (last?.["content"] === "work") return { text: "One moment.", calls: [{ name: "work" }] };
      if (last?.["content"] === "locate") return { calls: [{ name: "locate" }] };
      return "This is all that there is to say.";
    }),
    tools: { work: tool({ description: "Works.", run: () => work.opened.then(() => "done") }) },
  });
  const [one, two] = [0, 1].map(() => {
    const sessions = createSessions({ app: "clerk", store });
    onTestFinished(() => sessions.stop());
    return { sessions, ...openaiClient(agent, sessions) };
  }) as [Server, Server];
  return { ...one, work, other: two };
}
type Server = ReturnType<typeof openaiClient> & { sessions: ReturnType<typeof createSessions> };

test("a stored response has the metadata, tools and previous response of its request", async () => {
  const { client } = served();
  const first = await client.responses.create({ model, input: "hello", metadata: { a: "b" }, tools });
  const next = { model, input: "hello", previous_response_id: first.id };
  const second = await client.responses.create(next);
  const branch = await client.responses.create({ ...next, metadata: { c: "d" } });
  for (const made of [first, second, branch]) expect(await client.responses.retrieve(made.id)).toEqual(made);
  expect((await client.models.retrieve("clerk")).id).toBe("clerk");
  await expect(client.models.retrieve("other")).rejects.toMatchObject({ status: 404 });
});

test("the input of a response is listed, page by page, and results name the calls that they are for", async () => {
  const { client } = served();
  const input = ["one", "two", "locate"].map((content) => ({ role: "user" as const, content }));
  const first = await client.responses.create({ model, input, tools });
  const listed: unknown[] = [];
  for await (const item of client.responses.inputItems.list(first.id, { limit: 2, order: "asc" })) listed.push(item);
  expect(listed).toMatchObject(input.map(({ content: text }) => ({ content: [{ type: "input_text", text }] })));
  const [newest] = (await client.responses.inputItems.list(first.id)).data;
  expect(newest).toEqual(listed.at(-1));
  const [call] = first.output;
  const call_id = call?.type === "function_call" ? call.call_id : "";
  const results = [{ type: "function_call_output" as const, call_id, output: "Oslo" }];
  const last = await client.responses.create({ model, tools, previous_response_id: first.id, input: results });
  expect((await client.responses.inputItems.list(last.id)).data).toMatchObject(results);
});

test("the input of a response names the calls as the client did, without `previous_response_id` too", async () => {
  const { client } = served();
  const asked: OpenAI.Responses.ResponseInput = [{ role: "user", content: "locate" }];
  const first = await client.responses.create({ model, input: asked, tools });
  const [call] = first.output as [OpenAI.Responses.ResponseFunctionToolCall];
  const results = [{ type: "function_call_output" as const, call_id: call.call_id, output: "Oslo" }];
  // Sent again without a key, the results begin a branch.
  for (const isFirst of [true, false]) {
    const last = await client.responses.create({ model, input: [...asked, call, ...results], tools });
    expect(last.conversation?.id === first.conversation?.id).toBe(isFirst);
    expect((await client.responses.inputItems.list(last.id)).data).toMatchObject(results);
  }
});

test("a response is found by its id if the client chose the id of the session", async () => {
  const { app, client, sessions } = served();
  const { session: conversation } = await sessions.open({ session: "my chat/1" });
  const { id, output } = await client.responses.create({ model, input: "hello", conversation });
  expect((await client.responses.retrieve(id)).output).toEqual(output);
  expect((await client.responses.inputItems.list(id)).data).toHaveLength(1);
  expect((await client.responses.cancel(id)).status).toBe("completed");
  await client.responses.delete(id);
  await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
  const invalid = await app.handle(asked("/v1/responses/resp_%ZZ_2", { headers: { host: "127.0.0.1" } }));
  expect(invalid.status).toBe(404);
});

test("a response is deleted alone: it is gone and not continued, and the conversation stays", async () => {
  const { client, other } = served();
  const first = await client.responses.create({ model, input: "hello" });
  const second = await client.responses.create({ model, input: "hello", previous_response_id: first.id });
  await client.responses.delete(first.id);
  const gone = { status: 404, code: "not_found" };
  await expect(other.client.responses.retrieve(first.id)).rejects.toMatchObject(gone);
  await expect(client.responses.delete(first.id)).rejects.toMatchObject(gone);
  const continued = other.client.responses.create({ model, input: "hello", previous_response_id: first.id });
  await expect(continued).rejects.toMatchObject(gone);
  expect((await client.responses.retrieve(second.id)).id).toBe(second.id);
  const third = await client.responses.create({ model, input: "hello", previous_response_id: second.id });
  expect(third.conversation).toEqual(first.conversation);
});

test("a label of a client neither deletes a response nor brings a deleted one back", async () => {
  const { app, client } = served();
  const { id, conversation } = await client.responses.create({ model, input: "hello" });
  await client.responses.delete(id);
  const name = `deleted:${id.split("_").at(-1)}`;
  const at = `/v1/sessions/${conversation?.id}`;
  for (const [path, labels] of [
    [`${at}/label`, { [name]: null }],
    [`${at}/label`, { title: "May", "deleted:9": true }],
    ["/v1/sessions", { [name]: true }],
  ] as const) {
    const headers = { host: "127.0.0.1" };
    const reply = await app.handle(asked(path, { method: "POST", headers, body: { labels } }));
    expect(reply).toMatchObject({ status: 400, body: { error: { code: "invalid_option" } } });
  }
  await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
});

test.each(["the same server", "another server"])("a running response is cancelled on %s", async (where) => {
  for (const isStream of [false, true]) {
    const { client, sessions, other, work } = served();
    const { conversation } = await client.responses.create({ model, input: "hello" });
    const session = conversation?.id ?? "";
    const types: string[] = [];
    const running = isStream
      ? client.responses.create({ model, input: "work", conversation: session, stream: true }).then(async (stream) => {
          for await (const event of stream) types.push(event.type);
        })
      : client.responses.create({ model, input: "work", conversation: session });
    const turn = async () => (await sessions.info(session)).turn;
    await expect.poll(turn).toBeDefined();
    let began = 0;
    for await (const { type, version } of sessions.events(session)) if (type === "invocation.began") began = version;
    const from = where === "the same server" ? client : other.client;
    const cancelled = await from.responses.cancel(`resp_${session}_${began}`);
    expect(cancelled.status).toBe("cancelled");
    work.open();
    const ended = await running;
    expect(isStream ? types.at(-1) : ended?.status).toBe(isStream ? "response.incomplete" : "cancelled");
    // A response that is over stays as it is.
    expect(await from.responses.cancel(cancelled.id)).toEqual(cancelled);
    const next = await client.responses.create({ model, input: "hello", conversation: session });
    expect((await client.responses.cancel(next.id)).status).toBe("completed");
  }
});

test("a response that waits for results is not cancelled, and still gets them", async () => {
  const { client } = served();
  const waiting = await client.responses.create({ model, input: "locate", tools });
  expect((await client.responses.cancel(waiting.id)).status).toBe("completed");
  const [call] = waiting.output as unknown as [{ call_id: string }];
  const input = [{ type: "function_call_output" as const, call_id: call.call_id, output: "here" }];
  const next = await client.responses.create({ model, input, tools, previous_response_id: waiting.id });
  expect(next.output_text).toBe("This is all that there is to say.");
});

test("a stream that was cut continues after the last event that its client has, on any server", async () => {
  const { client, other, work } = served();
  const live: { type: string; sequence_number: number }[] = [];
  const stream = await client.responses.create({ model, input: "work", stream: true });
  let text = "";
  let id = "";
  for await (const event of stream) {
    live.push(event);
    if (event.type === "response.created") ({ id } = event.response);
    if (event.type === "response.output_item.done") work.open();
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  expect(text).toBe("One moment.This is all that there is to say.");
  const numbers = live.map(({ sequence_number }) => sequence_number);
  expect(numbers).toEqual([...new Set(numbers)].toSorted((one, two) => one - two));
  for (const after of [-1, ...numbers, 6, 25]) {
    const from = after < 0 ? {} : { starting_after: after };
    const rest: { type: string; sequence_number: number }[] = [];
    let more = "";
    for await (const event of await other.client.responses.retrieve(id, { stream: true, ...from })) {
      rest.push(event);
      if (event.type === "response.output_text.delta") more += event.delta;
    }
    expect(rest.every(({ sequence_number }) => sequence_number > after)).toBe(true);
    expect(text.endsWith(more)).toBe(true);
    const structure = (events: typeof rest): string[] =>
      events.filter(({ type }) => !type.endsWith(".delta")).map((event) => `${event.sequence_number} ${event.type}`);
    expect(structure(rest)).toEqual(structure(live.filter(({ sequence_number }) => sequence_number > after)));
    if (numbers.includes(after)) {
      const had = live.filter(({ sequence_number }) => sequence_number <= after) as { type: string; delta?: string }[];
      expect(had.map(({ delta = "" }) => delta).join("") + more).toBe(text);
    }
  }
});

test("a response that still runs is streamed to its end on another server", async () => {
  const { client, other, work } = served();
  const stream = await client.responses.create({ model, input: "work", stream: true });
  const types: string[] = [];
  let following: Promise<void> | undefined;
  for await (const event of stream) {
    if (event.type !== "response.created") continue;
    following = (async () => {
      for await (const { type } of await other.client.responses.retrieve(event.response.id, { stream: true })) {
        types.push(type);
      }
    })();
    void delay(100).then(work.open);
  }
  await following;
  expect([types[0], types.at(-1)]).toEqual(["response.created", "response.completed"]);
});

test.each([
  ["POST", "/v1/responses/ID/input_items", 405],
  ["GET", "/v1/responses/ID/cancel", 405],
  ["GET", "/v1/responses/ID?stream=true&starting_after=x", 400],
  ["GET", "/v1/responses/ID/input_items?limit=x", 400],
  ["GET", "/v1/responses/ID/input_items?limit=0", 400],
  ["GET", "/v1/responses/ID/input_items?after=in_none_1", 400],
  ["POST", "/v1/responses/resp_none_2/cancel", 404],
  ["GET", "/v1/responses/resp_none_2/input_items", 404],
  ["POST", "/v1/models/clerk", 405],
])("%s %s is refused with %i", async (method, path, status) => {
  const { app, client } = served();
  const { id } = await client.responses.create({ model, input: "hello" });
  const { pathname, searchParams: query } = new URL(path.replace("ID", id), "http://127.0.0.1");
  const reply = await app.handle(asked(pathname, { method, query, headers: { host: "127.0.0.1" } }));
  expect([reply.status, reply.body]).toMatchObject([status, { error: { type: "invalid_request_error" } }]);
});
