// The Redis store: logs on one server, behind Sentinel or on a Cluster, shared by any number of machines.
import type { Store } from "../core/store.ts";
import { addressOf, type RedisStoreOptions } from "./redis/address.ts";
import { createStore } from "./front.ts";
import { connectTo } from "./redis/connection.ts";
import { redisDriver } from "./redis/driver.ts";

export type { RedisStoreOptions } from "./redis/address.ts";

/**
 * A store on Redis. A commit is one call of a script, and those of the same moment travel together. What an answered commit
 * survives is up to the server: with `appendonly yes` and `appendfsync always` all that a disk does; with the everysec
 * that is usual, all but the last second before a crash of the server; without, nothing that the server does not. A
 * failover may lose what no replica had yet: see `wait`.
 *
 * It connects on its first use and again by itself; while it cannot, every verb is rejected with `store_busy` within five seconds.
 *
 * @example
 * const store = redisStore({ url: "redis://127.0.0.1:6379" });
 */
export function redisStore(options: RedisStoreOptions): Store {
  return createStore(redisDriver(connectTo(addressOf(options))));
}
