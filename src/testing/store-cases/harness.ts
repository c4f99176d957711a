// The harness for store cases. A case uses one open store, or a storage that is opened several times.
import type { Store } from "../../core/store.ts";
import type { Case } from "../case.ts";

/** One storage, empty at first. The runner creates one per case and disposes of it afterwards. */
export interface StoreHarness {
  /**
   * Opens the storage; the case closes each store it opened. Only cases that need `persistent` call it repeatedly, and
   * then all stores must show the same storage.
   */
  open(): Store | Promise<Store>;
  /** Removes the storage. */
  dispose?(): void | Promise<void>;
}

export type StoreCase = Case<StoreHarness>;

/** Builds a case on one open store. */
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

/** Builds a case on a storage that outlives its open stores. */
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
