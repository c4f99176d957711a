// Model calls of harnesses as events of an episode: what they store, and how conversations are told apart.
import {
  createSessions,
  defineEnvironment,
  HoldfastError,
  memoryStore,
  scriptedModel,
  tool as makeTool,
  type Item,
  type ModelRequest,
  type Sessions,
  type Store,
} from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { NumberedEvent } from "../../src/core/event.ts";
import { requestFields, requestItems } from "../../src/core/model-exchange.ts";
import { exchangesIn, lineItems, modelLines } from "../../src/core/model-lines.ts";
import { gate } from "../agent/engine.ts";
import { everyStore } from "../every-store.ts";
import { counter } from "../protocols/proxy-client.ts";

type Episodes = Sessions<typeof counter>;

const said = (role: "user" | "assistant" | "system", content: string): Item => ({ type: "message", role, content });
const tool = (name: string) => ({ type: "function" as const, name, parameters: {} });
let count = 0;
const model = scriptedModel(() => `answer ${++count}`);

const ask = async (sessions: Episodes, session: string, request: ModelRequest, options = {}): Promise<Item[]> => {
  const respond = (asked: ModelRequest) => model.respond(asked);
  const { response } = await sessions.askModel(session, request, { model: "m", respond, ...options });
  return response.output;
};

async function eventsOf(sessions: Episodes, session: string): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of sessions.events(session)) events.push(event);
  return events;
}

const linesOf = async (sessions: Episodes, session: string) => modelLines(await eventsOf(sessions, session), ["add"]);

for (const kind of everyStore) {
  describe(kind.name, () => {
    const open = async () => {
      const storage = await kind.open();
      onTestFinished(() => storage.dispose());
      const engine = (store: Store): Episodes => createSessions({ environment: counter, store, keepEnded: true });
      return { storage, engine, sessions: engine(storage.store) };
    };

    test(
      "GROWTH: a conversation of 40 requests stores each item once, also over a restart",
      { tags: kind.tags },
      async () => {
        const { storage, engine, sessions } = await open();
        const { session } = await sessions.open({ task: { goal: 0 } });
        const input = [said("user", "x".repeat(1_000))];
        const request = { instructions: "y".repeat(10_000), tools: [tool("add")] };
        let used = sessions;
        for (let turn = 0; turn < 40; turn++) {
          if (turn === 20) used = engine(await storage.reopen());
          input.push(...(await ask(used, session, { ...request, input })), said("user", `go on ${turn}`));
        }
        const events = await eventsOf(used, session);
        const sizes = exchangesIn(events).map((event) => JSON.stringify(event).length);
        expect(sizes[0]).toBeGreaterThan(11_000);
        expect(Math.max(...sizes.slice(1))).toBeLessThan(1_000);
        const { main, side, retries, find } = modelLines(events);
        expect([main.length, side.length, retries.length]).toEqual([40, 0, 0]);
        const last = main.at(-1)!;
        expect(requestItems(last, find).map((item) => item["content"])).toHaveLength(79);
        expect(requestFields(last, find)).toEqual(request);
      },
    );

    test(
      "FORK: a fork starts without the model calls of its parent, and asks on its own",
      { tags: kind.tags },
      async () => {
        const { sessions } = await open();
        const { session } = await sessions.open({ task: { goal: 2 } });
        await ask(sessions, session, { input: [said("user", "one")] });
        await sessions.call(session, "add", { by: 2 });
        const { session: child } = await sessions.fork(session);
        await ask(sessions, child, { input: [said("user", "one")] });
        expect((await linesOf(sessions, child)).main).toHaveLength(1);
        expect((await linesOf(sessions, session)).main).toHaveLength(1);
        expect(await sessions.verify(child)).toMatchObject({ reward: 1 });
        expect(await sessions.replay(child)).toMatchObject({ same: true });
      },
    );

    test(
      "PURE-VERIFY: a model call changes neither the state nor the judged version, and a verdict ends the asking",
      { tags: kind.tags },
      async () => {
        const { sessions } = await open();
        const { session } = await sessions.open({ task: { goal: 2 } });
        await sessions.call(session, "add", { by: 2 });
        const before = await sessions.verify(session, { version: 3 });
        const { session: other } = await sessions.open({ task: { goal: 2 } });
        await sessions.call(other, "add", { by: 2 });
        await ask(sessions, other, { input: [said("user", "one")] });
        expect(await sessions.verify(other)).toMatchObject({ reward: 1, version: before.version });
        await expect(ask(sessions, other, { input: [said("user", "two")] })).rejects.toMatchObject({
          code: "episode_over",
        });
      },
    );
  });
}

