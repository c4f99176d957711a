// A list of sessions that grows at its end: read page by page, and then only its last page again.
import type { EndReason } from "../../../../src/core/event.ts";
import { SourceError } from "../../data/source.ts";

/** What is shown of a session, of an environment or of an agent. */
export interface SessionRow {
  session: string;
  version: number;
  opened: number;
  touched: number;
  ended?: EndReason;
  parent?: { session: string; version: number };
  /** Of a conversation: whose it is. */
  user?: string;
}

export interface SessionPage {
  sessions: SessionRow[];
  next: string | null;
}

/** Asks for the page after a session. */
export type AskPage = (after: string | undefined) => Promise<SessionPage>;

export interface SessionList {
  /** The newest first, of those that were read. */
  newest(): SessionRow[];
  /** Whether all were read: otherwise the newest are not among them. */
  isComplete(): boolean;
  /** Reads the next page. At the end: what has come since. */
  read(): Promise<void>;
}

/** `mostPages`: of those that were read, only so many are kept, the newest. */
export function createSessionList(ask: AskPage, mostPages = Infinity): SessionList {
  let pages: (SessionPage & { after: string | undefined })[] = [];

  async function readAfter(after: string | undefined): Promise<void> {
    const { sessions, next } = await ask(after);
    // In the place of what was read there before.
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
        // The store has forgotten the session that it was to go on after.
        pages = [];
        await readAfter(undefined);
      }
    },
  };
}

/** Those that have the text in their id, in that of their parent, or in whose they are. */
export function withText(rows: SessionRow[], text: string): SessionRow[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return rows;
  return rows.filter(({ session, parent, user }) =>
    [session, parent?.session, user].some((known) => known?.toLowerCase().includes(wanted)),
  );
}
