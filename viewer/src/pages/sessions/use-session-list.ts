// useSessionList(): the sessions of an environment or an agent, with new ones as they open.
import { useMemo, useRef, useState } from "preact/hooks";
import { ask } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import { usePolling } from "../../data/use-polling.ts";
import { createSessionList, type SessionPage, type SessionRow } from "./session-list.ts";

const pageSize = 1000;
/** A store may have millions of sessions, so more pages load only on request. */
const pagesAtOnce = 20;
const wait = 3_000;

export interface ListedSessions {
  /** The loaded sessions, newest first. */
  sessions: SessionRow[];
  /** Whether every page is loaded. */
  isComplete: boolean;
  /** Whether loading waits for `readMore`. */
  isHeld: boolean;
  /** Why the last load failed. */
  failure: string | undefined;
  /** When the list was last loaded, in milliseconds since 1970; 0 before the first load. */
  at: number;
  readMore(): void;
}

export interface ListOptions {
  /** The server's `open` parameter; undefined selects all sessions. */
  open?: boolean | undefined;
  /** Loads to the end of the list and keeps at most this many of the newest pages. */
  mostPages?: number;
}

export function useSessionList(at: string, { open, mostPages }: ListOptions = {}): ListedSessions {
  const list = useMemo(() => {
    const query = new URLSearchParams({ limit: String(pageSize), ...(open !== undefined && { open: String(open) }) });
    return createSessionList((after) => {
      if (after === undefined) query.delete("after");
      else query.set("after", after);
      return ask<SessionPage>(`${at}/v1/sessions?${query}`);
    }, mostPages);
  }, [at, open, mostPages]);
  const atOnce = mostPages === undefined ? pagesAtOnce : Infinity;
  const [shown, setShown] = useState<Omit<ListedSessions, "readMore">>(nothing);
  const [turn, setTurn] = useState(0);
  const wanted = useRef(atOnce);
  usePolling(
    async (signal) => {
      let failure: string | undefined;
      try {
        const left = list.isComplete() ? 1 : wanted.current;
        for (let page = 0; page < left && !signal.aborted; page++) {
          await list.read();
          if (list.isComplete()) break;
          if (!signal.aborted) show(undefined, page === left - 1);
        }
        wanted.current = list.isComplete() ? atOnce : 0;
      } catch (thrown) {
        failure = messageOf(thrown);
      }
      if (!signal.aborted) show(failure, failure === undefined && !list.isComplete());
    },
    wait,
    [list, turn],
  );

  function show(failure: string | undefined, isHeld: boolean): void {
    setShown({ sessions: list.newest(), isComplete: list.isComplete(), isHeld, failure, at: Date.now() });
  }

  return {
    ...shown,
    readMore: () => {
      wanted.current = atOnce;
      setTurn(turn + 1);
    },
  };
}

const nothing = { sessions: [], isComplete: false, isHeld: false, failure: undefined, at: 0 };
