// Events of a session as they happen, as server-sent events: each once and in order.
import { setTimeout as sleep } from "node:timers/promises";
import { isHoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Sessions } from "../../core/sessions.ts";

/** Milliseconds between two looks at the log: the first after something happened, and the most it becomes. */
const shortest = 20;
const longest = 500;

export interface LiveOptions {
  session: string;
  /** The version to go on after. */
  after: number;
  /** The session had ended when it was asked for. */
  ended: boolean;
  signal: AbortSignal;
}

/**
 * Looks at the log again and again, as a session may be changed by any process. Ends when the session has ended and all
 * that is in its log was sent; when it is gone; when the client is.
 */
export async function* liveEvents(sessions: Sessions, options: LiveOptions): AsyncGenerator<string, void, undefined> {
  const { session, signal } = options;
  let { after, ended } = options;
  for (let wait = shortest; !signal.aborted; wait = Math.min(2 * wait, longest)) {
    try {
      for await (const event of sessions.events(session, { after })) {
        if (signal.aborted) return;
        yield asText(event);
        after = event.version;
        wait = shortest;
        // A verdict may follow the end.
        ended ||= event.type === "session.closed";
      }
    } catch (thrown) {
      // A store that forgets what has ended, or an engine that stops: that is an end, too.
      if (isHoldfastError(thrown) && (thrown.code === "session_not_found" || thrown.code === "engine_stopped")) return;
      throw thrown;
    }
    if (ended) return;
    await sleep(wait, undefined, { signal }).catch(() => undefined);
  }
}

function asText(event: NumberedEvent): string {
  return `id: ${event.version}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
