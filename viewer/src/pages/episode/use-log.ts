// useLog(): the log of a session, updated live while the page is open.
import { useEffect, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { follow, type Connection } from "../../data/events.ts";
import { messageOf } from "../../data/source.ts";

export interface Log {
  /** null if this source has no log; undefined while loading. */
  events: NumberedEvent[] | null | undefined;
  /** Undefined if the log is not followed. */
  connection: Connection | undefined;
  /** Why the log could not be loaded. */
  failure?: string;
}

/** Loads a log, then follows it at `live` if given. */
export function useLog(
  load: (signal: AbortSignal) => Promise<NumberedEvent[] | undefined>,
  live: { at: string; session: string } | undefined,
  keys: readonly unknown[],
): Log {
  const [log, setLog] = useState<Log>({ events: undefined, connection: undefined });
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    // Events that arrive in quick succession are rendered together.
    let waiting: NumberedEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (): void => {
      timer = undefined;
      const fresh = waiting;
      waiting = [];
      setLog((known) => ({ ...known, events: [...(known.events ?? []), ...fresh] }));
    };
    const take = (events: NumberedEvent[]): void => {
      for (const event of events) waiting.push(event);
      timer ??= setTimeout(show, 50);
    };
    const changed = (connection: Connection): void => setLog((known) => ({ ...known, connection }));
    const start = async (): Promise<void> => {
      const events = await load(signal);
      if (signal.aborted) return;
      setLog({ events: events ?? null, connection: undefined });
      if (!events || !live) return;
      const last = events.at(-1);
      if (last?.type === "session.closed") changed("ended");
      else await follow(live.at, live.session, { after: last?.version ?? 0, take, changed, signal });
    };
    setLog({ events: undefined, connection: undefined });
    start().catch((thrown: unknown) => {
      if (!signal.aborted) setLog({ events: null, connection: undefined, failure: messageOf(thrown) });
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, keys);
  return log;
}
