// useLog(): the log of a session, with what happens to it while it is looked at.
import { useEffect, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { follow, type Connection } from "../../data/events.ts";
import { messageOf } from "../../data/source.ts";

export interface Log {
  /** null: there is none here. Undefined until that is known. */
  events: NumberedEvent[] | null | undefined;
  /** Undefined where it is not followed. */
  connection: Connection | undefined;
  /** Why it could not be had. */
  failure?: string;
}

/** `live`: where it is followed from, once it was loaded. */
export function useLog(
  load: (signal: AbortSignal) => Promise<NumberedEvent[] | undefined>,
  live: { at: string; session: string } | undefined,
  keys: readonly unknown[],
): Log {
  const [log, setLog] = useState<Log>({ events: undefined, connection: undefined });
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    // Many may come one after the other: they are shown together.
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
