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
  /** Settled when it was answered or refused. */
  done: Promise<Reply> | undefined;
  /** The version of its event, once it is known; with a time, if it may not have been stored. */
  event: { version: number; at?: number } | undefined;
  /** The client gave the id, and can repeat it by itself. */
  isKeyed: boolean;
  /** A seed that opened the session, or may have. */
  opened: boolean;
  /** Another request has come since: whatever is heard of this one, it is not repeated. */
  isOver: boolean;
  isLost: boolean;
  /** What it is a repeat of. */
  repeats: Sent | undefined;
}

/** So many calls whose answers were lost are remembered, each with no more input than this. */
const mostLost = 1000;
const mostCharacters = 16 * 1024;

/**
 * Recognises repeats by clients that give no ids: the same request on the same session, next after one whose answer
 * did not arrive, is taken for that one.
 */
export function createRepeats(prefix: string) {
  let count = 0;
  /** By session: what was sent and, as far as is known, not answered. */
  const unanswered = new Map<string, Sent[]>();
  let lostCount = 0;

  function lost(sent: Sent): void {
    if (sent.isOver || sent.isKeyed || sent.isLost || !isSmall(sent.input)) return;
    sent.isLost = true;
    const list = unanswered.get(sent.session);
    if (list) list.push(sent);
    else unanswered.set(sent.session, [sent]);
    if (++lostCount <= mostLost) return;
    const [[oldest] = []] = unanswered.values();
    if (oldest) over(oldest);
  }

  function over(sent: Sent): void {
    sent.isOver = true;
    const list = unanswered.get(sent.session);
    const at = list?.indexOf(sent) ?? -1;
    if (!list || at < 0) return;
    list.splice(at, 1);
    lostCount--;
    if (list.length === 0) unanswered.delete(sent.session);
  }

  function forget(session: string): void {
    for (const sent of [...(unanswered.get(session) ?? [])]) over(sent);
  }

  return {
    forget,
    lost,
    begin(session: string, what: string, input: unknown, request: Request, needsId: boolean): Sent {
      const key = request.headers["idempotency-key"];
      const before = unanswered.get(session);
      const repeated =
        key === undefined ? before?.find((sent) => sent.what === what && isSame(sent.input, input)) : undefined;
      if (repeated) over(repeated);
      else if (before) forget(session);
      const sent: Sent = {
        session,
        what,
        input,
        call: key ?? repeated?.call ?? (needsId ? `${prefix}.${(count++).toString(36)}` : undefined),
        done: undefined,
        isKeyed: key !== undefined,
        opened: repeated?.opened ?? false,
        isOver: false,
        isLost: false,
        event: undefined,
        repeats: repeated,
      };
      if (!sent.isKeyed) request.gone = () => lost(sent);
      return sent;
    },
  };
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
