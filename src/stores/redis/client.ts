// The client under the Redis store, and its settings: above all, that it sends nothing twice.
import type * as Ioredis from "ioredis";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { createRequire } from "node:module";
import { HoldfastError } from "../../core/errors.ts";
import type { Address } from "./address.ts";
import { patience } from "./deadlines.ts";

function load(): typeof Ioredis {
  try {
    return createRequire(import.meta.url)("ioredis") as typeof Ioredis;
  } catch (cause) {
    throw new HoldfastError("missing_dependency", "redisStore needs `npm install ioredis`", { cause });
  }
}

/** A client that connects when it is first used. */
export function clientOf(address: Address): Redis | Cluster {
  const { Redis, Cluster } = load();
  const { kind, hosts, name, database, username, password, tls } = address;
  const common: RedisOptions = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    connectionName: "holdfast",
    connectTimeout: 2000,
    // A server that is paused keeps its connections and answers nothing.
    socketTimeout: patience - 500,
    maxLoadingRetryTime: 100,
    // A commit that was sent is never sent again: by then it may have happened. What was in flight is rejected at once.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // After a failover the old master may be a replica, behind a connection that still stands.
    reconnectOnError: (error) => error.message.includes("READONLY"),
  };
  const soon = (times: number): number => Math.min(20 * times, 500);
  if (kind === "cluster") {
    return new Cluster(hosts, {
      redisOptions: common,
      lazyConnect: true,
      clusterRetryStrategy: soon,
      slotsRefreshTimeout: 2000,
      slotsRefreshInterval: 5000,
      // Sends again what was in flight when a connection broke, unless it is 0.
      retryDelayOnFailover: 0,
    });
  }
  const [{ host, port }] = hosts as [Address["hosts"][number]];
  const target: RedisOptions =
    kind === "sentinel"
      ? {
          sentinels: hosts,
          name,
          failoverDetector: true,
          sentinelRetryStrategy: soon,
          sentinelCommandTimeout: 1000,
        }
      : { host, port };
  return new Redis({
    ...common,
    ...target,
    db: database,
    lazyConnect: true,
    retryStrategy: soon,
    // The store waits by itself, and no longer than it may.
    enableOfflineQueue: false,
  });
}
