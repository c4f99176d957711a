// What toolsets have in common that play an episode elsewhere: where they keep how to find it again, ids, and patience.
import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";

const prefixes = ["environment:", "gym:"];

/** Whether a key of an agent's state says where an episode is played. It is another one in every session, and replay. */
export function isHandle(key: string): boolean {
  return prefixes.some((prefix) => key.startsWith(prefix));
}

/** An id that follows from others, and that nobody can guess who does not know them. */
export function derivedId(...parts: string[]): string {
  return hash("sha256", JSON.stringify(parts), "base64url").slice(0, 32);
}

/** A call that touches the world and was under way at a crash counts as running until its time is over: it is asked again. */
export async function whenDecided<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "call_in_progress") throw thrown;
    }
    await delay(100, undefined, { signal });
  }
}
