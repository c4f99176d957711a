// createRepeats(): recognises retried requests from clients that send no call ids.
import { equalJson, type Json } from "../../core/json.ts";
import type { Reply, Request } from "../../core/protocol.ts";

/** A seed or call in progress. */
export interface Sent {
  session: string;
  /** The tool's name or a lifecycle path. */
  what: string;
  input: unknown;
  /** The call id. A call of a tool that changes only the state needs none: its position in the log identifies it. */
  call: string | undefined;
  /** The running call; undefined once it has ended. */
  running: Promise<Reply> | undefined;
  /** The version of the request's event, once known. `at`: its time, if it is unknown whether it was stored. */
  event: { version: number; at?: number } | undefined;
  /** True if the client chose the id and can retry the call with that id. */
  isKeyed: boolean;
  /** True for a seed that opened the session, or may have. */
  opened: boolean;
  /** When the server noticed that the answer was lost. */
  lostAt: number | undefined;
  /** True after a different request arrived, so that this request can no longer be retried. */
  isOver: boolean;
  /** The request that this request retries, until the outcome of the retried request has been looked up. */
  repeats: Sent | undefined;
}

/** Limits on remembered lost calls: their number, the characters of an input, and the milliseconds in memory. */
const mostLost = 1000;
const mostCharacters = 16 * 1024;
const longest = 5 * 60_000;

/**
 * Recognises retries from clients that send no call ids. A request counts as a retry if it equals the previous request
 * in the same session and that request's answer was lost.
 */
export function createRepeats(prefix: string) {
  let count = 0;
  const watched = new Map<string, Watch>();
  let lostCount = 0;

  function watch(session: string): Watch {
    let found = watched.get(session);
    if (!found) {
      found = { unanswered: [], lookups: 0, answered: new Set() };
      watched.set(session, found);
    }
    return found;
  }

  function dropIfIdle(session: string): void {
    const { unanswered, lookups } = watched.get(session) ?? {};
    if (unanswered?.length === 0 && lookups === 0) watched.delete(session);
  }

  function lost(sent: Sent): void {
    if (sent.isOver || sent.isKeyed || sent.lostAt !== undefined || !isSmall(sent.input)) return;
    sent.lostAt = Date.now();
    watch(sent.session).unanswered.push(sent);
    if (++lostCount <= mostLost) return;
    for (const { unanswered } of watched.values()) {
      const [oldest] = unanswered;
      if (!oldest) continue;
      over(oldest);
      break;
    }
  }

  function over(sent: Sent): void {
    sent.isOver = true;
    const { unanswered } = watched.get(sent.session) ?? {};
    const at = unanswered?.indexOf(sent) ?? -1;
    if (at < 0) return;
    unanswered?.splice(at, 1);
    lostCount--;
    dropIfIdle(sent.session);
  }

  function forget(session: string): void {
    for (const sent of Array.from(watched.get(session)?.unanswered ?? [])) over(sent);
  }

  function repeatedBy(session: string, what: string, input: unknown): Sent | undefined {
    const oldest = Date.now() - longest;
    return watched
      .get(session)
      ?.unanswered.find((sent) => sent.what === what && (sent.lostAt ?? 0) > oldest && isSame(sent.input, input));
  }

  const newId = (): string => `${prefix}.${(count++).toString(36)}`;

  return {
    forget,
    lost,
    newId,
    begin(session: string, what: string, input: unknown, request: Request, needsId: boolean): Sent {
      const key = request.headers["idempotency-key"];
      const isWatched = watched.has(session);
      const repeated = isWatched && key === undefined ? repeatedBy(session, what, input) : undefined;
      if (repeated) {
        watch(session).lookups++;
        over(repeated);
      } else if (isWatched) forget(session);
      const sent: Sent = {
        session,
        what,
        input,
        call: key ?? repeated?.call ?? (needsId ? newId() : undefined),
        running: undefined,
        event: undefined,
        isKeyed: key !== undefined,
        opened: repeated?.opened ?? false,
        lostAt: undefined,
        isOver: false,
        repeats: repeated,
      };
      if (!sent.isKeyed) request.gone = () => lost(sent);
      return sent;
    },
    /** Ends the look-up for a retried request, successful or not. */
    looked(sent: Sent): void {
      const found = watched.get(sent.session);
      if (!sent.repeats || !found) return;
      sent.repeats = undefined;
      found.lookups--;
      dropIfIdle(sent.session);
    },
    /** Records the version in an answer of this process, so that `isForeign` ignores the event at this version. */
    answered({ session }: Sent, version: number): void {
      if (watched.size > 0) watched.get(session)?.answered.add(version);
    },
    /**
     * Returns whether another process added an event after the call's answer was lost. If so, the client has continued
     * on that process.
     */
    isForeign({ session, lostAt = 0 }: Sent, event: { version: number; at: number }): boolean {
      return event.at > lostAt && !watched.get(session)?.answered.has(event.version);
    },
  };
}

/** A session with lost answers. */
interface Watch {
  unanswered: Sent[];
  /** Number of retries being looked up. */
  lookups: number;
  /** Versions in this process's answers since an answer was lost. */
  answered: Set<number>;
}

function isSmall(input: unknown): boolean {
  try {
    return JSON.stringify(input).length <= mostCharacters;
  } catch {
    return false;
  }
}

function isSame(a: unknown, b: unknown): boolean {
  try {
    return equalJson(a as Json, b as Json);
  } catch {
    // Nested too deeply to compare; the engine refuses such input.
    return false;
  }
}
