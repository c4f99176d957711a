// What the failures of Redis and of its client mean: which of our codes they are, and whether anything can have happened.
import type { ErrorCode } from "../../core/errors.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../../core/errors.ts";

/** Redis said so before it did anything, or the client before it sent anything. In older servers it stands within the text. */
const refusals =
  /(?:^|[-:] ?)(?:READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOREPLICAS) |enableOfflineQueue options is false/;

const failures: { pattern: RegExp; code: ErrorCode; message: string }[] = [
  {
    pattern: /OOM command not allowed|maxmemory/,
    code: "store_full",
    message: "has no memory left (see its maxmemory); nothing was written",
  },
  { pattern: /No space left/i, code: "store_full", message: "has no room left on its disk; nothing was written" },
  { pattern: /MISCONF/, code: "store_failed", message: "cannot write to its disk and takes nothing until it can" },
  { pattern: /NOAUTH|Authentication required/, code: "store_failed", message: "wants a password; put it into the URL" },
  { pattern: /WRONGPASS|invalid password/, code: "store_failed", message: "does not know that user and password" },
  { pattern: /NOPERM/, code: "store_failed", message: "does not let this user do what the store has to" },
  {
    pattern: /WRONGTYPE/,
    code: "store_corrupt",
    message: "holds keys of somebody else under this prefix; choose another",
  },
  {
    pattern: /Protocol error|Unknown RESP type/,
    code: "store_failed",
    message: "is no Redis server, by what it answers",
  },
  {
    pattern: /cluster support disabled/,
    code: "store_failed",
    message: "is no Cluster; use a URL that begins with redis://",
  },
  { pattern: /certificate|SSL|TLS/i, code: "store_failed", message: "cannot be talked to by TLS" },
  { pattern: /READONLY/, code: "store_busy", message: "is a replica that takes no writes (yet)" },
  { pattern: /NOREPLICAS/, code: "store_busy", message: "has too few replicas to take writes" },
  { pattern: /BUSY /, code: "store_busy", message: "is busy with a script" },
  { pattern: /MOVED |ASK |CLUSTERDOWN|TRYAGAIN/, code: "store_busy", message: "is being rearranged" },
  {
    pattern:
      /LOADING|MASTERDOWN|Connection is closed|connection close|timed? ?out|retries per request|Failed to refresh|Cluster is ended|unreachable|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOST|ENET|enableOfflineQueue/,
    code: "store_busy",
    message: "cannot be reached",
  },
];
const otherwise = { code: "store_failed", message: "failed" } as const;

export function closed(shown: string): HoldfastError {
  return new HoldfastError("store_closed", `the Redis store ${shown} was closed`);
}

/** Whether nothing can have happened, so that the same may be sent again. Our own errors quote what was said of something else. */
export function isRefusal(cause: unknown): boolean {
  return !isHoldfastError(cause) && refusals.test(messageOf(cause));
}

/** Whether the client did not even send it, as the connection is on its way out. */
export function isUnsent(cause: unknown): boolean {
  return messageOf(cause).includes("enableOfflineQueue");
}

/** Whether waiting for a connection longer is of no use: what is there answers, and not as it should. */
export function isHopeless(cause: unknown): boolean {
  return /NOAUTH|WRONGPASS|invalid password|NOPERM|Protocol error|Unknown RESP type|cluster support disabled/.test(
    innermost(cause),
  );
}

/** What a Cluster's client reports is only that none of its nodes would do; the reason is a node's. */
function innermost(cause: unknown): string {
  const { lastNodeError } = cause as { lastNodeError?: unknown };
  return messageOf(lastNodeError ?? cause);
}

/**
 * Gives a failure one of our codes. The failure itself is not kept as the cause, because it carries the command with its
 * arguments: a password, or whole bodies.
 */
export function coded(cause: unknown, shown: string): HoldfastError {
  if (isHoldfastError(cause)) return cause;
  const reason = innermost(cause);
  const { code, message } = failures.find(({ pattern }) => pattern.test(reason)) ?? otherwise;
  const said = reason.length > 300 ? `${reason.slice(0, 300)}…` : reason;
  return new HoldfastError(code, `the Redis store ${shown} ${message}: ${said}`);
}
