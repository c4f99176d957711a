// Repeats by clients that give no ids: which request is one, and of which call.
import { equalJson, type Json } from "../../core/json.ts";
import type { Request } from "../../core/protocol.ts";

/** A seed or a call on its way. */
export interface Sent {
  session: string;
  /** The tool's name, or a path. */
  what: string;
  input: unknown;
  call: string;
  /** The client gave the id, and can repeat it by itself. */
  isKeyed: boolean;
  /** A seed that opened the session, or may have. */
  opened: boolean;
  /** Another request has come since: whatever is heard of this one, it is not repeated. */
  isOver: boolean;
  /** Says whether its client has gone. Let go of once it has. */
  request: Request | undefined;
}

/** So many calls whose answers were lost are remembered, each with no more input than this. */
const mostLost = 1000;
const mostCharacters = 16 * 1024;

/**
 * Recognises repeats by clients that give no ids: the same request on the same session, next after one whose answer
 * did not arrive, is sent under that one's id. The engine does the rest.
 */
export function createRepeats(prefix: string) {
  let count = 0;
  const running = new Map<string, Sent[]>();
  const lost = new Map<string, Sent[]>();
  let lostCount = 0;

  function remove(from: Map<string, Sent[]>, sent: Sent): boolean {
    const list = from.get(sent.session);
    const at = list?.indexOf(sent) ?? -1;
    if (!list || at < 0) return false;
    list.splice(at, 1);
    if (list.length === 0) from.delete(sent.session);
    return true;
  }

  function add(to: Map<string, Sent[]>, sent: Sent): void {
    const list = to.get(sent.session);
    if (list) list.push(sent);
    else to.set(sent.session, [sent]);
  }

  function over(sent: Sent): void {
    sent.isOver = true;
    if (remove(lost, sent)) lostCount--;
  }

  const isGone = ({ request, isOver }: Sent): boolean => !isOver && (request?.signal.aborted ?? true);

  /** Those that a request could be a repeat of. */
  function unanswered(session: string): Sent[] {
    return [...(lost.get(session) ?? []), ...(running.get(session)?.filter(isGone) ?? [])];
  }

  function forget(session: string): void {
    if (lost.has(session) || running.has(session)) unanswered(session).forEach(over);
  }

  function repeatedBy(session: string, what: string, input: unknown): Sent | undefined {
    if (!lost.has(session) && !running.has(session)) return undefined;
    return unanswered(session).find((sent) => sent.what === what && isSame(sent.input, input));
  }

  return {
    forget,
    begin(session: string, what: string, input: unknown, request: Request): Sent {
      const key = request.headers["idempotency-key"];
      const repeated = key === undefined ? repeatedBy(session, what, input) : undefined;
      if (repeated) over(repeated);
      else forget(session);
      const sent: Sent = {
        session,
        what,
        input,
        call: key ?? repeated?.call ?? `${prefix}.${(count++).toString(36)}`,
        isKeyed: key !== undefined,
        opened: repeated?.opened ?? false,
        isOver: false,
        request,
      };
      if (!sent.isKeyed) add(running, sent);
      return sent;
    },
    end: (sent: Sent): void => void remove(running, sent),
    lost(sent: Sent): void {
      if (sent.isOver || sent.isKeyed || !sent.request || !isSmall(sent.input)) return;
      sent.request = undefined;
      add(lost, sent);
      if (++lostCount <= mostLost) return;
      const [[oldest] = []] = lost.values();
      if (oldest) over(oldest);
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
