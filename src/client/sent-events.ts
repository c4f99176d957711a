// Reads server-sent events, and follows a session's events over connections that may break.
import type { NumberedEvent } from "../core/event.ts";
import { readLineBatches } from "./lines.ts";

/** `lost`: the connection broke and is being retried. `ended`: the session ended, so no more events follow. */
export type Connection = "connecting" | "open" | "lost" | "ended";

export interface FollowOptions {
  /** The last version that the caller already has. Default 0. */
  after?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
  /** Called when the connection opens, is lost, or has ended. */
  onConnection?: (connection: Connection) => void;
}

/** Requests the events after a version. Returns undefined if none will follow. */
export type Connect = (last: number) => Promise<ReadableStream<Uint8Array> | undefined>;

const [shortest, longest] = [250, 5_000];

/**
 * Yields a session's events, each once and in order, until the session ends or the signal aborts. Events of one chunk
 * come together. Resumes a lost connection after the last event. Throws if the log lacks that event.
 */
export async function* followStream(
  connect: Connect,
  { after = 0, signal, onConnection }: FollowOptions,
): AsyncGenerator<NumberedEvent[], void, undefined> {
  let last = after;
  let wait = shortest;
  onConnection?.("connecting");
  const isStopped = (): boolean => signal?.aborted ?? false;
  while (!isStopped()) {
    try {
      const body = await connect(last);
      if (isStopped()) return;
      if (!body) return onConnection?.("ended");
      onConnection?.("open");
      for await (const messages of readMessages(body)) {
        if (isStopped()) return;
        const events = messages.map(({ data }) => JSON.parse(data) as NumberedEvent);
        const fresh = events.filter(({ version }) => version > last);
        last = fresh.at(-1)?.version ?? last;
        if (fresh.length > 0) yield fresh;
        wait = shortest;
      }
      // The stream ended cleanly. The next request tells whether the session ended too.
    } catch (thrown) {
      if (isStopped()) return;
      const { code, status = 0 } = Object(thrown) as { code?: string; status?: number };
      // The store was restored: the events that the caller has are not in its log.
      if (code === "version_not_found") throw thrown;
      // The store deletes ended sessions, so the session will not come back.
      if (status === 404) return onConnection?.("ended");
      // Any other refusal, such as a wrong token, is the same for every retry.
      if (status >= 400 && status < 500 && status !== 408 && status !== 429) throw thrown;
      onConnection?.("lost");
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
