// Failures of Redis and of its client: their error codes, and whether anything can have happened.
import { HoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import type { Fault } from "../front.ts";

/** Errors of Redis before it did anything, or of the client before it sent anything. Older servers quote them. */
const refusals =
  /(?:^|[-:] ?)(?:READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOREPLICAS|HOLDFASTLOST) |enableOfflineQueue options is false|not sent/;

const failures: { pattern: RegExp; code: ErrorCode; message: string }[] = [
  {
    pattern: /OOM command not allowed|maxmemory/,
    code: "store_full",
    message: "has no memory left (see its maxmemory); nothing was written",
  },
  { pattern: /No space left/i, code: "store_full", message: "has no space left on its disk; nothing was written" },
  { pattern: /MISCONF/, code: "store_failed", message: "cannot write to its disk, and refuses writes until it can" },
  {
    pattern: /NOAUTH|Authentication required/,
    code: "store_failed",
    message: "requires a password; put it into the URL",
  },
  { pattern: /WRONGPASS|invalid password/, code: "store_failed", message: "refused the user or password in the URL" },
  {
    pattern: /NOPERM/,
    code: "store_failed",
    message: "refused a command that the store needs; give this user the permission",
  },
  {
    pattern: /HOLDFASTLOST/,
    code: "store_corrupt",
    message: "has lost part of a session (evicted, or deleted by another program); delete the session",
  },
  {
    pattern: /WRONGTYPE/,
    code: "store_corrupt",
    message: "has keys of another program under this prefix; choose another prefix",
  },
  {
    pattern: /Protocol error|Unknown RESP type/,
    code: "store_failed",
    message: "does not answer like a Redis server",
  },
  {
    pattern: /cluster support disabled/,
    code: "store_failed",
    message: "is not a Cluster; use a URL that begins with redis://",
  },
  { pattern: /certificate|SSL|TLS/i, code: "store_failed", message: "failed to set up TLS" },
  { pattern: /READONLY/, code: "store_busy", message: "is a replica and refuses writes" },
  { pattern: /NOREPLICAS/, code: "store_busy", message: "refuses writes because it has too few replicas" },
  { pattern: /BUSY /, code: "store_busy", message: "is busy with a script" },
  { pattern: /MOVED |ASK |CLUSTERDOWN|TRYAGAIN/, code: "store_busy", message: "is moving keys between its nodes" },
  {
    pattern:
      /LOADING|MASTERDOWN|Connection is closed|connection close|timed? ?out|retries per request|Failed to refresh|Cluster is ended|unreachable|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOST|ENET|enableOfflineQueue|not sent/,
    code: "store_busy",
    message: "cannot be reached",
  },
];
const otherwise = { code: "store_failed", message: "failed" } as const;

/** Maximum pause before a retry, in milliseconds. */
const pause = 25;

export function closed(shown: string): HoldfastError {
  return new HoldfastError("store_closed", `the Redis store ${shown} was closed`);
}

/** Thrown for a command that was not sent, because there was no connection before its deadline. */
export const notSent = (): Error => new Error("not sent: there was no connection in time");

/** Tells whether the client did not send a command because its connection is closing. */
export function isUnsent(cause: unknown): boolean {
  return messageOf(cause).includes("enableOfflineQueue");
}

/** Tells whether waiting for a connection is useless, because the server refuses it. */
export function isHopeless(cause: unknown): boolean {
  return /NOAUTH|WRONGPASS|invalid (?:user|pass)|NOPERM|Protocol error|Unknown RESP type|cluster support disabled/.test(
    innermost(cause),
  );
}

/** A Cluster's client reports only that all nodes failed; the reason is in the error of a node. */
function innermost(cause: unknown): string {
  const { lastNodeError } = cause as { lastNodeError?: unknown };
  return messageOf(lastNodeError ?? cause);
}

/** Classifies a failure. It is not kept as a cause: it contains arguments, such as a password or bodies. */
export function faultOf(thrown: unknown): Fault {
  const reason = innermost(thrown);
  const { code, message } = failures.find(({ pattern }) => pattern.test(reason)) ?? otherwise;
  const said = reason.length > 300 ? `${reason.slice(0, 300)}…` : reason;
  const effect = refusals.test(messageOf(thrown)) ? "nothing" : "unknown";
  return { code, message: `${message}: ${said}`, effect, passing: code === "store_busy", pause };
}
