// watchedSessions(): remembers what failed while a harness played: model requests, tool calls, and limits.
import { hash } from "node:crypto";
import { HoldfastError, isForModel, isHoldfastError } from "../../core/errors.ts";
import type { Sessions } from "../../core/sessions.ts";
import { classifyError } from "../play/failure.ts";

/**
 * The failures of one episode, by digest of the request or call. If the same request or call succeeds later, its
 * failure is removed.
 */
export interface Watched {
  /** Failed requests to the model, and when they failed. */
  requests: Map<string, { thrown: unknown; at: number }>;
  /** Tool calls that failed because of the infrastructure. */
  calls: Map<string, unknown>;
  /** A request to the model was refused at a limit. */
  isRefused?: true;
  /** The calls and model requests that have not ended. */
  running: Set<Promise<unknown>>;
}

/** Maximum number of separate failures. All further failures share one entry, which no success removes. */
const mostFailures = 1_000;

/** `find` returns the failures of a session that is being played. All other sessions are refused. */
export function watchedSessions(sessions: Sessions, find: (session: string) => Watched | undefined): Sessions {
  async function watch<T>(session: string, run: (watched: Watched) => Promise<T>): Promise<T> {
    const watched = find(session);
    if (!watched) throw new HoldfastError("episode_over", "the episode has ended; it takes no more calls");
    const running = run(watched);
    watched.running.add(running);
    try {
      return await running;
    } finally {
      watched.running.delete(running);
    }
  }
  const call: Sessions["call"] = (session, tool, ...rest) =>
    watch(session, async ({ calls }) => {
      const sent = [tool, rest[0]];
      try {
        const answer = await sessions.call(session, tool, ...rest);
        if (answer.ok || isForModel(answer.error.code)) forget(calls, sent);
        else remember(calls, sent, new HoldfastError(answer.error.code, answer.error.message));
        return answer;
      } catch (thrown) {
        if (isInfrastructure(thrown)) remember(calls, sent, thrown);
        throw thrown;
      }
    });
  const askModel: Sessions["askModel"] = (session, request, options) =>
    watch(session, async (watched) => {
      try {
        const answer = await sessions.askModel(session, request, options);
        forget(watched.requests, request.input);
        return answer;
      } catch (thrown) {
        if (isHoldfastError(thrown)) {
          const { code } = thrown;
          if (code === "limit_reached") watched.isRefused = true;
          const isLost = code.startsWith("model_") ? code !== "model_cancelled" : isInfrastructure(thrown);
          if (isLost) remember(watched.requests, request.input, { thrown, at: Date.now() });
        }
        throw thrown;
      }
    });
  return { ...sessions, call, askModel };
}

/** Uses digests as keys, because a request contains a whole conversation. */
const keyOf = (sent: unknown): string => hash("sha256", JSON.stringify(sent), "base64url");

function remember<T>(failures: Map<string, T>, sent: unknown, failure: T): void {
  const key = keyOf(sent);
  const isKept = failures.has(key) || failures.size < mostFailures;
  failures.set(isKept ? key : "others", failure);
}

function forget(failures: Map<string, unknown>, sent: unknown): void {
  if (failures.size > 0) failures.delete(keyOf(sent));
}

/** Returns whether neither the model nor the harness caused a failure. */
function isInfrastructure(thrown: unknown): boolean {
  if (!isHoldfastError(thrown) || thrown.status >= 500) return true;
  const kind = classifyError(thrown);
  return kind === "store" || kind === "tool";
}
