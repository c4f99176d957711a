// createAggregateReply(): answers /aggregate_metrics, one request after another.
import { HoldfastError } from "../../core/errors.ts";
import type { Reply } from "../../core/protocol.ts";
import { createKeyedQueue } from "../../io/keyed-queue.ts";
import { doInPieces, stringifySteps } from "../../io/pace.ts";

/** Maximum number of requests in memory at the same time. Rows and replies are large, and the route needs no token. */
const most = 16;

/** Returns a function that replies with metrics for the rows in a body. */
export function createAggregateReply(aggregate: (rows: unknown) => Promise<object>): (body: unknown) => Promise<Reply> {
  let count = 0;
  const inTurn = createKeyedQueue();

  /** Builds the reply in small steps, because it can be several times as large as the request. */
  async function replyTo(body: unknown): Promise<Reply> {
    const metrics = await aggregate((Object(body) as { verify_responses?: unknown }).verify_responses);
    const headers = { "content-type": "application/json" };
    return { status: 200, headers, text: await doInPieces(stringifySteps(metrics)) };
  }

  return async (body) => {
    if (count >= most) {
      throw new HoldfastError("too_busy", `the server is already computing metrics for ${most} requests; retry later`);
    }
    count++;
    try {
      return await inTurn("", () => replyTo(body));
    } finally {
      count--;
    }
  };
}
