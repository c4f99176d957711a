// Errors in the code of an agent: the event of the step names the function and its line.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  memoryStore,
  refuse,
  scriptedModel,
  tool,
  type Callbacks,
  type Thrown,
} from "holdfast";
import { expect, test } from "vitest";
import type { EventOf } from "../../src/core/event.ts";
import { finish, logOf } from "./engine.ts";

const fail = (): never => {
  throw new TypeError("a bug");
};

const calling = scriptedModel([{ calls: [{ name: "look" }] }, "Done."]);
const look = tool({ description: "Look.", run: () => "seen" });

const inCallback = (name: string): RegExp =>
  new RegExp(`^${name} of agent support \\(tests/agent/thrown\\.test\\.ts:\\d+\\)$`);

async function failing(callbacks: Callbacks, more: Partial<Parameters<typeof defineAgent>[0]> = {}) {
  const agent = defineAgent({ name: "support", model: calling, tools: { look }, callbacks, ...more });
  const reported: Thrown[] = [];
  const sessions = createSessions({
    app: "app",
    agent,
    store: memoryStore(),
    onError: (error) => void reported.push(error),
  });
  const { session } = await sessions.open();
  await finish(agent, { sessions, session, message: "hi" });
  const log = await logOf(sessions, session);
  const event = log.findLast(({ type }) => type === "agent.failed" || type === "tools.answered");
  expect(await sessions.replay(session)).toMatchObject({ same: true });
  return { event, reported };
}

test.each(["beforeAgent", "beforeModel", "afterModel", "afterAgent"] as const)(
  "%s that throws is named in the message and in the place",
  async (name) => {
    const { event, reported } = await failing({ [name]: fail });
    const { error, thrown } = event as EventOf<"agent.failed">;
    expect(error).toEqual({ code: "callback_failed", message: `${name} of agent support failed: a bug` });
    expect(thrown?.place).toMatch(inCallback(name));
    expect(thrown?.error).toBe("TypeError: a bug");
    expect(reported).toEqual([thrown]);
  },
);

test("an instruction that throws is named like a callback", async () => {
  const { event } = await failing({}, { instruction: fail });
  expect((event as EventOf<"agent.failed">).error.message).toBe("instruction of agent support failed: a bug");
});

test.each(["beforeTool", "afterTool"] as const)(
  "%s that throws fails the call with its own message, and the event names the callback",
  async (name) => {
    const { event, reported } = await failing({ [name]: fail });
    const { failed, thrown, items } = event as EventOf<"tools.answered">;
    expect(failed).toEqual([{ call: "call_0_0", code: "tool_failed", message: "a bug" }]);
    expect(thrown?.[0]).toMatchObject({ call: "call_0_0", place: expect.stringMatching(inCallback(name)) as string });
    expect(JSON.stringify(items)).not.toContain("thrown.test");
    expect(reported).toHaveLength(1);
  },
);

test("a tool that throws has its line in the event, and not in what the model reads", async () => {
  const { event } = await failing({}, { tools: { look: tool({ description: "Look.", run: fail }) } });
  const { thrown, items } = event as EventOf<"tools.answered">;
  expect(thrown?.[0]?.place).toMatch(/^look \(tests\/agent\/thrown\.test\.ts:\d+\)$/);
  expect(thrown?.[0]?.stack).toContain("tests/agent/thrown.test.ts");
  expect(JSON.stringify(items)).not.toContain("thrown.test");
});

test("a tool of an environment has its place in the conversation, and its stack in the episode", async () => {
  const environment = defineEnvironment({
    name: "sights",
    tools: { look: tool({ description: "Look.", run: fail }) },
  });
  const episodes = createSessions({ environment, store: memoryStore() });
  const { event, reported } = await failing({}, { tools: {}, toolsets: [environmentTools(episodes)] });
  const { thrown } = event as EventOf<"tools.answered">;
  expect(thrown).toEqual([
    { call: "call_0_0", error: "TypeError: a bug", place: expect.stringMatching(/^look \(tests/) as string },
  ]);
  expect(reported).toEqual([]);
});

const decline = (): never => {
  throw refuse("out of stock");
};
const declines = tool({ description: "Look.", run: decline });
const shop = defineEnvironment({ name: "shop", tools: { look: declines } });
const ofShop = environmentTools(createSessions({ environment: shop, store: memoryStore() }));
const later = tool({ description: "Look.", concurrent: true, run: decline });

test.each([
  ["a tool", {}, { tools: { look: declines } }],
  ["a concurrent tool", {}, { tools: { look: later } }],
  ["a tool of an environment", {}, { tools: {}, toolsets: [ofShop] }],
  ["beforeTool", { beforeTool: decline }, {}],
  ["afterTool", { afterTool: decline }, {}],
] as [string, Callbacks, Parameters<typeof failing>[1]][])(
  "a refusal of %s is told to the model, and not reported as an error",
  async (_, callbacks, more) => {
    const { event, reported } = await failing(callbacks, more);
    const { failed, thrown, items } = event as EventOf<"tools.answered">;
    expect(failed).toEqual([{ call: "call_0_0", code: "tool_failed", message: "out of stock" }]);
    expect(items).toMatchObject([{ output: '{"error":{"code":"tool_failed","message":"out of stock"}}' }]);
    expect({ thrown, reported }).toEqual({ thrown: undefined, reported: [] });
  },
);

test.each(["beforeAgent", "beforeModel", "afterModel", "afterAgent"] as const)(
  "%s cannot refuse: its error fails the run",
  async (name) => {
    const { event, reported } = await failing({ [name]: decline });
    const message = `${name} of agent support failed: out of stock`;
    expect(event).toMatchObject({ type: "agent.failed", error: { code: "callback_failed", message } });
    expect(reported).toHaveLength(1);
  },
);
