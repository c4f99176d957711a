// A list of sessions that grows at its end: loaded page by page, then only the last page is reloaded.
import type { EndReason, Labels } from "../../../../src/core/event.ts";
import { SourceError } from "../../data/source.ts";

/** The shown fields of a session of an environment or an agent. */
export interface SessionRow {
  session: string;
  version: number;
  opened: number;
  touched: number;
  ended?: EndReason;
  parent?: { session: string; version: number };
  /** The user of a conversation. */
  user?: string;
  /** The labels of a conversation. `title` is its title. */
  labels?: Labels;
}

export interface SessionPage {
  sessions: SessionRow[];
  next: string | null;
}

export type AskPage = (after: string | undefined) => Promise<SessionPage>;

export interface SessionList {
  /** The loaded sessions, newest first. */
  newest(): SessionRow[];
  /** Whether every page is loaded. If not, the newest sessions are missing. */
  isComplete(): boolean;
  /** Loads the next page; at the end, loads new sessions. */
  read(): Promise<void>;
}

/** Keeps at most `mostPages` pages, the newest ones. */
export function createSessionList(ask: AskPage, mostPages = Infinity): SessionList {
  let pages: (SessionPage & { after: string | undefined })[] = [];

  async function readAfter(after: string | undefined): Promise<void> {
    const { sessions, next } = await ask(after);
    // Replaces the previous version of this page.
    if (pages.at(-1)?.after === after) pages.pop();
    pages.push({ after, sessions, next });
    if (pages.length > mostPages) pages.shift();
  }

  return {
    newest: () => pages.flatMap(({ sessions }) => sessions).reverse(),
    isComplete: () => pages.at(-1)?.next === null,
    async read() {
      const last = pages.at(-1);
      try {
        await readAfter(last?.next ?? last?.after);
      } catch (thrown) {
        if (!(thrown instanceof SourceError && thrown.code === "session_not_found")) throw thrown;
        // The store has deleted the session that the page follows, so the list starts over.
        pages = [];
        await readAfter(undefined);
      }
    },
  };
}

/** Filters sessions by text in their id, their parent's id or their user. */
export function withText(rows: SessionRow[], text: string): SessionRow[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return rows;
  return rows.filter(({ session, parent, user }) =>
    [session, parent?.session, user].some((known) => known?.toLowerCase().includes(wanted)),
  );
}
