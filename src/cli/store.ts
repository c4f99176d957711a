// Opens a store by its URL.
import { existsSync } from "node:fs";
import { HoldfastError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";

/** Opens a store. Who calls this closes it. `isThere`: it is not made if it is not there. */
export async function openStore(url: string, { isThere = false } = {}): Promise<Store> {
  const [, scheme, rest = ""] = /^([a-z0-9+.-]+):(.*)$/i.exec(url) ?? [];
  switch (scheme) {
    case "memory": {
      const { memoryStore } = await import("../stores/memory.ts");
      return memoryStore();
    }
    case "sqlite": {
      if (rest === "") throw new HoldfastError("invalid_option", "a SQLite store is sqlite:FILE, as in sqlite:runs.db");
      if (isThere && !existsSync(rest)) throw new HoldfastError("invalid_option", `there is no file ${rest}`);
      const { sqliteStore } = await import("../stores/sqlite.ts");
      return sqliteStore({ file: rest });
    }
    case "redis":
    case "rediss":
    case "postgres":
    case "postgresql":
    case "s3":
    case "http":
    case "https":
      throw new HoldfastError(
        "invalid_option",
        `there is no store for ${scheme}: yet; there are memory: and sqlite:FILE`,
      );
    default:
      throw new HoldfastError("invalid_option", `"${url}" is no store; there are memory: and sqlite:FILE`);
  }
}
