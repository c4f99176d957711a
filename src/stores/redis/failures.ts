// Failures in Redis and its client: their error codes, and whether the command may have had an effect.
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import type { Fault } from "../front.ts";

/** Errors from Redis before a change, or from the client before a request. Old servers quote them in other errors. */
const refusals =
  /(?:^|[-:] ?)(?:READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOREPLICAS|HOLDFASTLOST) |enableOfflineQueue options is false|not sent/;

const failures: [pattern: RegExp, code: ErrorCode, message: string][] = [
  [/OOM command not allowed|maxmemory/, "store_full", "has no memory left (see its maxmemory); nothing was written"],
  [/No space left/i, "store_full", "has no space left on its disk; nothing was written"],
  [/MISCONF/, "store_failed", "cannot save to its disk, and refuses writes until it can"],
  [/NOAUTH|Authentication required/, "store_failed", "requires a password; add it to the URL"],
  [/WRONGPASS|invalid password/, "store_failed", "refused the user or password in the URL"],
  [/NOPERM/, "store_failed", "refused a command that the store needs; grant this user the permission"],
  [
    /HOLDFASTLOST/,
    "store_corrupt",
    "has lost part of a session (evicted, or deleted by another program); delete the session",
  ],
  [/WRONGTYPE/, "store_corrupt", "has keys from another program under this prefix; choose another prefix"],
  [/Protocol error|Unknown RESP type/, "store_failed", "does not answer like a Redis server"],
  [/cluster support disabled/, "store_failed", "is not a Cluster; use a URL that begins with redis://"],
  [/certificate|SSL|TLS/i, "store_failed", "failed to set up TLS"],
  [/READONLY/, "store_busy", "is a replica and refuses writes"],
  [/NOREPLICAS/, "store_busy", "refuses writes because it has too few replicas"],
  [/BUSY /, "store_busy", "is busy running a script"],
  [/MOVED |ASK |CLUSTERDOWN|TRYAGAIN/, "store_busy", "is moving keys between its nodes"],
  [
    /LOADING|MASTERDOWN|Connection is closed|connection close|timed? ?out|retries per request|Failed to refresh|Cluster is ended|unreachable|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOST|ENET|enableOfflineQueue|not sent/,
    "store_busy",
    "cannot be reached",
  ],
  [/(?:)/, "store_failed", "failed"],
];

/** Maximum pause before a retry, in milliseconds. */
const pause = 25;

export function closed(shown: string): HoldfastError {
  return new HoldfastError("store_closed", `the Redis store ${shown} was closed`);
}

/** Thrown for a command that was not sent, because there was no connection before its deadline. */
export const notSent = (): Error => new Error("not sent: no connection became available in time");

/** Returns whether the client did not send a command because its connection is closing. */
export function isUnsent(cause: unknown): boolean {
  return messageOf(cause).includes("enableOfflineQueue");
}

/** Returns whether waiting for a connection is useless, because the server refuses it. */
export function isHopeless(cause: unknown): boolean {
  return /NOAUTH|WRONGPASS|invalid (?:user|pass)|NOPERM|Protocol error|Unknown RESP type|cluster support disabled/.test(
    innermost(cause),
  );
}

/** Returns a failure's reason. A Cluster client reports that all nodes failed; the reason is in one node's error. */
function innermost(cause: unknown): string {
  const { lastNodeError } = cause as { lastNodeError?: unknown };
  return messageOf(lastNodeError ?? cause);
}

/** Classifies a failure. The error is not kept as a cause: it contains arguments, such as a password or bodies. */
export function faultOf(thrown: unknown): Fault {
  const reason = innermost(thrown);
  const [, code, message] = failures.find(([pattern]) => pattern.test(reason))!;
  const effect = refusals.test(messageOf(thrown)) ? "nothing" : "unknown";
  return { code, message: `${message}: ${ellipsis(reason, 300)}`, effect, passing: code === "store_busy", pause };
}
