// environmentTools: an agent plays an environment, one episode per conversation, and no call is made twice.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  memoryStore,
  parallel,
  run,
  scriptedModel,
  tool,
  type Agent,
  type AgentState,
  type Json,
  type Model,
  type NumberedEvent,
} from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { environmentTools } from "../../src/agent/environment-tools.ts";
import { codeOf, finish, onEveryStore } from "./engine.ts";

const tally = defineEnvironment({
  name: "tally",
  state: z.object({ count: z.number().default(0), order: z.array(z.number()).default([]) }),
  task: z.object({ start: z.number(), goal: z.number().optional() }),
  seed: ({ task }) => ({ count: task.start, order: [] }),
  tools: {
    add: tool({
      description: "Add to the count.",
      input: z.object({ by: z.number() }),
      run: async ({ state }, { by }) => {
        await new Promise((resolve) => setImmediate(resolve));
        state.count += by;
        state.order.push(by);
        return { count: state.count };
      },
    }),
    refuse: tool({
      description: "Never works.",
      run: () => {
        throw new Error("not today");
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});

const adding = (...by: Json[]) => ({ calls: by.map((n) => ({ name: "add", arguments: { by: n } })) });

const agentWith = (model: Model, toolset: ReturnType<typeof environmentTools>, name = "player"): Agent =>
  defineAgent({ name, model, toolsets: [toolset] });

const outputs = (events: { type: string; items?: unknown }[]): unknown[] =>
  events
    .flatMap(({ type, items }) => (type === "tools.answered" ? (items as { output: string }[]) : []))
    .map(({ output }) => JSON.parse(output) as unknown);

onEveryStore(
  "an agent plays one episode in one conversation, seeded with its task, and it can be verified",
  async (place) => {
    const sessions = place.engine();
    const episodes = createSessions({ environment: tally, store: place.storage.store });
    const agent = agentWith(
      scriptedModel([adding(1, 2, 3), "Six more.", adding(4), "Done."]),
      environmentTools(episodes),
    );
    const { session } = await sessions.open({ state: { task: { start: 10, goal: 20 } } });
    const first = await finish(agent, { sessions, session, message: "go" });
    expect(outputs(first.events)).toEqual([{ count: 11 }, { count: 13 }, { count: 16 }]);
    const state = await sessions.state(session);
    await finish(agent, { sessions: place.engine(), session, message: "more" });
    const episode = (await sessions.state(session))["environment:tally"] as string;
    expect(episode).toBe(state["environment:tally"]);
    // In the order of the calls, although they run in parallel.
    expect(await episodes.state(episode)).toEqual({ count: 20, order: [1, 2, 3, 4] });
    expect(await episodes.verify(episode)).toMatchObject({ reward: 1 });
    const other = await sessions.open({ state: { task: { start: 0 } } });
    await finish(agent, { sessions, session: other.session, message: "go" });
    expect((await sessions.state(other.session))["environment:tally"]).not.toBe(episode);
    await episodes.stop();
  },
);

test("the model is shown the schemas, and reads errors; the episode continues", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const episodes = createSessions({ environment: tally, store: memoryStore() });
  const seen: unknown[] = [];
  const model = scriptedModel((request, turn) => {
    seen.push(request.tools);
    return [adding("one"), { calls: [{ name: "refuse" }, { name: "lost" }] }, adding(1), "Done."][turn];
  });
  const agent = agentWith(model, environmentTools(episodes));
  const { session } = await sessions.open();
  const { events } = await finish(agent, { sessions, session, message: "go" });
  expect(seen[0]).toMatchObject([
    { type: "function", name: "add", description: "Add to the count.", parameters: { required: ["by"] } },
    { type: "function", name: "refuse", parameters: { type: "object", properties: {} } },
  ]);
  const failed = events.flatMap((event) => (event.type === "tools.answered" ? (event.failed ?? []) : []));
  expect(failed.map(({ code }) => code)).toEqual(["invalid_input", "tool_failed", "unknown_tool"]);
  expect(failed[1]?.message).toBe("not today");
  // Not seeded, since there is no task: the defaults.
  expect(outputs(events).at(-1)).toEqual({ count: 1 });
  const listed: unknown[] = [];
  for await (const one of episodes.list()) listed.push(one);
  expect(listed).toHaveLength(1);
});

test("the task can come from anywhere, and an invalid one is reported", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const episodes = createSessions({ environment: tally, store: memoryStore() });
  const task = ({ state, user }: { state: AgentState; user: string }) => state["wanted"]?.[user] as unknown;
  const agent = agentWith(scriptedModel([adding(1), "Done."]), environmentTools(episodes, { task }));
  const { session } = await sessions.open({ user: "ann", state: { wanted: { ann: { start: 5 } } } });
  expect(outputs((await finish(agent, { sessions, session, message: "go" })).events)).toEqual([{ count: 6 }]);
  const { session: wrong } = await sessions.open({ user: "bob", state: { wanted: { bob: { start: "five" } } } });
  const { events } = await finish(agent, { sessions, session: wrong, message: "go" });
  expect(outputs(events)).toMatchObject([{ error: { code: "invalid_task" } }]);
});

test("ONCE: interrupted after a call and before its result was stored, it is not made again", async () => {
  for (const stop of [1, 2]) {
    const store = memoryStore();
    const sessions = createSessions({ app: "app", store });
    const episodes = createSessions({ environment: tally, store });
    const tools = environmentTools(episodes);
    let calls = 0;
    const cut = new AbortController();
    const cutting = {
      ...tools,
      call: async (...given: Parameters<typeof tools.call>) => {
        const output = await tools.call(...given);
        if (++calls === stop) cut.abort();
        return output;
      },
    };
    const model = scriptedModel([adding(1), adding(10), "Done."]);
    const { session } = await sessions.open({ state: { task: { start: 0 } } });
    const running = finish(agentWith(model, cutting), { sessions, session, message: "go", signal: cut.signal });
    expect(await codeOf(running)).toBe("run_cancelled");
    const { events } = await finish(agentWith(model, tools), { sessions, session });
    const episode = (await sessions.state(session))["environment:tally"] as string;
    expect(await episodes.state(episode)).toEqual({ count: 11, order: [1, 10] });
    expect(outputs(events).at(-1)).toEqual({ count: 11 });
    const log: NumberedEvent[] = [];
    for await (const event of episodes.events(episode)) log.push(event);
    expect(log.filter(({ type }) => type === "tool.called")).toHaveLength(2);
  }
});

test("calls with the same id from a model are different calls", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const episodes = createSessions({ environment: tally, store: memoryStore() });
  const tools = environmentTools(episodes, { task: () => ({ start: 0 }) });
  // Every answer has the same id, as from some servers.
  const call = { type: "function_call", call_id: "call_0", name: "add", arguments: '{"by":1}' } as const;
  const careless = scriptedModel((_, turn) => (turn < 3 ? { output: [call] } : "Done."));
  const team = parallel({ name: "team", agents: ["a", "b"].map((name) => agentWith(careless, tools, name)) });
  const { session } = await sessions.open();
  await finish(team, { sessions, session, message: "go" });
  const episode = (await sessions.state(session))["environment:tally"] as string;
  expect(await episodes.state(episode)).toMatchObject({ count: 6 });
});

test("SCORED: calls of many parallel agents wait while the episode's queue is full", async () => {
  const store = memoryStore();
  const episodes = createSessions({ environment: tally, store });
  const sessions = createSessions({ app: "games", store });
  const ones = scriptedModel([adding(...Array.from({ length: 64 }, () => 1)), "Done."]);
  const agents = Array.from({ length: 10 }, (_, at) => agentWith(ones, environmentTools(episodes), `player${at}`));
  const { session } = await sessions.open({ state: { task: { start: 0, goal: 640 } } });
  const { events } = await finish(parallel({ name: "crowd", agents }), { sessions, session, message: "Go." });
  expect(events.filter((event) => "failed" in event)).toEqual([]);
  const episode = String((await sessions.state(session))["environment:tally"]);
  expect(await episodes.verify(episode)).toMatchObject({ reward: 1 });
});

test("REPLAY: a replay plays a new episode, and leaves the recorded one unchanged", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const episodes = createSessions({ environment: tally, store: memoryStore() });
  const agent = agentWith(scriptedModel([adding(1, 2), "Done.", adding(3), "Done."]), environmentTools(episodes));
  const { session } = await sessions.open({ state: { task: { start: 1 } } });
  for (const message of ["go", "more"]) for await (const _ of run(agent, { sessions, session, message })) continue;
  const episode = (await sessions.state(session))["environment:tally"] as string;
  const { version } = await episodes.info(episode);
  const { version: events } = await sessions.info(session);
  expect(await sessions.replay(session, { agent })).toEqual({ same: true, events });
  expect((await episodes.info(episode)).version).toBe(version);
});

