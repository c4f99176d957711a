// replaySession: a saved session is run again on its recorded answers, and the first different event is named.
import {
  createSessions,
  defineAgent,
  loop,
  memoryStore,
  parallel,
  run,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type Conversations,
  type AgentState,
  type Model,
} from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { HoldfastError } from "../../src/core/errors.ts";
import type { SavedConversation } from "../../src/core/sessions.ts";
import { replaySession } from "../../src/agent/replay.ts";

const engine = (): Conversations => createSessions({ app: "app", store: memoryStore(), keepEnded: true });

const replay = (agent: Agent, saved: SavedConversation): ReturnType<typeof replaySession> =>
  // As from a file.
  replaySession(agent, JSON.parse(JSON.stringify(saved)) as SavedConversation, engine());

async function say(
  agent: Agent,
  sessions: Conversations,
  session: string,
  message: string | undefined,
  stateDelta?: AgentState,
): Promise<string[]> {
  const types: string[] = [];
  const running = run(agent, { sessions, session, message, stateDelta, throwOnFailure: false });
  for await (const event of running) types.push(event.type);
  return types;
}

async function conversation(agent: Agent, messages: string[], state: AgentState = {}): Promise<SavedConversation> {
  const sessions = engine();
  const { session } = await sessions.open({ user: "ann", state });
  for (const message of messages) await say(agent, sessions, session, message);
  return sessions.save(session);
}

const never: Model = {
  name: "never",
  respond: () => Promise.reject(new HoldfastError("model_failed", "a replay asks no model")),
};

const add = (by = 1) =>
  tool({
    description: "Add.",
    input: z.object({ n: z.number() }),
    run: ({ state }: { state: AgentState }, { n }) => (state["total"] = (state["total"] ?? 0) + n * by),
  });

interface Parts {
  model?: Model;
  by?: number;
  greet?: string;
  effect?: () => void;
}

const script = [
  { calls: [{ name: "add", arguments: { n: 2 } }, { name: "send" }, { name: "roll" }] },
  { calls: [{ name: "add", arguments: { n: "two" } }, { name: "nothing" }] },
  "Done.",
  { calls: [{ name: "add", arguments: { n: 5 } }] },
  "Again.",
];

function worker({ model = scriptedModel(script), by = 1, greet = "hello", effect }: Parts = {}): Agent {
  return defineAgent({
    name: "worker",
    model,
    instruction: "Work for {user:name?}.",
    outputKey: "last",
    tools: {
      add: add(by),
      send: tool({
        description: "Touches the world.",
        effects: "external",
        run: ({ update }) => {
          effect?.();
          update((state) => void (state["sent"] = (state["sent"] ?? 0) + 1));
          return { id: Math.random() };
        },
      }),
      roll: tool({
        description: "Asks for chance and time.",
        run: ({ random, now }) => [random(), now()],
      }),
    },
    callbacks: {
      beforeAgent: ({ state, session, invocation }) => {
        state["greeting"] = greet;
        state["user:visits"] = (state["user:visits"] ?? 0) + 1;
        state["temp:x"] = 1;
        // Ids differ in a replay, and count as equal.
        state["ids"] = { session, invocation };
      },
      afterModel: (_, response) => ({ ...response, note: "seen", output: [...response.output] }),
      afterTool: (_, { output }) => (typeof output === "number" ? { was: output } : undefined),
    },
  });
}

test("REPLAY: a session gives the same events again, and asks no model and touches nothing", async () => {
  let effects = 0;
  const effect = (): void => void effects++;
  const saved = await conversation(worker({ effect }), ["go", "again"], { "user:name": "Ann", total: 1 });
  expect(effects).toBe(1);
  const result = await replay(worker({ effect, model: never }), saved);
  expect(result).toEqual({ same: true, events: saved.events.length });
  expect(effects).toBe(1);
  // A replay of its own result is the same again.
  expect(await replay(worker({ effect, model: never }), saved)).toMatchObject({ same: true });
});

test("REPLAY: a changed tool is named, with the version and the field", async () => {
  const saved = await conversation(worker(), ["go"]);
  const result = await replay(worker({ by: 2 }), saved);
  const version = saved.events.findIndex(({ type }) => type === "tools.answered") + 1;
  expect(result).toEqual({
    same: false,
    version,
    expected: '{"was":2}',
    actual: '{"was":4}',
    message: `event ${version} (tools.answered of worker): /items/0/output was "{\\"was\\":2}" in the recording and is now "{\\"was\\":4}"`,
  });
});

test("REPLAY: a changed write of a callback is named", async () => {
  const saved = await conversation(worker(), ["go"]);
  const result = await replay(worker({ greet: "hi" }), saved);
  expect(result).toMatchObject({ same: false, version: 3, expected: "hello", actual: "hi" });
  expect((result as { message: string }).message).toBe(
    'event 3 (agent.began of worker): /delta/0/value was "hello" in the recording and is now "hi"',
  );
});

