// connectQueue(): loads the queue's packages and opens clients that wait for an unreachable server.
import type * as Bullmq from "bullmq";
import type { Redis } from "ioredis";
import { HoldfastError, messageOf, invalidOption } from "../core/errors.ts";
import { addressOf, type Address } from "../stores/redis/address.ts";
import { createClient, type Client } from "../stores/redis/client.ts";
import { isHopeless } from "../stores/redis/failures.ts";

/** The parsed URL of a queue. */
export interface QueueAddress extends Address {
  /** For suggested commands: the complete URL, with placeholders for user and password. */
  typed: string;
}

export interface Connection {
  bullmq: typeof Bullmq;
  client: Client;
  /** Prefix of all keys. */
  prefix: string;
  /** Opens a connection that only listens. */
  listener(): Client;
  /** Queries every server: a single server, or all nodes of a Cluster. */
  onEach<T>(ask: (server: Redis) => Promise<T>): Promise<T[]>;
  close(): void;
}

/** Maximum milliseconds for the first connection. */
const connectTimeout = 5000;
/** Milliseconds without an answer before a connection is replaced. Longer than any command that waits for a job. */
const socketTimeout = 15_000;

const needs = "the job queue needs `npm install bullmq ioredis`";

/**
 * Connects to a queue, and rejects if the server is unreachable. If the server disappears later, the connection waits
 * for it and shows a message. `name` identifies the connection on the server.
 */
export async function connectQueue(
  address: QueueAddress,
  say: (text: string) => void,
  name?: string,
): Promise<Connection> {
  const bullmq = await import("bullmq").catch((cause) => {
    throw new HoldfastError("missing_dependency", needs, { cause });
  });
  const options = { name, connectTimeout, socketTimeout, longestPause: 1000, repeats: true, needs };
  const client = createClient(address, options);
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
    prefix: toKeyPrefix(address),
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

/** The prefix is in braces, because a Cluster must keep all of a queue's keys on one node. */
export const toKeyPrefix = ({ prefix }: QueueAddress): string => `{${prefix}:queue}`;

async function ready(client: Client, shown: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let last: unknown;
    const end = (settle: () => void): void => {
      clearTimeout(timer);
      client.off("error", failed).off("ready", done);
      // Without a listener, an error event would end the process.
      client.on("error", () => undefined);
      settle();
    };
    const refuse = (code: "store_busy" | "store_failed"): void => {
      const why = last === undefined ? "the server does not answer" : messageOf(last);
      end(() => reject(new HoldfastError(code, `the queue at ${shown} cannot be reached: ${why}`, { cause: last })));
    };
    const timer = setTimeout(() => refuse("store_busy"), connectTimeout);
    const failed = (error: unknown): void => {
      last = error;
      if (isHopeless(error)) refuse("store_failed");
    };
    const done = (): void => end(resolve);
    client.on("error", failed).on("ready", done);
    client.connect().catch(() => undefined);
  });
}

/** Milliseconds without a connection before a message is shown. */
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
    if (isTold) say(`the queue at ${shown} can be reached again`);
    isTold = false;
  });
}

export function queueAddress(url: string): QueueAddress {
  if (/^rediss?(\+\w+)?:\/\//.test(url)) return { ...addressOf({ url }), typed: maskCredentials(url) };
  const [scheme] = url.split(":", 1);
  const shown = /^[a-z0-9+.-]+:/.test(url) ? `${scheme}:` : `"${url}"`;
  throw invalidOption(`${shown} is not a valid queue URL; use redis://HOST, as in redis://127.0.0.1:6379`);
}

/** Replaces user and password with placeholders. Quotes the URL if a shell would interpret part of it. */
function maskCredentials(url: string): string {
  const typed = url.replace(/\/\/([^:]*):.*@/s, (_, user) => (user === "" ? "//:PASSWORD@" : "//USER:PASSWORD@"));
  return /^[\w:/.,+@-]+$/.test(typed) ? typed : `'${typed.replaceAll("'", "%27")}'`;
}
