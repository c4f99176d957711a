// The Redis store's connection: checks the server once, and calls scripts.
import type { Redis } from "ioredis";
import { HoldfastError } from "../../core/errors.ts";
import type { Answer, Call } from "../front.ts";
import type { Address } from "./address.ts";
import { createClient } from "./client.ts";
import { hashBucket, type Argument } from "./commits.ts";
import { createConfirming } from "./wait-for-replicas.ts";
import { closed, isHopeless, isUnsent, notSent } from "./failures.ts";
import { hashes, scripts, type ScriptName } from "./scripts.ts";

/** The format of stored data. */
const format = 1;
/** Buckets of a new store on a Cluster: enough for every node of a large Cluster to have some. */
const clusterBuckets = 256;

const manyArguments = 1000;

/** Scripts whose writes replicas must confirm, if the address requires that. */
const durable: ReadonlySet<ScriptName> = new Set(["append", "one", "prepare", "commit", "apply", "mark"]);

export interface Connection {
  readonly address: Address;
  /** Checks the server before the first call of a script. */
  start(call: Call): Answer<void>;
  bucketCount(): number;
  bucketOf(session: string): number;
  /** Calls a script on a bucket, once, as soon as there is a connection. */
  run(script: ScriptName, bucket: number, args: Argument[], call: Call): Promise<unknown>;
  close(): void;
}

/** A call that waits for a connection. */
interface Waiting {
  call: Call;
  resolve(): void;
  reject(error: unknown): void;
}

