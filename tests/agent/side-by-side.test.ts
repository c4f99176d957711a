// Parallel calls of one answer: their callbacks lose no update, and have an order that a replay repeats.
import { setTimeout as sleep } from "node:timers/promises";
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  memoryStore,
  scriptedModel,
  tool,
  type Agent,
  type Conversations,
  type AgentState,
  type Callbacks,
  type Toolset,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { finish, plain, type Committed } from "./engine.ts";

const engine = (): Conversations => createSessions({ app: "app", store: memoryStore() });
const count = (state: AgentState, key: string): void => void (state[key] = (state[key] ?? 0) + 1);
const calls = (length: number) => ({ calls: Array.from({ length }, () => ({ name: "work" })) });

/** A tool in a new environment. */
function inEnvironment(): Toolset {
  const work = tool({ description: "Works.", run: () => new Promise((resolve) => setImmediate(resolve)) });
  const environment = defineEnvironment({ name: "env", state: z.object({}), tools: { work } });
  return environmentTools(createSessions({ environment, store: memoryStore() }));
}

const pause = (): Promise<void> => sleep(Math.random() * 5);
const aside = () => tool<AgentState, undefined>({ description: "Works.", concurrent: true, run: pause });

type With = Pick<Parameters<typeof defineAgent>[0], "tools" | "toolsets">;
const kinds: [string, () => With][] = [
  ["tools that only change the state", () => ({ tools: { work: tool({ description: "Works.", run: pause }) } })],
  ["concurrent tools", () => ({ tools: { work: aside() } })],
  ["external tools", () => ({ tools: { work: tool({ description: "", effects: "external", run: pause }) } })],
  ["tools of an environment", () => ({ toolsets: [inEnvironment()] })],
];

describe.each(kinds)("callbacks around %s", (_, made) => {
  const agentWith = (length: number, callbacks: Callbacks): Agent =>
    defineAgent({ name: "agent", model: scriptedModel([calls(length), "Done."]), ...made(), callbacks });

  test("SERIAL: count every call, in every scope", async () => {
    const sessions = engine();
    const keys = ["n", "user:n", "app:n", "temp:n"];
    let last: AgentState = {};
    const agent = agentWith(5, {
      beforeTool: ({ state }) => keys.forEach((key) => count(state, key)),
      afterTool: async ({ state, update }) => {
        await pause();
        for (const key of keys) update(key, (n) => n + 1);
        (state["list"] ??= []).push(state["n"]);
        last = plain(state);
      },
    });
    const { session, events } = await finish(agent, { sessions, message: "go" });
    expect(last).toMatchObject({ n: 10, "user:n": 10, "app:n": 10, "temp:n": 10 });
    expect(await sessions.state(session)).toMatchObject({ n: 10, "user:n": 10, "app:n": 10 });
    expect((await sessions.state(session))["list"]).toHaveLength(5);
    for (const event of events) expect(event).not.toHaveProperty("overwrote");
  });

  test("let as many calls through as a budget allows", async () => {
    for (const key of ["spent", "temp:spent", "user:spent"]) {
      const sessions = engine();
      const agent = agentWith(5, {
        beforeTool: async ({ state }) => {
          await pause();
          if ((state[key] ?? 0) >= 3) return "over budget";
          count(state, key);
          return undefined;
        },
      });
      const { events } = await finish(agent, { sessions, message: "go" });
      const answered = (events as Committed[]).find((event) => event.type === "tools.answered");
      const refused = answered?.items.filter((item) => "output" in item && item.output === "over budget");
      expect(refused).toHaveLength(2);
      expect(answered?.items).toHaveLength(5);
    }
  });

  test("run one at a time, in the order of the calls", async () => {
    const order: string[] = [];
    let running = 0;
    const hook = (name: string) => async (_context: unknown, call: { call: string }) => {
      expect(++running).toBe(1);
      await pause();
      running--;
      order.push(`${name} ${call.call}`);
    };
    await finish(agentWith(4, { beforeTool: hook("before"), afterTool: hook("after") }), {
      sessions: engine(),
      message: "go",
    });
    const of = (name: string): string[] => order.filter((one) => one.startsWith(name));
    for (const name of ["before", "after"]) expect(of(name)).toEqual([0, 1, 2, 3].map((n) => `${name} call_0_${n}`));
  });
});