test("REPLAY: an answer, a message and a state that were changed in the file are found or followed", async () => {
  const saved = await conversation(worker(), ["go"]);
  const forged = structuredClone(saved);
  for (const event of forged.events) if (event.type === "tools.answered") event.items = event.items.slice(1);
  expect(await replay(worker(), forged)).toMatchObject({ same: false });

  const more = structuredClone(saved);
  more.events.splice(-1, 1);
  // Without its end it is an interrupted run.
  expect(await replay(worker(), more)).toEqual({ same: true, events: more.events.length });

  const twice = structuredClone(saved);
  twice.events.push(structuredClone(twice.events.at(-1) as (typeof twice.events)[0]));
  expect(await replay(worker(), twice)).toMatchObject({ same: false, version: twice.events.length });
});

test("REPLAY: an agent that asks the model more often, or stops earlier, differs there", async () => {
  const plain = (steps: number) =>
    defineAgent({
      name: "plain",
      model: scriptedModel(script),
      tools: { add: add(), send: add(), roll: add() },
      limits: { steps },
    });
  const saved = await conversation(plain(2), ["go"]);
  expect(await replay(plain(2), saved)).toMatchObject({ same: true });
  const longer = await replay(plain(3), saved);
  expect(longer).toMatchObject({ same: false, version: saved.events.length });
  expect((longer as { message: string }).message).toContain("the agent plain calls its model again");
  expect(await replay(plain(1), saved)).toMatchObject({
    same: false,
    version: 5,
    message: expect.stringContaining("agent.ended"),
  });
});

test("REPLAY: rewinds, state set with a message, and the end are repeated", async () => {
  const agent = worker();
  const sessions = engine();
  const { session } = await sessions.open({ state: { total: 10 } });
  await say(agent, sessions, session, "go", { mood: "good", "user:lang": "en", "temp:gone": 1 });
  const events = await sessions.save(session);
  const began = events.events.find(({ type }) => type === "invocation.began") as { invocation: string };
  await sessions.rewind(session, { before: began.invocation });
  expect(await sessions.state(session)).toMatchObject({ total: 10 });
  await say(agent, sessions, session, "other");
  await sessions.close(session);
  const saved = await sessions.save(session);
  expect(saved.events.map(({ type }) => type)).toContain("session.rewound");
  expect(await replay(agent, saved)).toEqual({ same: true, events: saved.events.length });
  const forged = structuredClone(saved);
  for (const event of forged.events)
    if (event.type === "session.rewound") event.delta = [{ op: "replace", path: "", value: {} }];
  expect(await replay(agent, forged)).toMatchObject({
    same: false,
    message: expect.stringContaining("session.rewound"),
  });
});

test("REPLAY: model failures come from the record, and are resumed as they were", async () => {
  let asked = 0;
  const flaky: Model = {
    name: "flaky",
    respond: (request, options) => {
      if (asked++ % 2 === 0) throw new HoldfastError("model_timeout", `no answer ${asked}`);
      return scriptedModel(script).respond(request, options);
    },
  };
  const agent = (model: Model): Agent => worker({ model });
  const sessions = engine();
  const { session } = await sessions.open();
  const types: string[] = [];
  types.push(...(await say(agent(flaky), sessions, session, "go")));
  while (types.at(-1) === "agent.failed") types.push(...(await say(agent(flaky), sessions, session, undefined)));
  expect(types.filter((type) => type === "agent.failed")).toHaveLength(3);
  const saved = await sessions.save(session);
  expect(await replay(agent(never), saved)).toEqual({ same: true, events: saved.events.length });

  // And an abandoned one.
  asked = 0;
  await say(agent(flaky), sessions, session, "go");
  await say(agent(scriptedModel(() => "Fine.")), sessions, session, "hello?");
  const given = await sessions.save(session);
  expect(await replay(agent(never), given)).toEqual({ same: true, events: given.events.length });
});

test("REPLAY: a run that was interrupted at any event replays up to there, and with its continuation", async () => {
  const agent = worker();
  const whole = (await conversation(agent, ["go"])).events.length;
  for (let cut = 1; cut < whole - 1; cut++) {
    const sessions = engine();
    const { session } = await sessions.open();
    let seen = 0;
    for await (const _ of run(agent, { sessions, session, message: "go" })) if (++seen === cut) break;
    const cutShort = await sessions.save(session);
    expect(await replay(worker({ model: never }), cutShort), `cut at ${cut}`).toMatchObject({ same: true });
    await say(agent, sessions, session, undefined);
    const continued = await sessions.save(session);
    expect(await replay(worker({ model: never }), continued), `continued from ${cut}`).toMatchObject({ same: true });
    const { session: left } = await sessions.open({ user: "left" });
    seen = 0;
    for await (const _ of run(agent, { sessions, session: left, message: "go" })) if (++seen === cut) break;
    await say(agent, sessions, left, "something else");
    const next = await sessions.save(left);
    const result = await replay(worker({ model: never }), next);
    expect(result, `left at ${cut}`).toMatchObject({ same: true });
  }
});

const slow = (text: string, ms: number, calls = 1): Model =>
  scriptedModel(async (_, turn) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return turn < calls ? { calls: [{ name: "add", arguments: { n: ms } }] } : text;
  });

