// createCalls(): runs calls of each kind of tool, and commits their results.
import { after } from "../core/after.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, invalidOption, isHoldfastError, unlessCoded } from "../core/errors.ts";
import type { EventOf, Thrown } from "../core/event.ts";
import { callKey } from "../core/event-key.ts";
import { copyJson } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import type { Session } from "../core/session.ts";
import type { Answer, CallOptions } from "../core/sessions.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { unlessAborted } from "../io/abort.ts";
import { answer, lookupEpisode, type Call } from "./call-types.ts";
import { checkState } from "./check-state.ts";
import { acquire, cancelled, exclusive, release, withSnapshot } from "./exclusive.ts";
import { execute, executeAtOnce, prepare, type Execution, type Prepared } from "./execute.ts";
import { createClaims, inDoubt, tooLate } from "./external-claim.ts";
import { assertCallId, lostAnswer, mayBeLost, recordedEvent } from "./find-repeat.ts";
import { timeNow, type Logs } from "./log.ts";
import { findable, type OpenLog } from "./open-log.ts";
import type { Finished } from "./outcome.ts";
import { thrownIn } from "./thrown.ts";

export interface CallsOptions {
  environment: AnyEnvironment;
  logs: Logs;
  /** The timeout in milliseconds for tools that do not set one. */
  timeout: number;
  newId(): string;
  /** Throws if the session has ended or is ending. */
  assertOpen(log: OpenLog): void;
  /** Throws if the session is over a limit. Checked when a call starts, not while it runs. */
  assertWithinLimits(log: OpenLog): void;
  /** Receives errors from the author's code. */
  onError: ((error: Thrown, session: string) => void) | undefined;
}

type Called = EventOf<"tool.called">;

const ofCall: Record<keyof CallOptions, true> = {
  call: true,
  episode: true,
  seen: true,
  seeded: true,
  signal: true,
  onProgress: true,
};

