// Server-sent events: read from a stream, and taken up again where it broke off.
import type { NumberedEvent } from "../../../src/core/event.ts";
import { linesTogether } from "./lines.ts";
import { SourceError } from "./source.ts";

/** `lost`: the connection has gone, and is tried again. `ended`: the session has, and nothing more will come. */
export type Connection = "connecting" | "open" | "lost" | "ended";

export interface Follow {
  /** The version to go on after. */
  after: number;
  /** Each event once and in order, those that came together at once. */
  take(events: NumberedEvent[]): void;
  changed(connection: Connection): void;
  signal: AbortSignal;
}

/** Asks for what comes after a version; undefined if nothing will. */
export type Connect = (last: number) => Promise<ReadableStream<Uint8Array> | undefined>;

const [shortest, longest] = [250, 5_000];

/** Follows a session until it ends or nobody wants it any more; a lost connection is taken up after the last event. */
export async function followBy(connect: Connect, { after, take, changed, signal }: Follow): Promise<void> {
  let last = after;
  let wait = shortest;
  changed("connecting");
  while (!signal.aborted) {
    try {
      const body = await connect(last);
      if (signal.aborted) return;
      if (!body) return changed("ended");
      changed("open");
      for await (const messages of messagesOf(body)) {
        if (signal.aborted) return;
        const events = messages.map(({ data }) => JSON.parse(data) as NumberedEvent);
        const fresh = events.filter(({ version }) => version > last);
        last = fresh.at(-1)?.version ?? last;
        if (fresh.length > 0) take(fresh);
        wait = shortest;
      }
      // It ended in good order: so it does when the session has, which is known when it is asked again.
    } catch (thrown) {
      if (signal.aborted) return;
      // Gone for good: a store that forgets what has ended.
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

/** The messages of a stream, those that came together at once. One that was cut off is left out. */
export async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamMessage[], void, undefined> {
  let event = "message";
  let data: string[] = [];
  for await (const lines of linesTogether(body)) {
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
