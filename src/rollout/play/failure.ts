// Explains why a rollout has no reward: turns errors and failure events into a kind and a reason.
import { HoldfastError, isForModel, isHoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import { summarizeThrown, type EventOf, type NumberedEvent } from "../../core/event.ts";
import type { FailureKind, RolloutFailure, Rollout } from "../../core/rollout.ts";
import { thrownIn } from "../../session/thrown.ts";
import { isFunctionCall } from "../../core/model.ts";
import type { Conversations } from "../../core/sessions.ts";

/** Returns why an agent's run failed. */
export function failureInEvents(events: readonly NumberedEvent[]): RolloutFailure | undefined {
  const failed = events.findLast(({ type }) => type === "agent.failed");
  return failureInAnswers(events) ?? (failed?.type === "agent.failed" ? failureFromEvent(failed) : undefined);
}

function failureFromEvent({ step, error, thrown }: EventOf<"agent.failed">): RolloutFailure {
  const reason = `${error.code}: ${error.message}`;
  return { kind: classifyStep(step, error.code), reason, code: error.code, ...(thrown && { thrown }) };
}

function classifyStep(step: string, code: string): FailureKind {
  // A commit to the store can fail in any step.
  if (classifyCode(code) === "store") return "store";
  if (step === "model" && code.startsWith("model_")) return "model";
  return step === "tools" && code !== "invalid_agent" ? "tool" : "agent";
}

export function failureFromError(thrown: unknown): RolloutFailure {
  const authors = thrownIn(thrown);
  const { code, detail }: Partial<HoldfastError> = isHoldfastError(thrown) ? thrown : {};
  return {
    kind: classifyError(thrown),
    reason: messageOf(thrown),
    ...(code && { code }),
    ...(authors && { thrown: authors }),
    ...(detail?.["isPlayed"] === true && { isPlayed: true }),
  };
}

/** Returns the error for a verify that failed at the end of a recorded episode, so that only verify is tried again. */
export const verifyFailed = (message: string, cause?: unknown): HoldfastError =>
  new HoldfastError("verify_failed", message, { detail: { isPlayed: true }, ...(cause !== undefined && { cause }) });

const kinds: Partial<Record<ErrorCode, FailureKind>> = {
  invalid_task: "task",
  seed_failed: "seed",
  verify_failed: "verify",
  outcome_unknown: "tool",
  server_failed: "tool",
  engine_stopped: "store",
  session_busy: "store",
  turn_lost: "store",
  session_closed: "store",
  session_not_found: "store",
  session_crowded: "store",
  version_conflict: "store",
  invalid_agent: "agent",
};

export function classifyError(thrown: unknown): FailureKind {
  return isHoldfastError(thrown) ? classifyCode(thrown.code) : "internal";
}

function classifyCode(code: string): FailureKind {
  const kind = kinds[code as ErrorCode];
  if (kind) return kind;
  if (code.startsWith("store_")) return "store";
  return code.startsWith("model_") ? "model" : "internal";
}

/** The maximum number of author errors that are counted for one episode. */
const mostErrors = 100;

/** Lists the errors of the author's tools that the model read. */
export function errorsInAnswers(events: readonly NumberedEvent[]): { errors?: string[] } {
  const thrown = events.flatMap((event) => (event.type === "tools.answered" ? (event.thrown ?? []) : []));
  return thrown.length === 0 ? {} : { errors: thrown.slice(0, mostErrors).map(summarizeThrown) };
}

/** Returns whether a tool's answer was lost, as opposed to an error that the model should read. */
export const isLost = (thrown: unknown): boolean => !isHoldfastError(thrown) || !isForModel(thrown.code);

/**
 * Returns why a conversation must not be scored although it continues: a tool, or an agent used as a tool, failed with
 * an error that is not for the model.
 */
export function failureInAnswers(events: readonly NumberedEvent[]): RolloutFailure | undefined {
  for (const event of events) {
    if (event.type !== "tools.answered") continue;
    for (const { call, code, message } of event.failed ?? []) {
      if (!isForModel(code)) return { kind: classifyCode(code), reason: `${code}: ${message}`, code };
      const inner = events.find((each) => isInside(each, `${event.path}#${call}/`));
      if (inner?.type === "agent.failed") return failureFromEvent(inner);
    }
  }
  return undefined;
}

const isInside = (event: NumberedEvent, path: string): boolean =>
  event.type === "agent.failed" && event.path.startsWith(path) && !isForModel(event.error.code);

/** Returns the author's code that was running; undefined if the rollout waited for the model, or if unknown. */
export async function readCut(sessions: Conversations, { session }: Rollout): Promise<string | undefined> {
  if (!(await sessions.peek(session))) return "its seed";
  let last: NumberedEvent | undefined;
  for await (const event of sessions.events(session)) if (steps.has(event.type)) last = event;
  if (last?.type === "agent.ended") return last.last ? "its verify" : undefined;
  if (last?.type !== "model.answered") return undefined;
  const names = new Set((last.items ?? []).filter(isFunctionCall).map(({ name }) => name));
  return names.size > 0 ? `the tool${names.size > 1 ? "s" : ""} ${[...names].join(", ")}` : undefined;
}

const steps = new Set(["model.answered", "tools.answered", "agent.ended"]);
