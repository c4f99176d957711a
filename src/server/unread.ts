// createUnread(): cuts connections whose clients do not read their replies.
import type { Duplex } from "node:stream";
import type { Limits } from "./limits.ts";

/** A reply that was given to a connection. */
export interface Sent {
  connection: Duplex;
  /** The tick at which it was given to the connection, or at which a stream's client last read everything. */
  since: number;
}

/** `tick`: the milliseconds of a tick. */
export function createUnread({ requestTimeout, unread }: Limits, tick: number) {
  const timeoutTicks = Math.ceil(requestTimeout / tick);

  /**
   * Called once per tick. Cuts clients that have not read for too long. If the others leave too much unread in total,
   * cuts the clients with the most unread data.
   */
  return function cutUnread(replies: readonly Sent[], ticks: number): void {
    // In its first tick, a client may just be reading.
    const slow = replies.filter(({ since }) => ticks - since > 1);
    let total = replies.reduce((sum, { connection }) => sum + connection.writableLength, 0);
    for (const { connection, since } of slow.sort(
      (a, b) => b.connection.writableLength - a.connection.writableLength,
    )) {
      if (ticks - since <= timeoutTicks && total <= unread) continue;
      total -= connection.writableLength;
      connection.destroy();
    }
  };
}
