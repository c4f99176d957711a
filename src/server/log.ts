// createLog(): JSON lines about requests: failures and slow ones, or all of them. Never a cookie or a token.
import { pino } from "pino";
import { isHoldfastError, messageOf } from "../core/errors.ts";

export interface LogOptions {
  /** "failures": replies of 5xx, and requests that took more than `slow`. Default. */
  what?: "none" | "failures" | "all";
  /** Milliseconds. Default 1,000. */
  slow?: number;
  /** Where the lines go. Default the standard error stream. */
  destination?: { write(line: string): void };
}

/** A request and what became of it. */
export interface LoggedRequest {
  method: string;
  path: string;
  status: number;
  ms: number;
  session?: string | undefined;
  call?: string | undefined;
  rollout?: string | undefined;
  /** What was thrown. */
  thrown?: unknown;
}

export interface Log {
  request(entry: LoggedRequest): void;
  /** Something that is not about one request. */
  error(message: string, thrown?: unknown): void;
}

const longestText = 500;

export function createLog({ what = "failures", slow = 1_000, destination }: LogOptions = {}): Log {
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime, enabled: what !== "none" };
  const lines = pino(options, destination ?? pino.destination({ dest: 2, sync: true }));
  // A flood that is turned away must not become a flood of lines: of those refusals, one line a second.
  let busySince = 0;
  const isFlood = (thrown: unknown): boolean => {
    if (!isHoldfastError(thrown) || thrown.code !== "too_busy") return false;
    const now = Date.now();
    if (now - busySince < 1_000) return true;
    busySince = now;
    return false;
  };
  return {
    request({ method, path, status, ms, session, call, rollout, thrown }) {
      const failed = status >= 500;
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
  };
}

const cut = <Text extends string | undefined>(text: Text): Text | string =>
  text !== undefined && text.length > longestText ? `${text.slice(0, longestText)}…` : text;

/** The code and message of what was thrown, with the stack of what is not ours: that is where the bug is. */
function described(thrown: unknown, failed: boolean): Record<string, unknown> | undefined {
  if (thrown === undefined) return undefined;
  const message = cut(messageOf(thrown));
  if (isHoldfastError(thrown)) {
    const { code, cause } = thrown;
    return failed && cause !== undefined ? { code, message, cause: described(cause, true) } : { code, message };
  }
  return failed && thrown instanceof Error ? { message, stack: thrown.stack } : { message };
}
