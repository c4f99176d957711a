// A client's own tools over OpenAI's APIs, with the official client: calls, results, streams, branches and refusals.
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent, type Item } from "holdfast";
import type OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { onEveryStore } from "../agent/engine.ts";
import { openaiClient } from "./openai-client.ts";

const model = "guide";
const parameters = { type: "object", properties: { exact: { type: "boolean" } } };
const tools: OpenAI.Responses.FunctionTool[] = [{ type: "function", name: "locate", parameters, strict: false }];
const outputsIn = (input: Item[]): string =>
  input.flatMap((item) => (item.type === "function_call_output" ? [String(item["output"])] : [])).join(" and ");

/** Says something, adds one, and makes as many client calls as the message says. Then it says all outputs. */
function guide(): { agent: Agent; ran: string[] } {
  const ran: string[] = [];
  const agent = defineAgent({
    name: "guide",
    model: scriptedModel(({ input }) => {
      const last = input.at(-1);
      if (last?.type !== "message") return `Got ${outputsIn(input)}.`;
      const count = Number(last["content"]);
      if (!count) return "Hello.";
      const calls = Array.from({ length: count }, (_, at) => ({ name: "locate", arguments: { exact: at === 0 } }));
      return { text: "Wait.", calls: [{ name: "add" }, ...calls] };
    }),
    tools: {
      add: tool({
        description: "Add 1.",
        run: ({ state }) => {
          ran.push("add");
          return (state["count"] = (state["count"] ?? 0) + 1);
        },
      }),
    },
  });
  return { agent, ran };
}

function served(sessions = createSessions({ app: "guide", store: memoryStore() })) {
  onTestFinished(() => sessions.stop());
  const made = guide();
  return { ...made, sessions, ...openaiClient(made.agent, sessions) };
}

type Call = OpenAI.Responses.ResponseFunctionToolCall;
const callsIn = ({ output }: OpenAI.Responses.Response): Call[] =>
  output.filter(({ type }) => type === "function_call") as Call[];
const answers = (calls: Call[], ...outputs: string[]) =>
  calls.map(({ call_id }, at) => ({ type: "function_call_output" as const, call_id, output: outputs[at] ?? "" }));
const keyed = (key: string) => ({ headers: { "idempotency-key": `of the client tools test, ${key}` } });

onEveryStore("a client's calls are an output, and their results continue the turn on another server", async (place) => {
  const { client, ran, sessions } = served(place.engine("guide"));
  const first = await client.responses.create({ model, input: "2", tools });
  expect(first).toMatchObject({ status: "completed", output_text: "Wait.", tools: [{ name: "locate" }] });
  const calls = callsIn(first);
  expect(calls.map(({ name, arguments: given }) => [name, given])).toEqual([
    ["locate", '{"exact":true}'],
    ["locate", '{"exact":false}'],
  ]);
  expect((await client.responses.retrieve(first.id)).output).toEqual(first.output);
  const other = served(await place.replica("guide"));
  const asked = { model, tools, previous_response_id: first.id, input: answers(calls, "Oslo", "Rome") };
  const last = await other.client.responses.create(asked);
  expect(last).toMatchObject({ status: "completed", output_text: "Got 1 and Oslo and Rome." });
  expect(last.conversation).toEqual(first.conversation);
  expect(last.id).not.toBe(first.id);
  expect((await client.responses.retrieve(first.id)).output).toEqual(first.output);
  expect((await client.responses.retrieve(last.id)).output_text).toBe(last.output_text);
  expect([...ran, ...other.ran]).toEqual(["add"]);
  const { agent } = guide();
  expect(await sessions.replay(first.conversation?.id ?? "", { agent })).toMatchObject({ same: true });
});

