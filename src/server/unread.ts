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

  /** Called once per tick. Cuts clients that have not read for long, and the slowest clients of too many bytes. */
  return function cutUnread(replies: readonly Sent[], ticks: number): void {
    let total = replies.reduce((sum, { connection }) => sum + connection.writableLength, 0);
    for (const { connection, since } of replies.toSorted((a, b) => a.since - b.since)) {
      const age = ticks - since;
      // In its first tick, a client may just be reading.
      if (age <= timeoutTicks && (age <= 1 || total <= unread)) return;
      total -= connection.writableLength;
      connection.destroy();
    }
  };
}
