// run() throws the failure that ended it, after all its events; ask() returns the answer of a run.
import {
  answerText,
  ask,
  createSessions,
  defineAgent,
  HoldfastError,
  isHoldfastError,
  memoryStore,
  run,
  scriptedModel,
  tool,
  type Model,
} from "holdfast";
import { expect, test } from "vitest";
import { codeOf } from "./engine.ts";

const refused = new HoldfastError("model_refused", "the key is wrong");
const refusing: Model = { name: "refusing", respond: () => Promise.reject(refused) };
const agent = defineAgent({ name: "greeter", model: refusing });

const opened = async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  return { sessions, session: (await sessions.open()).session };
};

const thrownBy = (work: Promise<unknown>): Promise<HoldfastError> =>
  work.then(
    () => expect.fail("nothing was thrown"),
    (thrown: unknown) => (isHoldfastError(thrown) ? thrown : expect.fail(String(thrown))),
  );

test("run yields every event of a failed run, then throws the failure with its cause", async () => {
  const { sessions, session } = await opened();
  const types: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const { type } of run(agent, { sessions, session, message: "hi" })) types.push(type);
  };
  const thrown = await thrownBy(reading());
  expect(types).toEqual(["invocation.began", "agent.failed"]);
  expect(thrown).toMatchObject({ code: "model_refused", message: "the key is wrong", cause: refused });
  expect(thrown.detail).toMatchObject({ session, agent: "greeter" });
});

test("the error of a callback is the cause of the failure", async () => {
  const bug = new TypeError("x is undefined");
  const broken = defineAgent({
    name: "broken",
    model: scriptedModel(["Hello."]),
    callbacks: {
      beforeModel: () => {
        throw bug;
      },
    },
  });
  const thrown = await thrownBy(ask(broken, { message: "hi" }));
  expect(thrown.code).toBe("callback_failed");
  expect((thrown.cause as HoldfastError).cause).toBe(bug);
});

test("with throwOnFailure: false a failure is an outcome with its reason", async () => {
  const { sessions, session } = await opened();
  const result = await ask(agent, { sessions, session, message: "hi", throwOnFailure: false });
  expect(result).toMatchObject({
    outcome: "failed",
    error: { code: "model_refused", message: "the key is wrong" },
    text: "",
  });
  expect(result).not.toHaveProperty("failure");
});

test("a reached limit is an outcome, and a cancelled run throws", async () => {
  const looping = defineAgent({
    name: "looping",
    model: scriptedModel(() => ({ calls: [{ name: "more" }] })),
    tools: { more: tool({ description: "More.", run: () => "more" }) },
    limits: { steps: 2 },
  });
  expect((await ask(looping, { message: "go" })).outcome).toBe("steps");
  const cancelled = ask(looping, { message: "go", throwOnFailure: false, signal: AbortSignal.abort() });
  expect(await codeOf(cancelled)).toBe("run_cancelled");
});

test("ask returns the last words, the outcome and all events", async () => {
  const { sessions, session } = await opened();
  const helper = defineAgent({ name: "helper", model: scriptedModel(["Words for the caller."]) });
  const talking = defineAgent({
    name: "talking",
    model: scriptedModel([{ text: "Let me look.", calls: [{ name: "look", arguments: { request: "x" } }] }, "Found."]),
    tools: { look: helper },
  });
  const { text, outcome, events, repeated } = await ask(talking, { sessions, session, message: "hi", call: "c1" });
  expect({ text, outcome, repeated }).toEqual({ text: "Found.", outcome: "answered", repeated: false });
  expect(events.map(({ type }) => type)).toEqual([
    "invocation.began",
    "model.answered",
    "model.answered",
    "agent.ended",
    "tools.answered",
    "model.answered",
    "agent.ended",
  ]);
  expect(answerText(events.at(2)?.items ?? [])).toBe("Words for the caller.");
  const again = await ask(talking, { sessions, session, message: "hi", call: "c1" });
  expect(again).toMatchObject({ text: "Found.", outcome: "answered", repeated: true });
});

test("ask without sessions forgets the conversation", async () => {
  const counting = defineAgent({
    name: "counting",
    model: scriptedModel(({ input }) => `${input.length}`),
  });
  expect([(await ask(counting, { message: "a" })).text, (await ask(counting, { message: "b" })).text]).toEqual([
    "1",
    "1",
  ]);
});
