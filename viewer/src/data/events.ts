// Follows the events of a session over fetch, because an EventSource cannot send the server's token.
import { followStream, type Follow } from "./sent-events.ts";
import { refusal, request } from "./server.ts";

export type { Connection } from "./sent-events.ts";

/** Follows a session until it ends or the signal aborts. Resumes a lost connection after the last event. */
export function follow(at: string, session: string, options: Follow): Promise<void> {
  const path = `${at}/v1/sessions/${encodeURIComponent(session)}/events`;
  const { signal } = options;
  return followStream(async (last) => {
    const headers = { accept: "text/event-stream", "last-event-id": String(last) };
    const response = await request(path, { headers, signal });
    if (response.status === 204) return undefined;
    if (!response.ok || !response.body) throw await refusal(response);
    return response.body;
  }, options);
}
