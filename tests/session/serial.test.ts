// Concurrent callers: some serial order explains the result, and nothing is lost.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, tool } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

const task = { start: 0, goal: 0 };

onEveryStore("SERIAL: calls of one session run one at a time, in the order of arrival", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const texts = Array.from({ length: 30 }, (_, n) => `note ${n}`);
  await Promise.all(texts.map((text) => sessions.call(session, "note", { text })));
  expect((await sessions.state(session)).notes).toEqual(texts);
});

onEveryStore("SERIAL: writers with separate caches lose no update", async (place) => {
  const engines = [place.engine(counter), await place.replica(counter), await place.replica(counter)];
  const { session } = await engines[0]!.open({ task });
  const calls = Array.from({ length: 60 }, (_, n) => engines[n % 3]!.call(session, "note", { text: String(n) }));
  await Promise.all(calls);
  const { notes } = await engines[1]!.state(session);
  expect(notes.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, n) => n));
  expect((await engines[0]!.info(session)).version).toBe(62);
});

onEveryStore(
  "SERIAL: an answer of one engine is visible to the next call, read and verdict on another",
  async (place) => {
    const one = place.engine(counter);
    const two = await place.replica(counter);
    const { session } = await one.open({ task });
    for (let n = 1; n <= 10; n++) {
      const [writer, reader] = n % 2 === 0 ? [one, two] : [two, one];
      await writer.call(session, "add", { by: 1 });
      if (n % 3 === 0) expect(await reader.call(session, "read")).toMatchObject({ output: { count: n } });
      else if (n % 3 === 1) expect((await reader.state(session)).count).toBe(n);
      else expect(await reader.call(session, "gather", { by: 0 })).toMatchObject({ output: { seen: n } });
    }
    expect(await two.verify(session)).toMatchObject({ reward: 0 });
    await one.call(session, "add", { by: -10 });
    expect(await two.verify(session)).toMatchObject({ reward: 1 });
  },
);

onEveryStore("SERIAL: a concurrent tool blocks nobody, reads a snapshot, and loses no update", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const slow = Array.from({ length: 5 }, () => sessions.call(session, "gather", { by: 10, ms: 500 }));
  await sleep(50);
  expect(await sessions.call(session, "add", { by: 1 })).toMatchObject({ output: { count: 1 } });
  expect((await sessions.state(session)).count).toBe(1);
  const answers = await Promise.all(slow);
  for (const answer of answers) expect(answer).toMatchObject({ ok: true, output: { seen: 0, later: 0 } });
  expect(new Set(answers.map((answer) => answer.ok && answer.output.number)).size).toBe(5);
  expect((await sessions.state(session)).count).toBe(51);
});

onEveryStore("a concurrent tool's handler runs once, however often its changes are re-applied", async (place) => {
  let runs = 0;
  let changes = 0;
  const environment = defineEnvironment({
    name: "slow",
    state: z.object({ list: z.array(z.number()).default([]) }),
    tools: {
      push: tool({
        description: "Adds a number, slowly.",
        input: z.object({ n: z.number() }),
        concurrent: true,
        run: async ({ update }, { n }) => {
          runs++;
          await sleep(1);
          update((state) => {
            changes++;
            state.list.push(n);
          });
        },
      }),
      fail: tool({
        description: "Queues a change that fails.",
        concurrent: true,
        run: ({ update }) => {
          update((state) => {
            state.list.push(-1);
            throw new Error("no");
          });
        },
      }),
    },
  });
  const engines = [place.engine(environment), await place.replica(environment)];
  const { session } = await engines[0]!.open();
  await Promise.all(Array.from({ length: 20 }, (_, n) => engines[n % 2]!.call(session, "push", { n })));
  expect(runs).toBe(20);
  expect(changes).toBeGreaterThanOrEqual(20);
  expect(await engines[0]!.call(session, "fail")).toMatchObject({
    ok: false,
    error: { code: "tool_failed", message: "no" },
  });
  const { list } = await engines[1]!.state(session);
  expect(list.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n));
});

onEveryStore("a concurrent call of one episode does not affect the next", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const call = sessions.call(session, "gather", { by: 10, ms: 500 }, { call: "a" });
  await sleep(50);
  await sessions.seed(session, { start: 5, goal: 5 });
  await expect(call).rejects.toMatchObject({ code: "episode_ended" });
  expect((await sessions.state(session)).count).toBe(5);
});

onEveryStore("a session limits its concurrent calls, and loses none that it accepted", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const calls = Array.from({ length: 600 }, () => sessions.call(session, "add", { by: 1 }));
  const settled = await Promise.allSettled(calls);
  const refused = settled.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
  expect(refused.length).toBe(99);
  for (const { reason } of refused) expect(reason).toMatchObject({ code: "session_crowded", status: 429 });
  expect((await sessions.state(session)).count).toBe(501);
});
