// Reads server-sent events from a stream and resumes a broken stream.
import type { NumberedEvent } from "../../../src/core/event.ts";
import { readLineBatches } from "./lines.ts";
import { SourceError } from "./source.ts";

/** `lost`: the connection broke and is being retried. `ended`: the session ended, so no more events follow. */
export type Connection = "connecting" | "open" | "lost" | "ended";

export interface Follow {
  /** The last version that the caller already has. */
  after: number;
  /** Receives each event once and in order. Events of one chunk arrive together. */
  take(events: NumberedEvent[]): void;
  changed(connection: Connection): void;
  signal: AbortSignal;
}

/** Requests the events after a version. Returns undefined if none will follow. */
export type Connect = (last: number) => Promise<ReadableStream<Uint8Array> | undefined>;

const [shortest, longest] = [250, 5_000];

/**
 * Follows a session until it ends or the signal aborts. Resumes a lost connection after the last event. Throws if the log
 * lacks that event.
 */
export async function followStream(connect: Connect, { after, take, changed, signal }: Follow): Promise<void> {
  let last = after;
  let wait = shortest;
  changed("connecting");
  while (!signal.aborted) {
    try {
      const body = await connect(last);
      if (signal.aborted) return;
      if (!body) return changed("ended");
      changed("open");
      for await (const messages of readMessages(body)) {
        if (signal.aborted) return;
        const events = messages.map(({ data }) => JSON.parse(data) as NumberedEvent);
        const fresh = events.filter(({ version }) => version > last);
        last = fresh.at(-1)?.version ?? last;
        if (fresh.length > 0) take(fresh);
        wait = shortest;
      }
      // The stream ended cleanly. The next request tells whether the session ended too.
    } catch (thrown) {
      if (signal.aborted) return;
      // The store was restored: the events that the caller has are not in its log.
      if (thrown instanceof SourceError && thrown.code === "version_not_found") throw thrown;
      // The store deletes ended sessions, so the session will not come back.
      if (thrown instanceof SourceError && thrown.status === 404) return changed("ended");
      changed("lost");
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, longest);
  }
}

export interface StreamMessage {
  event: string;
  data: string;
}

/** Yields the messages of one chunk together. Drops a message that was cut off. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<StreamMessage[], void, undefined> {
  let event = "message";
  let data: string[] = [];
  for await (const lines of readLineBatches(body)) {
    const messages: StreamMessage[] = [];
    for (const line of lines) {
      const [, name = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (line === "") {
        if (data.length > 0) messages.push({ event, data: data.join("\n") });
        [event, data] = ["message", []];
      } else if (name === "event") event = value;
      else if (name === "data") data.push(value);
    }
    if (messages.length > 0) yield messages;
  }
}
