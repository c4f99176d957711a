// Tools that the client runs: the turn waits for their results, in the log, and continues anywhere.
import {
  createSessions,
  defineAgent,
  memoryStore,
  parallel,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type Item,
  type NumberedEvent,
  type RunOptions,
  type SavedSession,
  type ToolSchema,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { finalText } from "../../src/core/last-words.ts";
import { codeOf, finish, logOf, onEveryStore, stepsOf, typesOf } from "./engine.ts";

const tools: ToolSchema[] = [
  {
    type: "function",
    name: "locate",
    description: "Find the caller.",
    parameters: { type: "object", properties: { exact: { type: "boolean" } } },
  },
];
const result = (call_id: string, output: string) => ({ call_id, output });
const outputsIn = (input: Item[]): unknown[] =>
  input.filter(({ type }) => type === "function_call_output").map(({ output }) => output);

/** Adds one and locates the client in the same answer, and then says what it got. `ran` counts the tool's runs. */
function guide(): { agent: Agent; ran: string[] } {
  const ran: string[] = [];
  const agent = defineAgent({
    name: "guide",
    model: scriptedModel(({ input }) => {
      const last = input.at(-1);
      if (last?.type === "message" && last["content"] === "go") {
        return { text: "Wait.", calls: [{ name: "add" }, { name: "locate", arguments: { exact: true } }] };
      }
      return `Got ${outputsIn(input).join(" and ")}.`;
    }),
    tools: {
      add: tool({
        description: "Add 1.",
        effects: "external",
        run: ({ update }) => {
          ran.push("add");
          update("count", (count = 0) => count + 1);
          return "1";
        },
      }),
    },
  });
  return { agent, ran };
}

const engine = () => createSessions({ app: "app", store: memoryStore() });
const go = { message: "go", clientTools: tools };

describe("a turn that calls a client's tool", () => {
  onEveryStore(
    "DURABLE: waits in the log, runs the other calls once, and continues on another replica",
    async (place) => {
      const { agent, ran } = guide();
      const sessions = place.engine();
      const { session } = await sessions.open();
      const first = await finish(agent, { sessions, session, ...go });
      expect(first).toMatchObject({
        outcome: "waiting",
        calls: [{ type: "function_call", call_id: "call_0_1", name: "locate", arguments: '{"exact":true}' }],
      });
      expect(typesOf(await logOf(sessions, session)).slice(-2)).toEqual(["tools.answered", "turn.released"]);
      const other = await place.replica();
      expect((await other.info(session)).turn).toMatchObject({ waiting: ["call_0_1"] });
      expect(await other.state(session)).toEqual({ count: 1 });
      const last = await finish(agent, { sessions: other, session, results: [result("call_0_1", "Oslo")] });
      expect(last).toMatchObject({ outcome: "answered", invocation: first.invocation, repeated: false });
      expect(typesOf(last.events)).toEqual(["client.answered", "tools.answered", "model.answered", "agent.ended"]);
      expect(last.events.at(2)).toMatchObject({ items: [{ content: [{ text: "Got 1 and Oslo." }] }] });
      expect(ran).toEqual(["add"]);
      expect((await other.info(session)).turn).toBeUndefined();
      expect(await other.replay(session, { agent })).toMatchObject({ same: true });
      expect(ran).toEqual(["add"]);
    },
  );

  onEveryStore("ONCE: gives a repeat of either request its recorded events, here and elsewhere", async (place) => {
    const { agent, ran } = guide();
    const [sessions, other] = [place.engine(), await place.replica()];
    const { session } = await sessions.open();
    const asked = { session, ...go, call: "m1" };
    const answered = { session, results: [result("call_0_1", "Oslo")], call: "r1" };
    const first = await finish(agent, { sessions, ...asked });
    expect(await finish(agent, { sessions: other, ...asked })).toEqual({ ...first, repeated: true });
    expect(await finish(agent, { sessions, session })).toEqual({ ...first, repeated: true });
    const both = await Promise.all([
      finish(agent, { sessions, ...answered }),
      finish(agent, { sessions: other, ...answered }),
    ]);
    expect(both.map(({ outcome }) => outcome)).toEqual(["answered", "answered"]);
    expect(both.map(({ repeated }) => repeated).sort()).toEqual([false, true]);
    expect(both[0]?.events).toEqual(both[1]?.events);
    for (const engine of [sessions, other]) {
      expect(await finish(agent, { sessions: engine, ...asked })).toEqual({ ...first, repeated: true });
      expect(await finish(agent, { sessions: engine, ...answered })).toMatchObject({ repeated: true });
    }
    const different = { sessions, session, results: [result("call_0_1", "Rome")], call: "r1" };
    expect(await codeOf(finish(agent, different))).toBe("call_conflict");
    expect(ran).toEqual(["add"]);
    expect((await stepsOf(sessions, session)).filter(({ type }) => type === "client.answered")).toHaveLength(1);
  });

  test("refuses wrong results and new messages, and records nothing of them", async () => {
    const { agent } = guide();
    const sessions = engine();
    const { session } = await sessions.open();
    const refused = async (given: Partial<RunOptions>): Promise<unknown> => {
      const before = await logOf(sessions, session);
      const code = await codeOf(finish(agent, { sessions, session, ...given }));
      expect(await logOf(sessions, session)).toEqual(before);
      return code;
    };
    expect(await refused({ results: [result("call_0_1", "Oslo")] })).toBe("call_not_open");
    await finish(agent, { sessions, session, ...go });
    expect(await refused({ message: "hello" })).toBe("results_missing");
    expect(await refused({ results: [result("call_0_0", "Oslo")] })).toBe("call_not_open");
    expect(await refused({ results: [result("none", "Oslo")] })).toBe("call_not_open");
    expect(await refused({ results: [result("call_0_1", "Oslo"), result("call_0_1", "Rome")] })).toBe("call_not_open");
    expect(await refused({ results: [] })).toBe("invalid_option");
    expect(await refused({ results: [{ call_id: "call_0_1" } as never] })).toBe("invalid_option");
    const odd = [{ type: "input_text", text: "Oslo" }, { type: "evil" }];
    expect(await refused({ results: [{ call_id: "call_0_1", output: odd }] })).toBe("invalid_input");
    await finish(agent, { sessions, session, results: [result("call_0_1", "Oslo")] });
    expect(await refused({ results: [result("call_0_1", "Oslo")] })).toBe("call_not_open");
    expect((await finish(agent, { sessions, session, message: "hello" })).outcome).toBe("answered");
  });

  test("is replaced by a new message after it was cancelled, and its model is told", async () => {
    const { agent } = guide();
    const sessions = engine();
    const { session } = await sessions.open();
    await finish(agent, { sessions, session, ...go });
    expect(await sessions.cancel(session)).toBe(true);
    expect(await sessions.cancel(session)).toBe(false);
    const late = { sessions, session, results: [result("call_0_1", "Oslo")] };
    expect(await codeOf(finish(agent, late))).toBe("call_not_open");
    expect((await sessions.info(session)).turn).not.toHaveProperty("waiting");
    const { events } = await finish(agent, { sessions, session, message: "never mind" });
    expect(events.at(1)).toMatchObject({ items: [{ content: [{ text: expect.stringContaining("cut short") }] }] });
    expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
  });

  test("FORK, REPLAY: is forked and rewound where it waits, and each branch has its own results", async () => {
    const { agent, ran } = guide();
    const sessions = engine();
    const { session } = await sessions.open();
    await finish(agent, { sessions, session, ...go });
    const { version } = await sessions.info(session);
    await sessions.update(session, (state) => void (state["note"] = "while it waits"));
    const say = async (id: string, city: string): Promise<unknown> => {
      const { events } = await finish(agent, { sessions, session: id, results: [result("call_0_1", city)] });
      expect(await sessions.replay(id, { agent })).toMatchObject({ same: true });
      return finalText(events as NumberedEvent[]);
    };
    expect(await say(session, "Oslo")).toBe("Got 1 and Oslo.");
    const fork = await sessions.fork(session, { version });
    expect(await say(fork.session, "Rome")).toBe("Got 1 and Rome.");
    await sessions.rewind(session, version);
    expect(await say(session, "Lima")).toBe("Got 1 and Lima.");
    expect(ran).toEqual(["add"]);
  });

  test("ends alike when its runs are cut after any event and resumed by another process", async () => {
    const play = async (cut: number): Promise<unknown> => {
      const { agent, ran } = guide();
      const store = memoryStore();
      const sessions = createSessions({ app: "app", store, lease: 50 });
      const { session } = await sessions.open();
      let left = cut;
      const turn = async (request: Partial<RunOptions>): Promise<string> => {
        const running = finish(agent, { sessions, session, ...request }, () => {
          if (left-- === 0) throw new Error("cut");
        });
        const ended = await running.catch(() => undefined);
        if (ended) return ended.outcome;
        const second = createSessions({ app: "app", store });
        const { outcome } = await finish(agent, { sessions: second, session, ...request });
        await second.stop();
        return outcome;
      };
      expect(await turn({ ...go, call: "m1" })).toBe("waiting");
      expect(await turn({ results: [result("call_0_1", "Oslo")], call: "r1" })).toBe("answered");
      expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
      expect(ran).toEqual(["add"]);
      const steps = await stepsOf(sessions, session);
      await sessions.stop();
      return steps.map((event) => [event.type, "items" in event && event.items, event.delta]);
    };
    const whole = await play(-1);
    // After event 2, the tool with external effects has been started, and it is not started again.
    for (const cut of [0, 1, 3, 4, 5, 6, 7]) expect(await play(cut)).toEqual(whole);
  });

  test("continues with a message beside the results, with other tools, and with a part of an image", async () => {
    const seen: { input: Item[]; tools: string[] }[] = [];
    const agent = defineAgent({
      name: "seer",
      model: scriptedModel(({ input, tools: given = [] }) => {
        seen.push({ input, tools: given.map(({ name }) => name) });
        return seen.length < 3 ? { calls: [{ name: seen.length === 1 ? "locate" : "look" }] } : "Done.";
      }),
    });
    const sessions = engine();
    const { session } = await sessions.open();
    await finish(agent, { sessions, session, ...go });
    const look: ToolSchema = { type: "function", name: "look", parameters: { type: "object" } };
    const beside = { message: "hurry", clientTools: [look], stateDelta: { hurry: true } };
    const { calls = [] } = await finish(agent, { sessions, session, results: [result("call_0_0", "Oslo")], ...beside });
    expect(calls.map(({ name }) => name)).toEqual(["look"]);
    const output = [{ type: "input_image", image_url: "data:image/png;base64,aGk=" }];
    await finish(agent, { sessions, session, results: [{ call_id: "call_1_0", output }] });
    expect(seen.map(({ tools: given }) => given)).toEqual([["locate"], ["look"], ["look"]]);
    expect(seen[2]?.input.slice(1)).toMatchObject([
      { type: "function_call", name: "locate" },
      { type: "function_call_output", output: "Oslo" },
      { type: "message", content: "hurry" },
      { type: "function_call", name: "look" },
      { type: "function_call_output", output },
    ]);
    expect(await sessions.state(session)).toEqual({ hurry: true });
    expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
    // Logs may have parts of other types, and are still replayed.
    seen.length = 0;
    const saved = JSON.stringify(await sessions.save(session)).replaceAll("input_image", "other_image");
    const { session: older } = await sessions.restore(JSON.parse(saved) as SavedSession, "older");
    expect(await sessions.replay(older, { agent })).toMatchObject({ same: true });
  });
});

test("ONCE: a late result of an earlier turn is refused, although the model repeats its call ids", async () => {
  const call: Item = { type: "function_call", call_id: "same", name: "locate", arguments: "{}" };
  const agent = defineAgent({
    name: "repeating",
    model: {
      name: "repeating",
      async respond({ input }) {
        const content = String(outputsIn(input).at(-1));
        const isAsked = input.at(-1)?.type === "message";
        return { output: isAsked ? [call] : [{ type: "message", role: "assistant", content }], status: "completed" };
      },
    },
  });
  const store = memoryStore();
  const sessions = createSessions({ app: "app", store });
  const { session } = await sessions.open();
  const waitFor = async (on = sessions): Promise<string> => {
    const { calls = [] } = await finish(agent, { sessions: on, session, ...go });
    return calls.map(({ call_id }) => call_id).join();
  };
  const one = { session, results: [result(await waitFor(), "one")] };
  await finish(agent, { sessions, ...one });
  const second = await waitFor();
  expect(await codeOf(finish(agent, { sessions, ...one }))).toBe("call_not_open");
  const last = await finish(agent, { sessions, session, results: [result(second, "two")] });
  expect(finalText(last.events as NumberedEvent[])).toBe("two");
  // Another process knows the ids from the log.
  const other = createSessions({ app: "app", store });
  expect(new Set([one.results[0]?.call_id, second, await waitFor(other)]).size).toBe(3);
  expect(await other.replay(session, { agent })).toMatchObject({ same: true });
});

test("callbacks around a client's call run: one answers for the client, one changes its result", async () => {
  const agent = defineAgent({
    name: "careful",
    model: scriptedModel(({ input }) =>
      input.at(-1)?.type === "message"
        ? {
            calls: [
              { name: "locate", arguments: { exact: true } },
              { name: "locate" },
              { name: "locate", arguments: "no" },
            ],
          }
        : outputsIn(input).join(", "),
    ),
    callbacks: {
      beforeTool: ({ state }, { input }) => {
        state["asked"] = (state["asked"] ?? 0) + 1;
        return (input as { exact?: boolean }).exact ? "not allowed" : undefined;
      },
      afterTool: (_, { output }) => (output === "Oslo" ? "OSLO" : undefined),
    },
  });
  const sessions = engine();
  const { session } = await sessions.open();
  const { calls = [] } = await finish(agent, { sessions, session, ...go });
  expect(calls.map(({ call_id }) => call_id)).toEqual(["call_0_1"]);
  const { events } = await finish(agent, { sessions, session, results: [result("call_0_1", "Oslo")] });
  const said = events.find(({ type }) => type === "model.answered");
  expect(said).toMatchObject({
    items: [{ content: [{ text: expect.stringMatching(/^not allowed, .*not JSON.*, OSLO$/) }] }],
  });
  expect(await sessions.state(session)).toEqual({ asked: 2 });
  expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
});

test("agents in parallel and in sequence wait together, and each gets its own results", async () => {
  const asking = (name: string): Agent =>
    defineAgent({
      name,
      // Both models number their calls alike.
      model: scriptedModel(({ input }) =>
        input.at(-1)?.type === "function_call_output"
          ? `${name}: ${String(input.at(-1)?.["output"])}`
          : { calls: [{ name: "locate", call: "same" }] },
      ),
      outputKey: name,
    });
  const both = parallel({ name: "both", agents: [asking("one"), asking("two")] });
  const agent = sequence({ name: "all", agents: [both, asking("three")] });
  const sessions = engine();
  const { session } = await sessions.open();
  const first = await finish(agent, { sessions, session, ...go });
  const ids = (first.calls ?? []).map(({ call_id }) => call_id);
  expect(new Set(ids).size).toBe(2);
  const waiting = first.events.flatMap((event) =>
    event.type === "tools.answered" ? [[event.agent, event.waiting?.[0]?.call_id]] : [],
  );
  const owner = Object.fromEntries(waiting) as { one: string; two: string };
  const one = { sessions, session, results: [result(owner.one, "Oslo")] };
  expect(await codeOf(finish(agent, one))).toBe("results_missing");
  const results = [result(owner.two, "Rome"), result(owner.one, "Oslo")];
  const { calls = [] } = await finish(agent, { sessions, session, results });
  expect(calls).toHaveLength(1);
  const last = [result(calls[0]?.call_id ?? "", "Lima")];
  expect((await finish(agent, { sessions, session, results: last })).outcome).toBe("answered");
  expect(await sessions.state(session)).toEqual({ one: "one: Oslo", two: "two: Rome", three: "three: Lima" });
  expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
});

test("a transfer in the same answer happens after the client's results", async () => {
  const billing = defineAgent({
    name: "billing",
    model: scriptedModel(({ input }) => `Billing saw ${input.map((item) => String(item["content"])).join(" | ")}`),
  });
  const agent = defineAgent({
    name: "desk",
    model: scriptedModel([
      { calls: [{ name: "transfer_to_agent", arguments: { agent: "billing" } }, { name: "locate" }] },
    ]),
    agents: [billing],
  });
  const sessions = engine();
  const { session } = await sessions.open();
  await finish(agent, { sessions, session, ...go });
  const { events } = await finish(agent, { sessions, session, results: [result("call_0_1", "Oslo")] });
  expect(events.findLast(({ type }) => type === "model.answered")).toMatchObject({
    agent: "billing",
    items: [{ content: [{ text: expect.stringMatching(/given by locate: Oslo \| go$/) }] }],
  });
  expect(await sessions.replay(session, { agent })).toMatchObject({ same: true });
});

test("an agent's own client tools need no tools from the client", async () => {
  const agent = defineAgent({
    name: "clerk",
    model: scriptedModel([{ calls: [{ name: "locate" }] }, "Thanks."]),
    clientTools: tools,
  });
  const sessions = engine();
  const { session } = await sessions.open();
  expect(await finish(agent, { sessions, session, message: "hello" })).toMatchObject({ outcome: "waiting" });
  const results = [result("call_0_0", "Oslo")];
  expect(await finish(agent, { sessions, session, results })).toMatchObject({ outcome: "answered" });
  expect(() => defineAgent({ name: "boss", model: scriptedModel([]), tools: { ask: agent } })).toThrow(
    /an agent used as a tool cannot wait for the client/,
  );
});

test.each([
  ["not a list", { tools: 3 }],
  ["another type", { tools: [{ type: "web_search" }] }],
  ["no name", { tools: [{ type: "function", parameters: {} }] }],
  ["a bad name", { tools: [{ type: "function", name: "a b", parameters: {} }] }],
  ["no schema", { tools: [{ type: "function", name: "mine" }] }],
  ["a schema of a list", { tools: [{ type: "function", name: "mine", parameters: { type: "array" } }] }],
  ["the name of the agent's tool", { tools: [{ type: "function", name: "add", parameters: {} }] }],
  ["the name of the transfer", { tools: [{ type: "function", name: "transfer_to_agent", parameters: {} }] }],
  ["one name twice", { tools: [...tools, ...tools] }],
  ["too many", { tools: Array.from({ length: 129 }, (_, at) => ({ ...tools[0], name: `t${at}` })) }],
])("client tools are refused before the turn begins: %s", async (_, { tools: given }) => {
  const sessions = engine();
  const { session } = await sessions.open();
  const options = { sessions, session, message: "go", clientTools: given as ToolSchema[] };
  expect(await codeOf(finish(guide().agent, options))).toBe("invalid_option");
  expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened"]);
});

test("a client's tool with the name of a toolset's tool fails the turn", async () => {
  const agent = defineAgent({
    name: "host",
    model: scriptedModel(["Hello."]),
    toolsets: [{ list: async () => [{ ...(tools[0] as ToolSchema) }], call: async () => "" }],
  });
  const sessions = engine();
  const failed = await finish(agent, { sessions, ...go });
  expect(failed).toMatchObject({ outcome: "failed", error: { code: "invalid_option" } });
});
