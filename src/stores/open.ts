// Opens a store by its URL.
import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { invalidOption, isHoldfastError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { telemetry } from "../telemetry/process.ts";
import { hideSecrets } from "../io/hide-secrets.ts";

/** The supported forms of store URL, for messages and for --help. */
export const storeUrls =
  "memory:, sqlite:FILE, redis://HOST, postgres://HOST/DATABASE, s3://BUCKET/PREFIX, or http://HOST for your own service";

export interface StoreWishes {
  /** Whether the store must already exist. If it does not, opening fails instead of creating the store. */
  isThere?: boolean;
  /** The URL of a store for idle sessions, and the milliseconds until a session is idle. */
  cold?: string | undefined;
  coldAfter?: number | undefined;
}

const anHour = 3_600_000;

/**
 * Opens a store by its URL. The caller closes it.
 *
 * @example
 * const store = await openStore("sqlite:runs.db");
 */
export async function openStore(url: string, wishes: StoreWishes = {}): Promise<Store> {
  const { cold: coldUrl, coldAfter = anHour } = wishes;
  if (coldUrl === undefined) return opened(url, wishes);
  assertTiers(url, coldUrl);
  const hot = await opened(url, wishes);
  try {
    const cold = await opened(coldUrl, {});
    const { tieredStore } = await import("./tiered.ts");
    return tieredStore({ hot, cold, idle: coldAfter });
  } catch (thrown) {
    await hot.close();
    throw thrown;
  }
}

/**
 * Waits until a store can be reached, for at most `timeout` milliseconds. Any other failure is thrown immediately.
 * `onWait` is called once, with the reason.
 */
export async function reachStore(store: Store, timeout = 0, onWait?: (why: string) => void): Promise<void> {
  const deadline = Date.now() + timeout;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await store.read("holdfast:ready", 0, 1);
      return;
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "store_busy" || Date.now() >= deadline) throw thrown;
      if (isFirst) onWait?.(thrown.message);
      await delay(100);
    }
  }
}

/** Returns the same string for two URLs of the same store, as far as the URLs show that. */
export function placeOf(url: string): string {
  const [, file] = /^sqlite:(.*)$/.exec(url) ?? [];
  if (file !== undefined) return `sqlite:${existsSync(file) ? realpathSync(file) : resolve(file)}`;
  if (!URL.canParse(url)) return url;
  const { protocol, host, pathname, search } = new URL(url);
  return `${protocol}//${host}${pathname.replace(/\/+$/, "")}${search}`;
}

/** Refuses two stores that cannot be combined as tiers. */
function assertTiers(url: string, cold: string): void {
  if (url.startsWith("memory:"))
    throw invalidOption("--cold needs a persistent --store, because that store records where each session is");
  if (cold === url) throw invalidOption("--cold and --store must be different stores");
  for (const each of [url, cold]) assertKeeps(each);
}

/** A tier must not drop sessions by itself, because the tiered store relies on them. */
function assertKeeps(url: string): void {
  const [address, query] = url.split("?", 2);
  if (!/^rediss?[+:]/i.test(address!) || !new URLSearchParams(query).has("expire")) return;
  throw invalidOption(
    "`expire` in a Redis store URL cannot be combined with --cold, because expired sessions could not be moved; remove `expire`",
  );
}

async function opened(url: string, { isThere = false }: StoreWishes): Promise<Store> {
  const store = await storeAt(url, isThere);
  return (await telemetry())?.store(store, url) ?? store;
}

async function storeAt(url: string, isThere: boolean): Promise<Store> {
  const [, scheme, rest = ""] = /^([a-z0-9+.-]+):(.*)$/i.exec(url) ?? [];
  switch (scheme?.toLowerCase()) {
    case "memory":
      return (await import("./memory.ts")).memoryStore();
    case "sqlite":
      if (rest === "") throw invalidOption("a SQLite store needs a file, as in sqlite:runs.db");
      if (isThere && !existsSync(rest)) throw invalidOption(`the file ${rest} does not exist`);
      return (await import("./sqlite.ts")).sqliteStore({ file: rest });
    case "redis":
    case "rediss":
    case "redis+sentinel":
    case "redis+cluster":
    case "rediss+cluster":
      return (await import("./redis.ts")).redisStore({ url });
    case "postgres":
    case "postgresql":
      return (await import("./postgres.ts")).postgresStore({ url });
    case "s3":
      return (await import("./s3.ts")).s3Store({ url });
    case "http":
    case "https":
      return (await import("./http.ts")).httpStore({ url });
    default:
      throw invalidOption(`"${hideSecrets(url, "…")}" is not a valid store URL; use ${storeUrls}`);
  }
}
