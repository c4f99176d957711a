// Why a rollout has no reward: from what was thrown, or what the log says, to a kind and a reason.
import { isHoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import type { EventOf } from "../../core/event.ts";
import type { FailureKind, RolloutFailure } from "../../core/rollout.ts";

/** Of a run that ended with a failure. */
export function failureOf({ step, error }: EventOf<"agent.failed">): RolloutFailure {
  return { kind: kindOfStep(step, error.code), reason: `${error.code}: ${error.message}` };
}

function kindOfStep(step: string, code: string): FailureKind {
  if (step === "model" && code.startsWith("model_")) return "model";
  return step === "tools" && code !== "invalid_agent" ? "tool" : "agent";
}

/** Of what was thrown. */
export function failureBy(thrown: unknown): RolloutFailure {
  return { kind: kindOf(thrown), reason: messageOf(thrown) };
}

const kinds: Partial<Record<ErrorCode, FailureKind>> = {
  invalid_task: "task",
  seed_failed: "seed",
  verify_failed: "verify",
  outcome_unknown: "tool",
  engine_stopped: "store",
  session_busy: "store",
  session_closed: "store",
  session_not_found: "store",
  version_conflict: "store",
  invalid_agent: "agent",
};

export function kindOf(thrown: unknown): FailureKind {
  if (!isHoldfastError(thrown)) return "internal";
  const { code } = thrown;
  if (kinds[code]) return kinds[code];
  if (code.startsWith("store_")) return "store";
  return code.startsWith("model_") ? "model" : "internal";
}

/** Whether the answer of a tool was lost, and is not what the tool had to say. */
export const isLost = (thrown: unknown): boolean =>
  ["store", "tool"].includes(kindOf(thrown)) || !isHoldfastError(thrown);
