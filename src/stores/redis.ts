// The Redis store: logs on one server, behind Sentinel or on a Cluster, shared by any number of machines.
import type { Store } from "../core/store.ts";
import { addressOf, type RedisStoreOptions } from "./redis/address.ts";
import { createStore } from "./front.ts";
import { connectTo } from "./redis/connection.ts";
import { redisDriver } from "./redis/driver.ts";

export type { RedisStoreOptions } from "./redis/address.ts";

/**
 * Opens a store on Redis. A commit is one script call, and simultaneous commits are sent together. The server decides
 * how durable an answered commit is. With `appendonly yes` and `appendfsync always` it is on disk. With the usual
 * `everysec`, a crash of the server may lose the last second; without `appendonly`, everything. A failover may lose
 * commits that no replica had: see `wait`.
 *
 * It connects on first use and reconnects after a lost connection. Without a connection, every operation is rejected
 * with `store_busy` within about five seconds.
 *
 * @example
 * const store = redisStore({ url: "redis://127.0.0.1:6379" });
 */
export function redisStore(options: RedisStoreOptions): Store {
  return createStore(redisDriver(connectTo(addressOf(options))));
}
