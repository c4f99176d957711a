// Calls: the three kinds of tool.
import type { AnyEnvironment, ToolDefinition } from "../core/environment.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { callKey, type EventOf, type Outcome } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import type { Answer, CallOptions } from "../core/sessions.ts";
import type { Session } from "../core/session.ts";
import { prepare, runDetached, runOnDraft, type Execution } from "./execute.ts";
import { cancelled, hold, timeNow, turn, type Hot, type Logs } from "./log.ts";
import { refusal, type Finished } from "./outcome.ts";
import { assertCallId, recordedEvent } from "./recorded.ts";

export interface CallsOptions {
  environment: AnyEnvironment;
  logs: Logs;
  /** Milliseconds, for tools that set none. */
  timeout: number;
  newId(): string;
  /** Throws if the session has ended or is over a limit. */
  assertOpen(hot: Hot): void;
}

/** One call on its way. */
interface Call {
  hot: Hot;
  tool: string;
  input: Json;
  id: string | undefined;
  signal: AbortSignal | undefined;
  /** The episode that it belongs to, once that is known. */
  episode?: number;
}

/** Added to the time-out of an external tool before its claim counts as abandoned: the time to record its result. */
const grace = 1000;

export function createCalls({ environment, logs, timeout, newId, assertOpen }: CallsOptions) {
  return async function call(hot: Hot, tool: string, given: unknown, options: CallOptions): Promise<Answer> {
    const { call: id, signal } = options;
    assertCallId(id);
    if (signal?.aborted) throw cancelled(signal);
    const pending: Call = { hot, tool, input: copyJson(given ?? {}, "input", "drop"), id, signal };
    try {
      return await dispatch(pending);
    } catch (thrown) {
      // What was answered before the session ended can still be asked for.
      if (id === undefined || !isHoldfastError(thrown) || thrown.code !== "session_closed") throw thrown;
      const { episode } = hot.session;
      const event = await recordedEvent(logs, hot.id, { id, tool, input: pending.input, episode });
      if (!event) throw thrown;
      if (event.type !== "tool.claimed") return answer(hot, event, event.version, true);
      if (Date.now() < event.until) throw thrown;
      return answer(hot, { ...event, outcome: inDoubt(tool) }, event.version, true);
    }
  };

  async function dispatch(pending: Call): Promise<Answer> {
    const preparing = prepare(environment, pending.tool, pending.input);
    const prepared = preparing instanceof Promise ? await preparing : preparing;
    if (!prepared.ok) return commitCall(pending, () => ({ outcome: prepared.outcome }));
    const { definition, args } = prepared;
    if (definition.kind === "state") {
      return commitCall(pending, (session, at) => {
        return runOnDraft(executionOf(pending, definition, at), definition, args, session);
      });
    }
    const detached = definition.kind === "external" ? callExternal : callConcurrent;
    return joined(pending, () => detached(pending, definition, args));
  }

  function executionOf(pending: Call, definition: ToolDefinition, at: number): Execution {
    const { hot, tool, id: call, signal } = pending;
    return { session: hot.id, hot, tool, call, signal, at, timeout: definition.timeout ?? timeout };
  }

  async function callConcurrent(pending: Call, definition: ToolDefinition, args: unknown): Promise<Answer> {
    const { hot, id, signal } = pending;
    // What it reads must not be older than what its caller has seen, wherever that was.
    await turn(hot, signal, () => logs.refresh(hot));
    assertReady(hot);
    // The handler is not run for a call that was answered before: it may be long.
    const repeated = id === undefined ? undefined : await recorded(pending);
    if (repeated) return repeated;
    return hold(hot, async (session) => {
      const seed = newSeed();
      const execution = executionOf(pending, definition, timeNow(session));
      const finish = await runDetached(execution, definition, args, session, seed);
      const commitOn = (now: Session): Finished => {
        if (now.episode === session.episode) return finish(now);
        throw new HoldfastError("episode_ended", `${pending.tool} was running when the session was seeded again`);
      };
      return commitCall(pending, commitOn, { version: session.version, at: execution.at, seed });
    });
  }

  async function callExternal(given: Call, definition: ToolDefinition, args: unknown): Promise<Answer> {
    const pending = { ...given, id: given.id ?? newId() };
    const { hot, tool, input, id: call, signal } = pending;
    let episode = 0;
    const ready = (): void => assertReady(hot);
    const claimed = await turn(hot, signal, () =>
      logs.commit(hot, ready, (session) => {
        pending.episode = episode = session.episode;
        const at = timeNow(session);
        const until = at + (definition.timeout ?? timeout) + grace;
        return { type: "tool.claimed", at, episode, call, tool, input, until };
      }),
    );
    if (claimed === "duplicate") return answered(pending);
    return hold(hot, async (session) => {
      // The caller cannot take it back any more: whatever comes of it is recorded.
      const execution = executionOf({ ...pending, signal: undefined }, definition, timeNow(session));
      const finish = await runDetached(execution, definition, args, session, newSeed());
      return settle(pending, episode, finish);
    });
  }

  /** Commits the one event of a call, made in its turn from the session as it is then. */
  async function commitCall(
    pending: Call,
    finish: (session: Session, at: number) => Finished | Promise<Finished>,
    run?: Called["run"],
  ): Promise<Answer> {
    const { hot, tool, input, id, signal } = pending;
    const fresh = await turn(hot, signal, async () => {
      let made: Called | undefined;
      const ready = (): void => assertReady(hot);
      const result = await logs.commit(hot, ready, (session) => {
        pending.episode = session.episode;
        const at = timeNow(session);
        const event = (finished: Finished): Called => {
          if (signal?.aborted) throw cancelled(signal);
          made = { type: "tool.called", at, episode: session.episode, tool, input, outcome: finished.outcome };
          if (finished.delta) made.delta = finished.delta;
          if (finished.log) made.log = finished.log;
          if (id !== undefined) made.call = id;
          if (run) made.run = run;
          return made;
        };
        const finished = finish(session, at);
        return finished instanceof Promise ? finished.then(event) : event(finished);
      });
      return result === "ok" ? answer(hot, made as Called, hot.session.version, false) : undefined;
    });
    return fresh ?? answered(pending);
  }

  /** Records the result of an external call. If it was given up as unknown meanwhile, that stands. */
  async function settle(
    pending: Call & { id: string },
    episode: number,
    finish: (session: Session) => Finished,
  ): Promise<Answer> {
    const { hot, tool, id: call } = pending;
    const fresh = await turn(hot, undefined, async () => {
      let made: Settled | undefined;
      const open = (): void => assertOpen(hot);
      const result = await logs.commit(hot, open, (session) => {
        const finished = session.episode === episode ? finish(session) : { outcome: seededAgain(tool) };
        made = { type: "tool.settled", at: timeNow(session), episode, call, tool, ...finished };
        return made;
      });
      return result === "ok" ? answer(hot, made as Settled, hot.session.version, false) : undefined;
    });
    return fresh ?? answered(pending);
  }

  function assertReady(hot: Hot): void {
    assertOpen(hot);
    const { episode, state } = hot.session;
    if (episode > 0 || (environment.unseeded === "defaults" && state !== null)) return;
    const why = environment.unseeded === "reject" ? "" : ": its state has keys without a default";
    throw new HoldfastError("session_unseeded", `session ${hot.id} has to be seeded before the first call${why}`);
  }

  /** A repeat that arrives while the call is running waits for it. */
  async function joined(pending: Call, run: () => Promise<Answer>): Promise<Answer> {
    const { hot, id, signal } = pending;
    if (id === undefined) return run();
    const key = callKey(hot.session.episode, id);
    hot.beside ??= new Map();
    for (let other = hot.beside.get(key); other; other = hot.beside.get(key)) {
      await settledOrCancelled(other, signal);
      const repeated = await recorded(pending);
      if (repeated) return repeated;
    }
    const running = run();
    hot.beside.set(key, running);
    try {
      return await running;
    } finally {
      hot.beside.delete(key);
    }
  }

  /** What was answered to a call that the log is known to have. */
  async function answered(pending: Call): Promise<Answer> {
    const found = await recorded(pending);
    if (found) return found;
    throw new HoldfastError("session_not_found", `session ${pending.hot.id} was deleted while it was called`);
  }

  /** What was answered to the call of this id, if anything was. */
  async function recorded(pending: Call): Promise<Answer | undefined> {
    const { hot, tool, input, id = "", episode = hot.session.episode } = pending;
    const event = await recordedEvent(logs, hot.id, { id, tool, input, episode });
    if (event?.type !== "tool.claimed") return event && answer(hot, event, event.version, true);
    if (Date.now() < event.until) {
      throw new HoldfastError("call_in_progress", `the call ${id} of ${tool} is running; ask again later`, {
        detail: { call: id, until: event.until },
      });
    }
    return settle({ ...pending, id }, event.episode, () => ({ outcome: inDoubt(tool) }));
  }
}

