// Answers for long calls: a stream with progress notifications, so that clients and proxies keep waiting.
import type { Reply } from "../../core/protocol.ts";
import { within } from "../http/within.ts";

/** Milliseconds until a call counts as long, and between two notifications. */
export interface Pace {
  after: number;
  every: number;
}

export const defaultPace: Pace = { after: 2_000, every: 5_000 };

/** Returns the reply itself or, if it takes long, a stream that ends with its body. */
export async function withProgress(reply: Promise<Reply>, token: unknown, pace: Pace): Promise<Reply> {
  const quick = await within(reply, pace.after);
  return quick ?? { status: 200, stream: progressOf(reply, token, pace) };
}

async function* progressOf(reply: Promise<Reply>, token: unknown, { after, every }: Pace): AsyncGenerator<string> {
  const began = performance.now() - after;
  for (;;) {
    if (typeof token === "string" || typeof token === "number") {
      const progress = Math.round(performance.now() - began) / 1_000;
      const params = { progressToken: token, progress, message: `running for ${Math.round(progress)} s` };
      yield frame({ jsonrpc: "2.0", method: "notifications/progress", params });
    }
    const done = await within(reply, every);
    if (!done) continue;
    yield frame(done.body);
    return;
  }
}

const frame = (message: unknown): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`;
