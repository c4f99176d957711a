// Runs the published store cases in Vitest: one line in the test of each store.
import { describe, expect, test } from "vitest";
import type { StoreHarness } from "../../src/testing/index.ts";
import { storeCasesFor } from "../../src/testing/index.ts";

interface Options {
  persistent?: boolean;
  tags?: readonly "full"[];
  /** Parts of the names of cases that take long on this store. Those cases are in the full lane. */
  long?: string[];
}

/** The cases that take long where a verb is several requests. */
export const manyRequests = [
  "are all stored or all refused",
  "commits that are refused together do not affect",
  "combination of filters",
  "log of 1,000",
  "100 sessions",
];

/** Runs every case that applies to the store, each on a new storage. */
export function runStoreCases(
  name: string,
  makeHarness: () => StoreHarness | Promise<StoreHarness>,
  { persistent = true, tags = [], long = [] }: Options = {},
): void {
  async function withHarness<T>(use: (harness: StoreHarness) => Promise<T>): Promise<T> {
    const harness = await makeHarness();
    try {
      return await use(harness);
    } finally {
      await harness.dispose?.();
    }
  }

  describe(name, { tags: [...tags] }, () => {
    test(`is ${persistent ? "" : "not "}persistent`, () =>
      withHarness(async (harness) => {
        const store = await harness.open();
        expect(store.persistent).toBe(persistent);
        await store.close();
      }));

    const cases = storeCasesFor({ persistent });
    const unknown = long.filter((part) => !cases.some(({ name }) => name.includes(part)));
    if (unknown.length > 0) throw new Error(`no case has a name with: ${unknown.join(", ")}`);
    for (const { name, run } of cases) {
      const isLong = long.some((part) => name.includes(part));
      test(name, isLong ? { tags: ["full"], timeout: 240_000 } : {}, () => withHarness(run));
    }
  });
}
