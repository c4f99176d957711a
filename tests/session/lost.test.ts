// A store that fails over to a copy of itself may lose its last commits. The engine's cache is then wrong.
import type { Store } from "holdfast";
import { expect, test } from "vitest";
import type { Event } from "../../src/core/event.ts";
import { eventKey } from "../../src/core/event-key.ts";
import type { Heading, NewEntry } from "../../src/core/store.ts";
import { counter } from "./counter.ts";
import { everyStore } from "../every-store.ts";
import { onEveryStore, open } from "./engine.ts";

const task = { start: 0, goal: 0 };

/** Truncates a log after a version. */
async function lose(store: Store, session: string, version: number): Promise<void> {
  const entries = ((await store.read(session, 0, version)) ?? []).map(({ body }): NewEntry => {
    const event = JSON.parse(body) as Event;
    const key = eventKey(event);
    return { body, at: event.at, ...(key !== undefined && { key }) };
  });
  const heading: Heading = { environment: counter.name, opened: entries[0]!.at };
  await store.delete(session);
  await store.append({ session, version: 0, entries: entries as [NewEntry, ...NewEntry[]], heading });
}

onEveryStore(
  "a log that became shorter is noticed, and the session continues from the remaining events",
  async (place) => {
    const sessions = place.engine(counter);
    const { session } = await sessions.open({ task });
    for (let n = 0; n < 4; n++) await sessions.call(session, "add", { by: 1 });
    await lose(place.storage.store, session, 4);
    await expect(sessions.call(session, "add", { by: 1 })).rejects.toMatchObject({ code: "store_failed" });
    expect(await sessions.call(session, "add", { by: 1 })).toMatchObject({ output: { count: 3 } });
  },
);

onEveryStore("so is one that another process has extended since", async (place) => {
  const [one, two] = [place.engine(counter), await place.replica(counter)];
  const { session } = await one.open({ task });
  for (let n = 0; n < 4; n++) await one.call(session, "add", { by: 1 });
  await lose(place.storage.store, session, 4);
  await nextMoment();
  for (let n = 0; n < 3; n++) await two.call(session, "add", { by: 10 });
  await expect(one.call(session, "add", { by: 1 })).rejects.toMatchObject({ code: "store_failed" });
  expect(await one.call(session, "add", { by: 1 })).toMatchObject({ output: { count: 33 } });
  expect((await two.state(session)).count).toBe(33);
});

const redis = everyStore.find(({ name }) => name === "redis")!;

test(
  "Redis, which may lose commits in a failover, refuses a commit made for another log of the same length",
  { tags: redis.tags },
  async () => {
    const place = await open(redis);
    const [one, two] = [place.engine(counter), await place.replica(counter)];
    const { session } = await one.open({ task });
    for (let n = 0; n < 4; n++) await one.call(session, "add", { by: 1 });
    await lose(place.storage.store, session, 4);
    await nextMoment();
    for (let n = 0; n < 2; n++) await two.call(session, "add", { by: 10 });
    await expect(one.call(session, "add", { by: 1 })).rejects.toMatchObject({ code: "store_failed" });
    expect(await one.call(session, "add", { by: 1 })).toMatchObject({ output: { count: 23 } });
  },
);

/** Waits until the clock shows another time, by which two logs differ. A single timer may be due at once. */
async function nextMoment(): Promise<void> {
  for (const now = Date.now(); Date.now() === now;) await new Promise((resolve) => setImmediate(resolve));
}
