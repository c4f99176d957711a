// The connection under the Redis store: the first look at the server, and calls of scripts, each within its limit of time.
import type { Redis } from "ioredis";
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import type { Address } from "./address.ts";
import { clientOf } from "./client.ts";
import { createConfirming } from "./confirming.ts";
import { createDeadlines, patience } from "./deadlines.ts";
import { closed, coded, isHopeless, isRefusal, isUnsent } from "./failures.ts";
import { scripts, type ScriptName } from "./scripts.ts";

/** The format of what is stored. */
const format = 1;
/** How many buckets a new storage on a Cluster gets. Enough for every node of a large one to have some. */
const clusterBuckets = 256;

const manyArguments = 1000;

/** The scripts that a session's durability hangs on. */
const durable: ReadonlySet<ScriptName> = new Set(["append", "one", "prepare", "commit", "apply", "mark"]);

type Argument = string | number;

/** What the parts of the store see of the connection. */
export interface Connection {
  readonly address: Address;
  /** How many buckets there are. */
  buckets(until: number): number | Promise<number>;
  /**
   * Calls a script on a bucket. What only reads is called again if its answer was lost; what writes is not: then the
   * call is rejected, and may have happened or not.
   */
  call(script: ScriptName, key: string, args: Argument[], until: number, effect: "reads" | "writes"): Promise<unknown>;
  disconnect(): void;
}

/** What a server calls a script that it was sent before. */
const hashes = Object.fromEntries(
  Object.entries(scripts).map(([name, lua]) => [name, createHash("sha1").update(lua).digest("hex")]),
) as Record<ScriptName, string>;

export function connectionTo(address: Address): Connection {
  const { prefix, shown, wait } = address;
  const client = clientOf(address);
  const confirmed = createConfirming(client, hashes, address);

  let isClosed = false;

  const waiting = new Set<{ until: number; resolve(): void; reject(error: HoldfastError): void }>();
  let failure: unknown;
  client.on("ready", () => {
    failure = undefined;
    // Ahead of all else; where that does not come about they are sent with the first call.
    for (const server of servers()) {
      for (const lua of Object.values(scripts)) server.script("LOAD", lua).catch(() => {});
    }
    for (const { resolve } of waiting) resolve();
    waiting.clear();
  });
  client.on("error", (error: unknown) => {
    failure = error;
    if (!isHopeless(error)) return;
    for (const { reject } of waiting) reject(coded(error, shown));
    waiting.clear();
  });

  /** Waits for a connection, for whoever has set itself a limit. The client keeps trying by itself. */
  function ready(until: number): Promise<void> {
    // A client that was disconnected would connect again.
    if (isClosed) return Promise.reject(closed(shown));
    if (client.status === "wait" || client.status === "end") client.connect().catch(() => {});
    const now = performance.now();
    for (const each of waiting) {
      if (each.until > now) break;
      waiting.delete(each);
    }
    return new Promise((resolve, reject) => void waiting.add({ until, resolve, reject }));
  }

  const late = (): Error => new Error("it did not answer: timed out");
  const { within, stop } = createDeadlines((reason) =>
    coded(reason ?? (client.status === "ready" ? late() : (failure ?? late())), shown),
  );

  const servers = (): Redis[] => ("nodes" in client ? client.nodes("master") : [client]);

  let sending: "nothing" | "one" | "more" = "nothing";

  /**
   * Lets what is sent at the same moment travel together: all but the first, as most are alone. The client's own way to do
   * so takes twice the time for one commit, and holds back what comes while others are under way.
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

  function send(script: ScriptName, key: string, args: Argument[], until: number): Promise<unknown> {
    gather();
    if (wait > 0 && durable.has(script)) return confirmed(script, key, args, until);
    // The client takes its time to look into an array. So many arguments are no call that can be made otherwise.
    if (args.length > manyArguments) return client.evalsha(hashes[script], 1, key, args as never);
    return client.evalsha(hashes[script], 1, key, ...args);
  }

  const call: Connection["call"] = (script, key, args, until, effect) =>
    within(until, (resolve, reject, note) => {
      const fail = (cause: unknown): void => {
        if (isClosed) reject(closed(shown));
        else if ((cause as Error).message.includes("NOSCRIPT")) {
          // Then it did nothing. A server forgets its scripts when it is restarted.
          client.eval(scripts[script], 1, key, args as never).then(resolve, fail);
        } else retry(cause);
      };
      const retry = (cause: unknown): void => {
        const mayRepeat = isRefusal(cause) || (effect === "reads" && coded(cause, shown).code === "store_busy");
        // That it could not be sent says less than what the server said before.
        if (note.reason === undefined || !isUnsent(cause)) note.reason = cause;
        if (!mayRepeat || performance.now() + 20 > until) reject(coded(note.reason, shown));
        else void delay(5 + Math.random() * 20).then(attempt);
      };
      const attempt = (): void => {
        if (isClosed) reject(closed(shown));
        else if (performance.now() > until) reject(coded(note.reason ?? failure ?? late(), shown));
        else if (client.status === "ready") send(script, key, args, until).then(resolve, fail);
        else ready(until).then(attempt, reject);
      };
      attempt();
    });

  let buckets: number | undefined;
  let starting: Promise<number> | undefined;

  async function start(): Promise<number> {
    // Before the limits of those who wait for it: what goes wrong is known here.
    const until = performance.now() + patience - 500;
    if (client.status !== "ready") {
      await within<void>(until, (resolve, reject) => void ready(until).then(resolve, reject));
    }
    for (const server of servers()) {
      await inspect(server, address).catch((cause) => Promise.reject(coded(cause, shown)));
    }
    const wanted = address.kind === "cluster" ? clusterBuckets : 1;
    const answer = await call("meta", `${prefix}:meta`, [format, wanted], until, "reads");
    const [found, count] = (answer as [string, string]).map(Number) as [number, number];
    if (!Number.isInteger(found) || !Number.isInteger(count) || count < 1) {
      throw new HoldfastError(
        "store_corrupt",
        `${prefix}:meta in ${shown} is not what Holdfast writes; it was left untouched`,
      );
    }
    if (found > format) {
      throw new HoldfastError(
        "store_newer",
        `what is under ${prefix} in ${shown} was written by a newer Holdfast (its format is ${found}, this one knows ${format}); it was left untouched`,
      );
    }
    return count;
  }

  return {
    address,
    buckets(until) {
      if (buckets !== undefined) return buckets;
      starting ??= start().finally(() => (starting = undefined));
      const started = starting;
      return within(until, (resolve, reject) => {
        started.then((found) => resolve((buckets = found)), reject);
      });
    },
    call,
    disconnect() {
      isClosed = true;
      stop(closed(shown));
      waiting.clear();
      client.disconnect();
    },
  };
}

/** Looks at a server once: whether it is of the kind that the URL says, and whether it keeps what it is given. */
async function inspect(server: Redis, { kind, shown, expire, eviction }: Address): Promise<void> {
  let info: string;
  try {
    info = await server.info();
  } catch (cause) {
    // Some do not let everybody ask.
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
      `throws keys away when its memory is full (maxmemory-policy ${policy}), and with them parts of logs; set it to noeviction, or say eviction=allow`,
    );
  }
}
