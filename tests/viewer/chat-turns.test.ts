// A conversation as the chat page shows it, built from logs of real agents.
import fc from "fast-check";
import {
  createSessions,
  defineAgent,
  memoryStore,
  type Model,
  run,
  scriptedModel,
  tool,
  type Agent,
  type Conversations,
  type NumberedEvent,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { commitPoint } from "../../viewer/src/pages/agents/commits.ts";
import { applyStreamed, type Draft, type PartialEvent } from "../../viewer/src/pages/agents/drafts.ts";
import { emptyLog, withEvents } from "../../viewer/src/pages/agents/event-log.ts";
import { inForceIn } from "../../src/core/session.ts";
import { buildTurns, findUnfinished } from "../../viewer/src/pages/agents/turns.ts";
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
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open({ state: { mood: "calm" } });
  for (const message of messages) await finish(agent, { sessions, session, message });
  return { sessions, session, events: () => logOf(sessions, session) };
}

const said = (events: NumberedEvent[]): (string | undefined)[][] =>
  buildTurns(events).map(({ entries }) => entries.map((entry) => (entry.kind === "said" ? entry.text : entry.kind)));

describe("turns", () => {
  test("contain the messages, and the calls with their outcomes", async () => {
    const { events } = await talk(noting(calls("note", "broken"), "All done."), "go");
    const [turn] = buildTurns(await events());
    expect(turn).toMatchObject({ version: 2, isUndone: false, outcome: "answered" });
    expect(turn?.entries).toMatchObject([
      { kind: "said", agent: undefined, text: "go", version: 2 },
      { kind: "call", tool: "note", output: '{"done":"<b>"}' },
      { kind: "call", tool: "broken", error: { code: "tool_failed", message: "the pen is broken" } },
      { kind: "said", agent: "noting", text: "All done." },
    ]);
    expect(findUnfinished(buildTurns(await events()))).toBeUndefined();
  });

  test("are undone by a rewind; the turns before and after it are not", async () => {
    const agent = noting("One.", "Two.", "Three.", "Four.");
    const { sessions, session, events } = await talk(agent, "a", "b", "c");
    const [, second] = buildTurns(await events());
    await sessions.rewind(session, { before: second?.invocation ?? "" });
    await finish(agent, { sessions, session, message: "d" });
    const log = await events();
    expect(buildTurns(log).map(({ isUndone }) => isUndone)).toEqual([false, true, true, false]);
    expect(said(log).map(([first]) => first)).toEqual(["a", "b", "c", "d"]);
    // The engine agrees on the current history: it shows its models the same items.
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

  test("can be resumed after a failure, until they have ended", async () => {
    let isBroken = true;
    const model = { ...scriptedModel(["Back again."]) };
    const { respond } = model;
    model.respond = (...given) => (isBroken ? Promise.reject(new Error("the line is dead")) : respond(...given));
    const agent = defineAgent({ name: "shaky", model });
    const { sessions, session, events } = await talk(agent, "hello");
    const [turn] = buildTurns(await events());
    expect(turn?.entries.at(-1)).toMatchObject({ kind: "failed", step: "model", code: "model_failed" });
    expect(findUnfinished(buildTurns(await events()))?.invocation).toBe(turn?.invocation);
    isBroken = false;
    await finish(agent, { sessions, session });
    expect(findUnfinished(buildTurns(await events()))).toBeUndefined();
    expect(said(await events())).toEqual([["hello", "failed", "Back again."]]);
  });
});

describe("commits", () => {
  test("have the keys they wrote, and name no callback", async () => {
    const { events } = await talk(noting(calls("note"), "Done."), "go");
    const points = (await events()).map(commitPoint);
    expect(points.map(({ writes, shared }) => [...writes, ...shared])).toEqual([
      ["mood"],
      [],
      ["began"],
      ["asked"],
      ["noted", "user:notes"],
      ["asked"],
      ["ended"],
    ]);
    // The log does not say which callbacks an agent has.
    expect(JSON.stringify(points)).not.toMatch(/before|after/);
    expect(points[4]).toMatchObject({ writes: ["noted"], shared: ["user:notes"] });
  });
});

describe("a log fed by two streams", () => {
  test("has each event once and in order, without gaps, in any order of arrival", () => {
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

  test("is the same object if no event is new", () => {
    const log = withEvents(emptyLog, [{ version: 1, type: "session.closed", at: 0, reason: "closed" }]);
    expect(withEvents(log, log.events)).toBe(log);
  });
});

describe("drafts", () => {
  async function sent(sessions: Conversations, agent: Agent): Promise<(PartialEvent | NumberedEvent)[]> {
    const found: (PartialEvent | NumberedEvent)[] = [];
    for await (const event of run(agent, { sessions, message: "go", stream: true })) found.push(event);
    return found;
  }

  test("grow piece by piece, and a committed event replaces them", async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
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
      drafts = applyStreamed(drafts, event);
      const [draft] = drafts;
      if (draft) longest = draft.text.length > longest.length ? draft.text : longest;
      if (event.type !== "partial") expect(drafts).toEqual([]);
    }
    expect(longest).toBe(answer);
  });

  test("start again after a lost connection", () => {
    const piece = (path: string, text: string, attempt: number): PartialEvent => ({
      type: "partial",
      agent: path,
      path,
      piece: { type: "text", text },
      attempt,
    });
    const pieces = [piece("a", "Hel", 1), piece("b", "By", 1), piece("a", "He", 2), piece("a", "llo", 2)];
    const drafts = pieces.reduce<readonly Draft[]>(applyStreamed, []);
    expect(drafts.map(({ path, text }) => [path, text])).toEqual([["a", "Hello"]]);
  });

  test("keep the arguments of concurrent calls apart, also across concurrent agents", () => {
    const piece = (path: string, call_id: string, text: string): PartialEvent => ({
      type: "partial",
      agent: path,
      path,
      piece: { type: "arguments", call_id, name: `tool of ${call_id}`, text },
    });
    const pieces = [piece("a", "1", "{"), piece("b", "1", "["), piece("a", "2", "x"), piece("a", "1", "}")];
    const drafts = pieces.reduce<readonly Draft[]>(applyStreamed, []);
    expect(drafts.map(({ path, calls: made }) => [path, ...made.map(({ input }) => input)])).toEqual([
      ["a", "{}", "x"],
      ["b", "["],
    ]);
  });
});
