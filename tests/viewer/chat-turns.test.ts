// A conversation as the chat page shows it, out of logs that real agents wrote.
import fc from "fast-check";
import {
  createAgentSessions,
  defineAgent,
  memoryStore,
  type Model,
  run,
  scriptedModel,
  tool,
  type Agent,
  type AgentSessions,
  type NumberedEvent,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { commitPoint } from "../../viewer/src/pages/agents/commits.ts";
import { withSent, type Draft, type PartialEvent } from "../../viewer/src/pages/agents/drafts.ts";
import { emptyLog, withEvents } from "../../viewer/src/pages/agents/event-log.ts";
import { inForceIn } from "../../src/core/session.ts";
import { turnsOf, unfinished } from "../../viewer/src/pages/agents/turns.ts";
import { finish, logOf } from "../agent/engine.ts";

const calls = (...names: string[]) => ({ calls: names.map((name) => ({ name })) });

const noting = (...script: (string | ReturnType<typeof calls>)[]): Agent =>
  defineAgent({
    name: "noting",
    model: scriptedModel(script),
    tools: {
      note: tool({
        description: "Notes.",
        run: ({ state }) => {
          state["noted"] = true;
          state["user:notes"] = 1;
          return { done: "<b>" };
        },
      }),
      broken: tool({
        description: "Fails.",
        run: () => {
          throw new Error("the pen is broken");
        },
      }),
    },
    callbacks: {
      beforeAgent: ({ state }) => void (state["began"] = true),
      beforeModel: ({ state }) => void (state["asked"] = ((state["asked"] as number | undefined) ?? 0) + 1),
      afterAgent: ({ state }) => void (state["ended"] = true),
    },
  });

async function talk(agent: Agent, ...messages: string[]) {
  const sessions = createAgentSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open({ state: { mood: "calm" } });
  for (const message of messages) await finish(agent, { sessions, session, message });
  return { sessions, session, events: () => logOf(sessions, session) };
}

const said = (events: NumberedEvent[]): (string | undefined)[][] =>
  turnsOf(events).map(({ entries }) => entries.map((entry) => (entry.kind === "said" ? entry.text : entry.kind)));

describe("turns", () => {
  test("have what was said, and calls with what came of them", async () => {
    const { events } = await talk(noting(calls("note", "broken"), "All done."), "go");
    const [turn] = turnsOf(await events());
    expect(turn).toMatchObject({ version: 2, isUndone: false, outcome: "answered" });
    expect(turn?.entries).toMatchObject([
      { kind: "said", agent: undefined, text: "go", version: 2 },
      { kind: "call", tool: "note", output: '{"done":"<b>"}' },
      { kind: "call", tool: "broken", error: { code: "tool_failed", message: "the pen is broken" } },
      { kind: "said", agent: "noting", text: "All done." },
    ]);
    expect(unfinished(turnsOf(await events()))).toBeUndefined();
  });

  test("that were rewound are undone, and those before and after are not", async () => {
    const agent = noting("One.", "Two.", "Three.", "Four.");
    const { sessions, session, events } = await talk(agent, "a", "b", "c");
    const [, second] = turnsOf(await events());
    await sessions.rewind(session, second?.invocation ?? "");
    await finish(agent, { sessions, session, message: "d" });
    const log = await events();
    expect(turnsOf(log).map(({ isUndone }) => isUndone)).toEqual([false, true, true, false]);
    expect(said(log).map(([first]) => first)).toEqual(["a", "b", "c", "d"]);
    // The engine agrees on what counts: its models are shown the same items.
    const inForce = log.filter(({ version }) => inForceIn(log)(version));
    let shown: unknown;
    const model: Model = {
      name: "curious",
      respond: ({ input }) => {
        shown = input.slice(0, -1);
        return scriptedModel(["Five."]).respond({ input: [] });
      },
    };
    await finish(defineAgent({ name: "noting", model }), { sessions, session, message: "e" });
    expect(shown).toEqual(inForce.flatMap((event) => ("items" in event ? (event.items ?? []) : [])));
  });

  test("that failed can be gone on with, until they have ended", async () => {
    let isBroken = true;
    const model = { ...scriptedModel(["Back again."]) };
    const { respond } = model;
    model.respond = (...given) => (isBroken ? Promise.reject(new Error("the line is dead")) : respond(...given));
    const agent = defineAgent({ name: "shaky", model });
    const { sessions, session, events } = await talk(agent, "hello");
    const [turn] = turnsOf(await events());
    expect(turn?.entries.at(-1)).toMatchObject({ kind: "failed", step: "model", code: "model_failed" });
    expect(unfinished(turnsOf(await events()))?.invocation).toBe(turn?.invocation);
    isBroken = false;
    await finish(agent, { sessions, session });
    expect(unfinished(turnsOf(await events()))).toBeUndefined();
    expect(said(await events())).toEqual([["hello", "failed", "Back again."]]);
  });
});

describe("commits", () => {
  test("say which callbacks and steps they stand for, and which keys they wrote", async () => {
    const { events } = await talk(noting(calls("note"), "Done."), "go");
    const points = (await events()).map(commitPoint);
    expect(points.map(({ of, writes, shared }) => [of, ...writes, ...shared])).toEqual([
      ["the initial state", "mood"],
      [""],
      ["beforeAgent", "began"],
      ["beforeModel, afterModel", "asked"],
      ["beforeTool, the tools, afterTool", "noted", "user:notes"],
      ["beforeModel, afterModel", "asked"],
      ["afterAgent", "ended"],
    ]);
    expect(points[4]).toMatchObject({ writes: ["noted"], shared: ["user:notes"] });
  });
});

describe("a log that comes from two sides", () => {
  test("has each event once and in order, with no gap, in whatever order they come", () => {
    const event = (version: number): NumberedEvent => ({ version, type: "session.closed", at: 0, reason: "closed" });
    const batches = fc.array(fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 4 }), { maxLength: 20 });
    fc.assert(
      fc.property(batches, (given) => {
        let log = emptyLog;
        const seen = new Set<number>();
        for (const versions of given) {
          log = withEvents(log, versions.map(event));
          for (const version of versions) seen.add(version);
          let length = 0;
          while (seen.has(length + 1)) length++;
          expect(log.events.map(({ version }) => version)).toEqual(Array.from({ length }, (_, at) => at + 1));
        }
      }),
    );
  });

  test("is the same one if nothing is new", () => {
    const log = withEvents(emptyLog, [{ version: 1, type: "session.closed", at: 0, reason: "closed" }]);
    expect(withEvents(log, log.events)).toBe(log);
  });
});

