// Turns the effects of an author's code into an outcome, a delta and log lines.
import { createDraft } from "../core/draft.ts";
import type { Delta } from "../core/delta.ts";
import { isHoldfastError, isRefusal, messageOf, type ErrorCode } from "../core/errors.ts";
import type { Outcome, Thrown } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { Update } from "../core/update.ts";
import { Stopped, type HandlerCall } from "./handler.ts";
import { describeThrown } from "./thrown.ts";

/** The result of a call. */
export interface Finished {
  outcome: Outcome;
  delta?: Delta;
  log?: string[];
  thrown?: Thrown;
  /** The updates in the delta, which can run again on a different state. Not stored. */
  updates?: Update[];
}

export function refusal(code: ErrorCode, message: string, detail?: Json): Outcome {
  return { ok: false, error: detail === undefined ? { code, message } : { code, message, detail } };
}

/**
 * Runs a tool. A failure or a timeout is returned as the outcome. A cancellation or the end of the session is thrown.
 */
export function runForOutcome(tool: string, handler: HandlerCall, call: () => unknown): Outcome | Promise<Outcome> {
  const success = (output: unknown): Outcome => {
    return { ok: true, output: copyJson(output ?? null, `the output of ${tool}`, "drop") };
  };
  const failure = (thrown: unknown): Outcome => {
    handler.options.onThrown?.(thrown);
    return failed(thrown, handler);
  };
  try {
    const result = handler.within(call);
    // A synchronous tool needs no promise. Most tools are synchronous, so this saves time.
    return result instanceof Promise ? result.then(success).catch(failure) : success(result);
  } catch (thrown) {
    return failure(thrown);
  }
}

function failed(thrown: unknown, handler: HandlerCall): Outcome {
  if (thrown instanceof Stopped) {
    const { code, message } = thrown.reason;
    if (code !== "tool_timeout") throw thrown.reason;
    handler.thrown = { error: `${code}: ${message}`, place: handler.options.what };
    return refusal(code, message);
  }
  if (isRefusal(thrown)) return refusal("tool_failed", messageOf(thrown));
  handler.thrown = describeThrown(thrown, handler.options.what);
  // `not_json` is about the tool's output or state. A HoldfastError with another code was thrown inside the tool.
  if (isHoldfastError(thrown) && thrown.code === "not_json") {
    return refusal(thrown.code, thrown.message, { path: String(thrown.detail["path"]) });
  }
  return refusal("tool_failed", messageOf(thrown));
}

/** Adds the state change to an outcome. If the change is not JSON, the outcome is a failure that changes nothing. */
export function withDelta(outcome: Outcome, handler: HandlerCall, change: () => Delta): Finished {
  const finished: Finished = { outcome };
  try {
    const delta = outcome.ok ? change() : [];
    if (delta.length > 0) finished.delta = delta;
  } catch (thrown) {
    finished.outcome = failed(thrown, handler);
  }
  if (handler.thrown) finished.thrown = handler.thrown;
  if (handler.lines) finished.log = handler.lines;
  // Starts a new list, because lines that are logged later do not belong to the event.
  handler.lines = undefined;
  return finished;
}

/** Returns the delta of queued changes, applied in order to one state. */
export function buildDelta(changes: ((state: unknown) => unknown)[], state: Json): Delta {
  if (changes.length === 0) return [];
  const draft = createDraft(state);
  for (const change of changes) {
    if (change(draft.state) instanceof Promise) throw new TypeError("update takes a function that is not async");
  }
  return draft.delta();
}
