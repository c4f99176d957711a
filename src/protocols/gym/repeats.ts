// Repeats by clients that give no ids: which request is one, and of which call.
import { equalJson, type Json } from "../../core/json.ts";
import type { Reply, Request } from "../../core/protocol.ts";

/** A seed or a call on its way. */
export interface Sent {
  session: string;
  /** The tool's name, or a path. */
  what: string;
  input: unknown;
  /** The id that it is sent under. A tool that changes only state is found again by its place in the log. */
  call: string | undefined;
  /** While it runs. */
  running: Promise<Reply> | undefined;
  /** The version of its event, once it is known; with a time, if it may not have been stored. */
  event: { version: number; at?: number } | undefined;
  /** The client gave the id, and can repeat it by itself. */
  isKeyed: boolean;
  /** A seed that opened the session, or may have. */
  opened: boolean;
  /** When it was known that its answer did not arrive. */
  lostAt: number | undefined;
  /** Another request has come since: whatever is heard of this one, it is not repeated. */
  isOver: boolean;
  /** What it is a repeat of, until that was looked up. */
  repeats: Sent | undefined;
}

/** So many calls whose answers were lost are remembered, each with no more input than this, and for so long. */
const mostLost = 1000;
const mostCharacters = 16 * 1024;
const longest = 5 * 60_000;

/**
 * Recognises repeats by clients that give no ids: the same request on the same session, next after one whose answer
 * did not arrive, is taken for that one.
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
    /** What it repeats was looked up, or could not be. */
    looked(sent: Sent): void {
      const found = watched.get(sent.session);
      if (!sent.repeats || !found) return;
      sent.repeats = undefined;
      found.lookups--;
      dropIfIdle(sent.session);
    },
    /** What was answered through here, beside one whose answer was lost, says nothing about its repeat. */
    answered({ session }: Sent, version: number): void {
      if (watched.size > 0) watched.get(session)?.answered.add(version);
    },
    /** Whether an event that follows a lost one came from elsewhere, after the loss: then the client went on elsewhere. */
    isForeign({ session, lostAt = 0 }: Sent, event: { version: number; at: number }): boolean {
      return event.at > lostAt && !watched.get(session)?.answered.has(event.version);
    },
  };
}

/** A session of which something was not answered, as far as is known. */
interface Watch {
  unanswered: Sent[];
  /** How many repeats are being looked up. */
  lookups: number;
  /** The versions that were answered through here meanwhile. */
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
    // Nested too deep to compare; the engine refuses such.
    return false;
  }
}
