// createClient(): the Redis client for the store and the job queue.
import type * as Ioredis from "ioredis";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { createRequire } from "node:module";
import { HoldfastError } from "../../core/errors.ts";
import type { Address } from "./address.ts";

export type Client = Redis | Cluster;

export interface ClientOptions {
  /** Name of the connection on the server. */
  name: string | undefined;
  connectTimeout: number;
  /** Milliseconds without an answer after which a connection is closed. A paused server keeps its connections. */
  socketTimeout: number;
  /** Longest pause between two attempts to connect, in milliseconds. */
  longestPause: number;
  /**
   * Whether commands are repeated without limit. Otherwise no command is sent twice, because the first may have been
   * executed: a broken connection rejects commands in flight, and without a connection commands are refused.
   */
  repeats: boolean;
  /** The message if ioredis is not installed. */
  needs: string;
}

function load(needs: string): typeof Ioredis {
  try {
    return createRequire(import.meta.url)("ioredis") as typeof Ioredis;
  } catch (cause) {
    throw new HoldfastError("missing_dependency", needs, { cause });
  }
}

/** Creates a client that connects on first use. */
export function createClient(address: Address, options: ClientOptions): Client {
  const { Redis, Cluster } = load(options.needs);
  const { kind, hosts, name, database, username, password, tls } = address;
  const { name: connectionName, connectTimeout, socketTimeout, longestPause, repeats } = options;
  const pause = (times: number): number => Math.min(20 * times, longestPause);
  const common: RedisOptions = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    ...(connectionName !== undefined && { connectionName }),
    connectTimeout,
    socketTimeout,
    autoResendUnfulfilledCommands: repeats,
    maxRetriesPerRequest: repeats ? null : 0,
    ...(!repeats && { maxLoadingRetryTime: 100 }),
    // After a failover, the connection may still lead to the old master, which is now a replica.
    reconnectOnError: (error) => error.message.includes("READONLY") && (repeats ? 2 : true),
  };
  if (kind === "cluster") {
    return new Cluster(hosts, {
      redisOptions: common,
      lazyConnect: true,
      clusterRetryStrategy: pause,
      slotsRefreshTimeout: 2000,
      slotsRefreshInterval: 5000,
      // Unless this is 0, commands in flight on a broken connection are sent again.
      ...(!repeats && { retryDelayOnFailover: 0 }),
    });
  }
  const sentinel: RedisOptions = {
    sentinels: hosts,
    name,
    failoverDetector: true,
    sentinelRetryStrategy: pause,
    sentinelCommandTimeout: 1000,
  };
  return new Redis({
    ...common,
    ...(kind === "sentinel" ? sentinel : hosts[0]),
    db: database,
    lazyConnect: true,
    retryStrategy: pause,
    enableOfflineQueue: repeats,
  });
}
