// eventsReply(): returns a session's events in order, in pages or live as server-sent events. No event is sent twice.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { readText } from "./field-schema.ts";
import type { Reply, Request } from "../../core/protocol.ts";
import { checked, takeFirst, ok } from "./route.ts";

/** The methods of an engine that `eventsReply` uses. Engines of environments and of agents have them. */
interface Engine {
  info(session: string): Promise<{ ended?: string; version: number }>;
  events(session: string, options: { after: number }): AsyncIterable<NumberedEvent>;
}

interface EventsRequest {
  id: string;
  query: { after: number; limit: number };
  request: Request;
}

/** The query for a route that returns events. */
export const eventsQuery = {
  after: { type: "integer", minimum: 0, default: 0, description: "return the events after this version" },
  limit: {
    type: "integer",
    minimum: 1,
    maximum: 1000,
    default: 100,
    description: "maximum number of events per page; a page is also limited to about 4 MiB",
  },
} as const;

/** Milliseconds between two reads of the log. Starts at `shortest` after an event and doubles up to `longest`. */
const shortest = 20;
const longest = 500;

export async function eventsReply(
  engine: Engine,
  { id, query: { after, limit }, request }: EventsRequest,
): Promise<Reply> {
  if (wantsStream(request)) return live(engine, id, after, request);
  const { items, more } = await takeFirst<NumberedEvent>(engine.events(id, { after }), limit);
  return ok({ events: items, next: more ? (items.at(-1)?.version ?? null) : null });
}

/** Returns whether the client asks for server-sent events. */
export const wantsStream = ({ headers }: Request): boolean => /\btext\/event-stream\b/i.test(headers["accept"] ?? "");

export const streamReply = (stream: AsyncIterable<string>): Reply => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  stream,
});

async function live(engine: Engine, session: string, from: number, request: Request): Promise<Reply> {
  const field = { type: "integer", minimum: 0 } as const;
  const last = request.headers["last-event-id"];
  // The header takes precedence, because a browser that reconnects repeats the old query.
  const after = last === undefined ? from : (checked(field, readText(field, last), "Last-Event-ID") as number);
  const { ended, version } = await engine.info(session);
  if (after > version) {
    const message = `session ${session} has only ${version} events, so none come after event ${after}: the store was restored from a backup or lost events; reconnect without Last-Event-ID`;
    throw new HoldfastError("version_not_found", message, { detail: { version: after, newest: version } });
  }
  // 204 is the only reply that stops a browser from reconnecting.
  if (ended !== undefined && version <= after) return { status: 204 };
  const { signal } = request;
  const events = followEvents(engine, session, { after, ended: ended !== undefined, signal });
  async function* frames(): AsyncGenerator<string, void, undefined> {
    for await (const event of events) yield `id: ${event.version}\n${sentEvent(event.type, event)}`;
  }
  return streamReply(frames());
}

interface FollowOptions {
  /** Yield events after this version. */
  after: number;
  /** True if the session has already ended. */
  ended?: boolean;
  signal: AbortSignal;
}

/**
 * Yields events as they are committed. Polls the log, because any process may change the session. Ends when the session
 * has ended and all its events were yielded, when the session is gone, or when the signal is aborted.
 */
export async function* followEvents(
  engine: Pick<Engine, "events">,
  session: string,
  { signal, ...from }: FollowOptions,
): AsyncGenerator<NumberedEvent, void, undefined> {
  let { after, ended = false } = from;
  for (let wait = shortest; !signal.aborted; wait = Math.min(2 * wait, longest)) {
    try {
      for await (const event of engine.events(session, { after })) {
        if (signal.aborted) return;
        yield event;
        after = event.version;
        wait = shortest;
        // Does not stop at the session's end, because a verdict may follow it.
        ended ||= event.type === "session.closed";
      }
    } catch (thrown) {
      // If a store deletes ended sessions or the engine stops, the stream ends too.
      if (isHoldfastError(thrown) && (thrown.code === "session_not_found" || thrown.code === "engine_stopped")) return;
      throw thrown;
    }
    if (ended) return;
    await delay(wait, undefined, { signal }).catch(() => undefined);
  }
}

/** Formats a server-sent event. */
export const sentEvent = (type: string, data: unknown): string => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
