// queueAddress(): parses the URL of a queue, which has the form of a Redis store's URL.
import { invalidOption } from "../core/errors.ts";
import type { QueueAddress } from "./connection.ts";
import { addressOf } from "../stores/redis/address.ts";

export function queueAddress(url: string): QueueAddress {
  if (/^rediss?(\+\w+)?:\/\//.test(url)) return { ...addressOf({ url }), typed: maskCredentials(url) };
  const [scheme] = url.split(":", 1);
  const shown = /^[a-z0-9+.-]+:/.test(url) ? `${scheme}:` : `"${url}"`;
  throw invalidOption(`a queue is redis://HOST, as in redis://127.0.0.1:6379, not ${shown}`);
}

/** Replaces user and password by placeholders. Quotes the URL if a shell would interpret a part of it. */
function maskCredentials(url: string): string {
  const typed = url.replace(/\/\/([^:]*):.*@/s, (_, user) => (user === "" ? "//:PASSWORD@" : "//USER:PASSWORD@"));
  return /^[\w:/.,+@-]+$/.test(typed) ? typed : `'${typed.replaceAll("'", "%27")}'`;
}