describe("what is being written", () => {
  async function sent(sessions: AgentSessions, agent: Agent): Promise<(PartialEvent | NumberedEvent)[]> {
    const found: (PartialEvent | NumberedEvent)[] = [];
    for await (const event of run(agent, { sessions, message: "go", stream: true })) found.push(event);
    return found;
  }

  test("grows piece by piece, and what is committed takes its place", async () => {
    const sessions = createAgentSessions({ app: "app", store: memoryStore() });
    const answer = "A long answer, in many pieces.";
    const model = {
      ...scriptedModel([answer]),
      respond: async (...[, options]: Parameters<ReturnType<typeof scriptedModel>["respond"]>) => {
        options?.onPiece?.({ type: "reasoning", text: "Well…" });
        for (const text of answer) options?.onPiece?.({ type: "text", text });
        return {
          status: "completed" as const,
          output: [{ type: "message" as const, role: "assistant" as const, content: answer }],
        };
      },
    };
    let drafts: readonly Draft[] = [];
    let longest = "";
    for (const event of await sent(sessions, defineAgent({ name: "writer", model }))) {
      drafts = withSent(drafts, event);
      const [draft] = drafts;
      if (draft) longest = draft.text.length > longest.length ? draft.text : longest;
      if (event.type !== "partial") expect(drafts).toEqual([]);
    }
    expect(longest).toBe(answer);
  });

  test("arguments of calls are kept apart, also of agents that write side by side", () => {
    const piece = (path: string, call_id: string, text: string): PartialEvent => ({
      type: "partial",
      agent: path,
      path,
      piece: { type: "arguments", call_id, name: `tool of ${call_id}`, text },
    });
    const pieces = [piece("a", "1", "{"), piece("b", "1", "["), piece("a", "2", "x"), piece("a", "1", "}")];
    const drafts = pieces.reduce<readonly Draft[]>(withSent, []);
    expect(drafts.map(({ path, calls: made }) => [path, ...made.map(({ input }) => input)])).toEqual([
      ["a", "{}", "x"],
      ["b", "["],
    ]);
  });
});
