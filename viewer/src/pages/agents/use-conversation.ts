// useConversation(): the growing log of a conversation, and the turns started from this page.
import { useEffect, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { follow, type Connection } from "../../data/events.ts";
import { agentAt } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import { applyStreamed, type Draft } from "./drafts.ts";
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
      const running = agentAt(at).run({
        session,
        message,
        stream: true,
        throwOnFailure: false,
        signal: stopping.signal,
      });
      for await (const sent of running) {
        isTaken = true;
        if (sent.type !== "partial") take([sent]);
        setDrafts((known) => applyStreamed(known, sent));
      }
      isTaken = true;
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
