// What a store case runs on, and the two ways to write one: on one open store, or on a storage opened several times.
import type { Store } from "../../core/store.ts";
import type { Case } from "../case.ts";

/** One storage, empty at first. The runner makes one for each case and disposes of it afterwards. */
export interface StoreHarness {
  /**
   * Opens the storage. The case closes what it opened. Only cases that need `persistent` call it more than once, and
   * then each store opened must show the same storage.
   */
  open(): Store | Promise<Store>;
  /** Removes the storage, if there is something to remove. */
  dispose?(): void | Promise<void>;
}

export type StoreCase = Case<StoreHarness>;

/** A case on one open store. */
export function onStore(name: string, run: (store: Store) => Promise<void>): StoreCase {
  return {
    name,
    async run(harness) {
      const store = await harness.open();
      try {
        await run(store);
      } finally {
        await store.close();
      }
    },
  };
}

/** A case on a storage that outlives the stores opened on it. */
export function onStorage(name: string, run: (open: () => Promise<Store>) => Promise<void>): StoreCase {
  return {
    name,
    needs: "persistent",
    async run(harness) {
      const stores: Store[] = [];
      try {
        await run(async () => {
          const store = await harness.open();
          stores.push(store);
          return store;
        });
      } finally {
        await Promise.all(stores.map((store) => store.close()));
      }
    },
  };
}