test("ONCE: requests that are repeated under their keys are applied once, and older results branch", async () => {
  const { client, sessions, ran } = served();
  const body = { model, input: "1", tools };
  const first = await client.responses.create(body, keyed("1"));
  expect(await client.responses.create(body, keyed("1"))).toEqual(first);
  const results = { model, tools, previous_response_id: first.id, input: answers(callsIn(first), "Oslo") };
  const last = await client.responses.create(results, keyed("2"));
  expect(await client.responses.create(results, keyed("2"))).toEqual(last);
  expect(await client.responses.create(body, keyed("1"))).toEqual(first);
  const changed = { ...results, input: answers(callsIn(first), "Rome") };
  // The turn has its results, so other results begin a branch, as a message would.
  const branch = await client.responses.create(changed, keyed("3"));
  expect(branch.output_text).toBe("Got 1 and Rome.");
  expect(branch.conversation).not.toEqual(first.conversation);
  expect(await client.responses.create(changed, keyed("3"))).toEqual(branch);
  const { events } = await sessions.save(first.conversation?.id ?? "");
  expect(events.filter(({ type }) => type === "client.answered")).toHaveLength(1);
  expect(ran).toEqual(["add"]);
});

test("a stream has the calls as items, and the results are streamed to the end", async () => {
  const { client, sessions } = served();
  const stream = client.responses.stream({ model, input: "2", tools });
  const types: string[] = [];
  let given = "";
  for await (const event of stream) {
    types.push(event.type);
    if (event.type === "response.function_call_arguments.delta") given += event.delta;
  }
  expect(types.filter((type) => /arguments|output_item|completed/.test(type))).toEqual([
    "response.output_item.added",
    "response.output_item.done",
    ...Array.from({ length: 2 }, () => [
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
    ]).flat(),
    "response.completed",
  ]);
  expect(given).toBe('{"exact":true}{"exact":false}');
  const first = await stream.finalResponse();
  const stored = await client.responses.retrieve(first.id);
  expect(stored.output).toMatchObject(first.output.map(({ id, type }) => ({ id, type })));
  const conversation = first.conversation?.id ?? "";
  const input = answers(callsIn(first), "Oslo", "Rome");
  const next = client.responses.stream({ model, conversation, input, tools });
  let text = "";
  for await (const event of next) if (event.type === "response.output_text.delta") text += event.delta;
  expect(text).toBe("Got 1 and Oslo and Rome.");
  expect((await sessions.state(conversation))["count"]).toBe(1);
});

test("results that are unknown, old, missing or of another response are refused, and so is a new message", async () => {
  const { client, sessions } = served();
  const first = await client.responses.create({ model, input: "2", tools });
  const conversation = first.conversation?.id ?? "";
  const calls = callsIn(first);
  const { version } = await sessions.info(conversation);
  const refused = async (body: object): Promise<unknown> => {
    const asked = { model, tools, conversation, ...body } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    return client.responses.create(asked).then(
      () => "nothing",
      ({ status, code }: { status: number; code: string }) => `${status} ${code}`,
    );
  };
  expect(await refused({ input: "hello" })).toBe("409 results_missing");
  expect(await refused({ input: answers(calls.slice(1), "Oslo") })).toBe("409 results_missing");
  const unknown = [{ type: "function_call_output", call_id: "none", output: "Oslo" }];
  expect(await refused({ input: unknown })).toBe("409 call_not_open");
  const other = await client.responses.create({ model, input: "1", tools });
  const foreign = answers(callsIn(other), "Oslo");
  expect(await refused({ input: foreign })).toBe("409 call_not_open");
  expect(await refused({ conversation: undefined, previous_response_id: first.id, input: foreign })).toBe(
    "409 call_not_open",
  );
  expect((await sessions.info(conversation)).version).toBe(version);
  const input = answers(calls, "Oslo", "Rome");
  expect(await refused({ input })).toBe("nothing");
  expect(await refused({ input })).toBe("409 call_not_open");
});

test("a refused request leaves no session behind", async () => {
  const { client, sessions } = served();
  const first = await client.responses.create({ model, input: "1", tools });
  const input = answers(callsIn(first), "Oslo");
  await client.responses.create({ model, tools, previous_response_id: first.id, input });
  const listed = async (): Promise<string[]> => {
    const found: string[] = [];
    for await (const { session } of sessions.list()) found.push(session);
    return found;
  };
  const refused = async (body: object, key: string): Promise<unknown> => {
    const asked = { model, tools, previous_response_id: first.id, ...body };
    const request = asked as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    return client.responses.create(request, keyed(key)).catch(({ code }: { code: string }) => code);
  };
  expect(await refused({ input: "hello" }, "a")).toBe("results_missing");
  expect(await refused({ input: [{ ...input[0], call_id: "none" }] }, "b")).toBe("call_not_open");
  expect(await refused({ input: [{ ...input[0], output: [{ type: "evil" }] }] }, "c")).toBe("invalid_input");
  const taken = [{ ...tools[0], name: "transfer_to_agent" }];
  expect(await refused({ input, tools: taken }, "d")).toBe("invalid_option");
  expect(await refused({ input: "hello", tools: taken, previous_response_id: undefined }, "e")).toBe("invalid_option");
  expect(await refused({ input }, "k".repeat(1000))).toBe("invalid_option");
  expect(await listed()).toEqual([first.conversation?.id]);
});

