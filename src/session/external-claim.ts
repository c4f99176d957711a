// createClaims(): commits a claim before an external tool runs, and the result afterwards, so that no call runs twice.
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";
import type { EventOf, Outcome } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import type { Answer } from "../core/sessions.ts";
import { answer, type Call } from "./call-types.ts";
import { cancelled, exclusive } from "./exclusive.ts";
import { timeNow, type Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { refusal, type Finished } from "./outcome.ts";

type Claim = EventOf<"tool.claimed">;
type Settled = EventOf<"tool.settled">;
type ClaimedCall = Call & { id: string };

/** Milliseconds for recording an external tool's result. A claim expires this long after the tool's time limit. */
const grace = 1000;

/**
 * A claim that this process holds, and the remaining milliseconds for its tool. If none remain, the tool must not
 * start.
 */
export interface Claimed {
  claim: Claim & { version: number };
  left: number;
}

export interface ClaimsOptions {
  logs: Logs;
  /** Throws if the session has ended. */
  assertOpen(log: OpenLog): void;
  /** Throws if a call must not start. */
  assertReady(call: Call): void;
  /** Returns the recorded answer for a call that the log contains. */
  answered(call: Call): Promise<Answer>;
}

export function createClaims({ logs, assertOpen, assertReady, answered }: ClaimsOptions) {
  /** For each claim of another process: when this process first saw it, by the monotonic clock. */
  const watched = new WeakMap<OpenLog, Map<number, number>>();

  return {
    /** Commits the claim. Returns undefined if the log already has a claim or an answer for the same call id. */
    async claim(pending: ClaimedCall, timeout: number): Promise<Claimed | undefined> {
      const { log, tool, input, id: call, signal } = pending;
      let claim: Claimed["claim"] | undefined;
      let sent = 0;
      const ready = (): void => assertReady(pending);
      const make = (session: Session): Claim => {
        if (signal?.aborted) throw cancelled(signal);
        const { episode, version } = session;
        pending.episode = episode;
        const at = timeNow(session);
        sent = performance.now();
        const until = Date.now() + timeout + grace;
        const event: Claim = { type: "tool.claimed", at, episode, call, tool, input, until };
        claim = { ...event, version: version + 1 };
        return event;
      };
      const result = await exclusive(log, signal, () => logs.commit(log, ready, make), pending);
      if (result !== "ok" || !claim) return undefined;
      // A slow store or a paused process costs time. Once a claim expires, others assume that its process has died.
      return { claim, left: Math.min(timeout, sent + timeout + grace - performance.now()) };
    },

    /**
     * Returns whether a claim's tool may still be running. A claim that was watched for its whole duration has expired,
     * even if its writer's clock was ahead.
     */
    isRunning(log: OpenLog, { version, until }: Claim & { version: number }, timeout: number): boolean {
      if (Date.now() >= until) return false;
      const seen = watched.get(log) ?? new Map<number, number>();
      watched.set(log, seen);
      const since = seen.get(version) ?? performance.now();
      seen.set(version, since);
      return performance.now() - since < timeout + grace;
    },

    /** Commits the result, unless another process has recorded the call's outcome as unknown in the meantime. */
    async settle(
      pending: ClaimedCall,
      claim: Claim,
      finish: (session: Session) => Finished | Promise<Finished>,
    ): Promise<Answer> {
      const { log, tool, id: call } = pending;
      const { episode, until } = claim;
      const record = (): Promise<Answer | undefined> =>
        exclusive(log, undefined, async () => {
          let made: Settled | undefined;
          const open = (): void => assertOpen(log);
          const result = await logs.commit(log, open, async (session) => {
            const finished = session.episode === episode ? await finish(session) : { outcome: seededAgain(tool) };
            made = { type: "tool.settled", at: timeNow(session), episode, call, tool, ...finished };
            return made;
          });
          return result === "ok" ? answer(log, made as Settled, log.session.version, false) : undefined;
        });
      for (;;) {
        try {
          return (await record()) ?? (await answered({ ...pending, episode, waited: 0 }));
        } catch (thrown) {
          // The tool has run and cannot run again, so a short store outage must not lose its result.
          const passing = isHoldfastError(thrown) && ["store_busy", "store_failed", "store_full"].includes(thrown.code);
          if (!passing || Date.now() > until) throw thrown;
          await delay(50);
        }
      }
    },
  };
}

export function inDoubt(tool: string): Outcome {
  const message = `${tool} was started and its result was never recorded; it may or may not have taken effect`;
  return refusal("outcome_unknown", message);
}

export function tooLate(tool: string): Outcome {
  const message = `${tool} was not run: the store recorded its start too late; others may already have been told that its outcome is unknown`;
  return refusal("outcome_unknown", message);
}

function seededAgain(tool: string): Outcome {
  const message = `${tool} ran, but the session was seeded again meanwhile: the state was not changed`;
  return refusal("episode_ended", message);
}