export function createCalls(options: CallsOptions) {
  const { environment, logs, timeout, assertOpen, assertWithinLimits, onError } = options;
  const claims = createClaims({ ...options, assertReady, answered });

  return async function call(log: OpenLog, tool: string, given: unknown, wishes: CallOptions): Promise<Answer> {
    refuseUnknown("call", wishes, ofCall, invalidOption);
    const { call: id, signal, episode: expected, seen, seeded = false, onProgress } = wishes;
    assertCallId(id);
    if (signal?.aborted) throw cancelled(signal);
    const input = copyJson(given ?? {}, "input", "drop");
    const pending: Call = { log, tool, input, id, signal, expected, seeded, onProgress, waited: 0 };
    if (seen !== undefined && id === undefined) pending.seen = { version: seen, asked: Date.now() };
    try {
      const made = await dispatch(pending);
      if (made.thrown && !made.repeated) onError?.(made.thrown, log.id);
      return made;
    } catch (thrown) {
      const error = thrownIn(thrown);
      if (error) onError?.(error, log.id);
      // A recorded answer is still available after the session or the episode has ended.
      if (id === undefined || !isHoldfastError(thrown)) throw thrown;
      if (thrown.code !== "session_closed" && thrown.code !== "episode_ended") throw thrown;
      // Refreshes first, because another process may have seeded the session again: an earlier episode's call with the
      // same id is another call.
      if (expected === undefined && !(await refreshed(pending))) throw thrown;
      const episode = expected ?? log.session.episode;
      const event = await recordedEvent(logs, log, { ...pending, id, episode });
      if (!event) throw thrown;
      if (event.type !== "tool.claimed") return answer(log, event, event.version, true);
      // An ended session records no result. In a later episode, a tool that is still running records that it is too late.
      if (thrown.code === "episode_ended" && claims.isRunning(log, event, timeLimit(tool))) throw thrown;
      return answer(log, { ...event, outcome: inDoubt(tool) }, event.version, true);
    }
  };

  function dispatch(pending: Call): Promise<Answer> {
    const kind = environment.definitions.get(pending.tool)?.kind ?? "state";
    if (kind === "state") {
      const finish = (session: Session, at: number): Finished | Promise<Finished> => {
        const { seed, turn: draws } = session.randomness;
        const execution = buildExecution(pending, session, at, seed, draws);
        const { snapshotBytes: size } = pending.log;
        const finished = executeAtOnce(environment.definitions, execution, pending.input, session.state);
        return after(finished, (made: Finished) => checkState(environment, pending.tool, session.state, made, size));
      };
      const commit = (): Promise<Answer> => commitCall(pending, () => assertReady(pending), finish);
      return pending.id === undefined ? commit() : joined(pending, commit);
    }
    return joined(pending, async () => {
      const prepared = await prepare(environment.definitions, pending.tool, pending.input);
      if (!prepared.ok) {
        return commitCall(
          pending,
          () => assertReady(pending),
          () => ({ outcome: prepared.outcome }),
        );
      }
      return kind === "external" ? callExternal(pending, prepared) : callConcurrent(pending, prepared);
    });
  }

  /** Refreshes the log. Returns undefined if the session no longer exists. */
  function refreshed(pending: Call): Promise<true | undefined> {
    const refreshing = exclusive(pending.log, undefined, () => logs.refresh(pending.log), pending);
    return refreshing.then(() => true, unlessCoded("session_not_found"));
  }

  function timeLimit(tool: string): number {
    return environment.definitions.get(tool)?.timeout ?? timeout;
  }

  function buildExecution(pending: Call, { task }: Session, at: number, seed: number, draws: number): Execution {
    const { log, tool, id: call, signal, onProgress } = pending;
    return { session: log.id, stops: log, tool, call, signal, at, timeout, seed, draws, task, onProgress };
  }

  async function callConcurrent(pending: Call, prepared: Prepared): Promise<Answer> {
    const { log, id, tool, signal } = pending;
    if (log.busy) assertRoom(log);
    // Refreshes first. Otherwise, the call could read an older state than its caller has seen through another process.
    await exclusive(log, signal, () => logs.refresh(log), pending);
    // A retry must not run the handler again, so look for a recorded answer first.
    const repeated = id === undefined ? undefined : await recorded(pending);
    if (repeated) return repeated;
    return withSnapshot(log, async (session) => {
      // Checks the session that the handler reads, because other calls may have changed the session since the refresh.
      assertReady(pending);
      const seed = newSeed();
      const began = timeNow(session);
      const ran = await execute(buildExecution(pending, session, began, seed, 0), prepared, session.state);
      // The handler has run, so its result gets the store's whole time.
      pending.waited = 0;
      const finish = ({ state }: Session) => checkState(environment, tool, state, ran(state), log.snapshotBytes);
      const allow = (): void => {
        assertOpen(log);
        if (log.session.episode !== session.episode) throw ended(tool);
      };
      return commitCall(pending, allow, finish, { began, run: { version: session.version, seed } });
    });
  }

  async function callExternal(given: Call, prepared: Prepared): Promise<Answer> {
    const pending = { ...given, id: given.id ?? options.newId() };
    const { log } = pending;
    const claimed = await claims.claim(pending, timeLimit(pending.tool));
    if (!claimed) return answered(pending);
    const { claim, left } = claimed;
    if (left <= 0) return claims.settle(pending, claim, () => ({ outcome: tooLate(pending.tool) }));
    const settled = withSnapshot(log, async (session) => {
      // The caller can no longer cancel the call: its result is recorded in any case.
      const uncancelled = { ...pending, signal: undefined };
      const execution = buildExecution(uncancelled, session, timeNow(session), newSeed(), 0);
      const definition = { ...prepared.definition, timeout: left };
      const ran = await execute(execution, { ...prepared, definition }, session.state);
      const { tool } = pending;
      const finish = ({ state }: Session) => checkState(environment, tool, state, ran(state), log.snapshotBytes);
      return claims.settle(pending, claim, finish);
    });
    // The tool has started, so the caller must not learn only that the session has ended: it would send the call again.
    return settled.catch((thrown: unknown) => {
      if (!isEnded(thrown)) throw thrown;
      return answer(log, { ...claim, outcome: inDoubt(pending.tool) }, claim.version, false);
    });
  }

  /** Commits a call's event. The event is created from the session at the time of the commit. */
  async function commitCall(
    pending: Call,
    allow: () => void,
    finish: (session: Session, began: number) => Finished | Promise<Finished>,
    detached?: { began: number; run: NonNullable<Called["run"]> },
  ): Promise<Answer> {
    const { log, tool, input, id, signal } = pending;
    let made: Called | undefined;
    let lost: (Called & { version: number }) | undefined;
    const make = (session: Session): Called | undefined | Promise<Called | undefined> => {
      if (!mayBeLost(pending)) return run(session);
      return lostAnswer(logs, pending).then((found) => {
        lost = found;
        return found ? undefined : run(session);
      });
    };
    const run = (session: Session): Called | Promise<Called> => {
      pending.episode = session.episode;
      const began = detached?.began ?? timeNow(session);
      const event = (finished: Finished): Called => {
        if (signal?.aborted) throw cancelled(signal);
        const at = timeNow(session);
        made = { type: "tool.called", at, episode: session.episode, tool, input, outcome: finished.outcome };
        if (finished.delta) made.delta = finished.delta;
        if (finished.log) made.log = finished.log;
        if (finished.thrown) made.thrown = finished.thrown;
        if (id !== undefined) made.call = id;
        if (began !== at) made.began = began;
        if (detached) made.run = detached.run;
        return made;
      };
      return after(finish(session, began), event);
    };
    // Does the same as `exclusive`, but creates fewer promises, because every call runs this code.
    // The handler of a detached call has run already, so a refusal would lose its result.
    if (log.busy && !detached) assertRoom(log);
    const waiting = acquire(log, signal);
    if (waiting) await waiting;
    log.waited += pending.waited;
    try {
      const result = await logs.commit(log, allow, make);
      if (result === "ok") return answer(log, made as Called, log.session.version, false);
      if (lost) return answer(log, lost, lost.version, true);
    } finally {
      release(log, pending);
    }
    return answered(pending);
  }

  /** Throws if a call must not start. */
  function assertReady({ log, tool, expected, seeded }: Call): void {
    assertOpen(log);
    assertWithinLimits(log);
    const { episode, state } = log.session;
    if (expected !== undefined && expected !== episode) throw ended(tool);
    const isRefused = seeded || environment.unseeded === "reject";
    if (episode > 0 || (!isRefused && state !== null)) return;
    const why = isRefused ? "" : ": its state schema has keys without a default";
    throw new HoldfastError("session_unseeded", `session ${log.id} must be seeded before the first call${why}`);
  }

  /**
   * Makes a retry wait while the original call is running. Otherwise, the handler of a slow tool would run again for
   * each retry.
   */
  async function joined(pending: Call, run: () => Promise<Answer>): Promise<Answer> {
    const { log, id, signal } = pending;
    if (id === undefined) return run();
    // The session may be seeded again while the retry waits.
    const episode = lookupEpisode(pending);
    const key = callKey(episode, id);
    for (let other = log.runningCalls?.get(key); other; other = log.runningCalls?.get(key)) {
      await settledOrCancelled(other, signal);
      await exclusive(log, signal, () => logs.refresh(log), pending);
      const repeated = await recorded({ ...pending, episode });
      if (repeated) return repeated;
    }
    return findable(log, key, run);
  }

  /** Returns the recorded answer for a call id that the log already has. Throws if the store has lost it. */
  async function answered(pending: Call): Promise<Answer> {
    const found = await recorded(pending);
    if (found) return found;
    // The refresh throws if the session was deleted. Otherwise, the store failed over to a copy that lacks the call.
    const { log, tool } = pending;
    await exclusive(log, undefined, () => logs.refresh(log), pending);
    throw new HoldfastError(
      "store_failed",
      `the store has lost a recorded call of ${tool} in session ${log.id}; send the call again`,
    );
  }

  /** Returns the recorded answer for this call id, if there is one. */
  async function recorded(pending: Call): Promise<Answer | undefined> {
    const { log, tool, id = "" } = pending;
    const event = await recordedEvent(logs, log, { ...pending, id, episode: lookupEpisode(pending) });
    if (event?.type !== "tool.claimed") return event && answer(log, event, event.version, true);
    if (claims.isRunning(log, event, timeLimit(tool))) {
      throw new HoldfastError("call_in_progress", `the call ${id} of ${tool} is still running; retry later`, {
        detail: { call: id, until: event.until },
      });
    }
    return claims.settle({ ...pending, id }, event, () => ({ outcome: inDoubt(tool) }));
  }
}

/** Returns whether a call failed because its session or its engine ended while the call was running. */
function isEnded(thrown: unknown): boolean {
  const ends: readonly string[] = ["session_closed", "session_not_found", "engine_stopped"];
  return isHoldfastError(thrown) && ends.includes(thrown.code);
}

/** Maximum number of calls that wait for one session, so that no session uses up a server's capacity. */
const mostWaiting = 500;

function assertRoom({ id, waiting }: OpenLog): void {
  if (!waiting || waiting.length < mostWaiting) return;
  const message = `${mostWaiting} calls are waiting on session ${id}; wait for their answers before you send more`;
  throw new HoldfastError("session_crowded", message);
}

function ended(tool: string): HoldfastError {
  return new HoldfastError("episode_ended", `the session was seeded again before the call of ${tool} was committed`);
}

/** Waits until a promise settles or the caller cancels. */
function settledOrCancelled(promise: Promise<unknown>, signal: AbortSignal | undefined): Promise<unknown> {
  return unlessAborted(signal, Promise.allSettled([promise]), () => cancelled(signal));
}
