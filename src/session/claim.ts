// Claims: an external tool's call is written down before it runs and after, so that nobody ever runs it again.
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";
import type { EventOf, Outcome } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import type { Answer } from "../core/sessions.ts";
import { cancelled, timeNow, turn, type Hot, type Logs } from "./log.ts";
import { refusal, type Finished } from "./outcome.ts";
import { answer, type Call } from "./pending.ts";

type Claim = EventOf<"tool.claimed">;
type Settled = EventOf<"tool.settled">;
type ClaimedCall = Call & { id: string };

/** Added to the time-out of an external tool before its claim counts as abandoned: the time to record its result. */
const grace = 1000;

export interface ClaimsOptions {
  logs: Logs;
  /** Throws if the session has ended. */
  assertOpen(hot: Hot): void;
  /** Throws if a call must not begin. */
  assertReady(call: Call): void;
  /** What was answered under the id of a call. */
  answered(call: Call): Promise<Answer>;
}

export function createClaims({ logs, assertOpen, assertReady, answered }: ClaimsOptions) {
  return {
    /** Undefined if there is a claim or an answer under the call's id. */
    async claim(pending: ClaimedCall, timeout: number): Promise<Claim | undefined> {
      const { hot, tool, input, id: call, signal } = pending;
      let claim: Claim | undefined;
      const result = await turn(hot, signal, () =>
        logs.commit(
          hot,
          () => assertReady(pending),
          (session) => {
            if (signal?.aborted) throw cancelled(signal);
            const { episode } = session;
            pending.episode = episode;
            const at = timeNow(session);
            claim = { type: "tool.claimed", at, episode, call, tool, input, until: at + timeout + grace };
            return claim;
          },
        ),
      );
      return result === "ok" ? claim : undefined;
    },

    /** Records the result. If it was given up as unknown meanwhile, that stands. */
    async settle(pending: ClaimedCall, claim: Claim, finish: (session: Session) => Finished): Promise<Answer> {
      const { hot, tool, id: call } = pending;
      const { episode, until } = claim;
      const record = (): Promise<Answer | undefined> =>
        turn(hot, undefined, async () => {
          let made: Settled | undefined;
          const open = (): void => assertOpen(hot);
          const result = await logs.commit(hot, open, (session) => {
            const finished = session.episode === episode ? finish(session) : { outcome: seededAgain(tool) };
            made = { type: "tool.settled", at: timeNow(session), episode, call, tool, ...finished };
            return made;
          });
          return result === "ok" ? answer(hot, made as Settled, hot.session.version, false) : undefined;
        });
      for (;;) {
        try {
          return (await record()) ?? (await answered({ ...pending, episode }));
        } catch (thrown) {
          // The tool has run and cannot run again: a store that is out for a moment must not lose what it said.
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

function seededAgain(tool: string): Outcome {
  const message = `${tool} ran, but the session was seeded again meanwhile: the state was not changed`;
  return refusal("episode_ended", message);
}
