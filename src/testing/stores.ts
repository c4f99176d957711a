// storeCases: the cases that every store must pass, by topic. Together they state the contract of core/store.ts.
import type { Store } from "../core/store.ts";
import { appendCases } from "./store-cases/append.ts";
import { closeCases } from "./store-cases/close.ts";
import { deleteCases } from "./store-cases/delete.ts";
import type { StoreCase } from "./store-cases/harness.ts";
import { keyCases } from "./store-cases/keys.ts";
import { listCases } from "./store-cases/list.ts";
import { listChangeCases } from "./store-cases/list-changes.ts";
import { persistentCases } from "./store-cases/persistent.ts";
import { raceCases } from "./store-cases/races.ts";
import { readCases } from "./store-cases/read.ts";
import { textCases } from "./store-cases/text.ts";
import { togetherCases } from "./store-cases/together.ts";

/**
 * All cases, including cases that need a flag.
 *
 * @example
 * for (const { name, run } of storeCases) test(name, () => run({ open: () => myStore() }));
 */
export const storeCases: readonly StoreCase[] = [
  ...appendCases,
  ...keyCases,
  ...readCases,
  ...listCases,
  ...listChangeCases,
  ...deleteCases,
  ...textCases,
  ...raceCases,
  ...togetherCases,
  ...closeCases,
  ...persistentCases,
];

/**
 * Returns the cases for a store with these flags.
 *
 * @example
 * for (const { name, run } of storeCasesFor({ persistent: false })) test(name, () => run({ open: () => memoryStore() }));
 */
export function storeCasesFor(store: Pick<Store, "persistent">): StoreCase[] {
  return storeCases.filter(({ needs }) => needs === undefined || store[needs]);
}