test("a rewind to before the episode was opened starts another", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const episodes = createSessions({ environment: tally, store: memoryStore() });
  const agent = agentWith(scriptedModel([adding(1), "Done."]), environmentTools(episodes));
  const { session } = await sessions.open({ state: { task: { start: 0 } } });
  const { invocation } = await finish(agent, { sessions, session, message: "go" });
  await sessions.rewind(session, { before: invocation });
  const { events } = await finish(agent, { sessions, session, message: "go" });
  expect(outputs(events)).toEqual([{ count: 1 }]);
});

onEveryStore("FORK: a forked conversation plays its own episode, from the calls that it had", async (place) => {
  const sessions = place.engine();
  const episodes = createSessions({ environment: tally, store: place.storage.store });
  const model = scriptedModel(({ input }) => (input.at(-1)?.type === "message" ? adding(1) : "Added."));
  const agent = agentWith(model, environmentTools(episodes));
  const say = (session: string) => finish(agent, { sessions, session, message: "add" });
  const { session } = await sessions.open({ state: { task: { start: 0 } } });
  await say(session);
  const first = await sessions.info(session);
  await say(session);
  const early = await sessions.fork(session, { version: first.version });
  const late = await sessions.fork(session);
  await say(session);
  await say(early.session);
  const again = await sessions.fork(early.session);
  await say(again.session);
  await say(late.session);
  const counts: unknown[] = [];
  for (const id of [session, early.session, late.session, again.session]) {
    const { "environment:tally": episode } = await sessions.state(id);
    counts.push(((await episodes.state(episode as string)) as { count: number }).count);
  }
  expect(counts).toEqual([3, 2, 3, 3]);
});
