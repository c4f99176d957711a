// faultyStore(): wraps a store and injects the faults that a network and a server can cause.
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../core/errors.ts";
import { between, chance, pick, randomStream } from "../core/random.ts";
import type { Store } from "../core/store.ts";

/**
 * `refused`: the operation fails and does nothing. `unanswered`: it runs, and its answer is lost. `slow`: it runs after
 * a delay. `late`: it runs immediately, and its answer is delayed. `twice`: it runs twice and is answered once.
 * `overdue`: it fails, and runs after a delay.
 */
export type StoreFault = "refused" | "unanswered" | "slow" | "late" | "twice" | "overdue";

export interface FaultyStoreOptions {
  /** Seed for the randomness. The same seed gives the same faults to the same operations. Default 1. */
  seed?: number;
  /** Probability that an operation has a fault. Default 0.2. */
  rate?: number;
  /** The faults to choose from. Default: all. */
  faults?: readonly [StoreFault, ...StoreFault[]];
  /** Longest delay in milliseconds. Default 20. */
  delay?: number;
}

export interface FaultyStore extends Store {
  /** The number of injected faults so far. */
  readonly injected: number;
  /** Stops injecting faults. Resolves when overdue operations have run. */
  heal(): Promise<void>;
}

const all = ["refused", "unanswered", "slow", "late", "twice", "overdue"] as const;

/**
 * Wraps a store so that its operations fail before or after they run, wait, answer late, or run twice. A call with an
 * id must still be applied only once, even if it is retried until it is answered.
 *
 * @example
 * const store = faultyStore(memoryStore(), { seed: 7, rate: 0.3 });
 * const sessions = createSessions({ environment: myEnvironment, store });
 */
export function faultyStore(store: Store, options: FaultyStoreOptions = {}): FaultyStore {
  const { seed = 1, rate = 0.2, faults = all, delay = 20 } = options;
  const random = randomStream(seed, 0);
  const overdue = new Set<Promise<unknown>>();
  let injected = 0;
  let healed = false;

  const wait = (): Promise<void> => sleep(between(random, 0, delay));
  const refuse = (code: "store_busy" | "store_failed"): never => {
    throw new HoldfastError(code, "the test injected a fault; try again");
  };

  async function faulty<T>(run: () => Promise<T>): Promise<T> {
    if (healed || !chance(random, rate)) return run();
    injected++;
    const fault = pick(random, faults);
    switch (fault) {
      case "refused":
        return refuse("store_busy");
      case "unanswered":
        await run();
        return refuse("store_failed");
      case "slow":
        await wait();
        return run();
      case "late": {
        const answer = await run();
        await wait();
        return answer;
      }
      case "twice": {
        const answer = await run();
        await run().catch(() => undefined);
        return answer;
      }
      case "overdue": {
        const done = wait()
          .then(run)
          .catch(() => undefined)
          .finally(() => overdue.delete(done));
        overdue.add(done);
        return refuse("store_failed");
      }
    }
  }

  const heal = async (): Promise<void> => {
    healed = true;
    await Promise.all(overdue);
  };

  return {
    persistent: store.persistent,
    get injected() {
      return injected;
    },
    append: (...commits) => faulty(() => store.append(...commits)),
    read: (...asked) => faulty(() => store.read(...asked)),
    load: (...asked) => faulty(() => store.load(...asked)),
    find: (...asked) => faulty(() => store.find(...asked)),
    list(filter) {
      const rows = store.list(filter);
      return (async function* () {
        // A listing fails before its first row, or not at all.
        await faulty(async () => undefined);
        yield* rows;
      })();
    },
    count: (environment) => faulty(() => store.count(environment)),
    delete: (...asked) => faulty(() => store.delete(...asked)),
    heal,
    async close() {
      await heal();
      await store.close();
    },
  };
}
