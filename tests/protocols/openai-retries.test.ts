// The official OpenAI client with its own retries, which have no key: a lost reply does not run a turn twice, and no
// retry gets another client's turn.
import { setTimeout as delay } from "node:timers/promises";
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent } from "holdfast";
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import type { Request } from "../../src/core/protocol.ts";
import type { App } from "../../src/server/app.ts";
import { fetchFrom, openaiClient } from "./openai-client.ts";

const model = "payer";

/** Pays once per turn, and says how often it has paid in this conversation. */
function payer(paid: string[], takes: number): Agent {
  return defineAgent({
    name: "payer",
    model: scriptedModel(({ input }) => {
      const outputs = input.filter(({ type }) => type === "function_call_output");
      return input.at(-1)?.type === "message" ? { calls: [{ name: "pay" }] } : `Paid ${outputs.length} times.`;
    }),
    tools: {
      pay: tool({
        description: "Pays.",
        effects: "external",
        run: async () => {
          paid.push("paid");
          await delay(takes);
          return "ok";
        },
      }),
    },
  });
}

/** Servers with one store. `lost` loses the reply to a client's first attempt, after the turn or while it runs. */
function served({ takes = 0, isLate = false } = {}) {
  const store = memoryStore();
  const paid: string[] = [];
  const agent = payer(paid, takes);
  const [one, two] = [0, 1].map(() => {
    const sessions = createSessions({ app: "payer", store });
    onTestFinished(() => sessions.stop());
    return openaiClient(agent, sessions).app;
  }) as [App, App];
  const counts: string[] = [];
  let losing = 0;
  const fetchOne = (isNoticed: boolean, retriesAt: App): typeof fetch => {
    return async (target, init) => {
      const count = new Headers(init?.headers).get("x-stainless-retry-count") ?? "none";
      counts.push(count);
      const sent: Request[] = [];
      const reply = fetchFrom(count === "0" ? one : retriesAt, (request) => sent.push(request))(target, init);
      if (losing === 0 || count !== "0") return reply;
      losing--;
      await (isLate ? delay(takes / 2) : reply.then((whole) => whole.text()));
      // The server notices that the connection is gone, unless it was killed.
      if (isNoticed) sent[0]?.gone?.();
      throw new TypeError("the connection was reset");
    };
  };
  const clientOf = (fetch: typeof globalThis.fetch): OpenAI =>
    new OpenAI({ apiKey: "none", baseURL: "http://127.0.0.1/v1", fetch });
  const lost = async <T>(work: () => PromiseLike<T>, times = 1): Promise<T> => {
    counts.length = 0;
    losing = times;
    const result = await work();
    expect(counts.toSorted()).toEqual([...Array(times).fill("0"), ...Array(times).fill("1")]);
    return result;
  };
  return {
    paid,
    lost,
    client: clientOf(fetchOne(true, one)),
    /** A client whose server dies with the reply. Its retries go to another server. */
    orphan: clientOf(fetchOne(false, two)),
  };
}

const retry = (count: number) => ({ headers: { "x-stainless-retry-count": String(count) } });

test("ONCE: the client's own retry gets the turn whose answer was lost", async () => {
  const { client, paid, lost } = served();
  const first = await lost(() => client.responses.create({ model, input: "pay" }));
  expect([first.output_text, paid.length]).toEqual(["Paid 1 times.", 1]);
  const previous_response_id = first.id;
  const second = await lost(() => client.responses.create({ model, input: "pay", previous_response_id }));
  expect([second.output_text, second.conversation, paid.length]).toEqual(["Paid 2 times.", first.conversation, 2]);
  const branch = await lost(() => client.responses.create({ model, input: "pay", previous_response_id }));
  expect([branch.output_text, paid.length]).toEqual(["Paid 2 times.", 3]);
  expect(branch.conversation).not.toEqual(first.conversation);
  const conversation = first.conversation?.id ?? "";
  const third = await lost(() => client.responses.create({ model, input: "pay", conversation }));
  expect([third.output_text, paid.length]).toEqual(["Paid 3 times.", 4]);
  const streamed = await lost(() => client.responses.stream({ model, input: "pay", conversation }).finalResponse());
  expect([streamed.output_text, paid.length]).toEqual(["Paid 4 times.", 5]);
  const messages = [{ role: "user" as const, content: "pay" }];
  const chat = await lost(() => client.chat.completions.create({ model, messages }));
  expect([chat.choices[0]?.message.content, paid.length]).toEqual(["Paid 1 times.", 6]);
});

test("ONCE: the client's own retry waits for a turn that still runs", async () => {
  const { client, paid, lost } = served({ takes: 1500, isLate: true });
  const { id, output_text } = await lost(() => client.responses.create({ model, input: "pay" }));
  expect([output_text, paid.length]).toEqual(["Paid 1 times.", 1]);
  const next = await lost(() => client.responses.create({ model, input: "pay", previous_response_id: id }));
  expect([next.output_text, paid.length]).toEqual(["Paid 2 times.", 2]);
});

/** Says something and pays. Each turn fails once after that. */
function failingOnce(): OpenAI {
  const failed = new Set<string>();
  const agent = defineAgent({
    name: "payer",
    model: scriptedModel(({ input }) => {
      const asked = String(input[0]?.["content"]);
      if (input.at(-1)?.type === "message") return { text: "Let me look.", calls: [{ name: "pay" }] };
      if (failed.has(asked)) return "Found it.";
      failed.add(asked);
      throw new Error("the model's server is gone");
    }),
    tools: { pay: tool({ description: "Pays.", run: () => "ok" }) },
  });
  const sessions = createSessions({ app: "payer", store: memoryStore() });
  onTestFinished(() => sessions.stop());
  return openaiClient(agent, sessions).client;
}

