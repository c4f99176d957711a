// Opens the stores that are measured, each on a file of its own that is gone afterwards.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";

/** @typedef {"memory" | "SQLite process" | "SQLite power"} StoreName */

/**
 * Runs with a store and closes it.
 *
 * @template T
 * @param {StoreName} name
 * @param {(store: import("holdfast").Store) => Promise<T>} run
 * @returns {Promise<T>}
 */
export async function withStore(name, run) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-bench-"));
  try {
    const file = join(folder, "bench.db");
    const store =
      name === "memory"
        ? memoryStore()
        : await sqliteStore({ file, durability: name === "SQLite power" ? "power" : "process" });
    try {
      return await run(store);
    } finally {
      await store.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
