// Classifies Postgres failures: whether they may have changed something, and their error codes.
import { messageOf, type ErrorCode } from "../../core/errors.ts";
import type { Fault } from "../front.ts";

/** Thrown at the deadline of an operation. Its cause, if any, is the reason for the delay. */
export class TimeIsUp extends Error {}

/** Thrown if there was no connection, so nothing was sent. The cause is the reason. */
export class Unconnected extends Error {}

/** Returns the SQLSTATE of an error; an empty string if the connection itself failed. */
export function stateOf(thrown: unknown): string {
  const { code, severity } = thrown as { code?: unknown; severity?: unknown };
  return typeof severity === "string" && typeof code === "string" ? code : "";
}

/** SQLSTATEs with which a server may end the connection. */
const ending = /^(?:08|25P|28|3D|53|57P|58|XX)/;

/** Returns whether the server refused a statement. If so, nothing was changed, and the connection stays usable. */
export function isRefusal(thrown: unknown): boolean {
  const { severity } = thrown as { severity?: unknown };
  const state = stateOf(thrown);
  if (state === "" || severity === "FATAL" || severity === "PANIC") return false;
  // A server translates the severity into its own language, so another word than ERROR may mean any of the three.
  return severity === "ERROR" || !ending.test(state);
}

/** Returns whether a refused statement may succeed next time, because it or the creation of the schema lost a race. */
function isRace(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(40001|40P01)$/.test(stateOf(thrown));
}

/** Returns whether a prepared statement is missing or exists already, because a pooler changed server connections. */
export function isStrayed(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(26000|42P05)$/.test(stateOf(thrown));
}

/** Returns whether the written values caused the failure, such as an id that is too long. */
function isUnfit(thrown: unknown): boolean {
  return isRefusal(thrown) && /^(22|23|54)/.test(stateOf(thrown));
}

/** Returns whether a new connection may help. It cannot if a person must change something. */
function isPassing(thrown: unknown): boolean {
  return !/^(28|3D|42|0A|22|25)/.test(stateOf(thrown));
}

/** Returns whether the server is read-only. After a failover, another server may accept writes. */
export function isReadOnly(thrown: unknown): boolean {
  return stateOf(thrown) === "25006";
}

const failures: [pattern: RegExp, code: ErrorCode, message: string][] = [
  [/^53100/, "store_full", "has no space left; nothing was written"],
  [
    /^53[34]00/,
    "store_busy",
    "has no free connection; raise its max_connections, or lower `connections` in the store URL",
  ],
  [/^53/, "store_busy", "is out of memory"],
  [/^57P0/, "store_busy", "is starting or stopping; try again"],
  [/^08/, "store_busy", "lost the connection; try again"],
  [/^(57014|55P03|40)/, "store_busy", "did not finish in time because other clients hold locks"],
  [/^25006/, "store_failed", "is read-only, probably a standby; use the URL of the primary"],
  [/^28/, "store_failed", "refused the login; check the user name and password in the URL"],
  [/^3D000/, "store_failed", "does not have this database; create it with CREATE DATABASE"],
  [
    /^42501/,
    "store_failed",
    "denied permission; this user needs the CREATE privilege on the database, or a schema that it owns, named by ?schema=NAME in the URL",
  ],
  [/^(XX00[12]|58P01)/, "store_corrupt", "is damaged"],
  [/^./, "store_failed", "failed"],
];

/** Classifies a failure of Postgres or of the connection to it. */
export function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Unconnected) {
    return { ...faultOf(thrown.cause), effect: "nothing", passing: isPassing(thrown.cause), pause: 150 };
  }
  if (thrown instanceof TimeIsUp) {
    if (thrown.cause !== undefined) return { ...faultOf(thrown.cause), effect: "unknown", passing: false };
    return { code: "store_busy", message: thrown.message, effect: "unknown", cause: thrown };
  }
  const state = stateOf(thrown);
  if (state === "") {
    const message = `cannot be reached, or lost the connection: ${connectionText(thrown)}; try again`;
    return { code: "store_busy", message, effect: "unknown", passing: true, cause: thrown };
  }
  const [, code, message] = failures.find(([pattern]) => pattern.test(state))!;
  const text = `${message}: ${messageOf(thrown)}`;
  // A server that ends a connection may have stored the write before.
  if (!isRefusal(thrown)) return { code, message: text, effect: "unknown", passing: isPassing(thrown), cause: thrown };
  const passing = isRace(thrown) || isStrayed(thrown);
  return { code, message: text, effect: "nothing", passing, pause: 10, single: isUnfit(thrown), cause: thrown };
}

function connectionText(cause: unknown): string {
  // If a name has several addresses, Node reports one error without a message that contains all their failures.
  const { errors } = cause as { errors?: unknown[] };
  return messageOf(errors?.[0] ?? cause);
}
