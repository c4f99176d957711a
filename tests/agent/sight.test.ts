// What agents see of each other: everything that ended before they started, and nothing of parallel agents.
import {
  createSessions,
  defineAgent,
  loop,
  memoryStore,
  parallel,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type Item,
  type ScriptedAnswer,
} from "holdfast";
import { expect, test } from "vitest";
import { toText } from "../../src/core/model.ts";
import { finish } from "./engine.ts";

/** The texts that each agent was shown, one list per question. */
type Shown = Record<string, string[][]>;

const texts = (input: Item[]): string[] =>
  input.flatMap((item) => {
    if ("content" in item) return toText(item.content as string);
    if ("output" in item) return `= ${toText(item.output as string)}`;
    return "name" in item ? `${String(item.name)}()` : [];
  });

/** An agent that answers with its name and the number of its question. */
const speaker =
  (shown: Shown) =>
  (name: string): Agent =>
    defineAgent({
      name,
      model: scriptedModel(({ input }) => {
        const questions = (shown[name] ??= []);
        questions.push(texts(input));
        return `${name}${questions.length}`;
      }),
    });

/** Sends messages to an agent, one after the other. */
async function talk(agent: Agent, ...messages: string[]): Promise<void> {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open();
  for (const message of messages) {
    expect((await finish(agent, { sessions, session, message })).outcome).not.toBe("failed");
  }
}

const sorted = (seen: string[][] | undefined): string[] => (seen?.at(-1) ?? []).toSorted();

test("an agent in a parallel sees the messages of an earlier parallel", async () => {
  const shown: Shown = {};
  const [a, b, c, d] = ["a", "b", "c", "d"].map(speaker(shown)) as [Agent, Agent, Agent, Agent];
  const first = parallel({ name: "first", agents: [a, b] });
  const second = parallel({ name: "second", agents: [c, d] });
  await talk(sequence({ name: "all", agents: [first, second] }), "hi");
  for (const name of ["a", "b"]) expect(shown[name]).toEqual([["hi"]]);
  for (const name of ["c", "d"]) expect(sorted(shown[name])).toEqual(["[a] said: a1", "[b] said: b1", "hi"]);
});

test("an agent in a parallel in a loop sees the earlier rounds, with its own messages as its own", async () => {
  const shown: Shown = {};
  const agents = ["a", "b"].map(speaker(shown));
  await talk(loop({ name: "rounds", times: 3, agents: [parallel({ name: "both", agents })] }), "hi");
  expect(shown["a"]?.map((seen) => seen.length)).toEqual([1, 3, 5]);
  expect(sorted(shown["a"])).toEqual(["[b] said: b1", "[b] said: b2", "a1", "a2", "hi"]);
  expect(sorted(shown["b"])).toEqual(["[a] said: a1", "[a] said: a2", "b1", "b2", "hi"]);
});

test("an agent in a parallel sees itself and others if another agent runs between the rounds", async () => {
  const shown: Shown = {};
  const [a, b, c] = ["a", "b", "c"].map(speaker(shown)) as [Agent, Agent, Agent];
  await talk(loop({ name: "rounds", times: 2, agents: [parallel({ name: "both", agents: [a, b] }), c] }), "hi");
  expect(sorted(shown["a"])).toEqual(["[b] said: b1", "[c] said: c1", "a1", "hi"]);
  expect(sorted(shown["c"])).toHaveLength(6);
});

test("an agent in a parallel sees all answers to an earlier message", async () => {
  const shown: Shown = {};
  await talk(parallel({ name: "both", agents: ["a", "b"].map(speaker(shown)) }), "one", "two", "three");
  expect(shown["a"]?.map((seen) => seen.length)).toEqual([1, 4, 7]);
  expect(sorted(shown["a"])).toEqual(["[b] said: b1", "[b] said: b2", "a1", "a2", "one", "three", "two"]);
});

test("agents in nested parallels see their own line, and its finished parts", async () => {
  const shown: Shown = {};
  const speak = speaker(shown);
  const inner = (name: string): Agent =>
    loop({
      name: `${name}_loop`,
      times: 2,
      agents: [parallel({ name: `${name}_both`, agents: [speak(`${name}1`), speak(`${name}2`)] })],
    });
  await talk(
    sequence({ name: "all", agents: [parallel({ name: "p", agents: [inner("x"), inner("y")] }), speak("last")] }),
    "hi",
  );
  expect(shown["x1"]?.[0]).toEqual(["hi"]);
  expect(sorted(shown["x1"])).toEqual(["[x2] said: x21", "hi", "x11"]);
  expect(sorted(shown["y2"])).toEqual(["[y1] said: y11", "hi", "y21"]);
  expect(sorted(shown["last"])).toHaveLength(9);
});

test("an agent used as a tool sees the earlier rounds of a parallel inside it", async () => {
  const shown: Shown = {};
  const agents = ["a", "b"].map(speaker(shown));
  const helper = loop({ name: "rounds", times: 2, agents: [parallel({ name: "both", agents })] });
  const root = defineAgent({
    name: "root",
    model: scriptedModel([{ calls: [{ name: "ask", arguments: { request: "help" } }] }, "Done."]),
    tools: { ask: helper },
  });
  await talk(root, "hi");
  expect(sorted(shown["a"])).toEqual(["[b] said: b1", "a1", "help"]);
});

