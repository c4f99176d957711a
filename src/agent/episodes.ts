// Code that toolsets for episodes share: derived ids, and waiting for a call's outcome.
import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";

/** Derives an id from other strings. The id cannot be guessed without these strings. */
export function derivedId(...parts: string[]): string {
  return hash("sha256", JSON.stringify(parts), "base64url").slice(0, 32);
}

/** Repeats a call until its outcome is known. After a crash, an external call counts as running until its timeout. */
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
