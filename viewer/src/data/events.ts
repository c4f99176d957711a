// Follows the events of a session over fetch, because an EventSource cannot send the server's token.
import { followStream, type Connection } from "../../../src/client/sent-events.ts";
import type { NumberedEvent } from "../../../src/core/event.ts";
import { refusal, request } from "./server.ts";

export type { Connection } from "../../../src/client/sent-events.ts";

export interface Follow {
  /** The last version that the caller already has. */
  after: number;
  /** Receives each event once and in order. Events of one chunk arrive together. */
  take(events: NumberedEvent[]): void;
  changed(connection: Connection): void;
  signal: AbortSignal;
}

/** Follows a session until it ends or the signal aborts. Resumes a lost connection after the last event. */
export async function follow(at: string, session: string, { after, take, changed, signal }: Follow): Promise<void> {
  const path = `${at}/v1/sessions/${encodeURIComponent(session)}/events`;
  const connect = async (last: number): Promise<ReadableStream<Uint8Array> | undefined> => {
    const headers = { accept: "text/event-stream", "last-event-id": String(last) };
    const response = await request(path, { headers, signal });
    if (response.status === 204) return undefined;
    if (!response.ok || !response.body) throw await refusal(response);
    return response.body;
  };
  for await (const events of followStream(connect, { after, signal, onConnection: changed })) take(events);
}
