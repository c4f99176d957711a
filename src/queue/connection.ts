// The connections of the queue: the packages it needs, and clients that wait for a server that is away.
import type * as Bullmq from "bullmq";
import type * as Ioredis from "ioredis";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { HoldfastError, messageOf } from "../core/errors.ts";

/** Where the queue is: what the URL of a Redis store says. */
export interface QueueAddress {
  kind: "server" | "sentinel" | "cluster";
  hosts: { host: string; port: number }[];
  /** What Sentinel calls the master. */
  name: string;
  database: number;
  username: string | undefined;
  password: string | undefined;
  tls: boolean;
  prefix: string;
  /** For messages: without the password. */
  shown: string;
  /** For commands that people are told to type: all of the URL, with words in the place of a user and a password. */
  typed: string;
}

export type Client = Redis | Cluster;

export interface Connection {
  bullmq: typeof Bullmq;
  client: Client;
  /** What the names of all keys begin with. */
  prefix: string;
  /** A connection that can only listen. */
  listener(): Client;
  /** Asks every server that there may be something on: one, or all of a Cluster. */
  onEach<T>(ask: (server: Redis) => Promise<T>): Promise<T[]>;
  close(): void;
}

/** How long the first connection may take, in milliseconds. */
const patience = 5000;
/** Longer than any command that waits for a job. A server that is paused keeps its connections and answers nothing. */
const silence = 15_000;

/**
 * Connects. Rejects if there is no server; one that goes away later is waited for, and that is said. `name` is what the
 * server calls the connection.
 */
export async function connectQueue(
  address: QueueAddress,
  say: (text: string) => void,
  name?: string,
): Promise<Connection> {
  const bullmq = await loaded(() => import("bullmq"));
  const client = clientOf(await loaded(() => import("ioredis")), address, name);
  const clients: Client[] = [client];
  try {
    await ready(client, address.shown);
  } catch (thrown) {
    client.disconnect();
    throw thrown;
  }
  tellOutages(client, address.shown, say);
  return {
    bullmq,
    client,
    prefix: prefixOf(address),
    onEach: (ask) => Promise.all(("nodes" in client ? client.nodes() : [client]).map(ask)),
    listener() {
      const listener = (client as Redis).duplicate();
      listener.on("error", () => undefined);
      clients.push(listener);
      return listener;
    },
    close() {
      for (const each of clients) each.disconnect();
    },
  };
}

/** In braces: on a Cluster all keys of a queue have to be in one place. */
export const prefixOf = ({ prefix }: QueueAddress): string => `{${prefix}:queue}`;

async function loaded<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new HoldfastError("missing_dependency", "the job queue needs `npm install bullmq ioredis`", { cause });
  }
}

type Drivers = Pick<typeof Ioredis, "Redis" | "Cluster">;

function clientOf({ Redis: One, Cluster: Many }: Drivers, address: QueueAddress, connectionName?: string): Client {
  const { kind, hosts, name, database, username, password, tls } = address;
  const soon = (times: number): number => Math.min(50 * times, 1000);
  const common: RedisOptions = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls && { tls: {} }),
    ...(connectionName !== undefined && { connectionName }),
    connectTimeout: patience,
    socketTimeout: silence,
    // What was asked for is asked for until there is an answer. To ask twice does no harm here: see docs/queue.md.
    maxRetriesPerRequest: null,
    // After a failover the old master may be a replica, behind a connection that still stands.
    reconnectOnError: (error) => (error.message.includes("READONLY") ? 2 : false),
  };
  if (kind === "cluster")
    return new Many(hosts, { redisOptions: common, lazyConnect: true, clusterRetryStrategy: soon });
  const [first] = hosts;
  const target: RedisOptions =
    kind === "sentinel"
      ? { sentinels: hosts, name, failoverDetector: true, sentinelRetryStrategy: soon }
      : { ...first };
  return new One({ ...common, ...target, db: database, lazyConnect: true, retryStrategy: soon });
}

/** What no waiting helps against. */
const hopeless = /WRONGPASS|NOAUTH|NOPERM|invalid (username|password)/i;

async function ready(client: Client, shown: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let last: unknown;
    const end = (settle: () => void): void => {
      clearTimeout(timer);
      client.off("error", failed).off("ready", done);
      // Without a listener an error would end the process.
      client.on("error", () => undefined);
      settle();
    };
    const refuse = (code: "store_busy" | "store_failed"): void => {
      const why = last === undefined ? "it does not answer" : messageOf(last);
      end(() => reject(new HoldfastError(code, `the queue at ${shown} cannot be reached: ${why}`, { cause: last })));
    };
    const timer = setTimeout(() => refuse("store_busy"), patience);
    const failed = (error: unknown): void => {
      last = error;
      if (hopeless.test(messageOf(error))) refuse("store_failed");
    };
    const done = (): void => end(resolve);
    client.on("error", failed).on("ready", done);
    client.connect().catch(() => undefined);
  });
}

/** How long a server may be away before it is said, in milliseconds. */
const unnoticed = 1000;

function tellOutages(client: Client, shown: string, say: (text: string) => void): void {
  let timer: NodeJS.Timeout | undefined;
  let isTold = false;
  client.on("close", () => {
    timer ??= setTimeout(() => {
      if (client.status === "end") return;
      isTold = true;
      say(`the queue at ${shown} cannot be reached; waiting for it`);
    }, unnoticed).unref();
  });
  client.on("ready", () => {
    clearTimeout(timer);
    timer = undefined;
    if (isTold) say(`the queue at ${shown} is back`);
    isTold = false;
  });
}
