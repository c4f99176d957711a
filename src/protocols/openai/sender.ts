// Tells a repeated request from an equal new one: by its Idempotency-Key, or else by the count of retries that OpenAI's
// clients send.
import { hash } from "node:crypto";
import { dropOldest } from "../../core/drop-oldest.ts";
import { unlessCoded } from "../../core/errors.ts";
import type { Request } from "../../core/protocol.ts";
import type { Conversations, SessionInfo } from "../../core/sessions.ts";
import type { PartBegan } from "../http/find-began.ts";
import { messageSession, sessionForMessage } from "../http/first-message.ts";

/** Where a request runs, and under which call id. `seen`: the option of `run` with that name. */
export interface Place {
  session: string;
  call: string | undefined;
  seen?: number;
}

/** The client of a request: finds the request's earlier attempts. */
export interface Sender {
  /** The call id of a new turn. */
  readonly call: string | undefined;
  /** Returns the place of an earlier attempt whose answer was lost. Each lost attempt is returned only once. */
  takeLost(): Place | undefined;
  /**
   * Returns whether a part of a turn began with an earlier attempt. Without a key, true only once for each count of
   * retries, because another client's equal request has the same count.
   */
  isRepeat(began: PartBegan): boolean;
  /** Creates the session of a first message, or finds the session of an earlier attempt. */
  openFirst(user: string | undefined): Promise<string>;
  /** Creates a branch after a response, or finds the branch of an earlier attempt. */
  openBranch(response: string, fork: (session?: string) => Promise<SessionInfo>): Promise<string>;
  /** Remembers where the request runs, in case its answer is lost. */
  begin(place: Place): void;
}

/** Maximum milliseconds from the loss of an answer to its retry: more than the longest pause of OpenAI's clients. */
const mostPause = 2 * 60_000;
/** Maximum milliseconds between the starts of two attempts: the time limit of OpenAI's clients plus the pause. */
const between = 12 * 60_000;
/** Maximum number of lost attempts, and of attempts found by `isRepeat`, that are remembered. */
const mostKept = 1_000;

/** Returns a function that reads the sender of a request. Remembers requests that have no key. */
export function createSenders(sessions: Conversations) {
  const lost: { digest: string; place: Place; at: number }[] = [];
  /** The highest count of retries that got each attempt's turn. A higher count means that this answer was lost too. */
  const taken = new Map<string, number>();

  function keyedSender(key: string | undefined): Sender {
    return {
      call: key,
      takeLost: () => undefined,
      isRepeat: ({ call }) => call !== undefined && call === key,
      openFirst: (user) => sessionForMessage(sessions, key, user),
      async openBranch(response, fork) {
        if (key === undefined) return (await fork()).session;
        const session = messageSession([sessions.app, response, key]);
        await fork(session).catch(unlessCoded("session_exists"));
        return session;
      },
      begin: () => undefined,
    };
  }

  /**
   * A client without keys that counts its retries. A retry gets the turn of an equal request only if no other client
   * waits for that turn. This is so if this server noticed that the answer was lost, or if the turn continues the same
   * response.
   */
  function countingSender(request: Request, retries: number): Sender {
    // Requests with different API keys are from different clients.
    const sent = [request.headers["authorization"], request.path, request.body];
    const digest = hash("sha256", JSON.stringify(sent), "base64url").slice(0, 22);
    return {
      // Equal new requests get different ids.
      call: `${digest}.${crypto.randomUUID()}`,
      takeLost() {
        if (retries === 0) return undefined;
        const at = lost.findIndex((each) => each.digest === digest && Date.now() - each.at < mostPause);
        return at < 0 ? undefined : lost.splice(at, 1)[0]?.place;
      },
      isRepeat({ call, at }) {
        const isEqual = call?.startsWith(`${digest}.`) && Date.now() - at < retries * between;
        if (call === undefined || !isEqual || retries <= (taken.get(call) ?? 0)) return false;
        taken.set(call, retries);
        dropOldest(taken, mostKept);
        return true;
      },
      openFirst: async (user) => (await sessions.open({ user })).session,
      openBranch: async (_, fork) => (await fork()).session,
      begin(place) {
        request.gone = () => {
          if (lost.push({ digest, place, at: Date.now() }) > mostKept) lost.shift();
        };
      },
    };
  }

  return (request: Request): Sender => {
    const { "idempotency-key": key, "x-stainless-retry-count": count } = request.headers;
    if (key !== undefined || count === undefined) return keyedSender(key);
    return countingSender(request, Number(count) || 0);
  };
}
