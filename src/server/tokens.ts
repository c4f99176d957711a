// createTokens(): signs session tokens, and finds the keys to sign them with.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import { parseJson } from "../core/json.ts";
import type { Tokens } from "../core/protocol.ts";
import type { Store } from "../core/store.ts";

/** The log that stores the keys. */
const keysLog = "holdfast:keys";
const shortestSecret = 16;
/** Tokens per cache generation. Each of the two caches holds at most two generations. */
const remembered = 50_000;
/** Prefix of every signed value, so that other data signed with the same key is not a valid token. */
const sessionPurpose = "holdfast session token\n";
const signatureLength = 43;

/**
 * Signs with the first key and accepts signatures made with any key. A token is the value and its HMAC-SHA256, both in
 * base64url. Recent tokens are cached, so a known session's request needs no HMAC.
 *
 * @example
 * const tokens = createTokens(await keysFromStore(store));
 * const protocol = gymProtocol({ sessions, tokens, aggregate });
 */
export function createTokens(keys: string[], purpose = sessionPurpose): Tokens {
  const [first] = keys;
  if (first === undefined) throw invalidOption("session tokens need at least one signing key");
  const issued = recent();
  const checked = recent();
  const sign = (value: string): string => {
    const text = Buffer.from(value).toString("base64url");
    return `${text}.${signature(first, purpose + text)}`;
  };
  return {
    sign,
    issue(value) {
      const known = issued.get(value);
      if (known !== undefined) return known;
      const token = sign(value);
      issued.set(value, token);
      checked.set(token, value);
      return token;
    },
    check(token) {
      const known = checked.get(token);
      if (known !== undefined) return known;
      const dot = token.length - signatureLength - 1;
      if (dot < 0 || token[dot] !== ".") return undefined;
      const text = token.slice(0, dot);
      const given = Buffer.from(token.slice(dot + 1));
      // Tries every key even after a match, so the time does not reveal which key matched.
      const fits = keys.filter((key) => {
        const wanted = Buffer.from(signature(key, purpose + text));
        return wanted.length === given.length && timingSafeEqual(wanted, given);
      });
      if (fits.length === 0) return undefined;
      const value = Buffer.from(text, "base64url").toString();
      checked.set(token, value);
      return value;
    },
  };
}

const signature = (key: string, text: string): string => createHmac("sha256", key).update(text).digest("base64url");

/** A cache that evicts unused entries: it keeps two generations and drops the older one. */
function recent(): { get(key: string): string | undefined; set(key: string, value: string): void } {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  const set = (key: string, value: string): void => {
    if (young.size >= remembered) [young, old] = [new Map(), young];
    young.set(key, value);
  };
  return {
    set,
    get(key) {
      const known = young.get(key);
      if (known !== undefined) return known;
      const older = old.get(key);
      if (older !== undefined) set(key, older);
      return older;
    },
  };
}

/** Parses the keys in `HOLDFAST_SECRET=new,old`. */
export function keysFromSecret(secret: string): string[] {
  const keys = secret.split(",").map((key) => key.trim());
  if (keys.some((key) => key.length < shortestSecret)) {
    const message = `each secret of HOLDFAST_SECRET must have at least ${shortestSecret} characters`;
    throw invalidOption(message);
  }
  return keys;
}

/**
 * Returns the keys kept in the store. The first process creates them, so restarts and replicas agree.
 *
 * @example
 * const tokens = createTokens(await keysFromStore(store));
 */
export async function keysFromStore(store: Store): Promise<string[]> {
  const found = await storedKey(store);
  if (found !== undefined) return [found];
  const now = Date.now();
  await store.append({
    session: keysLog,
    version: 0,
    entries: [{ body: JSON.stringify({ key: randomBytes(32).toString("base64url") }), at: now }],
    heading: { environment: keysLog, opened: now },
  });
  // The key in the store is ours, or that of a process that wrote it first.
  const stored = await storedKey(store);
  if (stored === undefined)
    throw new HoldfastError("store_failed", "the store confirmed the session token key and then lost it");
  return [stored];
}

async function storedKey(store: Store): Promise<string | undefined> {
  const entry = (await store.read(keysLog, 0, 1))?.[0];
  if (!entry) return undefined;
  const { key } = Object(parseJson(entry.body)) as { key?: unknown };
  if (typeof key === "string" && key.length >= shortestSecret) return key;
  throw new HoldfastError("store_corrupt", "the key that signs session tokens is damaged in the store");
}
