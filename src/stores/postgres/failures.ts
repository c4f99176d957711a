// What can go wrong with a Postgres: which failures leave nothing behind, and which of our codes each one is.
import type { ErrorCode } from "../../core/errors.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../../core/errors.ts";

/** How long a verb may take, in milliseconds. */
export const patience = 5000;

/** Thrown when a verb's time is up. Its cause, if any, is why it took so long, and says more than the clock. */
export class TimeIsUp extends Error {}

/** The state that Postgres gives an error. Nothing where the connection itself failed. */
export function stateOf(thrown: unknown): string {
  const { code, severity } = thrown as { code?: unknown; severity?: unknown };
  return typeof severity === "string" && typeof code === "string" ? code : "";
}

/** Whether the server refused a statement and goes on: it is known to have changed nothing, and the connection is good. */
export function isRefusal(thrown: unknown): boolean {
  // Not in the language of the server.
  const { severity } = thrown as { severity?: unknown };
  return stateOf(thrown) !== "" && severity !== "FATAL" && severity !== "PANIC";
}

/** Whether a refused statement may do better the next time: it lost against another one, or its opening did. */
export function isRace(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(40001|40P01)$/.test(stateOf(thrown));
}

/** Whether a prepared statement was not where it was left: between us and the server something hands connections around. */
export function isStrayed(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(26000|42P05)$/.test(stateOf(thrown));
}

/** Whether it is what was to be written that cannot be, such as an id that is too long. */
export function isUnfit(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(22|23|54)/.test(stateOf(thrown));
}

/** Whether the connection was lost, so that nobody knows what became of the statement. */
export function isCut(thrown: unknown): boolean {
  return !isHoldfastError(thrown) && !(thrown instanceof TimeIsUp) && !isRefusal(thrown);
}

/** Whether to try again to connect: all but what only a person can change. */
export function isPassing(thrown: unknown): boolean {
  return !isHoldfastError(thrown) && !(thrown instanceof TimeIsUp) && !/^(28|3D|42|0A|22|25)/.test(stateOf(thrown));
}

/** Whether a server that can only read was reached: perhaps the one that takes writes is elsewhere by now. */
export function isReadOnly(thrown: unknown): boolean {
  return stateOf(thrown) === "25006";
}

const failures: { pattern: RegExp; code: ErrorCode; message: string }[] = [
  { pattern: /^53100/, code: "store_full", message: "has no room left; nothing was written" },
  {
    pattern: /^53[34]00/,
    code: "store_busy",
    message: "has no connection free; raise its max_connections, or lower `connections` in our URLs",
  },
  { pattern: /^53/, code: "store_busy", message: "is out of memory" },
  { pattern: /^57P0/, code: "store_busy", message: "is starting or stopping; try again" },
  { pattern: /^08/, code: "store_busy", message: "was cut off; try again" },
  { pattern: /^(57014|55P03|40)/, code: "store_busy", message: "is held up by others for too long" },
  {
    pattern: /^25006/,
    code: "store_failed",
    message: "is read-only, as a standby is; give the URL of the primary",
  },
  { pattern: /^28/, code: "store_failed", message: "does not let us in; check the user and the password in the URL" },
  { pattern: /^3D000/, code: "store_failed", message: "has no such database; make it with CREATE DATABASE" },
  {
    pattern: /^42501/,
    code: "store_failed",
    message: "does not allow it to this user; it needs CREATE on the database, or a schema of its own",
  },
  { pattern: /^(XX00[12]|58P01)/, code: "store_corrupt", message: "is damaged" },
  { pattern: /^./, code: "store_failed", message: "failed" },
];

/** Gives a failure of Postgres, or of the way to it, one of our codes. */
export function coded(cause: unknown, name: string): HoldfastError {
  if (isHoldfastError(cause)) return cause;
  if (cause instanceof TimeIsUp && cause.cause !== undefined) return coded(cause.cause, name);
  const state = stateOf(cause);
  if (cause instanceof TimeIsUp) {
    return new HoldfastError("store_busy", `the Postgres store ${name} ${cause.message}`, { cause });
  }
  if (state === "") return new HoldfastError("store_busy", `${cut(cause, name)}; try again`, { cause });
  const { code, message } = failures.find(({ pattern }) => pattern.test(state))!;
  return new HoldfastError(code, `the Postgres store ${name} ${message}: ${messageOf(cause)}`, { cause });
}

function cut(cause: unknown, name: string): string {
  // Where a name has several addresses, Node gives the failures of all of them and no message.
  const { errors } = cause as { errors?: unknown[] };
  const message = messageOf(errors?.[0] ?? cause);
  return `the Postgres store ${name} cannot be reached, or was cut off: ${message}`;
}
