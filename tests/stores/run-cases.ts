// Runs the published store cases in Vitest: one line in the test of each store.
import { describe, test } from "vitest";
import type { StoreHarness } from "../../src/testing/index.ts";
import { storeCasesFor } from "../../src/testing/index.ts";

/** Runs every case that the store's flags ask for, each on a storage of its own. */
export function runStoreCases(name: string, makeHarness: () => StoreHarness | Promise<StoreHarness>): void {
  async function withHarness<T>(use: (harness: StoreHarness) => Promise<T>): Promise<T> {
    const harness = await makeHarness();
    try {
      return await use(harness);
    } finally {
      await harness.dispose?.();
    }
  }

  describe(name, async () => {
    const flags = await withHarness(async (harness) => {
      const store = await harness.open();
      await store.close();
      return { persistent: store.persistent };
    });
    for (const { name, run } of storeCasesFor(flags)) test(name, () => withHarness(run));
  });
}
