// createAggregateReply(): answers /aggregate_metrics, one request after the other.
import { HoldfastError } from "../../core/errors.ts";
import type { Reply } from "../../core/protocol.ts";
import { stringifyInPieces } from "../../io/pace.ts";

/** Requests in memory at once. Rows and replies are large, and the route needs no token. */
const most = 16;

/**
 * Gives a function that replies with the metrics of the rows in a body.
 *
 * @example
 * const reply = createAggregateReply(aggregate);
 * const { text } = await reply({ verify_responses: [{ reward: 1 }] });
 */
export function createAggregateReply(aggregate: (rows: unknown) => Promise<object>): (body: unknown) => Promise<Reply> {
  let count = 0;
  let before: Promise<unknown> = Promise.resolve();

  /** The reply can be several times as large as the request. */
  async function replyTo(body: unknown): Promise<Reply> {
    const isObject = typeof body === "object" && body !== null;
    const metrics = await aggregate(isObject && (body as { verify_responses?: unknown }).verify_responses);
    const headers = { "content-type": "application/json" };
    return { status: 200, headers, text: await stringifyInPieces(metrics) };
  }

  return async (body) => {
    if (count >= most) {
      throw new HoldfastError("too_busy", `the server is busy with ${most} requests for metrics; retry later`);
    }
    count++;
    try {
      const reply = before.then(() => replyTo(body));
      // Without the reply, which may be large.
      before = reply.then(
        () => undefined,
        () => undefined,
      );
      return await reply;
    } finally {
      count--;
    }
  };
}
