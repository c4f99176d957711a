// POST /v1/sessions/{id}/play: one of the server's models continues a session.
import { scriptedModel } from "holdfast";
import { expect, test } from "vitest";
import { goingOnOf } from "../rollout/continuing.ts";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { open } from "../session/engine.ts";
import { clientOf } from "./rest-client.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];
const task = { start: 3, goal: 5 };

async function started() {
  const sessions = (await open(memory)).engine(counter, { keepEnded: true });
  const adding = { calls: [{ name: "add", arguments: { by: 2 } }] };
  const client = clientOf(sessions, goingOnOf(sessions, { adder: () => scriptedModel([adding, "Done."]) }));
  const { session } = await sessions.open({ task });
  return { sessions, client, session, at: `/v1/sessions/${session}/play` };
}

test("a model continues the session, and the reply has the result", async () => {
  const { client, session, at } = await started();
  const { status, body } = await client("POST", at, { body: { model: "adder" } });
  expect(status).toBe(200);
  expect(body).toMatchObject({ session, version: 3, outcome: "answered", steps: 2 });
  expect(body.items).toHaveLength(3);
  const once = await client("POST", at, { body: { model: "adder", input: "Add 2.", max_steps: 1 } });
  expect(once.body).toMatchObject({ version: 4, outcome: "steps", steps: 1 });
});

test("a play whose client disconnects is cancelled", async () => {
  const { client, sessions, session, at } = await started();
  const left = AbortSignal.abort();
  expect(await client("POST", at, { body: { model: "adder" }, signal: left })).toMatchObject({
    status: 408,
    body: { error: { code: "run_cancelled" } },
  });
  expect(await sessions.info(session)).toMatchObject({ version: 2 });
});

test("an invalid request is refused, and nothing is called", async () => {
  const { client, sessions, session, at } = await started();
  for (const [body, message] of [
    [undefined, "model is missing"],
    [{}, "model is missing"],
    [[], "the body must be an object"],
    ["adder", "the body must be an object"],
    [{ model: "gpt" }, 'model must be one of "adder", not "gpt"'],
    [{ model: 3 }, "model must be a string, not 3"],
    [{ model: "adder", input: 3 }, "input must be a string or an array, not 3"],
    [{ model: "adder", input: [] }, "input must be a string or a list of items: the list is empty"],
    [{ model: "adder", input: [{ type: "function_call" }] }, "input must be a string or a list of items: item 0"],
    [{ model: "adder", max_steps: 0 }, "max_steps must be an integer from 1 to 1000, not 0"],
    [{ model: "adder", maxSteps: 3 }, 'the body has no field "maxSteps"'],
  ] as const) {
    const refused = {
      status: 400,
      body: { error: { code: "invalid_option", message: expect.stringContaining(message) } },
    };
    expect(await client("POST", at, { body }), JSON.stringify(body)).toMatchObject(refused);
  }
  expect(await sessions.info(session)).toMatchObject({ version: 2 });
  await sessions.close(session);
  expect(await client("POST", at, { body: { model: "adder" } })).toMatchObject({
    status: 410,
    body: { error: { code: "session_closed", message: expect.stringContaining("fork it") } },
  });
  expect(await client("POST", "/v1/sessions/nobody/play", { body: { model: "adder" } })).toMatchObject({ status: 404 });
});

test("without models it is neither served nor described", async () => {
  const sessions = (await open(memory)).engine(counter);
  const client = clientOf(sessions);
  const { session } = await sessions.open({ task });
  expect(await client("POST", `/v1/sessions/${session}/play`, { body: { model: "adder" } })).toMatchObject({
    status: 404,
    body: { error: { code: "not_found" } },
  });
  expect((await client("GET", "/openapi.json")).body.paths).not.toHaveProperty(["/v1/sessions/{id}/play"]);
});
