// Parses a Redis store's address: a URL with options in its query, for one server, Sentinel or a Cluster.
import { HoldfastError } from "../../core/errors.ts";
import { refuseUnknown } from "../../core/suggest.ts";

export interface RedisStoreOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` with TLS,
   * `redis+sentinel://host:port,host:port/name[/database]` or `redis+cluster://host:port,host:port`. Every other option
   * may be given in its query: `?prefix=…`.
   */
  url: string;
  /**
   * The prefix for all keys. Stores with different prefixes can use one server and share nothing else. Default
   * "holdfast".
   */
  prefix?: string;
  /** Seconds without a commit after which a session is removed. Use the same value in all processes. Default: never. */
  expire?: number;
  /**
   * Number of replicas that must have a commit before it is answered. Each commit then takes one more round trip, to
   * the replicas. Default 0.
   */
  wait?: number;
  /**
   * "allow" accepts a server that evicts keys when its memory is full, which may remove parts of logs. Default
   * "refuse".
   */
  eviction?: "allow" | "refuse";
}

export interface Address {
  kind: "server" | "sentinel" | "cluster";
  hosts: { host: string; port: number }[];
  /** The name of the master in Sentinel. */
  name: string;
  database: number;
  username: string | undefined;
  password: string | undefined;
  tls: boolean;
  prefix: string;
  /** In milliseconds; 0: never. */
  expire: number;
  wait: number;
  eviction: "allow" | "refuse";
  /** The address for messages, without the password. */
  shown: string;
}

const kinds: Record<string, { kind: Address["kind"]; port: number; tls: boolean }> = {
  redis: { kind: "server", port: 6379, tls: false },
  rediss: { kind: "server", port: 6379, tls: true },
  "redis+sentinel": { kind: "sentinel", port: 26_379, tls: false },
  "redis+cluster": { kind: "cluster", port: 6379, tls: false },
  "rediss+cluster": { kind: "cluster", port: 6379, tls: true },
};
const known = ["prefix", "expire", "wait", "eviction"] as const;

const wrong = (message: string): HoldfastError => new HoldfastError("invalid_option", message);

/** Parses the options. A regular expression splits the URL, because `URL` refuses a list of hosts. */
export function addressOf({ url, ...given }: RedisStoreOptions): Address {
  refuseUnknown("redisStore", given, Object.fromEntries(known.map((name) => [name, true])), wrong);
  const parts =
    typeof url === "string" ? /^([a-z+]+):\/\/(?:(.*)@)?([^@/?]*)(\/[^@?]*)?(?:\?([^@]*))?$/s.exec(url) : null;
  const scheme = parts?.[1] === undefined ? undefined : kinds[parts[1]];
  if (!parts || !scheme) {
    throw wrong("`url` must begin with redis://, rediss://, redis+sentinel://, redis+cluster:// or rediss+cluster://");
  }
  const [, protocol, user, authority = "", path = "", query = ""] = parts;
  // It is unclear where such a password ends. Everything before the last @ may belong to it, so none of it is shown.
  if (user !== undefined && /[@/?]/.test(user)) {
    throw wrong("`url` has an unescaped @, / or ? in its user, password or query; write it percent-encoded, as in %40");
  }
  const shown = `${protocol}://${authority}${path}`;
  const hosts = authority.split(",").map((each) => hostOf(each, scheme.port, shown));
  const [username, password] = user === undefined ? [] : credentials(user);
  const steps = path.split("/").filter((step) => step !== "");
  const name = scheme.kind === "sentinel" ? decode(steps.shift() ?? "") : "";
  const database = Number(steps.shift() ?? 0);
  if (scheme.kind === "sentinel" && name === "") {
    throw wrong(`${shown} must name the master that Sentinel watches, as in redis+sentinel://host:port/name`);
  }
  if (scheme.kind === "server" && hosts.length > 1) {
    throw wrong(`${shown} names several servers, so it must start with redis+sentinel:// or redis+cluster://`);
  }
  if (!Number.isInteger(database) || database < 0 || steps.length > 0) {
    throw wrong(`the path in ${shown} must be a database number, as in redis://host:6379/0`);
  }
  if (scheme.kind === "cluster" && database > 0)
    throw wrong(`${shown} names a database other than 0, but a Redis Cluster has only database 0`);

  const asked = new URLSearchParams(query);
  for (const option of asked.keys()) {
    if (!(known as readonly string[]).includes(option)) {
      throw wrong(
        `the URL of the Redis store has an unknown option \`${option}\`; the options are ${known.join(", ")}`,
      );
    }
  }
  const prefix = given.prefix ?? asked.get("prefix") ?? "holdfast";
  // A Cluster would read a brace as a hash tag, which puts keys into one slot.
  if (typeof prefix !== "string" || prefix === "" || /[{}]/.test(prefix)) {
    throw wrong("`prefix` must be a string of at least one character, without braces");
  }
  const expire = numberOf("expire", given.expire ?? asked.get("expire") ?? 0, 0);
  const wait = numberOf("wait", given.wait ?? asked.get("wait") ?? 0, 0);
  if (!Number.isInteger(wait)) throw wrong("`wait` must be a whole number of replicas");
  const eviction = given.eviction ?? asked.get("eviction") ?? "refuse";
  if (eviction !== "allow" && eviction !== "refuse") throw wrong('`eviction` must be "allow" or "refuse"');
  const { kind, tls } = scheme;
  const milliseconds = Math.ceil(expire * 1000);
  return { kind, hosts, name, database, username, password, tls, prefix, expire: milliseconds, wait, eviction, shown };
}

function hostOf(text: string, port: number, shown: string): { host: string; port: number } {
  const parts = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d+))?$/.exec(text);
  const number = Number(parts?.[2] ?? port);
  if (parts?.[1] === undefined || number < 1 || number > 65_535) {
    if (text === "") throw wrong(`${shown} has no host; use a URL such as redis://localhost:6379`);
    throw wrong(`${JSON.stringify(text)} in ${shown} must be a host, or host:port`);
  }
  return { host: parts[1].replaceAll(/[[\]]/g, ""), port: number };
}

function credentials(text: string): [string | undefined, string | undefined] {
  const colon = text.indexOf(":");
  // Clients disagree on whether credentials without a colon are a password or a user, so they are refused.
  if (colon === -1) throw wrong("the URL must have user:password or :password before its @");
  const [user, password] = [decode(text.slice(0, colon)), decode(text.slice(colon + 1))];
  return [user === "" ? undefined : user, password === "" ? undefined : password];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong("the user, the password or the name in the URL has an invalid percent-encoding; write % as %25");
  }
}

function numberOf(option: string, value: string | number, least: number): number {
  const number = typeof value === "number" ? value : value.trim() === "" ? Number.NaN : Number(value);
  if (Number.isFinite(number) && number >= least) return number;
  throw wrong(`\`${option}\` must be a number of at least ${least}`);
}