test("REPLAY: parallel agents come in the recorded order, whichever is faster now", async () => {
  const team = (a: number, b: number, names = ["a", "b"]): Agent =>
    sequence({
      name: "all",
      agents: [
        parallel({
          name: "team",
          agents: names.map((name) =>
            defineAgent({ name, model: slow(name, name === "a" ? a : b), tools: { add: add() }, outputKey: "said" }),
          ),
        }),
        loop({
          name: "rounds",
          times: 2,
          agents: [defineAgent({ name: "c", model: scriptedModel(() => "c"), outputKey: "c" })],
        }),
      ],
    });
  for (const [a, b] of [
    [20, 1],
    [1, 20],
  ] as const) {
    const saved = await conversation(team(a, b), ["go"]);
    expect(await replay(team(0, 0), saved)).toEqual({ same: true, events: saved.events.length });
    const less = await replay(team(a, b, ["a"]), saved);
    expect(less).toMatchObject({ same: false });
  }
});

test("REPLAY: parallel agents used as tools of one answer", async () => {
  const child = (name: string, ms: number) => defineAgent({ name, model: slow(name, ms, 0) });
  const boss = (a: number, b: number, c = "b"): Agent =>
    defineAgent({
      name: "boss",
      model: scriptedModel([
        { calls: ["a", c, "a"].map((name) => ({ name, arguments: { request: `do ${name}` } })) },
        "Done.",
      ]),
      tools: { a: child("a", a), b: child("b", b) },
    });
  const saved = await conversation(boss(15, 1), ["go"]);
  expect(saved.events.filter(({ type }) => type === "model.answered")).toHaveLength(5);
  expect(await replay(boss(0, 10), saved)).toEqual({ same: true, events: saved.events.length });
});

test("REPLAY: an agent that timed out does so again, without a wait", async () => {
  const agent = (ms: number): Agent =>
    defineAgent({
      name: "late",
      limits: { seconds: 0.05 },
      model: scriptedModel([{ calls: [{ name: "wait" }] }, "Done."]),
      tools: {
        wait: tool({
          description: "Waits.",
          concurrent: true,
          run: () => new Promise((resolve) => setTimeout(() => resolve("waited"), ms)),
        }),
      },
    });
  const saved = await conversation(agent(100), ["go"]);
  expect(saved.events.at(-1)).toMatchObject({ outcome: "seconds" });
  expect(await replay(agent(0), saved)).toEqual({ same: true, events: saved.events.length });
});

/** An agent whose callbacks change answers, and look at their changes. */
function amending({ model, sorry = "Sorry.", sign = "!" }: { model: Model; sorry?: string; sign?: string }): Agent {
  return defineAgent({
    name: "amending",
    model,
    outputKey: "said",
    callbacks: {
      onModelError: ({ state }, { code, message }) => {
        state["errors"] = [...(state["errors"] ?? []), `${code}: ${message}`];
        return sorry;
      },
      afterModel: ({ state }, response) => {
        const [item] = response.output as { content: { text: string }[] }[];
        const text = item?.content[0]?.text ?? "";
        state["heard"] = text;
        if (text.endsWith(sign)) return undefined;
        return `${text}${sign}`;
      },
    },
  });
}

test("REPLAY: the answer and writes of onModelError, and changes by afterModel, are repeated", async () => {
  let asked = 0;
  const model = scriptedModel(() => {
    if (++asked === 2) throw new HoldfastError("model_refused", "not now");
    return asked === 3 ? "Well!" : "Well.";
  });
  const saved = await conversation(amending({ model }), ["one", "two", "three"]);
  const answers = saved.events.filter((event) => event.type === "model.answered");
  expect(answers).toMatchObject([
    { raw: { output: [{ content: [{ text: "Well." }] }] }, items: [{ content: [{ text: "Well.!" }] }] },
    { failure: { code: "model_refused", message: "not now" }, items: [{ content: [{ text: "Sorry.!" }] }] },
    { items: [{ content: [{ text: "Well!" }] }] },
  ]);
  expect(answers[1]).not.toHaveProperty("raw");
  expect(answers[2]).not.toHaveProperty("raw");
  const again = await replay(amending({ model: never }), saved);
  expect(again, again.same ? "" : again.message).toEqual({ same: true, events: saved.events.length });
  expect(await replay(amending({ model: never, sorry: "Oh." }), saved)).toMatchObject({ same: false, version: 6 });
  expect(await replay(amending({ model: never, sign: "?" }), saved)).toMatchObject({ same: false, version: 3 });
});

test("REPLAY: a session of an older version, which kept only the last form of an answer, replays as well", async () => {
  const saved = await conversation(amending({ model: scriptedModel(() => "Well.") }), ["one"]);
  const events = saved.events.map((event) => {
    if (event.type !== "model.answered") return event;
    const { raw: _, ...old } = event;
    // It saw the answer that it returned.
    const delta = old.delta?.map((operation) =>
      operation.path === "/heard" && operation.op !== "remove" ? { ...operation, value: "Well.!" } : operation,
    );
    return { ...old, ...(delta && { delta }) };
  });
  expect(await replay(amending({ model: never }), { ...saved, events })).toMatchObject({ same: true });
});
