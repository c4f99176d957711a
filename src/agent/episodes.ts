// Code that toolsets for episodes share: derived ids, and waiting for a call's outcome.
import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";

/** Derives an id from other strings. The id cannot be guessed without these strings. */
export function derivedId(...parts: string[]): string {
  return hash("sha256", JSON.stringify(parts), "base64url").slice(0, 32);
}

/** The codes of a call to send again later: the first one is still running, or too many calls wait for the session. */
const passing: ReadonlySet<string> = new Set(["call_in_progress", "session_crowded"]);

/** Repeats a call until its outcome is known. After a crash, an external call counts as running until its timeout. */
export async function whenDecided<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (thrown) {
      if (!isHoldfastError(thrown) || !passing.has(thrown.code)) throw thrown;
    }
    await delay(100, undefined, { signal });
  }
}