type Called = EventOf<"tool.called">;
type Settled = EventOf<"tool.settled">;

function answer(hot: Hot, event: Pick<Called, "outcome" | "episode">, version: number, repeated: boolean): Answer {
  const { outcome, episode } = event;
  const about = { session: hot.id, version, repeated, unseeded: episode === 0 };
  return outcome.ok ? { ok: true, output: outcome.output, ...about } : { ok: false, error: outcome.error, ...about };
}

/** Waits until a promise is settled, however that is, or the caller cancels. */
async function settledOrCancelled(promise: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  let cancel = (): void => undefined;
  const cancelling = new Promise<void>((_, reject) => (cancel = () => reject(cancelled(signal))));
  signal?.addEventListener("abort", cancel, { once: true });
  const settling = promise.then(
    () => undefined,
    () => undefined,
  );
  await Promise.race([settling, cancelling]).finally(() => signal?.removeEventListener("abort", cancel));
}

function inDoubt(tool: string): Outcome {
  const message = `${tool} was started and its result was never recorded; it may or may not have taken effect`;
  return refusal("outcome_unknown", message);
}

function seededAgain(tool: string): Outcome {
  const message = `${tool} ran, but the session was seeded again meanwhile: the state was not changed`;
  return refusal("episode_ended", message);
}