test("a repeat that continues an interrupted turn gets the whole answer, also streamed", async () => {
  const client = failingOnce();
  const keyed = (key: string) => ({ headers: { "idempotency-key": `of the test of repeats, ${key}` } });
  const chatBody = (content: string) => ({ model, messages: [{ role: "user" as const, content }] });
  const chat = () => client.chat.completions.create(chatBody("1"), keyed("1"));
  await expect(chat()).rejects.toMatchObject({ status: 502 });
  expect((await chat()).choices[0]?.message.content).toBe("Let me look.\n\nFound it.");
  const chatStream = () => client.chat.completions.stream(chatBody("2"), keyed("2")).finalContent();
  await expect(chatStream()).rejects.toThrow();
  expect(await chatStream()).toBe("Let me look.\n\nFound it.");

  const told: OpenAI.Responses.ResponseStreamEvent[] = [];
  for (const attempt of [1, 2]) {
    const stream = await client.responses.create({ model, input: "3", stream: true }, keyed("3"));
    for await (const event of stream) if (attempt === 2) told.push(event);
  }
  const { response } = told.at(-1) as OpenAI.Responses.ResponseCompletedEvent;
  expect(response.output).toMatchObject(["Let me look.", "Found it."].map((text) => ({ content: [{ text }] })));
  const stored: typeof told = [];
  for await (const event of await client.responses.retrieve(response.id, { stream: true })) stored.push(event);
  // The events have the same numbers and items, so a client can continue a cut stream.
  const described = (events: typeof told): object[] =>
    events
      .filter(({ type }) => !type.endsWith(".delta"))
      .map((event) => ({ ...event, response: "response" in event && event.response.status }));
  expect(described(told)).toEqual(described(stored));
});

test("ISOLATION: equal requests whose answers were all lost get different turns when they are retried", async () => {
  const { client, paid, lost } = served();
  const all = await lost(
    () => Promise.all(Array.from({ length: 5 }, () => client.responses.create({ model, input: "pay" }))),
    5,
  );
  expect(new Set(all.map(({ conversation }) => conversation?.id)).size).toBe(5);
  expect(paid).toHaveLength(5);
});

test("ISOLATION: a retry never gets a turn whose answer arrived, or that another client waits for", async () => {
  const { client, paid } = served({ takes: 300 });
  const running = client.responses.create({ model, input: "pay" });
  const never = await client.responses.create({ model, input: "pay" }, retry(1));
  const first = await running;
  expect(never.conversation).not.toEqual(first.conversation);
  const after = await client.responses.create({ model, input: "pay" }, retry(1));
  expect([first, never].map(({ id }) => id)).not.toContain(after.id);
  const conversation = first.conversation?.id ?? "";
  const second = await client.responses.create({ model, input: "pay", conversation });
  const third = await client.responses.create({ model, input: "pay", conversation }, retry(1));
  expect([second.output_text, third.output_text]).toEqual(["Paid 2 times.", "Paid 3 times."]);
  expect(paid).toHaveLength(5);
});

test("ONCE: after a kill, a retry finds the turn that continues the same response, and only one retry gets it", async () => {
  const { client, orphan, paid, lost } = served();
  const { id: previous_response_id, conversation } = await client.responses.create({ model, input: "pay" });
  const body = { model, input: "pay", previous_response_id };
  const found = await lost(() => orphan.responses.create(body));
  expect([found.conversation, paid.length]).toEqual([conversation, 2]);
  // An equal request that never arrived, as when several samples are drawn.
  const other = await orphan.responses.create(body, retry(1));
  expect([other.output_text, paid.length]).toEqual(["Paid 2 times.", 3]);
  expect(other.conversation).not.toEqual(conversation);
  // Nothing tells a first message from another client's equal one.
  const first = await lost(() => orphan.responses.create({ model, input: "pay" }));
  expect([first.output_text, paid.length]).toEqual(["Paid 1 times.", 5]);
});

test("ONCE: each further retry gets the same turn, and no equal request with the same count does", async () => {
  const { client, orphan, paid } = served();
  const { id: previous_response_id } = await client.responses.create({ model, input: "pay" });
  const body = { model, input: "pay", previous_response_id };
  const second = await client.responses.create(body);
  for (const count of [1, 2, 4]) expect(await orphan.responses.create(body, retry(count))).toEqual(second);
  expect(paid).toHaveLength(2);
  for (const count of [1, 2, 4]) {
    expect((await orphan.responses.create(body, retry(count))).conversation).not.toEqual(second.conversation);
  }
});

test("a turn before a kill is not found after twelve minutes", async () => {
  const { client, orphan, paid } = served();
  const { now: real } = Date;
  onTestFinished(() => void (Date.now = real));
  const clock = (later: number): void => void (Date.now = () => real() + later * 60_000);
  const { id: previous_response_id } = await client.responses.create({ model, input: "pay" });
  const second = await client.responses.create({ model, input: "pay", previous_response_id });
  clock(13);
  const late = await orphan.responses.create({ model, input: "pay", previous_response_id }, retry(1));
  expect(late.id).not.toBe(second.id);
  expect(paid).toHaveLength(3);
});
