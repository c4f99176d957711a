// The address of a queue: a URL as a Redis store has it.
import { HoldfastError } from "../core/errors.ts";
import type { QueueAddress } from "./connection.ts";
import { addressOf } from "../stores/redis/address.ts";

export function queueAddress(url: string): QueueAddress {
  if (/^rediss?(\+\w+)?:\/\//.test(url)) return { ...addressOf({ url }), typed: typedOf(url) };
  const [scheme] = url.split(":", 1);
  const shown = /^[a-z0-9+.-]+:/.test(url) ? `${scheme}:` : `"${url}"`;
  throw new HoldfastError("invalid_option", `a queue is redis://HOST, as in redis://127.0.0.1:6379, not ${shown}`);
}

/** Without user and password. In quotes where a shell would take a part of it for something else. */
function typedOf(url: string): string {
  const typed = url.replace(/\/\/([^:]*):.*@/s, (_, user) => (user === "" ? "//:PASSWORD@" : "//USER:PASSWORD@"));
  return /^[\w:/.,+@-]+$/.test(typed) ? typed : `'${typed.replaceAll("'", "%27")}'`;
}
