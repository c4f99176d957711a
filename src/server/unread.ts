// createUnread(): cuts connections whose clients do not read their replies.
import type { ServerResponse } from "node:http";
import type { Limits } from "./limits.ts";

interface Replied {
  response: ServerResponse;
  reply?: unknown;
  /** The tick at which the reply was sent, or at which a stream's client last read everything. */
  since: number;
}

/** Returns the bytes of a reply that wait for the client. A pipelined reply has no socket until its turn. */
const waitingIn = ({ response }: Replied): number => response.socket?.writableLength ?? response.writableLength;

/** `tick`: the milliseconds of a tick. */
export function createUnread({ requestTimeout, unread }: Limits, tick: number) {
  const timeoutTicks = Math.ceil(requestTimeout / tick);
  const shortTicks = Math.ceil(timeoutTicks / 12);

  /** Called once per tick. Cuts clients that have not read for long, and the slowest clients of too many bytes. */
  return function cut(exchanges: readonly Replied[], ticks: number): void {
    const replied = exchanges.filter(({ reply }) => reply !== undefined);
    for (const { response, since } of replied) if (ticks - since > timeoutTicks) response.socket?.destroy();
    let bytes = replied.reduce((sum, each) => sum + waitingIn(each), 0);
    if (bytes <= unread) return;
    const slow = replied.filter(({ since }) => ticks - since > shortTicks).sort((a, b) => a.since - b.since);
    for (const each of slow) {
      if (bytes <= unread) return;
      bytes -= waitingIn(each);
      each.response.req.socket.destroy();
    }
  };
}