test("names with dots and numbers in their paths are kept apart", async () => {
  const shown: Shown = {};
  const speak = speaker(shown);
  // In one round of a loop: two parallels, one after the other, at `1.1` and `1.2` of the path.
  const agents = [
    parallel({ name: "1", agents: [speak("a"), speak("b")] }),
    parallel({ name: "2", agents: [speak("c"), speak("d")] }),
  ];
  await talk(loop({ name: "0", times: 1, agents }), "hi");
  expect(sorted(shown["c"])).toEqual(["[a] said: a1", "[b] said: b1", "hi"]);
  expect(shown["b"]).toEqual([["hi"]]);
});

/** An agent that calls a tool once, under the id that scripted models give to their first call. */
const asking = (name: string, question: string, answer: string): Agent =>
  defineAgent({
    name,
    model: scriptedModel(({ input }) =>
      input.some(({ type }) => type === "function_call_output") ? `${name} is done` : { calls: [{ name: question }] },
    ),
    tools: { [question]: tool({ description: "Tells.", run: () => answer }) },
  });

test("a result is named by the tool that gave it, where two agents use the same call id", async () => {
  const shown: Shown = {};
  const both = parallel({
    name: "both",
    agents: [asking("weather", "get_weather", "sunny"), asking("stock", "get_stock", "12")],
  });
  await talk(sequence({ name: "all", agents: [both, speaker(shown)("sum")] }), "hi");
  expect(shown["sum"]?.[0]).toEqual(
    expect.arrayContaining(["[weather] was given by get_weather: sunny", "[stock] was given by get_stock: 12"]),
  );
});

test("the results of an agent's own calls come right after the calls, whichever agent spoke in between", async () => {
  const shown: Shown = {};
  const watching = (name: string): Agent =>
    defineAgent({
      name,
      model: scriptedModel(({ input }) => {
        (shown[name] ??= []).push(texts(input));
        const last = input.findLast(({ type }) => type !== "message");
        const isNew = texts(input).at(-1) === "again" || last === undefined;
        return isNew ? { calls: [{ name: "work" }] } : "Done.";
      }),
      tools: { work: tool({ description: "Works.", run: () => new Promise((resolve) => setImmediate(resolve)) }) },
    });
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const agent = parallel({ name: "both", agents: [watching("a"), watching("b")] });
  const { session } = await finish(agent, { sessions, message: "hi" });
  await finish(agent, { sessions, session, message: "again" });
  for (const name of ["a", "b"]) {
    const seen = shown[name]?.at(-1) ?? [];
    expect(seen.filter((text) => text === "work()")).toHaveLength(2);
    for (const [at, text] of seen.entries()) if (text === "work()") expect(seen[at + 1]).toMatch(/^= /);
  }
});

test("after a transfer the user's message is last, behind what the others said and did", async () => {
  const shown: Shown = {};
  const watched = (name: string, answers: ScriptedAnswer[]) =>
    scriptedModel(({ input }) => {
      const questions = (shown[name] ??= []);
      questions.push(texts(input));
      return answers[questions.length - 1];
    });
  const transfer = (to: string) => ({ name: "transfer_to_agent", arguments: { agent: to } });
  const billing = defineAgent({
    name: "billing",
    model: watched("billing", ["billing0", { calls: [transfer("support")] }]),
  });
  const support = defineAgent({
    name: "support",
    model: watched("support", [
      { calls: [{ name: "look" }] },
      { text: "One moment.", calls: [transfer("billing")] },
      "support again",
    ]),
    tools: { look: tool({ description: "Look.", run: () => "order 7" }) },
    agents: [billing],
    callbacks: { afterAgent: () => "Bye." },
  });
  await talk(support, "refund me", "and now?");
  expect(shown["billing"]).toEqual([
    [
      "[support] called look with {}",
      "[support] was given by look: order 7",
      "[support] said: One moment.",
      "[support] said: Bye.",
      "refund me",
    ],
    [
      "[support] called look with {}",
      "[support] was given by look: order 7",
      "[support] said: One moment.",
      "[support] said: Bye.",
      "refund me",
      "billing0",
      "and now?",
    ],
  ]);
  expect(shown["support"]?.at(-1)).toEqual([
    "refund me",
    "look()",
    "= order 7",
    "One moment.",
    "transfer_to_agent()",
    '= {"transferred":"billing"}',
    "Bye.",
    "[billing] said: billing0",
    "and now?",
  ]);
});

test("after a transfer inside of an agent that is a tool, its request is last", async () => {
  const shown: Shown = {};
  const inner = speaker(shown)("inner");
  const outer = defineAgent({
    name: "outer",
    model: scriptedModel([
      { text: "Not mine.", calls: [{ name: "transfer_to_agent", arguments: { agent: "inner" } }] },
    ]),
    agents: [inner],
  });
  const root = defineAgent({
    name: "root",
    model: scriptedModel([{ calls: [{ name: "ask", arguments: { request: "do it" } }] }, "Done."]),
    tools: { ask: outer },
  });
  await talk(root, "hi");
  expect(shown["inner"]).toEqual([["[outer] said: Not mine.", "do it"]]);
});
