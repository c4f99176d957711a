// Tools behave the same in an environment and in an agent: time limits, effects, log lines, late writes, and crowds.
import { setTimeout as sleep } from "node:timers/promises";
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  memoryStore,
  scriptedModel,
  tool,
  type AgentState,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { finish, type Committed } from "./engine.ts";

type Tool = ReturnType<typeof tool<AgentState, undefined>>;

/** The recorded part of a call: its failure and its log lines. */
interface Kept {
  code?: string | undefined;
  message?: string | undefined;
  log?: string[] | undefined;
}

/** Calls a tool of an environment. */
async function inEnvironment(made: Tool, timeout?: number): Promise<Kept> {
  const environment = defineEnvironment({ name: "env", state: z.looseObject({}), tools: { work: made as never } });
  const sessions = createSessions({ environment, store: memoryStore(), ...(timeout !== undefined && { timeout }) });
  const { session } = await sessions.open();
  await (sessions as unknown as { call(session: string, tool: string): Promise<unknown> }).call(session, "work");
  const kept: Kept = {};
  for await (const event of sessions.events(session)) {
    if (event.type !== "tool.called" && event.type !== "tool.settled") continue;
    const { outcome, log } = event;
    Object.assign(kept, { log }, outcome.ok ? {} : { code: outcome.error.code, message: outcome.error.message });
  }
  return kept;
}

/** Lets a model call the same tool. */
async function inAgent(made: Tool, timeout?: number): Promise<Kept> {
  const agent = defineAgent({
    name: "agent",
    model: scriptedModel([{ calls: [{ name: "work" }] }, "Done."]),
    tools: { work: made },
  });
  const sessions = createSessions({ app: "app", store: memoryStore(), ...(timeout !== undefined && { timeout }) });
  const { events } = await finish(agent, { sessions, message: "go" });
  const answered = (events as Committed[]).find((event) => event.type === "tools.answered");
  const [failed] = answered?.failed ?? [];
  return { log: answered?.log?.[0]?.lines, ...(failed && { code: failed.code, message: failed.message }) };
}

const hang = () => new Promise(() => undefined);
const both: [string, typeof inAgent][] = [
  ["an environment", inEnvironment],
  ["an agent", inAgent],
];

describe.each(both)("a tool of %s", (_, call) => {
  test("that is external and times out has an unknown outcome", async () => {
    const kept = await call(tool({ description: "", effects: "external", timeout: 10, run: hang }));
    expect(kept).toMatchObject({ code: "outcome_unknown", message: expect.stringContaining("may or may not") });
  });

  test("without a time limit has the engine's", async () => {
    for (const kind of [{}, { concurrent: true as const }, { effects: "external" as const }]) {
      const kept = await call(tool({ description: "", ...kind, run: hang } as never), 20);
      expect(kept.message).toContain("did not return within 20 ms");
      expect(kept.code).toBe("effects" in kind ? "outcome_unknown" : "tool_timeout");
    }
  });

  test("keeps its log lines in the event, also if it fails", async () => {
    const run = ({ log }: { log(line: string): void }) => log("one");
    expect(await call(tool({ description: "", run }))).toEqual({ log: ["one"] });
    expect(await call(tool({ description: "", concurrent: true, run }))).toEqual({ log: ["one"] });
    const fails = tool<AgentState, undefined>({
      description: "",
      run: ({ log }) => {
        log("two");
        throw new Error("no");
      },
    });
    expect(await call(fails)).toEqual({ log: ["two"], code: "tool_failed", message: "no" });
  });

  test("gets an error when it writes too late", async () => {
    const late: unknown[] = [];
    const attempt = async (write: () => unknown): Promise<void> => {
      await sleep(30);
      try {
        late.push(write());
      } catch (thrown) {
        late.push((thrown as Error).message);
      }
    };
    await call(
      tool<AgentState, undefined>({
        description: "",
        timeout: 5,
        run: async ({ state, update }) => {
          await Promise.all([attempt(() => (state["x"] = 1)), attempt(() => update("x", () => 1))]);
        },
      }),
    );
    await call(
      tool<AgentState, undefined>({
        description: "",
        concurrent: true,
        run: ({ update }) => void attempt(() => update("x", () => 1)),
      }),
    );
    await sleep(60);
    expect(late).toEqual([
      expect.stringContaining("has ended"),
      expect.stringContaining("has ended"),
      expect.stringContaining("after the tool had returned"),
    ]);
  });
});

