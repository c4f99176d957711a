// The kinds of store there are, for tests of what holds on every one: for (const kind of everyStore) describe(kind.name, …).
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore, type Store } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";

/** One storage, empty at first, opened once. */
export interface Storage {
  readonly store: Store;
  /** One more store on the same storage, beside those that are open. */
  second(): Promise<Store>;
  /** Closes every store on it and opens a new one, as a restart would. In memory it is the same one: there it outlives nothing. */
  reopen(): Promise<Store>;
  /** Closes every store on it and removes it. */
  dispose(): Promise<void>;
}

export interface StoreKind {
  name: string;
  persistent: boolean;
  open(): Promise<Storage>;
}

function inMemory(name: string, make: () => Store): StoreKind {
  return {
    name,
    persistent: false,
    async open() {
      const store = make();
      return { store, second: async () => store, reopen: async () => store, dispose: () => store.close() };
    },
  };
}

/** A kind that keeps its logs in a folder. `make` opens a store there; of all that it opened each is closed in the end. */
function inFolder(name: string, make: (folder: string) => Store | Promise<Store>): StoreKind {
  return {
    name,
    persistent: true,
    async open() {
      const folder = await mkdtemp(join(tmpdir(), "holdfast-"));
      const stores: Store[] = [];
      const second = async (): Promise<Store> => {
        const store = await make(folder);
        stores.push(store);
        return store;
      };
      const closeAll = (): Promise<unknown> => Promise.all(stores.splice(0).map((store) => store.close()));
      return {
        store: await second(),
        second,
        async reopen() {
          await closeAll();
          return second();
        },
        async dispose() {
          await closeAll();
          await rm(folder, { recursive: true, force: true });
        },
      };
    },
  };
}

const sqlite = (durability: "process" | "power"): StoreKind =>
  inFolder(`sqlite, durability ${durability}`, (folder) =>
    sqliteStore({ file: join(folder, "sessions.db"), durability }),
  );

export const everyStore: StoreKind[] = [inMemory("memory", memoryStore), sqlite("process"), sqlite("power")];