export function connectTo(address: Address): Connection {
  const { prefix, shown, wait } = address;
  const client = createClient(address, {
    name: "holdfast",
    connectTimeout: 2000,
    // A little less than an operation's time limit.
    socketTimeout: 4500,
    longestPause: 500,
    repeats: false,
    needs: "redisStore needs `npm install ioredis`",
  });
  const confirmed = createConfirming(client, address);
  const waiting = new Set<Waiting>();
  let failure: unknown;
  let isClosed = false;
  let buckets = 0;
  let starting: Promise<void> | undefined;

  client.on("ready", () => {
    failure = undefined;
    // Loads the scripts before all other commands. If that fails, each script is sent with its first call.
    for (const server of servers()) {
      for (const lua of Object.values(scripts)) server.script("LOAD", lua).catch(() => {});
    }
    for (const { resolve } of waiting) resolve();
    waiting.clear();
  });
  client.on("error", (error: unknown) => {
    failure = error;
    for (const { call } of waiting) call.reason ??= error;
    if (isHopeless(error)) giveUp(error);
  });

  function giveUp(error: unknown): void {
    for (const { reject } of waiting) reject(error);
    waiting.clear();
  }

  const servers = (): Redis[] => ("nodes" in client ? client.nodes("master") : [client]);

  /** Waits for the next connection. The client retries by itself. */
  function connected(call: Call): Promise<void> {
    // Refused after `close`, because a disconnected client would connect again.
    if (isClosed) return Promise.reject(closed(shown));
    if (client.status === "wait" || client.status === "end") client.connect().catch(() => {});
    const now = performance.now();
    for (const each of waiting) {
      if (each.call.until > now) break;
      waiting.delete(each);
      each.reject(each.call.reason ?? notSent());
    }
    call.reason ??= failure;
    return new Promise((resolve, reject) => void waiting.add({ call, resolve, reject }));
  }

  let sending: "nothing" | "one" | "more" = "nothing";

  /**
   * Sends simultaneous commands together. The first is sent immediately, because usually no other command follows. The
   * client's own pipelining takes twice the time for one commit, and delays commands while others are in flight.
   */
  function gather(): void {
    if (sending === "nothing") {
      sending = "one";
      process.nextTick(() => (sending = "nothing"));
    } else if (sending === "one") {
      sending = "more";
      const streams = servers().flatMap(({ stream }) => stream ?? []);
      for (const stream of streams) stream.cork();
      process.nextTick(() => {
        for (const stream of streams) stream.uncork();
      });
    }
  }

  function send(script: ScriptName, key: string, args: Argument[], { until }: Call, isWhole = false): Promise<unknown> {
    gather();
    if (wait > 0 && durable.has(script)) return confirmed(key, { script, args, until, isWhole });
    if (isWhole) return client.eval(scripts[script], 1, key, args as never);
    // Many arguments are passed as an array, because a function call has a limit. The client is slower with an array.
    if (args.length > manyArguments) return client.evalsha(hashes[script], 1, key, args as never);
    return client.evalsha(hashes[script], 1, key, ...args);
  }

  async function runOn(key: string, script: ScriptName, args: Argument[], call: Call): Promise<unknown> {
    for (let isWhole = false; ;) {
      if (client.status !== "ready") await connected(call);
      if (isClosed) throw closed(shown);
      // The caller gets `store_busy`. The reason of an earlier refusal is more informative than "not sent".
      if (performance.now() > call.until) throw call.reason ?? notSent();
      try {
        return await send(script, key, args, call, isWhole);
      } catch (thrown) {
        if (isUnsent(thrown)) await connected(call);
        // A restarted server has lost its scripts, so the call did nothing.
        else if (!isWhole && (thrown as Error).message.includes("NOSCRIPT")) isWhole = true;
        else throw thrown;
      }
    }
  }

  async function begin(call: Call): Promise<void> {
    for (const server of servers()) await inspect(server, address);
    const wanted = address.kind === "cluster" ? clusterBuckets : 1;
    const answer = await runOn(`${prefix}:meta`, "meta", [format, wanted], call);
    const [found, count] = (answer as [string, string]).map(Number) as [number, number];
    if (!Number.isInteger(found) || !Number.isInteger(count) || count < 1) {
      const message = `${prefix}:meta in ${shown} was not written by Holdfast; nothing was changed`;
      throw new HoldfastError("store_corrupt", message);
    }
    if (found > format) {
      throw new HoldfastError(
        "store_newer",
        `the data under ${prefix} in ${shown} was written by a newer Holdfast (its format is ${found}, this version reads up to ${format}); nothing was changed`,
      );
    }
    buckets = count;
  }

  async function start(call: Call): Promise<void> {
    if (client.status !== "ready") await connected(call);
    starting ??= begin(call).finally(() => (starting = undefined));
    try {
      await starting;
    } catch (thrown) {
      if (!isUnsent(thrown)) throw thrown;
      await connected(call);
      await start(call);
    }
  }

  return {
    address,
    start: (call) => (buckets > 0 ? undefined : start(call)),
    bucketCount: () => buckets,
    bucketOf: (session) => hashBucket(session, buckets),
    run: (script, bucket, args, call) => runOn(`${prefix}:{${bucket}}`, script, args, call),
    close() {
      isClosed = true;
      giveUp(closed(shown));
      client.disconnect();
    },
  };
}

/** Checks a server once: its kind must match the URL, and it must not evict keys. */
async function inspect(server: Redis, { kind, shown, expire, eviction }: Address): Promise<void> {
  let info: string;
  try {
    info = await server.info();
  } catch (cause) {
    // Some servers forbid this command.
    if (/NOPERM|unknown command/i.test((cause as Error).message)) return;
    throw cause;
  }
  const valueOf = (field: string): string | undefined => new RegExp(`^${field}:(.*?)\r?$`, "m").exec(info)?.[1];
  const refuse = (message: string): never => {
    throw new HoldfastError("store_failed", `the Redis store ${shown} ${message}`);
  };
  const mode = valueOf("redis_mode");
  if (mode === "sentinel") refuse("is a Sentinel; use a URL such as redis+sentinel://host:port/name");
  if (mode === "cluster" && kind !== "cluster")
    refuse("is a node of a Cluster; use a URL that begins with redis+cluster://");
  const policy = valueOf("maxmemory_policy") ?? "noeviction";
  const evicts = policy.startsWith("allkeys") || (policy.startsWith("volatile") && expire > 0);
  if (eviction === "refuse" && evicts && Number(valueOf("maxmemory") ?? 0) > 0) {
    refuse(
      `deletes keys when its memory is full (maxmemory-policy ${policy}), which would lose parts of logs; set the policy to noeviction, or accept the loss with eviction=allow in the URL`,
    );
  }
}