test("a client that sends the whole conversation continues the turn that its results belong to", async () => {
  const { client, sessions, ran } = served();
  const said: OpenAI.Responses.ResponseInput = [{ role: "user", content: "1" }];
  const first = await client.responses.create({ model, input: said, tools });
  const history = [...said, ...(first.output as OpenAI.Responses.ResponseInputItem[])];
  const input = [...history, ...answers(callsIn(first), "Oslo")];
  const last = await client.responses.create({ model, input, tools });
  expect([last.output_text, last.conversation]).toEqual(["Got 1 and Oslo.", first.conversation]);
  expect(ran).toEqual(["add"]);
  // A later message begins a new session with the whole conversation.
  const more: OpenAI.Responses.ResponseInput = [...input, { role: "user", content: "hello" }];
  const third = await client.responses.create({ model, input: more, tools });
  expect(third.output_text).toBe("Hello.");
  expect((await sessions.info(third.conversation?.id ?? "")).parent).toBeUndefined();
});

const chatTools: OpenAI.Chat.ChatCompletionTool[] = [{ type: "function", function: { name: "locate", parameters } }];

test("chat completions return the calls, and tool messages continue the turn, whole and streamed", async () => {
  for (const isStream of [false, true]) {
    const { client, ran } = served();
    const complete = async (
      messages: OpenAI.Chat.ChatCompletionMessageParam[],
    ): Promise<OpenAI.Chat.ChatCompletion> => {
      const body = { model, messages, tools: chatTools };
      if (!isStream) return client.chat.completions.create(body);
      return client.chat.completions.stream(body).finalChatCompletion();
    };
    const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [{ role: "user", content: "2" }];
    const [choice] = (await complete(messages)).choices;
    expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { content: "Wait." } });
    const calls = choice?.message.tool_calls ?? [];
    expect(calls).toMatchObject([
      { function: { name: "locate", arguments: '{"exact":true}' } },
      { function: { name: "locate", arguments: '{"exact":false}' } },
    ]);
    const results = calls.map(({ id }, at) => ({ role: "tool" as const, tool_call_id: id, content: `city ${at}` }));
    const all = [...messages, choice?.message as OpenAI.Chat.ChatCompletionMessageParam, ...results];
    const [last] = (await complete(all)).choices;
    expect(last).toMatchObject({ finish_reason: "stop", message: { content: "Got 1 and city 0 and city 1." } });
    // Sent again without a key, the results begin a branch of their own. The server's tool does not run again.
    const [again] = (await complete(all)).choices;
    expect(again?.message.content).toBe("Got 1 and city 0 and city 1.");
    expect(ran).toEqual(["add"]);
    const missing = client.chat.completions.create({ model, messages: all.slice(0, -1), tools: chatTools });
    await expect(missing).rejects.toMatchObject({ status: 409, code: "results_missing" });
  }
});

test("a client without tools, or with `tool_choice: none`, is not asked to run any", async () => {
  const seen: string[][] = [];
  const agent = defineAgent({
    name: "guide",
    model: scriptedModel(({ tools: given = [] }) => {
      seen.push(given.map(({ name }) => name));
      return "Hello.";
    }),
  });
  const { client } = openaiClient(agent, createSessions({ app: "guide", store: memoryStore() }));
  await client.responses.create({ model, input: "hello", tools, tool_choice: "none" });
  await client.responses.create({ model, input: "hello" });
  await client.responses.create({ model, input: "hello", tools });
  expect(seen).toEqual([[], [], ["locate"]]);
});
