// Verdicts: they change nothing, are stable, and a failure is never one.
import { defineEnvironment, HoldfastError, tool } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

const task = { start: 3, goal: 6 };

onEveryStore("PURE-VERIFY: asking twice gives the same verdict, also from an unstable verify", async (place) => {
  let asked = 0;
  const environment = defineEnvironment({
    name: "fickle",
    state: z.object({ n: z.number().default(0) }),
    tools: { bump: tool({ description: "Adds one.", run: ({ state }) => ++state.n }) },
    verify: ({ response }) => ({ reward: ++asked, said: response ?? null }),
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  const first = await sessions.verify(session);
  const verdict = { reward: 1, said: null };
  expect(first).toEqual({ session, version: 2, episode: 1, reseeds: 0, verdicts: 1, reward: 1, verdict });
  expect(await sessions.verify(session)).toEqual(first);
  expect(await (await place.replica(environment)).verify(session)).toEqual(first);
  const both = await Promise.all([1, 2].map(() => sessions.verify(session, { response: { text: "done" } })));
  expect(both[0]).toEqual(both[1]);
  expect(both[0]).toMatchObject({ verdict: { said: { text: "done" } }, version: 2 });
  const again = await place.restart(environment);
  expect(await again.verify(session)).toEqual({ ...first, verdicts: 2 });
  await again.call(session, "bump");
  const later = await again.verify(session);
  expect(later.reward).toBeGreaterThan(first.reward);
  expect(await again.verify(session, { version: 2 })).toEqual({ ...first, verdicts: 3 });
  await again.close(session);
  if (place.kind.persistent) expect(await again.verify(session)).toEqual(later);
});

onEveryStore("PURE-VERIFY: an equivalent question has the same answer", async (place) => {
  let asked = 0;
  const environment = defineEnvironment({
    name: "fickle",
    state: z.object({ n: z.number().default(0) }),
    tools: {},
    verify: ({ response }) => {
      if (response) (response as { a: number }).a = 99;
      return ++asked;
    },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  const first = await sessions.verify(session);
  const { version } = await sessions.info(session);
  expect(version).toBe(3);
  // The third event is the verdict itself.
  expect(await sessions.verify(session, { version })).toEqual(first);
  const second = await sessions.verify(session, { response: { a: 1, b: { c: 1, d: 2 } } });
  expect(await sessions.verify(session, { response: { b: { d: 2, c: 1 }, a: 1 } })).toEqual(second);
  const events = [];
  for await (const event of sessions.events(session)) events.push(event);
  expect(events.at(-1)).toMatchObject({ type: "session.verified", response: { a: 1 } });
});

onEveryStore("PURE-VERIFY: a verify that writes to the state fails, and the state is unchanged", async (place) => {
  const environment = defineEnvironment({
    name: "writer",
    state: z.object({ n: z.number().default(0), list: z.array(z.number()).default([]) }),
    tools: {},
    verify: ({ state }) => {
      (state.list as number[]).push(1);
      return 1;
    },
  });
  const sessions = place.engine(environment);
  const { session, version } = await sessions.open({ task: {} });
  await expect(sessions.verify(session)).rejects.toMatchObject({ code: "verify_failed" });
  expect(await sessions.state(session)).toEqual({ n: 0, list: [] });
  // Only the trace of the failure was added.
  const added = [];
  for await (const { type, delta } of sessions.events(session, { after: version })) added.push({ type, delta });
  expect(added).toEqual([{ type: "verify.failed", delta: undefined }]);
});

onEveryStore("a verify that throws leaves one trace for each question, and may be asked again", async (place) => {
  let isOut = true;
  const environment = defineEnvironment({
    name: "judge",
    state: z.object({ n: z.number().default(0) }),
    tools: { bump: tool({ description: "Adds one.", run: ({ state }) => ++state.n }) },
    verify: () => {
      if (isOut) throw new TypeError("the judge is out");
      return 0.5;
    },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  const failed = (response?: string) =>
    expect(sessions.verify(session, response === undefined ? {} : { response })).rejects.toMatchObject({
      code: "verify_failed",
    });
  await failed();
  await failed();
  await failed("done");
  await sessions.call(session, "bump");
  await failed();
  const again = await place.restart(environment);
  const traces = [];
  for await (const event of again.events(session)) if (event.type === "verify.failed") traces.push(event);
  const thrown = {
    error: "TypeError: the judge is out",
    place: expect.stringMatching(/^verify \(tests\/session\/verify\.test\.ts:\d+\)$/) as string,
    stack: expect.stringContaining("verify.test.ts") as string,
  };
  const error = { code: "verify_failed", message: "verify of judge failed: the judge is out" };
  expect(traces.map(({ judged }) => judged)).toEqual([2, 2, 5]);
  for (const trace of traces) expect(trace).toMatchObject({ error, thrown });
  expect(await again.replay(session)).toMatchObject({ same: true });
  isOut = false;
  expect(await again.verify(session)).toMatchObject({ reward: 0.5, version: 5, verdicts: 1 });
  const restored = await again.restore(await again.save(session), "copy");
  expect(await again.state(restored.session)).toEqual({ n: 1 });
});

onEveryStore("SCORED: a verify that fails gives an error and never a reward", async (place) => {
  let answer: unknown;
  const environment = defineEnvironment({
    name: "judge",
    tools: {},
    verify: (): number => {
      if (answer instanceof Error) throw answer;
      return answer as number;
    },
  });
  const sessions = place.engine(environment, { timeout: 20 });
  const { session } = await sessions.open({ task: {} });
  const hanging = new Promise<number>(() => undefined);
  const failures = [
    new Error("judge is out"),
    Number.NaN,
    "1",
    undefined,
    null,
    { score: 1 },
    { reward: "1" },
    hanging,
  ];
  for (const failure of failures) {
    answer = failure;
    const verdict = sessions.verify(session);
    await expect(verdict).rejects.toMatchObject({ code: "verify_failed" });
  }
  // None of them was recorded.
  answer = 0.5;
  expect(await sessions.verify(session)).toMatchObject({ reward: 0.5 });
  const unjudged = place.engine(defineEnvironment({ name: "unjudged", tools: {} }));
  const other = await unjudged.open({ task: {} });
  await expect(unjudged.verify(other.session)).rejects.toMatchObject({ code: "verify_failed" });
});

onEveryStore("a verdict keeps its own fields, whatever their names", async (place) => {
  const verdict = { reward: 1, session: "mine", version: "v2", episode: "final", reseeds: "none", verdicts: [1] };
  const environment = defineEnvironment({ name: "namesake", tools: {}, verify: () => verdict });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  const first = await sessions.verify(session);
  expect(first).toMatchObject({ reward: 1, verdict, session, version: 2, episode: 1, reseeds: 0, verdicts: 1 });
  expect(await sessions.verify(session)).toEqual(first);
});

onEveryStore("a verdict can be requested for any version, and sees all events until then", async (place) => {
  const environment = defineEnvironment({
    name: "historian",
    state: z.object({ n: z.number().default(0) }),
    tools: { bump: tool({ description: "Adds one.", run: ({ state }) => ++state.n }) },
    verify: async ({ state, events }) => ({ reward: state.n, events: (await events()).length }),
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  for (let n = 0; n < 5; n++) await sessions.call(session, "bump");
  expect(await sessions.verify(session, { version: 4 })).toMatchObject({
    reward: 2,
    verdict: { events: 4 },
    version: 4,
  });
  expect(await sessions.verify(session)).toMatchObject({ reward: 5, verdict: { events: 7 }, version: 7 });
  await expect(sessions.verify(session, { version: 99 })).rejects.toMatchObject({ code: "version_not_found" });
});

onEveryStore("an ended session can still be judged", async (place) => {
  const sessions = place.engine(counter, { keepEnded: true });
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 3 });
  await sessions.close(session);
  expect(await sessions.verify(session)).toMatchObject({ reward: 1 });
});

onEveryStore("a verdict can be requested for another valid task, which is stored with it", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  expect(await sessions.verify(session)).toMatchObject({ reward: 0 });
  expect(await sessions.verify(session, { task: { start: 3, goal: 3 } })).toMatchObject({ reward: 1 });
  // The episode's own task is the same question.
  expect(await sessions.verify(session, { task })).toMatchObject({ reward: 0 });
  expect((await sessions.info(session)).version).toBe(4);
  await expect(sessions.verify(session, { task: { goal: "x" } })).rejects.toMatchObject({ code: "invalid_task" });
  const nearer = (seeded: typeof task) => ({ ...seeded, goal: 3 });
  expect(await sessions.verify(session, { task: nearer })).toMatchObject({ reward: 1, verdicts: 2 });
});

onEveryStore("PURE-VERIFY: a refused question changes nothing but is recorded, once for a state", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const refuse = (): never => {
    throw new HoldfastError("verify_failed", "another task");
  };
  for (const response of [undefined, "one", "two"]) {
    const refused = { code: "verify_failed", message: "another task" };
    await expect(sessions.verify(session, { task: refuse, response })).rejects.toMatchObject(refused);
  }
  const invalid = sessions.verify(session, { task: () => ({ goal: "x" }) });
  await expect(invalid).rejects.toMatchObject({ code: "invalid_task" });
  const events = [];
  for await (const event of sessions.events(session)) events.push(event);
  expect(events.slice(2)).toMatchObject([
    { type: "session.verified", refused: true, judged: 2, verdict: { reward: 0, reason: "another task" } },
  ]);
  // A failure that is not a refusal leaves no trace.
  const fail = (): never => {
    throw new Error("no answer");
  };
  await expect(sessions.verify(session, { task: fail })).rejects.toThrow("no answer");
  expect((await sessions.info(session)).version).toBe(3);
  const again = await place.restart(counter);
  await again.call(session, "add", { by: 3 });
  expect(await (await place.replica(counter)).verify(session)).toMatchObject({ reward: 1, verdicts: 2 });
});

onEveryStore("a verdict in progress when the session closes is given and stored", async (place) => {
  let judge = (): void => undefined;
  const judging = new Promise<void>((resolve) => (judge = resolve));
  let begun = (): void => undefined;
  const beginning = new Promise<void>((resolve) => (begun = resolve));
  const environment = defineEnvironment({
    name: "slow",
    state: z.object({ n: z.number().default(0) }),
    tools: {},
    verify: async () => {
      begun();
      await judging;
      return 0.5;
    },
  });
  const sessions = place.engine(environment, { keepEnded: true });
  const { session } = await sessions.open({ task: {} });
  const verdict = sessions.verify(session);
  verdict.catch(() => undefined);
  await beginning;
  expect(await sessions.close(session)).toBe(true);
  judge();
  expect(await verdict).toMatchObject({ reward: 0.5, verdicts: 1 });
  expect(await sessions.verify(session)).toEqual(await verdict);
});

onEveryStore("`verdicts` counts the verdicts of the judged episode, whichever episode runs", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  expect(await sessions.verify(session)).toMatchObject({ episode: 1, verdicts: 1 });
  await sessions.seed(session, task);
  expect(await sessions.verify(session, { version: 2 })).toMatchObject({ episode: 1, verdicts: 1 });
  expect(await sessions.verify(session, { version: 2, response: "late" })).toMatchObject({ episode: 1, verdicts: 2 });
  expect(await sessions.verify(session)).toMatchObject({ episode: 2, verdicts: 1 });
  await sessions.rewind(session, 2);
  expect(await sessions.verify(session)).toMatchObject({ episode: 1, verdicts: 3 });
  const again = await place.restart(counter);
  expect(await again.verify(session, { version: 2 })).toMatchObject({ episode: 1, verdicts: 3 });
  expect(await again.verify(session, { version: 4 })).toMatchObject({ episode: 2, verdicts: 1 });
});

onEveryStore("a verdict on an earlier episode does not end the running one", async (place) => {
  const strict = defineEnvironment({
    name: "strict",
    state: z.object({ n: z.number().default(0) }),
    tools: {},
    reseed: "reject",
    verify: () => 1,
  });
  const sessions = place.engine(strict);
  const { session } = await sessions.open({ task: {} });
  await sessions.verify(session);
  await sessions.seed(session, {});
  await sessions.verify(session, { version: 2, response: "late" });
  await expect(sessions.seed(session, {})).rejects.toMatchObject({ code: "episode_in_flight" });
});

onEveryStore("SERIAL: a process with a stale cache judges the newest state", async (place) => {
  const [one, two] = [place.engine(counter), await place.replica(counter)];
  const { session } = await one.open({ task });
  await two.call(session, "read");
  await one.call(session, "add", { by: 3 });
  expect(await two.verify(session)).toMatchObject({ reward: 1, version: 4, verdicts: 1 });
  await one.call(session, "add", { by: 1 });
  expect(await two.verify(session)).toMatchObject({ reward: 0, version: 6, verdicts: 2 });
  // Its failure counts only on the newest state, too.
  const picky = defineEnvironment({
    name: "picky",
    state: z.object({ ready: z.boolean().default(false) }),
    tools: { prepare: tool({ description: "Gets ready.", run: ({ state }) => void (state.ready = true) }) },
    verify({ state }) {
      if (!state.ready) throw new Error("not ready");
      return 1;
    },
  });
  const [here, there] = [place.engine(picky), await place.replica(picky)];
  const other = await here.open({ task: {} });
  await expect(there.verify(other.session)).rejects.toMatchObject({ code: "verify_failed" });
  await here.call(other.session, "prepare");
  expect((await there.verify(other.session)).reward).toBe(1);
});
