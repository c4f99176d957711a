// Runs the published store cases in Vitest: one line in the test of each store.
import { describe, expect, test } from "vitest";
import type { StoreHarness } from "../../src/testing/index.ts";
import { storeCasesFor } from "../../src/testing/index.ts";

interface Options {
  persistent?: boolean;
  tags?: "full"[];
}

/** Runs every case that applies to the store, each on a new storage. */
export function runStoreCases(
  name: string,
  makeHarness: () => StoreHarness | Promise<StoreHarness>,
  { persistent = true, tags = [] }: Options = {},
): void {
  async function withHarness<T>(use: (harness: StoreHarness) => Promise<T>): Promise<T> {
    const harness = await makeHarness();
    try {
      return await use(harness);
    } finally {
      await harness.dispose?.();
    }
  }

  describe(name, { tags }, () => {
    test(`is ${persistent ? "" : "not "}persistent`, () =>
      withHarness(async (harness) => {
        const store = await harness.open();
        expect(store.persistent).toBe(persistent);
        await store.close();
      }));

    for (const { name, run } of storeCasesFor({ persistent })) test(name, () => withHarness(run));
  });
}
