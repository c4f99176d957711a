// Explains why a rollout has no reward: turns errors and failure events into a kind and a reason.
import { isHoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import type { EventOf } from "../../core/event.ts";
import type { FailureKind, RolloutFailure } from "../../core/rollout.ts";

/** Converts the failure event of an agent's run. */
export function failureFromEvent({ step, error }: EventOf<"agent.failed">): RolloutFailure {
  return { kind: classifyStep(step, error.code), reason: `${error.code}: ${error.message}` };
}

function classifyStep(step: string, code: string): FailureKind {
  if (step === "model" && code.startsWith("model_")) return "model";
  return step === "tools" && code !== "invalid_agent" ? "tool" : "agent";
}

/** Converts a thrown error. */
export function failureFromError(thrown: unknown): RolloutFailure {
  return { kind: classifyError(thrown), reason: messageOf(thrown) };
}

const kinds: Partial<Record<ErrorCode, FailureKind>> = {
  invalid_task: "task",
  seed_failed: "seed",
  verify_failed: "verify",
  outcome_unknown: "tool",
  engine_stopped: "store",
  session_busy: "store",
  turn_lost: "store",
  session_closed: "store",
  session_not_found: "store",
  version_conflict: "store",
  invalid_agent: "agent",
};

export function classifyError(thrown: unknown): FailureKind {
  if (!isHoldfastError(thrown)) return "internal";
  const { code } = thrown;
  if (kinds[code]) return kinds[code];
  if (code.startsWith("store_")) return "store";
  return code.startsWith("model_") ? "model" : "internal";
}

/** Tells whether a tool's answer was lost, as opposed to an error of the tool itself. */
export const isLost = (thrown: unknown): boolean =>
  ["store", "tool"].includes(classifyError(thrown)) || !isHoldfastError(thrown);
