// Seeding, and unseeded sessions.
import { defineEnvironment, tool } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { everyStore } from "../every-store.ts";
import { counter } from "./counter.ts";
import { onEveryStore, open } from "./engine.ts";

const task = { start: 3, goal: 6 };

onEveryStore(
  "SEED: seeding replaces the state of a live session, starts an episode, and keeps the old one readable",
  async (place) => {
    const sessions = place.engine(counter);
    const { session } = await sessions.open({ task });
    await sessions.call(session, "note", { text: "old" });
    expect(await sessions.seed(session, { start: 100, goal: 1 })).toEqual({
      session,
      version: 4,
      episode: 2,
      repeated: false,
    });
    expect(await sessions.state(session)).toEqual({ count: 100, notes: [] });
    expect(await sessions.state(session, 3)).toEqual({ count: 3, notes: ["old"] });
    expect(await sessions.info(session)).toMatchObject({ episode: 2, task: { start: 100, goal: 1 } });
    const again = await place.restart(counter);
    expect(await again.state(session)).toEqual({ count: 100, notes: [] });
  },
);

onEveryStore("SEED: an invalid task or state is refused, and the session stays unchanged", async (place) => {
  const environment = defineEnvironment({
    name: "picky",
    state: z.object({ n: z.number() }),
    task: z.object({ how: z.string() }),
    seed: ({ task }) => {
      if (task.how === "throw") throw new Error("no such world");
      if (task.how === "shape") return { n: "one" } as never;
      if (task.how === "date") return { n: 1, when: new Date() } as never;
      return { n: 1 };
    },
    tools: { read: tool({ description: "Reads.", run: ({ state }) => state.n }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: { how: "well" } });
  await expect(sessions.seed(session, { how: 5 as never })).rejects.toMatchObject({ code: "invalid_task" });
  await expect(sessions.seed(session, { how: new Map() as never })).rejects.toMatchObject({ code: "not_json" });
  await expect(sessions.seed(session, { how: "throw" })).rejects.toMatchObject({
    code: "seed_failed",
    message: "seed of picky failed: no such world",
  });
  await expect(sessions.seed(session, { how: "shape" })).rejects.toMatchObject({ code: "seed_failed" });
  await expect(sessions.open({ task: { how: "throw" } })).rejects.toMatchObject({ code: "seed_failed" });
  expect(await sessions.info(session)).toMatchObject({ version: 2, episode: 1 });
  expect(await sessions.call(session, "read")).toMatchObject({ output: 1 });
});

test("a seed may leave optional keys undefined, is stopped by a close, and has its own timeout", async () => {
  const place = await open(everyStore[0]!);
  const environment = defineEnvironment({
    name: "slow",
    state: z.object({ n: z.number().default(1), note: z.string().optional() }),
    task: z.object({ hang: z.boolean().default(false) }),
    seed: ({ task }) => (task.hang ? new Promise<never>(() => undefined) : { note: undefined }),
    tools: {},
  });
  const sessions = place.engine(environment, { keepEnded: true });
  const { session } = await sessions.open({ task: {} });
  expect(await sessions.state(session)).toEqual({ n: 1 });
  const hanging = sessions.seed(session, { hang: true });
  const closing = hanging.then(
    () => "seeded",
    (error: { code: string }) => error.code,
  );
  await new Promise((resolve) => setImmediate(resolve));
  expect(await sessions.close(session)).toBe(true);
  expect(await closing).toBe("session_closed");
  const hasty = place.engine(environment, { timeout: 10 });
  await expect(hasty.open({ task: { hang: true } })).rejects.toMatchObject({ code: "seed_failed" });
  await expect(hasty.open({ task: {}, randomSeed: "x" as never })).rejects.toMatchObject({ code: "invalid_option" });
});

onEveryStore("SEED: the same random seed gives the same world", async (place) => {
  const environment = defineEnvironment({
    name: "dice",
    state: z.object({ first: z.number() }),
    seed: ({ random }) => ({ first: random() }),
    tools: { roll: tool({ description: "Rolls.", run: ({ random }) => [random(), random()] }) },
  });
  const sessions = place.engine(environment);
  const play = async (random: number): Promise<unknown[]> => {
    const { session } = await sessions.open({ task: {}, randomSeed: random });
    const answers = [await sessions.call(session, "roll"), await sessions.call(session, "roll")];
    return [(await sessions.state(session)).first, ...answers.map((answer) => answer.ok && answer.output)];
  };
  expect(await play(7)).toEqual(await play(7));
  expect(await play(7)).not.toEqual(await play(8));
  const numbers = (await play(7)).flat();
  expect(new Set(numbers).size).toBe(numbers.length);
});

onEveryStore("MISSING: a tool on an unseeded session sees the defaults, and the answer says so", async (place) => {
  const sessions = place.engine(counter);
  const { session, episode } = await sessions.open();
  expect(episode).toBe(0);
  expect(await sessions.call(session, "add", { by: 1 })).toMatchObject({ output: { count: 1 }, unseeded: true });
  expect(await sessions.call(session, "gather", { by: 1 })).toMatchObject({ ok: true, unseeded: true });
  expect(await sessions.verify(session)).toMatchObject({
    verdict: { reward: 0, reason: "the session was never seeded" },
  });
  await sessions.seed(session, task);
  expect(await sessions.call(session, "read")).toMatchObject({ output: { count: 3 }, unseeded: false });
});

onEveryStore(
  'MISSING: `unseeded: "reject"`, or a state without defaults, makes it an error that changes nothing',
  async (place) => {
    const shape = {
      state: z.object({ n: z.number().default(1) }),
      tools: { read: tool({ description: "", run: () => 1 }) },
    };
    const strict = defineEnvironment({ name: "strict", unseeded: "reject", ...shape });
    const bare = defineEnvironment({
      ...shape,
      name: "bare",
      state: z.object({ n: z.number() }),
      seed: () => ({ n: 2 }),
    });
    for (const environment of [strict, bare]) {
      const sessions = place.engine(environment);
      const { session } = await sessions.open();
      await expect(sessions.call(session, "read")).rejects.toMatchObject({ code: "session_unseeded" });
      expect(await sessions.verify(session)).toMatchObject({ reward: 0 });
      await sessions.seed(session, {});
      expect(await sessions.call(session, "read")).toMatchObject({ ok: true });
    }
  },
);

test("an environment without a state or a task works", async () => {
  const place = await open(everyStore[0]!);
  const weather = defineEnvironment({
    name: "weather",
    tools: {
      look: tool({
        description: "Looks.",
        input: z.object({ city: z.string() }),
        run: (_, { city }) => ({ city, sky: "clear" }),
      }),
    },
  });
  const sessions = place.engine(weather);
  const { session } = await sessions.open({ task: { anything: 1 } });
  expect(await sessions.call(session, "look", { city: "Bern" })).toMatchObject({
    output: { city: "Bern", sky: "clear" },
  });
  expect(await sessions.state(session)).toEqual({});
});

test("a handler cannot change its task", async () => {
  const place = await open(everyStore[0]!);
  const environment = defineEnvironment({
    name: "greedy",
    state: z.object({ n: z.number().default(0) }),
    task: z.object({ goal: z.object({ n: z.number() }) }),
    tools: {
      cheat: tool({
        description: "Changes its task.",
        run: ({ task }) => {
          if (task) task.goal.n = 0;
        },
      }),
    },
    verify: ({ state, task }) => Number(state.n === task.goal.n),
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: { goal: { n: 5 } } });
  expect(await sessions.call(session, "cheat")).toMatchObject({ ok: false, error: { code: "tool_failed" } });
  expect(await sessions.verify(session)).toMatchObject({ reward: 0 });
});
