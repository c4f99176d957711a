// Opens engines on every kind of store for the tests in this folder, and closes everything after each test.
import { createSessions, type Sessions, type EpisodeOptions, type Store } from "holdfast";
import { afterEach, describe, test } from "vitest";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { everyStore, type Storage, type StoreKind } from "../every-store.ts";

export interface Place {
  kind: StoreKind;
  storage: Storage;
  /** An engine on the storage's store. */
  engine<E extends AnyEnvironment>(environment: E, options?: Partial<EpisodeOptions<E>>): Sessions<E>;
  /** An engine with its own store and cache on the same storage, as another process would have. */
  replica<E extends AnyEnvironment>(environment: E, options?: Partial<EpisodeOptions<E>>): Promise<Sessions<E>>;
  /** An engine on the reopened storage: only stored data is left. */
  restart<E extends AnyEnvironment>(environment: E, options?: Partial<EpisodeOptions<E>>): Promise<Sessions<E>>;
}

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

export async function open(kind: StoreKind): Promise<Place> {
  const storage = await kind.open();
  cleanups.push(() => storage.dispose());
  const on = <E extends AnyEnvironment>(
    store: Store,
    environment: E,
    options: Partial<EpisodeOptions<E>> = {},
  ): Sessions<E> => {
    const sessions = createSessions({ environment, store, ...options });
    cleanups.push(() => sessions.stop());
    return sessions;
  };
  return {
    kind,
    storage,
    engine: (environment, options) => on(storage.store, environment, options),
    replica: async (environment, options) => on(await storage.second(), environment, options),
    restart: async (environment, options) => on(await storage.reopen(), environment, options),
  };
}

/** A test that runs on every kind of store: on some in `npm test`, on the others in the full lane. */
export function onEveryStore(title: string, run: (place: Place) => Promise<void>): void {
  for (const kind of everyStore) {
    describe(`on ${kind.name}`, { tags: kind.tags }, () => {
      test(title, async () => run(await open(kind)));
    });
  }
}