describe("conversations", () => {
  const [memory] = everyStore;
  const seeded = async () => {
    const storage = await memory!.open();
    const sessions = createSessions({ environment: counter, store: storage.store });
    return { sessions, session: (await sessions.open({ task: { goal: 0 } })).session };
  };
  const tools = [tool("task"), tool("add")];

  test("tell sub-agents and titles apart, although they come between", async () => {
    const { sessions, session } = await seeded();
    const prompt = said("user", "Count.");
    await ask(sessions, session, { instructions: "Write a title.", input: [prompt] });
    const main = [prompt, ...(await ask(sessions, session, { instructions: "Agent", tools, input: [prompt] }))];
    const sub = [said("user", "Look for it.")];
    for (let turn = 0; turn < 3; turn++) {
      sub.push(
        ...(await ask(sessions, session, { instructions: "Sub", tools: [tool("add")], input: sub })),
        said("user", "?"),
      );
    }
    main.push(said("user", "found"));
    main.push(...(await ask(sessions, session, { instructions: "Agent", tools, input: main })));
    const lines = await linesOf(sessions, session);
    expect([lines.main.length, lines.side.length, lines.retries.length]).toEqual([2, 4, 0]);
    expect(lineItems(lines)).toMatchObject({ input: [{ content: "Count." }], output: main.slice(1) });
  });

  test("follow a harness that shortens its history, and one that edits its last message", async () => {
    const { sessions, session } = await seeded();
    const long = [said("user", "Count.")];
    for (let turn = 0; turn < 2; turn++)
      long.push(...(await ask(sessions, session, { tools, input: long })), said("user", "go"));
    const short = [said("user", "Summary: counted twice.")];
    short.push(...(await ask(sessions, session, { tools, input: short })));
    const dropped = await ask(sessions, session, { tools, input: [...short, said("user", "draft")] });
    const kept = await ask(sessions, session, { tools, input: [...short, said("user", "final")] });
    const lines = await linesOf(sessions, session);
    expect(lines.main).toHaveLength(2);
    expect(lines.side).toHaveLength(3);
    const { output } = lineItems(lines);
    expect(output).toEqual([short[1], said("user", "final"), ...kept]);
    expect(output).not.toContainEqual(dropped[0]);
  });

  test("are told apart by the calls that the environment ran, whatever came first or last", async () => {
    const { sessions, session } = await seeded();
    const calling = scriptedModel([{ calls: [{ name: "mcp__counter__add", arguments: { by: 1 } }] }, "Done."]);
    const own = [tool("task"), tool("mcp__counter__add")];
    await ask(sessions, session, { tools: [tool("plan")], input: [said("user", "Plan it.")] });
    const main = [said("system", "You count."), said("user", "Count.")];
    const play = async () => {
      const respond = (asked: ModelRequest) => calling.respond(asked);
      main.push(...(await ask(sessions, session, { tools: own, input: main }, { respond })));
    };
    await play();
    // A harness may send its calls without their ids.
    await sessions.call(session, "add", { by: 1 });
    main.push({ type: "function_call_output", call_id: String(main.at(-1)?.["call_id"]), output: "1" });
    await play();
    await ask(sessions, session, { tools: own, input: [said("user", "Was it right?")] });
    const lines = await linesOf(sessions, session);
    expect(lineItems(lines)).toMatchObject({ input: main.slice(0, 2), output: main.slice(2) });
    expect([lines.main.length, lines.side.length, lines.isAmbiguous]).toEqual([2, 2, false]);
    // This may be the same conversation with a shorter history.
    await ask(sessions, session, { tools: own, input: [said("system", "You count."), said("user", "Go on.")] });
    const after = await linesOf(sessions, session);
    expect([after.main.length, after.isAmbiguous]).toEqual([2, true]);
  });

  /** Plays conversations that call `add`. */
  const playing = async () => {
    const { sessions, session } = await seeded();
    const calling = scriptedModel(() => ({ calls: [{ name: "add", arguments: { by: 1 } }] }));
    const start = (prompt: string) => {
      const items = [said("system", prompt), said("user", `Start ${++count}.`)];
      return {
        items,
        async turn(isLast = false) {
          const respond = (asked: ModelRequest) => (isLast ? model : calling).respond(asked);
          const [answer] = await ask(sessions, session, { tools, input: items }, { respond });
          items.push(answer!);
          if (isLast) return;
          const call = String(answer!["call_id"]);
          await sessions.call(session, "add", { by: 1 }, { call });
          items.push({ type: "function_call_output", call_id: call, output: "1" });
        },
      };
    };
    return { start, lines: () => linesOf(sessions, session) };
  };

  test("of a sub-agent that runs in the background and ends last are not the main one", async () => {
    const { start, lines } = await playing();
    const [main, watcher] = [start("Main"), start("Watcher")];
    await main.turn();
    await watcher.turn();
    await main.turn(true);
    await watcher.turn();
    await watcher.turn();
    await watcher.turn(true);
    const found = await lines();
    expect(lineItems(found).output).toEqual(main.items.slice(2));
    expect(found.isAmbiguous).toBe(true);
  });

  test("that were shortened are one conversation, also while a sub-agent runs", async () => {
    const { start, lines } = await playing();
    const [main, watcher, shorter, checker] = [start("Main"), start("Watcher"), start("Main"), start("Checker")];
    await main.turn();
    await watcher.turn();
    await main.turn();
    await shorter.turn();
    await watcher.turn(true);
    await shorter.turn(true);
    await checker.turn();
    await checker.turn();
    await checker.turn(true);
    expect(lineItems(await lines()).output).toEqual(shorter.items.slice(2));
  });

  test("end with the outputs of the calls that ran after the last answer", async () => {
    const { sessions, session } = await seeded();
    const call = (by: number) => ({ name: "mcp__counter__add", arguments: { by } });
    const calling = scriptedModel([{ calls: [call(1), call(1), call(2), { name: "add", arguments: {} }, call(9)] }]);
    const input = [said("user", "Count.")];
    const respond = (asked: ModelRequest) => calling.respond(asked);
    await sessions.call(session, "add", { by: 1 });
    const calls = await ask(sessions, session, { tools, input }, { respond });
    const ids = calls.map(({ call_id: id }) => String(id));
    await sessions.call(session, "add", { by: 2 }, { call: ids[2]! });
    // Without ids.
    await sessions.call(session, "add", { by: 1 });
    await sessions.call(session, "add", { by: 1 });
    await sessions.call(session, "add", {} as never, { call: ids[3]! });
    const output = (at: number, text: unknown) => ({ type: "function_call_output", call_id: ids[at], output: text });
    expect(lineItems(await linesOf(sessions, session)).output).toEqual([
      ...calls,
      output(0, '{"count":4}'),
      output(1, '{"count":5}'),
      output(2, '{"count":3}'),
      output(3, expect.stringContaining("by")),
    ]);
  });

  test("count a call with external effects that was sent without an id, and end with its output", async () => {
    const send = makeTool({ description: "Sends.", effects: "external", run: () => "sent" });
    const post = defineEnvironment({ name: "post", state: z.object({}), tools: { send }, verify: () => 1 });
    const sessions = createSessions({ environment: post, store: memoryStore() }) as unknown as Episodes;
    const { session } = await sessions.open({ task: { goal: 0 } });
    const sending = scriptedModel([{ calls: [{ name: "send" }] }]);
    const respond = (asked: ModelRequest) => sending.respond(asked);
    const [call] = await ask(sessions, session, { tools: [tool("send")], input: [said("user", "Send.")] }, { respond });
    await sessions.call(session, "send" as never, {} as never);
    const lines = modelLines(await eventsOf(sessions, session), ["send"]);
    const output = { type: "function_call_output", call_id: call?.["call_id"], output: "sent" };
    expect(lineItems(lines).output).toEqual([call, output]);
  });

  test("branch where a side request continues the same history: the branch with the most calls is the main one", async () => {
    const { sessions, session } = await seeded();
    const answers = [{ calls: [{ name: "add", arguments: { by: 1 } }] }, { calls: [{ name: "add" }] }, "Final."];
    const playing = scriptedModel(answers);
    const main = [said("user", "Count.")];
    const play = async () => {
      const respond = (asked: ModelRequest) => playing.respond(asked);
      const [answer] = await ask(sessions, session, { tools, input: main }, { respond });
      main.push(answer!);
      if (answer?.type !== "function_call") return;
      const call = String(answer["call_id"]);
      await sessions.call(session, "add", { by: 1 }, { call });
      main.push({ type: "function_call_output", call_id: call, output: "1" });
    };
    const addTitle = (items: Item[]) => ask(sessions, session, { input: [...items, said("user", "Write a title.")] });
    await play();
    const first = [...main];
    await play();
    await addTitle(first);
    expect(await linesOf(sessions, session)).toMatchObject({ main: { length: 2 }, isAmbiguous: false });
    const second = [...main];
    await play();
    await addTitle(second);
    const lines = await linesOf(sessions, session);
    expect(lineItems(lines).output).toEqual(main.slice(1));
    expect([lines.side.length, lines.isAmbiguous]).toEqual([2, true]);
  });

  test("without calls are told apart by the environment's tools", async () => {
    const { sessions, session } = await seeded();
    await ask(sessions, session, { tools: [tool("plan")], input: [said("user", "Plan it.")] });
    await ask(sessions, session, { tools: [tool("mcp__counter__add")], input: [said("user", "Count.")] });
    const lines = await linesOf(sessions, session);
    expect(lineItems(lines)).toMatchObject({ input: [{ content: "Count." }] });
    expect(lines.isAmbiguous).toBe(false);
  });

  test("start again after a rewind, with new call ids", async () => {
    const { sessions, session } = await seeded();
    const calling = scriptedModel([{ calls: [{ name: "add", arguments: { by: 1 } }] }]);
    const options = { respond: (asked: ModelRequest) => calling.respond(asked) };
    const request = { tools, input: [said("user", "Count.")] };
    const [first] = await ask(sessions, session, request, options);
    await sessions.call(session, "add", { by: 1 }, { call: String(first?.["call_id"]) });
    await sessions.rewind(session, 2);
    const [second] = await ask(sessions, session, request, { ...options, isRepeat: true });
    expect(second?.["call_id"]).not.toBe(first?.["call_id"]);
    await sessions.call(session, "add", { by: 1 }, { call: String(second?.["call_id"]) });
    expect(await sessions.state(session)).toEqual({ count: 1 });
    expect((await linesOf(sessions, session)).main).toHaveLength(1);
  });

  test("ONCE: the id of an answer that a rewind undid is refused, and returns no undone answer", async () => {
    const { sessions, session } = await seeded();
    const request = { input: [said("user", "Count.")] };
    await ask(sessions, session, request, { call: "k1" });
    await sessions.rewind(session, 2);
    await expect(ask(sessions, session, request, { call: "k1" })).rejects.toMatchObject({ code: "call_undone" });
    await ask(sessions, session, request, { call: "k2" });
    expect((await linesOf(sessions, session)).main).toHaveLength(1);
  });

  test("are limited in time: a running request is cancelled, and failed requests count", async () => {
    const { sessions, session } = await seeded();
    const over = { code: "limit_reached", detail: { limit: "seconds" } };
    const limits = { seconds: 0.2 };
    const input = [said("user", "Hi")];
    let cancelled: AbortSignal | undefined;
    const respond = (_: ModelRequest, signal: AbortSignal) => {
      cancelled = signal;
      return new Promise<never>(() => undefined);
    };
    const hanging = ask(sessions, session, { input }, { respond, limits });
    await expect(hanging).rejects.toMatchObject(over);
    expect(cancelled?.aborted).toBe(true);
    await expect(ask(sessions, session, { input }, { limits })).rejects.toMatchObject(over);
    const { session: other } = await sessions.open({ task: { goal: 0 } });
    const fail = { respond: () => Promise.reject(new HoldfastError("model_failed", "it is down")), limits };
    const failed = () => ask(sessions, other, { input }, fail).catch((thrown: unknown) => thrown);
    expect(await failed()).toMatchObject({ code: "model_failed" });
    await expect.poll(failed).toMatchObject(over);
    // A new episode has its own time.
    await sessions.seed(other, { goal: 0 });
    expect(await ask(sessions, other, { input }, { limits: { seconds: 60 } })).toHaveLength(1);
  });

  test.each([
    ["a verdict", "episode_over"],
    ["a new episode", "episode_ended"],
  ])("that run during %s are cancelled, because their answers would be refused", async (what, code) => {
    const { sessions, session } = await seeded();
    const { opened, open } = gate();
    let cancelled: AbortSignal | undefined;
    const respond = (_: ModelRequest, signal: AbortSignal) => {
      cancelled = signal;
      open();
      return new Promise<never>(() => undefined);
    };
    const asking = ask(sessions, session, { input: [said("user", "Hi")] }, { respond });
    const refused = expect(asking).rejects.toMatchObject({ code });
    await opened;
    await sessions.call(session, "add", { by: 1 });
    expect(cancelled?.aborted).toBe(false);
    await (what === "a verdict" ? sessions.verify(session) : sessions.seed(session, { goal: 0 }));
    await refused;
    expect(cancelled?.aborted).toBe(true);
  });

  test("ATOMIC: a model that fails or answers nonsense leaves no event", async () => {
    const { sessions, session } = await seeded();
    const input = [said("user", "Hi")];
    const fail = { respond: () => Promise.reject(new HoldfastError("model_failed", "it is down")) };
    await expect(ask(sessions, session, { input }, fail)).rejects.toMatchObject({ code: "model_failed" });
    const nonsense = { respond: () => Promise.resolve({ output: [{ type: "message" }], status: "completed" }) };
    await expect(ask(sessions, session, { input }, nonsense)).rejects.toMatchObject({ code: "model_failed" });
    await expect(ask(sessions, session, { input: [{ type: "message" }] })).rejects.toMatchObject({
      code: "invalid_option",
    });
    expect((await sessions.info(session)).version).toBe(2);
    const { session: unseeded } = await sessions.open();
    await expect(ask(sessions, unseeded, { input })).rejects.toMatchObject({ code: "session_unseeded" });
  });
});
