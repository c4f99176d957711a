// A model continues a session of an environment, and its calls are committed as they are made.
import { randomModel } from "../../src/models/random.ts";
import { scriptedModel, type Item, type Model, type ModelRequest } from "holdfast";
import { expect, test } from "vitest";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore, open } from "../session/engine.ts";
import { codeOf } from "../agent/engine.ts";
import { goingOnOf } from "./continuing.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];
const task = { start: 3, goal: 5 };
const { signal } = new AbortController();
const adding = (...by: number[]) => ({ calls: by.map((n) => ({ name: "add", arguments: { by: n } })) });
const adder = (): Model => scriptedModel([adding(2), "Done."]);

/** A model that is asked once, and the requests it received. */
function listener(): { model: Model; asked: ModelRequest[] } {
  const asked: ModelRequest[] = [];
  const model = scriptedModel((request) => {
    asked.push(request);
    return "I see.";
  });
  return { model, asked };
}

onEveryStore("a model continues an existing session, and its calls are in the log", async (place) => {
  const episodes = place.engine(counter);
  const { session } = await episodes.open({ task });
  const { play } = goingOnOf(episodes, { adder });
  const { items, ...rest } = await play(session, { model: "adder", signal });
  expect(rest).toEqual({ session, version: 3, outcome: "answered", steps: 2 });
  expect(items.map(({ type }) => type)).toEqual(["function_call", "function_call_output", "message"]);
  expect(await episodes.state(session)).toMatchObject({ count: 5 });
  expect((await episodes.verify(session)).reward).toBe(1);
});

onEveryStore("ONCE: a second play makes its calls again, with its own ids", async (place) => {
  const episodes = place.engine(counter);
  const { session } = await episodes.open({ task });
  const { play } = goingOnOf(episodes, { adder });
  // Both models give their calls the same ids, in conversations of the same length.
  for (const count of [5, 7]) {
    await play(session, { model: "adder", signal });
    expect(await episodes.state(session)).toMatchObject({ count });
  }
  const calls: unknown[] = [];
  for await (const event of episodes.events(session)) if (event.type === "tool.called") calls.push(event.call);
  expect(new Set(calls).size).toBe(2);
});

test("RESERVED: a continuing model cannot reach lifecycle verbs by the names of tools", async () => {
  const episodes = (await open(memory)).engine(counter);
  const { session } = await episodes.open({ task });
  const names = ["seed", "seed_session", "verify", "close_session", "fork", "rewind"];
  const calls = names.map((name) => ({ name, arguments: { task: { start: 5, goal: 5 }, version: 1 } }));
  const { play } = goingOnOf(episodes, { sly: () => scriptedModel([{ calls }, "Done."]) });
  const { version, items } = await play(session, { model: "sly", signal });
  expect(version).toBe(2);
  const told = items.flatMap((item) => (item.type === "function_call_output" ? String(item["output"]) : []));
  expect(told).toHaveLength(names.length);
  for (const text of told) expect(text).toContain("unknown_tool");
});

test("the model receives the task, the user's message, or the conversation so far", async () => {
  const episodes = (await open(memory)).engine(counter);
  const { session } = await episodes.open({ task });
  const { model, asked } = listener();
  const { play } = goingOnOf(episodes, { listener: () => model });
  const call = { type: "function_call", call_id: "c", name: "add", arguments: '{"by":1}' };
  const conversation: Item[] = [
    { type: "message", role: "user", content: "Hello." },
    call as Item,
    { type: "function_call_output", call_id: "c", output: "{}" },
  ];
  const untyped = [{ role: "user", content: "Hello." }, ...conversation.slice(1)];
  for (const input of [undefined, "Go on.", conversation, untyped]) {
    await play(session, { model: "listener", input, signal });
  }
  const said = (content: string) => [{ type: "message", role: "user", content }];
  expect(asked.map(({ input }) => input)).toMatchObject([
    said(JSON.stringify(task)),
    said("Go on."),
    conversation,
    conversation,
  ]);
  expect(asked[0]?.tools?.map(({ name }) => name)).toContain("add");
});

test("it stops after 20 answers, or after the given limit", async () => {
  const episodes = (await open(memory)).engine(counter);
  const { session } = await episodes.open({ task });
  const { play } = goingOnOf(episodes, { endless: () => scriptedModel(() => adding(1)) });
  expect(await play(session, { model: "endless", signal })).toMatchObject({ outcome: "steps", steps: 20, version: 22 });
  const two = { model: "endless", maxSteps: 2, signal };
  expect(await play(session, two)).toMatchObject({ outcome: "steps", steps: 2, version: 24 });
});

test("a model failure is an outcome with its reason, and its calls stay applied", async () => {
  const episodes = (await open(memory)).engine(counter);
  const { session } = await episodes.open({ task });
  const { play } = goingOnOf(episodes, { short: () => scriptedModel([adding(1)]) });
  const played = await play(session, { model: "short", signal });
  expect(played).toMatchObject({ outcome: "failed", steps: 1, version: 3, error: { code: "model_exhausted" } });
});

test("a cancelled play ends at once, and its calls stay applied", async () => {
  const episodes = (await open(memory)).engine(counter);
  const { session } = await episodes.open({ task });
  const leaving = new AbortController();
  const deaf: Model = {
    name: "deaf",
    respond: async (request, options) => {
      if (request.input.length === 1) return adder().respond(request, options);
      leaving.abort();
      return new Promise<never>(() => undefined);
    },
  };
  const { play } = goingOnOf(episodes, { deaf: () => deaf });
  expect(await codeOf(play(session, { model: "deaf", signal: leaving.signal }))).toBe("run_cancelled");
  expect(await episodes.info(session)).toMatchObject({ version: 3 });
});

test("closing the session ends the play, because the model cannot help it", async () => {
  const episodes = (await open(memory)).engine(counter, { keepEnded: true });
  const { session } = await episodes.open({ task });
  const closing = scriptedModel(async () => {
    await episodes.close(session);
    return adding(1);
  });
  const { play } = goingOnOf(episodes, { closing: () => closing });
  expect(await codeOf(play(session, { model: "closing", signal }))).toBe("session_closed");
});

test("an invalid play is refused, and nothing is called", async () => {
  const episodes = (await open(memory)).engine(counter, { keepEnded: true });
  const { play, models } = goingOnOf(episodes, { adder, random: () => randomModel() });
  expect(models).toEqual(["adder", "random"]);
  const { session } = await episodes.open({ task });
  const { session: unseeded } = await episodes.open();
  const { session: ended } = await episodes.open({ task });
  await episodes.close(ended);
  const refused = (id: string, options: object) => codeOf(play(id, { model: "adder", signal, ...options }));
  expect(await refused(session, { model: "nobody" })).toBe("invalid_option");
  for (const input of [[], [3], [{ role: "nobody", content: "x" }], [{ type: "function_call" }]]) {
    expect(await refused(session, { input }), JSON.stringify(input)).toBe("invalid_option");
  }
  expect(await refused(unseeded, {})).toBe("invalid_option");
  expect(await refused(ended, {})).toBe("session_closed");
  expect(await refused("nobody", {})).toBe("session_not_found");
  expect(await episodes.info(session)).toMatchObject({ version: 2 });
  // A session without a task can be played too, if the model gets an input.
  expect(await play(unseeded, { model: "adder", input: "Add 2.", signal })).toMatchObject({ outcome: "answered" });
});
