// useConversation(): the growing log of a conversation, and the turns started from this page.
import { useEffect, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { follow, type Connection } from "../../data/events.ts";
import { readMessages } from "../../data/sent-events.ts";
import { refusal, request } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import { applyStreamed, type Draft, type PartialEvent } from "./drafts.ts";
import { emptyLog, withEvents } from "./event-log.ts";

export interface Conversation {
  events: NumberedEvent[];
  /** Answers that are being written. */
  drafts: readonly Draft[];
  connection: Connection;
  /** Whether a turn started from this page is running. */
  isRunning: boolean;
  /** Why the last turn started from this page failed. */
  failure: string | undefined;
  /** Runs a turn; without a message, resumes the interrupted one. Resolves to whether the server accepted it. */
  run(message?: string): Promise<boolean>;
  /** Aborts the request, which ends the turn. */
  stop(): void;
}

export function useConversation(at: string, session: string): Conversation {
  const [log, setLog] = useState(emptyLog);
  const [drafts, setDrafts] = useState<readonly Draft[]>([]);
  const [connection, setConnection] = useState<Connection>("connecting");
  const [running, setRunning] = useState<AbortController>();
  const [failure, setFailure] = useState<string>();
  const path = `${at}/v1/sessions/${encodeURIComponent(session)}/run`;

  const take = (events: NumberedEvent[]): void => setLog((known) => withEvents(known, events));

  useEffect(() => {
    const stop = new AbortController();
    setLog(emptyLog);
    follow(at, session, { after: 0, take, changed: setConnection, signal: stop.signal }).catch((thrown: unknown) => {
      if (!stop.signal.aborted) setFailure(messageOf(thrown));
    });
    return () => stop.abort();
  }, [at, session]);

  async function run(message?: string): Promise<boolean> {
    const stopping = new AbortController();
    setRunning(stopping);
    setFailure(undefined);
    let isTaken = false;
    try {
      const response = await request(path, {
        method: "POST",
        body: JSON.stringify({ message }),
        signal: stopping.signal,
        headers: { accept: "text/event-stream", "content-type": "application/json" },
      });
      if (!response.ok || !response.body) throw await refusal(response);
      isTaken = true;
      let isOver = false;
      for await (const messages of readMessages(response.body)) {
        for (const { event, data } of messages) {
          isOver ||= event === "done" || event === "error";
          if (event === "error") setFailure((JSON.parse(data) as { error: { message: string } }).error.message);
          if (isOver) continue;
          const sent = JSON.parse(data) as PartialEvent | NumberedEvent;
          if (sent.type !== "partial") take([sent]);
          setDrafts((known) => applyStreamed(known, sent));
        }
      }
      if (!isOver && !stopping.signal.aborted) setFailure("The connection was lost before the turn had ended.");
    } catch (thrown) {
      if (!stopping.signal.aborted) setFailure(messageOf(thrown));
    }
    setRunning(undefined);
    setDrafts([]);
    return isTaken;
  }

  return {
    events: log.events,
    drafts,
    connection,
    isRunning: running !== undefined,
    failure,
    run,
    stop: () => running?.abort(),
  };
}
