// Answers for long calls: a stream with progress notifications, so that clients and proxies keep waiting.
import type { Progress } from "../../core/environment.ts";
import type { Reply } from "../../core/protocol.ts";
import { within } from "../http/within.ts";

/** Milliseconds until a call counts as long, and between two notifications. */
export interface Pace {
  after: number;
  every: number;
}

export const defaultPace: Pace = { after: 2_000, every: 5_000 };

/** Minimum increase from one progress value to the next. Clients ignore values that do not grow. */
const leastStep = 1e-6;

/**
 * Returns the reply itself or, if it takes long or the tool reports progress, a stream that ends with the reply's body.
 * `token` is the client's progress token. Without one, the client gets no notifications.
 */
export async function withProgress(
  call: (onProgress?: (progress: Progress) => void) => Promise<Reply>,
  token: unknown,
  pace: Pace,
): Promise<Reply> {
  const isWanted = typeof token === "string" || typeof token === "number";
  // Only the newest report counts. A client that reads slowly misses the earlier ones.
  let report: Progress | undefined;
  let wake = (): void => undefined;
  const reply = call(
    isWanted
      ? (progress) => {
          report = progress;
          wake();
        }
      : undefined,
  );
  /** Waits for the reply, up to a time limit or until the tool reports progress. */
  const next = (milliseconds: number): Promise<Reply | undefined> => {
    if (report) return Promise.resolve(undefined);
    const reported = new Promise<undefined>((resolve) => (wake = () => resolve(undefined)));
    return within(isWanted ? Promise.race([reply, reported]) : reply, milliseconds);
  };

  async function* notifications(began: number): AsyncGenerator<string> {
    let last = 0;
    for (;;) {
      if (isWanted) {
        const {
          done = 0,
          total,
          message = `running for ${Math.round((performance.now() - began) / 1_000)} s`,
        } = report ?? {};
        report = undefined;
        last = Math.max(done, last + leastStep);
        const params = { progressToken: token, progress: last, total, message };
        yield frame({ jsonrpc: "2.0", method: "notifications/progress", params });
      }
      const done = await next(pace.every);
      if (!done) continue;
      yield frame(done.body);
      return;
    }
  }

  const began = performance.now();
  return (await next(pace.after)) ?? { status: 200, stream: notifications(began), isRun: true };
}

const frame = (message: unknown): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`;