test("a call that fails drops its own writes and no others", async () => {
  const sessions = engine();
  const work = tool<AgentState, undefined>({
    description: "Works.",
    concurrent: true,
    run: async ({ call, update }) => {
      await pause();
      update("worked", (worked = []) => [...worked, call]);
      if (call === "call_0_1") throw new Error("no");
    },
  });
  const agent = defineAgent({
    name: "agent",
    model: scriptedModel([calls(4), "Done."]),
    tools: { work },
    callbacks: {
      beforeTool: ({ state, update }, { call }) => {
        state[`before ${call}`] = true;
        (state["pushed"] ??= []).push(call);
        update("updated", (updated = 0) => updated + 1);
      },
    },
  });
  const { session } = await finish(agent, { sessions, message: "go" });
  const others = ["call_0_0", "call_0_2", "call_0_3"];
  expect(await sessions.state(session)).toEqual({
    ...Object.fromEntries(others.map((call) => [`before ${call}`, true])),
    pushed: others,
    updated: 3,
    worked: others,
  });
});

test("writes to an object of a failed call are dropped, and the event says so", async () => {
  const sessions = engine();
  const agent = defineAgent({
    name: "agent",
    model: scriptedModel([
      { calls: [{ name: "fails" }, { name: "aside" }, { name: "own" }, { name: "fine" }] },
      "Done.",
    ]),
    tools: {
      fails: tool<AgentState, undefined>({
        description: "",
        concurrent: true,
        run: async () => {
          await pause();
          throw new Error("no");
        },
      }),
      aside: aside(),
      own: tool<AgentState, undefined>({ description: "", run: ({ state }) => (state["made"].own = true) }),
      fine: tool<AgentState, undefined>({ description: "", run: ({ state }) => (state["fine"] = true) }),
    },
    callbacks: {
      beforeTool: ({ state }, { tool: name }) => {
        if (name === "fails") state["made"] = {};
        if (name === "aside") state["made"].aside = true;
      },
    },
  });
  const { session, events } = await finish(agent, { sessions, message: "go" });
  expect(await sessions.state(session)).toEqual({ fine: true });
  const answered = (events as Committed[]).find((event) => event.type === "tools.answered");
  expect(answered).toMatchObject({
    failed: [
      { call: "call_0_0", code: "tool_failed" },
      { call: "call_0_2", code: "state_conflict" },
    ],
    refused: [{ call: "call_0_1", path: "/made" }],
  });
});

test("a slow beforeTool delays the calls after it, while earlier handlers continue", async () => {
  const sessions = engine();
  let [running, most] = [0, 0];
  const work = tool<AgentState, undefined>({
    description: "Works.",
    concurrent: true,
    run: async () => {
      most = Math.max(most, ++running);
      await sleep(100);
      running--;
    },
  });
  const agent = defineAgent({
    name: "agent",
    model: scriptedModel([calls(64), "Done."]),
    tools: { work },
    callbacks: { beforeTool: () => sleep(1) as Promise<undefined> },
  });
  expect((await finish(agent, { sessions, message: "go" })).outcome).toBe("answered");
  expect(most).toBeGreaterThan(10);
});

test("REPLAY: calls with different durations replay the same, whatever they write", async () => {
  const make = (): Agent => {
    const work = tool<AgentState, undefined>({
      description: "Works.",
      concurrent: true,
      run: async ({ call, state, update, random }) => {
        await sleep(random() < 0.5 ? Math.random() * 10 : 0);
        update((now) => void (now["order"] = `${now["order"]} ${call}:${state["n"]}`));
      },
    });
    const own = tool<AgentState, undefined>({
      description: "Works.",
      run: ({ state, call }) => void (state["order"] += ` ${call}!`),
    });
    const mixed = { calls: ["work", "work", "own", "work", "own"].map((name) => ({ name })) };
    return defineAgent({
      name: "agent",
      model: scriptedModel([mixed, calls(3), "Done."]),
      tools: { work, own },
      callbacks: {
        beforeTool: ({ state }, { call }) => {
          state["n"]++;
          state["order"] += ` <${call}`;
        },
        afterTool: async ({ state }, { call }) => {
          await pause();
          state["order"] += ` ${call}>`;
        },
      },
    });
  };
  const sessions = engine();
  const { session } = await sessions.open({ state: { order: "", n: 0 } });
  await finish(make(), { sessions, session, message: "go" });
  for (let time = 0; time < 5; time++) {
    const result = await sessions.replay(session, { agent: make() });
    expect(result, result.same ? "" : result.message).toMatchObject({ same: true });
  }
});
