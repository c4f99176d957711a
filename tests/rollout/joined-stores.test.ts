// Joined stores behave as one.
import { describe, expect, test } from "vitest";
import { createSessions, memoryStore, type Store } from "holdfast";
import { joinedStores } from "../../src/rollout/joined-stores.ts";
import { counter } from "../session/counter.ts";
import { runStoreCases } from "../stores/run-cases.ts";

describe("joined stores", () => {
  runStoreCases("two in memory", () => ({ open: () => joinedStores([memoryStore(), memoryStore()]) }), {
    persistent: false,
  });
});

async function sessionIn(store: Store, start: number): Promise<string> {
  const sessions = createSessions({ environment: counter, store });
  return (await sessions.open({ task: { start, goal: 5 } })).session;
}

const listed = async (store: Store, filter = {}): Promise<string[]> => {
  const found: string[] = [];
  for await (const { session } of store.list(filter)) found.push(session);
  return found;
};

test("a session is read, called and forked in its own store", async () => {
  const [one, two] = [memoryStore(), memoryStore()];
  const [a, b] = [await sessionIn(one, 1), await sessionIn(two, 2)];
  const joined = joinedStores([one, two]);
  const sessions = createSessions({ environment: counter, store: joined });
  await sessions.call(b, "add", { by: 3 });
  expect([await sessions.state(a), await sessions.state(b)]).toMatchObject([{ count: 1 }, { count: 5 }]);
  const { session: child } = await sessions.fork(b);
  const { session: fresh } = await sessions.open();
  expect([await listed(one), await listed(two)]).toEqual([
    [a, fresh],
    [b, child],
  ]);
  expect(await joined.count(counter.name)).toBe(4);
});

test("the list continues from any session into the next store", async () => {
  const [one, two] = [memoryStore(), memoryStore()];
  const all = [await sessionIn(one, 1), await sessionIn(one, 2), await sessionIn(two, 3), await sessionIn(two, 4)];
  const joined = joinedStores([one, two]);
  expect(await listed(joined)).toEqual(all);
  for (const [at, after] of all.entries()) expect(await listed(joined, { after })).toEqual(all.slice(at + 1));
  await expect(listed(joined, { after: "nobody" })).rejects.toThrow(
    expect.objectContaining({ code: "session_not_found" }),
  );
});
