// eventsReply(): returns a session's events in pages, or live as server-sent events, each once and in order.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { readText } from "./field-schema.ts";
import type { Reply, Request } from "../../core/protocol.ts";
import { checked, takeFirst, ok } from "./route.ts";

/** The part of an engine that is needed here. Environments and agents both have it. */
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
    description: "maximum events of a page; a page also ends at about 4 MiB",
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
    const message = `session ${session} has ${version} events, and none after ${after}: its store was restored or lost events; start again without Last-Event-ID`;
    throw new HoldfastError("version_not_found", message, { detail: { version: after, newest: version } });
  }
  // 204 is the only reply that stops a browser from reconnecting.
  if (ended !== undefined && version <= after) return { status: 204 };
  const { signal } = request;
  return streamReply(liveEvents(engine, { session, after, ended: ended !== undefined, signal }));
}

interface LiveOptions {
  session: string;
  /** Send events after this version. */
  after: number;
  /** True if the session had already ended at the time of the request. */
  ended: boolean;
  signal: AbortSignal;
}

/**
 * Polls the log, because any process may change the session. Ends when the session has ended and all its events were
 * sent, when the session is gone, or when the client disconnects.
 */
async function* liveEvents(engine: Engine, options: LiveOptions): AsyncGenerator<string, void, undefined> {
  const { session, signal } = options;
  let { after, ended } = options;
  for (let wait = shortest; !signal.aborted; wait = Math.min(2 * wait, longest)) {
    try {
      for await (const event of engine.events(session, { after })) {
        if (signal.aborted) return;
        yield `id: ${event.version}\n${sentEvent(event.type, event)}`;
        after = event.version;
        wait = shortest;
        // A verdict may follow the session's end.
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
