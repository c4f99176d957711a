// Versions: any of them can be read, forked, and rewound to.
import { defineEnvironment, tool } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

const task = { start: 0, goal: 0 };

onEveryStore("the state at every version can be read, over many snapshots and after a restart", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  for (let n = 1; n <= 300; n++) await sessions.call(session, "add", { by: 1 }, { call: `${n} ${"x".repeat(200)}` });
  const again = await place.restart(counter);
  for (const engine of [sessions, again]) {
    if (engine === sessions && place.kind.persistent) continue;
    for (let version = 2; version <= 302; version += 7) {
      expect((await engine.state(session, version)).count).toBe(version - 2);
    }
    for (const version of [-1, 0, 303, 1.5, Number.NaN, "2" as never]) {
      await expect(engine.state(session, version)).rejects.toMatchObject({ code: "version_not_found" });
      await expect(engine.fork(session, { version })).rejects.toMatchObject({ code: "version_not_found" });
      await expect(engine.rewind(session, version)).rejects.toMatchObject({ code: "version_not_found" });
    }
  }
});

onEveryStore("FORK: a live session can be forked at any version, and neither affects the other", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task: { start: 1, goal: 111 } });
  for (const by of [10, 100, 1000]) await sessions.call(session, "add", { by });
  const running = sessions.call(session, "note", { text: "while it is live" });
  const children = await Promise.all(
    [3, 4, 5, undefined].map((version) => sessions.fork(session, { version: version! })),
  );
  await running;
  expect(children[1]).toMatchObject({ parent: { session, version: 4 }, episode: 1, version: 1, task: { start: 1 } });
  await Promise.all(children.map((child, n) => sessions.call(child.session, "add", { by: (n + 1) * 1e6 })));
  await sessions.call(session, "add", { by: 7 });
  const counts = await Promise.all(children.map(async (child) => (await sessions.state(child.session)).count));
  expect(counts).toEqual([1000011, 2000111, 3001111, 4001111]);
  expect((await sessions.state(session)).count).toBe(1118);
  await sessions.close(session);
  const again = await place.restart(counter);
  expect(await again.verify(children[1]!.session)).toMatchObject({ reward: 0 });
  expect((await again.state(children[1]!.session, 1)).count).toBe(111);
  await again.call(children[1]!.session, "add", { by: -2e6 });
  expect(await again.verify(children[1]!.session)).toMatchObject({ reward: 1 });
});

onEveryStore("FORK: a fork may be given its id, and repeated requests make one fork", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task: { start: 1, goal: 3 } });
  const child = sessions.newSession();
  expect(await sessions.fork(session, { version: 2, session: child })).toMatchObject({ session: child, version: 1 });
  await sessions.call(child, "add", { by: 2 });
  await expect(sessions.fork(session, { session: child })).rejects.toMatchObject({ code: "session_exists" });
  expect((await sessions.state(child)).count).toBe(3);
  expect((await sessions.state(session)).count).toBe(1);
});

onEveryStore("FORK: a fork continues with the random numbers that its parent would have had", async (place) => {
  const environment = defineEnvironment({
    name: "dice",
    state: z.object({ rolls: z.array(z.number()).default([]) }),
    tools: { roll: tool({ description: "Rolls.", run: ({ state, random }) => state.rolls.push(random()) }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  for (let n = 0; n < 3; n++) await sessions.call(session, "roll");
  const child = await sessions.fork(session, { version: 3 });
  for (let n = 0; n < 2; n++) await sessions.call(child.session, "roll");
  expect(await sessions.state(child.session)).toEqual(await sessions.state(session));
});

onEveryStore("a rewind restores the session by one more event", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task: { start: 1, goal: 3 } });
  await sessions.call(session, "add", { by: 2 });
  await sessions.seed(session, { start: 50, goal: 51 });
  await sessions.call(session, "add", { by: 1 });
  expect(await sessions.rewind(session, 3)).toMatchObject({ version: 6, episode: 1, task: { start: 1, goal: 3 } });
  expect(await sessions.verify(session)).toMatchObject({ reward: 1, episode: 1 });
  expect(await sessions.state(session, 5)).toEqual({ count: 51, notes: [] });
  // The number of an episode is not reused.
  expect(await sessions.seed(session, task)).toMatchObject({ episode: 3 });
  await sessions.rewind(session, 5);
  const again = await place.restart(counter);
  expect(await again.verify(session)).toMatchObject({ reward: 1, episode: 2 });
});
