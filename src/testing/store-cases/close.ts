// Cases for close: accepted writes finish. After close, every operation is refused.
import assert from "node:assert/strict";
import type { Appended, Store } from "../../core/store.ts";
import { onStorage, onStore, type StoreCase } from "./harness.ts";
import { append, bodiesUpTo, collect, buildCommit, expectLog, grow, noon } from "./logs.ts";

const verbs: Record<string, (store: Store) => Promise<unknown>> = {
  append: (store) => store.append(buildCommit({ session: "b", version: 0 })),
  "append to an existing session": (store) => store.append(buildCommit({ session: "a", version: 2 })),
  "append to several sessions": (store) =>
    store.append(buildCommit({ session: "b", version: 0 }), buildCommit({ session: "a", version: 2 })),
  read: (store) => store.read("a", 0),
  "read of a missing session": (store) => store.read("none", 0),
  load: (store) => store.load("a"),
  find: (store) => store.find("a", "k"),
  list: (store) => collect(store),
  "list by idle time": (store) => collect(store, { idleBefore: noon }),
  "list after a session": (store) => collect(store, { after: "none" }),
  count: (store) => store.count("shop"),
  delete: (store) => store.delete("a"),
};

async function expectClosed(store: Store): Promise<void> {
  for (const [name, verb] of Object.entries(verbs)) {
    let answer: Promise<unknown>;
    try {
      answer = verb(store);
    } catch (error) {
      assert.fail(`${name} threw synchronously instead of returning a rejected promise: ${error}`);
    }
    await assert.rejects(answer, { code: "store_closed" }, `${name} on a closed store`);
  }
}

function open40(store: Store): Promise<Appended>[] {
  return Array.from({ length: 40 }, (_, index) => append(store, { session: `s${index}`, version: 0 }));
}

function expectAllOk(outcomes: PromiseSettledResult<Appended>[]): void {
  for (const outcome of outcomes)
    assert.deepEqual(outcome, { status: "fulfilled", value: "ok" }, "a commit before close");
}

export const closeCases: StoreCase[] = [
  onStore("a closed store refuses every operation with store_closed", async (store) => {
    await grow(store, "a", 2);
    await store.close();
    await expectClosed(store);
  }),

  onStore("closing twice is allowed, in sequence and concurrently", async (store) => {
    await grow(store, "a", 2);
    await Promise.all([store.close(), store.close()]);
    await store.close();
    await expectClosed(store);
    await store.close();
  }),

  onStore("a store that was never used can be closed", async (store) => {
    await store.close();
    await expectClosed(store);
  }),

  onStore("ATOMIC: close waits for running writes", async (store) => {
    let settled = 0;
    const answers = open40(store);
    for (const answer of answers) answer.finally(() => settled++).catch(() => {});
    const outcomes = Promise.allSettled(answers);
    await store.close();
    // Waits one tick, because the answers may arrive after close in the same tick.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(settled, 40, "commits that were answered before close");
    expectAllOk(await outcomes);
    await expectClosed(store);
  }),

  onStore("a listing that is interrupted by close returns all sessions or fails with store_closed", async (store) => {
    const names = Array.from({ length: 300 }, (_, index) => `s${index}`);
    for (const name of names) await grow(store, name, 1);
    const seen: string[] = [];
    try {
      for await (const { session } of store.list()) {
        if (seen.push(session) === 1) await store.close();
      }
      assert.deepEqual(seen, names, "the listing ended early without an error");
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      assert.equal((error as { code?: unknown }).code, "store_closed", `it failed with ${error}`);
    }
  }),

  onStorage("DURABLE: commits sent before close are stored", async (open) => {
    const store = await open();
    const outcomes = Promise.allSettled(open40(store));
    await store.close();
    expectAllOk(await outcomes);
    const again = await open();
    for (let index = 0; index < 40; index++) await expectLog(again, `s${index}`, bodiesUpTo(1));
  }),
];
