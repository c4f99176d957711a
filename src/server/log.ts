// createLog(): logs requests as JSON lines: failed and slow ones, or all. Never logs a cookie or a token.
import { pino } from "pino";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";

export interface LogOptions {
  /** "failures" logs 5xx replies and requests slower than `slow`. Default. */
  what?: "none" | "failures" | "all";
  /** Milliseconds after which a request counts as slow. Default 1,000. */
  slow?: number;
  /** Receives the lines. Default: standard error. */
  destination?: { write(line: string): void };
}

/** A request and its outcome. */
export interface LoggedRequest {
  method: string;
  path: string;
  status: number;
  ms: number;
  session?: string | undefined;
  call?: string | undefined;
  rollout?: string | undefined;
  /** The error, if the request failed. */
  thrown?: unknown;
}

export interface Log {
  request(entry: LoggedRequest): void;
  /** Logs a failure that does not belong to one request. */
  error(message: string, thrown?: unknown): void;
  /**
   * Logs an error in an author's code. The first at each place is logged with its stack trace, then the 10th, the
   * 100th, and so on.
   */
  thrown(error: Thrown, session: string): void;
}

const longestText = 500;
const mostPlaces = 1_000;
/**
 * Matches the token in the path of an MCP client or a harness, also in a message that repeats the path. The segment after
 * `/ng-rollout/` is a token if `/v1` follows, or if it ends with a signature. Otherwise, it is a rollout's id.
 */
const pathToken =
  /((?:%2f|(?<![\w-]))(?:s|%73|m|%6d)(?:\/|%2f)|\/ng-rollout\/(?=[^/\s"\\]+(?:\/[^/\s"\\]+)?\/v1\b|[\w-]+\.[\w-]{43}(?![\w-])))[^/\s"\\]+/gi;

/** Replaces the tokens in a text's paths. */
export const withoutTokens = (text: string): string => text.replace(pathToken, "$1…");

export function createLog({ what = "failures", slow = 1_000, destination }: LogOptions = {}): Log {
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime, enabled: what !== "none" };
  const target = destination ?? pino.destination({ dest: 2, sync: true });
  const lines = pino(options, { write: (line: string) => void target.write(withoutTokens(line)) });
  // A flood of too_busy refusals must not flood the log: at most one line per second.
  let busySince = 0;
  /** The number of errors thrown at each place in the author's code. */
  const seen = new Map<string, number>();
  const isFlood = (thrown: unknown): boolean => {
    if (!isHoldfastError(thrown) || thrown.code !== "too_busy") return false;
    const now = Date.now();
    if (now - busySince < 1_000) return true;
    busySince = now;
    return false;
  };
  return {
    request({ method, path, status, ms, session, call, rollout, thrown }) {
      // In the gym protocol, a failed row is answered with 200, even if the store failed.
      const failed = status >= 500 || (isHoldfastError(thrown) && thrown.code.startsWith("store_"));
      const isSlow = ms > slow;
      if (what === "none" || (what === "failures" && !failed && !isSlow)) return;
      if (what === "failures" && isFlood(thrown)) return;
      const entry = {
        method: cut(method),
        path: cut(path),
        status,
        ms: Math.round(ms * 10) / 10,
        session: cut(session),
        call: cut(call),
        rollout: cut(rollout),
        error: described(thrown, failed),
      };
      if (failed) lines.error(entry, "request failed");
      else if (isSlow) lines.warn(entry, "slow request");
      else lines.info(entry, "request");
    },
    error(message, thrown) {
      lines.error({ error: described(thrown, true) }, message);
    },
    thrown({ error, place, stack }, session) {
      const times = (seen.get(place) ?? 0) + 1;
      if (times === 1 && seen.size >= mostPlaces) return;
      seen.set(place, times);
      if (!Number.isInteger(Math.log10(times))) return;
      lines.error(
        { error, place, session: cut(session), times, ...(times === 1 && { stack }) },
        "error thrown by your code",
      );
    },
  };
}

const cut = <Text extends string | undefined>(text: Text): Text | string =>
  text !== undefined && text.length > longestText ? `${text.slice(0, longestText)}…` : text;

/** Returns an error's code and message. An error without a code indicates a bug, so its stack trace is included. */
function described(thrown: unknown, failed: boolean): Record<string, unknown> | undefined {
  if (thrown === undefined) return undefined;
  const message = cut(messageOf(thrown));
  if (isHoldfastError(thrown)) {
    const { code, cause } = thrown;
    return failed && cause !== undefined ? { code, message, cause: described(cause, true) } : { code, message };
  }
  return failed && thrown instanceof Error ? { message, stack: thrown.stack } : { message };
}
