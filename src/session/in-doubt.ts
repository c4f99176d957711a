// inDoubt(): the error for a commit whose answer was lost.
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { Commit } from "../core/store.ts";

/**
 * Creates the error for a commit that may have been stored. `detail.doubt` has the version and the time of its event,
 * so that the caller can look it up.
 */
export function inDoubt(thrown: unknown, { version, entries }: Commit): HoldfastError {
  const { code, message, detail } = isHoldfastError(thrown)
    ? thrown
    : new HoldfastError("store_failed", `the store failed: ${messageOf(thrown)}`);
  const error = new HoldfastError(code, message, { detail: { ...detail }, cause: thrown });
  // Not enumerable, so that clients do not see it.
  Object.defineProperty(error.detail, "doubt", { value: { version: version + entries.length, at: entries[0].at } });
  return error;
}
