// faultyStore(): wraps a store and injects the faults that a network and a server can cause.
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../core/errors.ts";
import { between, chance, pick, randomStream } from "../core/random.ts";
import type { Store } from "../core/store.ts";

/**
 * `refused`: the verb fails and does nothing. `unanswered`: it is done, and its answer is lost. `slow`: it is done
 * later. `late`: it is done at once and answered later. `twice`: it is done twice and answered once. `overdue`: it
 * fails, and is done a moment later.
 */
export type StoreFault = "refused" | "unanswered" | "slow" | "late" | "twice" | "overdue";

export interface FaultyStoreOptions {
  /** Seed for the randomness. The same seed gives the same faults to the same verbs. Default 1. */
  seed?: number;
  /** Probability that a verb has a fault. Default 0.2. */
  rate?: number;
  /** The faults to choose from. Default: all. */
  faults?: readonly [StoreFault, ...StoreFault[]];
  /** Longest delay in milliseconds. Default 20. */
  delay?: number;
}

export interface FaultyStore extends Store {
  /** The number of injected faults so far. */
  readonly injected: number;
  /** Stops injecting faults. Resolves when overdue verbs are done. */
  heal(): Promise<void>;
}

const all = ["refused", "unanswered", "slow", "late", "twice", "overdue"] as const;

/**
 * Wraps a store so that its verbs fail before or after they are done, wait, answer late, or are done twice. Calls with
 * ids that are retried until they are answered must still be applied once.
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
    throw new HoldfastError(code, "a fault was injected; try again");
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
