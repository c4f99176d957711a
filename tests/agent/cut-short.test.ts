// Steps that are stopped in the middle, or run in parallel: nothing hangs, starts too late, or is lost.
import {
  createSessions,
  defineAgent,
  memoryStore,
  parallel,
  run,
  scriptedModel,
  tool,
  type Conversations,
  type AgentState,
} from "holdfast";
import { expect, test } from "vitest";
import { codeOf, finish, logOf, stepsOf, typesOf } from "./engine.ts";

const engine = (): Conversations => createSessions({ app: "app", store: memoryStore() });
const calls = (...names: string[]) => ({ calls: names.map((name) => ({ name })) });

function sender(effects: string[]) {
  return defineAgent({
    name: "sender",
    model: scriptedModel([calls("send"), "Done."]),
    tools: {
      send: tool({
        description: "Touches the world.",
        effects: "external",
        run: ({ call }) => {
          effects.push(call as string);
          return "sent";
        },
      }),
    },
  });
}

test("a reader that stops reading ends the run at that event, and the session can be resumed", async () => {
  for (const last of ["invocation.began", "model.answered", "tools.started", "tools.answered"]) {
    const effects: string[] = [];
    const agent = sender(effects);
    const sessions = engine();
    const { session } = await sessions.open();
    for await (const event of run(agent, { sessions, session, message: "go" })) if (event.type === last) break;
    expect(typesOf(await stepsOf(sessions, session)).at(-1)).toBe(last);
    expect(effects).toHaveLength(last === "tools.answered" ? 1 : 0);
    const { outcome } = await finish(agent, { sessions, session });
    expect(outcome).toBe("answered");
    // After the started event, the outcome is unknown.
    expect(effects).toHaveLength(last === "tools.started" ? 0 : 1);
  }
});

test("a run that is aborted after an answer starts none of its calls", async () => {
  const effects: string[] = [];
  const sessions = engine();
  const { session } = await sessions.open();
  const stop = new AbortController();
  const look = (event: { type: string }): void => {
    if (event.type === "model.answered") stop.abort();
  };
  const running = finish(sender(effects), { sessions, session, message: "go", signal: stop.signal }, look);
  expect(await codeOf(running)).toBe("run_cancelled");
  expect(effects).toEqual([]);
  expect(typesOf(await stepsOf(sessions, session)).at(-1)).toBe("model.answered");
});

test("an abort during parallel and serial calls fails the run, and nothing else", async () => {
  const failures: unknown[] = [];
  const catchFailure = (thrown: unknown): void => void failures.push(thrown);
  process.on("unhandledRejection", catchFailure);
  const hang = () => new Promise(() => undefined);
  const agent = defineAgent({
    name: "hanging",
    model: scriptedModel([calls("beside", "inTurn"), "Done."]),
    tools: {
      beside: tool({ description: "Hangs.", concurrent: true, run: hang }),
      inTurn: tool({ description: "Hangs.", run: hang }),
    },
  });
  const running = finish(agent, { sessions: engine(), message: "go", signal: AbortSignal.timeout(30) });
  expect(await codeOf(running)).toBe("run_cancelled");
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off("unhandledRejection", catchFailure);
  expect(failures).toEqual([]);
});

test("an agent used as a tool commits nothing after the outer run was aborted", async () => {
  const stop = new AbortController();
  const child = defineAgent({
    name: "child",
    model: scriptedModel(async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return "late";
    }),
    callbacks: { afterAgent: () => new Promise((resolve) => setTimeout(resolve, 10)) },
  });
  const agent = defineAgent({
    name: "parent",
    model: scriptedModel([{ calls: [{ name: "child", arguments: { request: "go" } }, { name: "stop" }] }, "Done."]),
    tools: {
      child,
      stop: tool({ description: "Stops.", run: () => stop.abort() }),
    },
  });
  const sessions = engine();
  const { session } = await sessions.open();
  expect(await codeOf(finish(agent, { sessions, session, message: "go", signal: stop.signal }))).toBe("run_cancelled");
  const { version } = await sessions.info(session);
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect((await sessions.info(session)).version).toBe(version);
});

test("all queued updates of parallel agents are applied", async () => {
  const counting = tool({
    description: "Counts.",
    concurrent: true,
    run: async ({ update }: { update(change: (state: AgentState) => void): void }) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      update((state) => void (state["count"] = (state["count"] ?? 0) + 1));
    },
  });
  const model = scriptedModel([calls("counting", "counting"), calls("counting"), "Done."]);
  const agents = ["a", "b", "c"].map((name) => defineAgent({ name, model, tools: { counting } }));
  // Slow commits, so that each one conflicts with another.
  const store = memoryStore();
  const append: typeof store.append = async (...commits) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return store.append(...commits);
  };
  const sessions = createSessions({ app: "app", store: { ...store, append } });
  const { session } = await sessions.open();
  await finish(parallel({ name: "all", agents }), { sessions, session, message: "go" });
  expect(await sessions.state(session)).toEqual({ count: 9 });
});

test("tools get randomness and time that follow from the log", async () => {
  const seen: unknown[] = [];
  const agent = defineAgent({
    name: "gambler",
    model: scriptedModel([calls("roll", "roll"), calls("roll"), "Done."]),
    tools: { roll: tool({ description: "Rolls.", run: ({ random, now }) => [random(), random(), now()] }) },
    callbacks: { afterTool: (_, { output }) => void seen.push(output) },
  });
  const sessions = engine();
  const { session } = await sessions.open();
  await finish(agent, { sessions, session, message: "go" });
  const numbers = (seen as number[][]).flatMap(([a, b]) => [a, b]);
  expect(new Set(numbers).size).toBe(6);
  const answers = (await logOf(sessions, session)).filter(({ type }) => type === "model.answered");
  expect((seen as number[][]).map((one) => one[2])).toEqual([answers[0]?.at, answers[0]?.at, answers[1]?.at]);
});