describe("an answer with 700 calls", () => {
  const calls = Array.from({ length: 700 }, () => ({ name: "work" }));
  const model = () => scriptedModel([{ calls }, "Done."]);

  test("runs all of them, at most 64 at a time", async () => {
    let [running, most] = [0, 0];
    const work = tool<AgentState, undefined>({
      description: "Works.",
      concurrent: true,
      run: async ({ update }) => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        update("done", (done = 0) => done + 1);
      },
    });
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const agent = defineAgent({ name: "agent", model: model(), tools: { work } });
    const { session } = await finish(agent, { sessions, message: "go" });
    expect(await sessions.state(session)).toEqual({ done: 700 });
    expect(most).toBe(64);
  });

  test("runs all of them in an environment, and none is refused", async () => {
    const environment = defineEnvironment({
      name: "env",
      state: z.object({ done: z.number().default(0) }),
      tools: { work: tool({ description: "Works.", run: ({ state }) => void state.done++ }) },
    });
    const store = memoryStore();
    const episodes = createSessions({ environment, store });
    const sessions = createSessions({ app: "app", store });
    const agent = defineAgent({ name: "agent", model: model(), toolsets: [environmentTools(episodes)] });
    const { session, events } = await finish(agent, { sessions, message: "go" });
    const answered = (events as Committed[]).find((event) => event.type === "tools.answered");
    expect(answered).not.toHaveProperty("failed");
    expect(answered).not.toHaveProperty("overwrote");
    const { "environment:env": episode } = await sessions.state(session);
    expect(await episodes.state(episode as string)).toEqual({ done: 700 });
  });
});

describe("stop({ within })", () => {
  const codeOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => "nothing",
      (thrown: { code?: unknown }) => thrown.code,
    );

  test("cancels a tool of an environment that hangs", async () => {
    const work = tool({ description: "", run: hang });
    const environment = defineEnvironment({ name: "env", tools: { work } });
    const sessions = createSessions({ environment, store: memoryStore() });
    const { session } = await sessions.open();
    const calling = codeOf(sessions.call(session, "work"));
    await sleep(5);
    await sessions.stop({ within: 20 });
    expect(await calling).toBe("engine_stopped");
  });

  test("cancels a run of an agent whose tool, callback or model hangs, and another engine continues it", async () => {
    const hanging = [
      { tools: { work: tool({ description: "", concurrent: true, run: hang }) } },
      { tools: { work: tool({ description: "", run: hang }) } },
      { callbacks: { afterModel: hang as () => Promise<undefined> } },
      { model: { name: "hangs", respond: hang as never } },
    ];
    const model = () => scriptedModel([{ calls: [{ name: "work" }] }, "Done."]);
    for (const parts of hanging) {
      const store = memoryStore();
      const sessions = createSessions({ app: "app", store });
      const { session } = await sessions.open();
      const running = codeOf(
        finish(defineAgent({ name: "agent", model: model(), ...parts }), { sessions, session, message: "go" }),
      );
      await sleep(5);
      await sessions.stop({ within: 20 });
      expect(await running).toBe("engine_stopped");
      const fine = tool({ description: "", run: () => "worked" });
      const agent = defineAgent({ name: "agent", model: model(), tools: { work: fine } });
      const again = await finish(agent, { sessions: createSessions({ app: "app", store }), session });
      expect(again.outcome).toBe("answered");
    }
  });
});
