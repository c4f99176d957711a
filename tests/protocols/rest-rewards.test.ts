// GET /v1/sessions/{id}/rewards: the reward of verify at every version that changed the state, without recording it.
import { defineEnvironment, tool } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore, open } from "../session/engine.ts";
import { clientOf } from "./rest-client.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];
const task = { start: 3, goal: 5 };

onEveryStore("PURE-VERIFY: returns the rewards of all versions, and the log is unchanged", async (place) => {
  const sessions = place.engine(counter, { keepEnded: true });
  const client = clientOf(sessions);
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 2 });
  await sessions.call(session, "read");
  await sessions.call(session, "spoil");
  await sessions.call(session, "add", { by: 1 });
  await sessions.seed(session, { start: 9, goal: 9 });
  const before = await sessions.info(session);
  const expected = [
    { version: 2, reward: 0 },
    { version: 3, reward: 1 },
    { version: 6, reward: 0 },
    { version: 7, reward: 1 },
  ];
  const at = `/v1/sessions/${session}/rewards`;
  expect(await client("GET", at)).toMatchObject({ status: 200, body: { session, rewards: expected } });
  expect(await sessions.info(session)).toEqual(before);
  // Verdicts and the end are not changes; both are as before.
  expect(await sessions.verify(session)).toMatchObject({ reward: 1, verdicts: 1 });
  await sessions.close(session);
  expect((await client("GET", at)).body.rewards).toEqual(expected);
});

test("the rewards of a fork start at its first version", async () => {
  const sessions = (await open(memory)).engine(counter);
  const { session: parent } = await sessions.open({ task });
  const { session } = await sessions.fork(parent);
  await sessions.call(session, "add", { by: 2 });
  expect((await clientOf(sessions)("GET", `/v1/sessions/${session}/rewards`)).body.rewards).toEqual([
    { version: 1, reward: 0 },
    { version: 2, reward: 1 },
  ]);
});

test("an unseeded session has none", async () => {
  const sessions = (await open(memory)).engine(counter);
  const { session } = await sessions.open();
  await sessions.call(session, "add", { by: 2 });
  const { session: fork } = await sessions.fork(session);
  for (const id of [session, fork]) {
    expect((await clientOf(sessions)("GET", `/v1/sessions/${id}/rewards`)).body).toEqual({ session: id, rewards: [] });
  }
});

describe("a verifier", () => {
  /** Judges with the given function. */
  const judging = (verify: (count: number, signal: AbortSignal) => number | Promise<number>) =>
    defineEnvironment({
      name: "judged",
      state: z.object({ count: z.number() }),
      seed: () => ({ count: 0 }),
      tools: { add: tool({ description: "Add 1.", run: ({ state }) => void state.count++ }) },
      verify: ({ state, signal }) => verify(state.count, signal),
    });

  test("that fails at a version has an error there, and continues", async () => {
    const environment = judging((count) => {
      if (count === 1) throw new Error("one is not to be judged");
      return count;
    });
    const sessions = (await open(memory)).engine(environment);
    const { session } = await sessions.open({ task: {} });
    for (let times = 0; times < 2; times++) await sessions.call(session, "add");
    const { body } = await clientOf(sessions)("GET", `/v1/sessions/${session}/rewards`);
    expect(body.rewards).toEqual([
      { version: 2, reward: 0 },
      { version: 3, reward: null, error: "verify of judged failed: one is not to be judged" },
      { version: 4, reward: 2 },
    ]);
  });

  test("is asked for at most 1,000 versions, spread evenly, one after the other", async () => {
    let [running, most] = [0, 0];
    const environment = judging(async (count) => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
      return count;
    });
    const sessions = (await open(memory)).engine(environment);
    const { session } = await sessions.open({ task: {} });
    for (let times = 0; times < 1998; times++) await sessions.call(session, "add");
    const { body } = await clientOf(sessions)("GET", `/v1/sessions/${session}/rewards`);
    const rewards = body.rewards as { version: number; reward: number }[];
    expect(rewards).toHaveLength(1000);
    expect(rewards[0]).toEqual({ version: 2, reward: 0 });
    expect(rewards.at(-1)).toEqual({ version: 2000, reward: 1998 });
    for (const { version, reward } of rewards) expect(reward).toBe(version - 2);
    const gaps = rewards.slice(1).map(({ version }, at) => version - (rewards[at]?.version ?? 0));
    expect(Math.max(...gaps) - Math.min(...gaps)).toBeLessThanOrEqual(1);
    expect(most).toBe(1);
  });

  test("is not asked any more when the client disconnects", async () => {
    const leaving = new AbortController();
    let asked = 0;
    const environment = judging((_, signal) => {
      asked++;
      leaving.abort();
      return new Promise<never>((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(new Error("gone"))),
      );
    });
    const sessions = (await open(memory)).engine(environment);
    const { session } = await sessions.open({ task: {} });
    for (let times = 0; times < 3; times++) await sessions.call(session, "add");
    const client = clientOf(sessions);
    const { status, body } = await client("GET", `/v1/sessions/${session}/rewards`, { signal: leaving.signal });
    expect([status, body.error.code, asked]).toEqual([408, "call_cancelled", 1]);
  });

  test("that answers synchronously yields to others, and can be cancelled", async () => {
    const leaving = new AbortController();
    let asked = 0;
    const environment = judging(() => {
      if (++asked === 1) setImmediate(() => leaving.abort());
      return 1;
    });
    const sessions = (await open(memory)).engine(environment);
    const { session } = await sessions.open({ task: {} });
    for (let times = 0; times < 50; times++) await sessions.call(session, "add");
    const client = clientOf(sessions);
    const { status } = await client("GET", `/v1/sessions/${session}/rewards`, { signal: leaving.signal });
    expect(status).toBe(408);
    expect(asked).toBeLessThan(5);
  });

  test("that is missing is reported once", async () => {
    const environment = defineEnvironment({ name: "unjudged", seed: () => ({}), tools: {} });
    const sessions = (await open(memory)).engine(environment);
    const { session } = await sessions.open({ task: {} });
    expect(await clientOf(sessions)("GET", `/v1/sessions/${session}/rewards`)).toMatchObject({
      status: 500,
      body: { error: { code: "verify_failed", message: "unjudged has no verify" } },
    });
  });
});

test("a missing session is a 404, and unknown parameters are refused", async () => {
  const client = clientOf((await open(memory)).engine(counter));
  expect(await client("GET", "/v1/sessions/nobody/rewards")).toMatchObject({
    status: 404,
    body: { error: { code: "session_not_found" } },
  });
  expect(await client("GET", "/v1/sessions/nobody/rewards?version=1")).toMatchObject({
    status: 400,
    body: { error: { code: "invalid_option" } },
  });
  expect(await client("POST", "/v1/sessions/nobody/rewards")).toMatchObject({ status: 405 });
});
