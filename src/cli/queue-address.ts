// The address of a queue: a URL as a Redis store has it.
import { HoldfastError } from "../core/errors.ts";
import type { QueueAddress } from "../queue/connection.ts";
import { addressOf } from "../stores/redis/address.ts";

export function queueAddress(url: string): QueueAddress {
  if (/^rediss?(\+\w+)?:\/\//.test(url)) return addressOf({ url });
  const [scheme] = url.split(":", 1);
  const shown = /^[a-z0-9+.-]+:/.test(url) ? `${scheme}:` : `"${url}"`;
  throw new HoldfastError("invalid_option", `a queue is redis://HOST, as in redis://127.0.0.1:6379, not ${shown}`);
}
