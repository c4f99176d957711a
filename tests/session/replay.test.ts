// Replay: the same log gives the same outputs and states, or the first difference is named.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, tool } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

onEveryStore("REPLAY: a session with every kind of event replays to the same outputs and states", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open();
  await sessions.call(session, "roll");
  await sessions.seed(session, { start: 1, goal: 2 });
  await sessions.call(session, "roll", {}, { call: "a" });
  await sessions.call(session, "spoil");
  await sessions.call(session, "hang");
  await sessions.call(session, "keep");
  await sessions.call(session, "nothing" as "read");
  await sessions.call(session, "add", { by: "x" as never });
  const slow = sessions.call(session, "gather", { by: 3, ms: 10 });
  await sleep(2);
  await sessions.call(session, "add", { by: 1 });
  await slow;
  await sessions.verify(session);
  await sessions.rewind(session, 5);
  await sessions.call(session, "roll");
  const child = await sessions.fork(session);
  await sessions.call(child.session, "roll");
  await sessions.close(child.session);
  const again = await place.restart(counter, { keepEnded: true });
  expect(await again.replay(session)).toEqual({ same: true, events: 14 });
  if (place.kind.persistent) expect(await again.replay(child.session)).toEqual({ same: true, events: 3 });
});

onEveryStore("REPLAY: the first different event is named", async (place) => {
  let add = 1;
  let secret = 0;
  let output = "same";
  const environment = defineEnvironment({
    name: "changing",
    state: z.object({ n: z.number().default(0), secret: z.number().default(0) }),
    tools: {
      add: tool({
        description: "Adds.",
        run: ({ state }) => {
          state.n += add;
          state.secret = secret;
          return output;
        },
      }),
    },
    seed: () => ({ n: add }),
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  for (let n = 0; n < 3; n++) await sessions.call(session, "add");
  await sessions.seed(session, {});
  await sessions.call(session, "add");
  output = "other";
  expect(await sessions.replay(session)).toEqual({
    same: false,
    version: 2,
    message:
      'event 2 (tool.called add) has a different outcome: recorded {"ok":true,"output":"same"}, replayed {"ok":true,"output":"other"}',

    what: "outcome",
    recorded: { ok: true, output: "same" },
    replayed: { ok: true, output: "other" },
  });
  output = "same";
  secret = 5;
  expect(await sessions.replay(session)).toMatchObject({ same: false, version: 2, what: "state" });
  secret = 0;
  expect(await sessions.replay(session)).toEqual({ same: true, events: 6 });
  add = 2;
  expect(await sessions.replay(session)).toMatchObject({ same: false, version: 2, what: "state" });
});

onEveryStore("REPLAY: external tools are not run again", async (place) => {
  let sent = 0;
  const environment = defineEnvironment({
    name: "mailer",
    state: z.object({ n: z.number().default(0) }),
    tools: {
      send: tool({
        description: "Sends.",
        effects: "external",
        run: ({ update }) => {
          sent++;
          update((state) => void state.n++);
          return sent;
        },
      }),
      read: tool({ description: "Reads.", run: ({ state }) => state.n }),
    },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  await sessions.call(session, "send");
  await sessions.call(session, "send");
  expect(await sessions.call(session, "read")).toMatchObject({ output: 2 });
  expect(await sessions.replay(session)).toEqual({ same: true, events: 6 });
  expect(sent).toBe(2);
});

onEveryStore("REPLAY: random numbers drawn in `update` are drawn again, however often it ran", async (place) => {
  const environment = defineEnvironment({
    name: "dice",
    state: z.object({ rolls: z.array(z.number()).default([]) }),
    tools: {
      roll: tool({
        description: "Rolls.",
        concurrent: true,
        run: async ({ update, random }) => {
          const first = random();
          await sleep(1);
          update((state) => void state.rolls.push(first, random()));
        },
      }),
    },
  });
  const engines = [place.engine(environment), await place.replica(environment)];
  const { session } = await engines[0]!.open();
  await Promise.all(Array.from({ length: 12 }, (_, n) => engines[n % 2]!.call(session, "roll")));
  expect(await engines[0]!.replay(session)).toEqual({ same: true, events: 13 });
  expect(new Set((await engines[0]!.state(session)).rolls).size).toBe(24);
});

onEveryStore("the replay of a long log lets others run", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task: { start: 0, goal: 2 } });
  for (let times = 0; times < 40; times++) await sessions.call(session, "add", { by: 1 });
  let hadTurn = false;
  setImmediate(() => (hadTurn = true));
  expect(await sessions.replay(session)).toMatchObject({ same: true });
  expect(hadTurn).toBe(true);
});
