// createGiveUp(): recognises failures that would affect every rollout, so that a collection stops after the first few.
import type { RolloutFailure } from "../core/rollout.ts";

/** Why a collection stopped, and the number of consecutive rollouts with this failure. */
export interface GaveUp extends RolloutFailure {
  rollouts: number;
}

/** The number of consecutive equal failures after which a collection stops. */
const enough = 3;
/**
 * With many running rollouts, it stops after half as many failures as there are running rollouts, at most this many.
 * Failing rollouts end first, so a few say nothing about hundreds that are running.
 */
const mostNeeded = 256;

/**
 * Returns a function that takes the task and the failure of each rollout, or undefined for a scored rollout, and the
 * number of running rollouts. It returns a reason to stop. A refused request, a failed verify or an unreachable model
 * stops only a collection without a scored rollout. Later, the reason may be a single long conversation or task, or a
 * model that is down for a while. A verify may fail for one task only, so it must fail for different tasks.
 * `hasScored`: an earlier process has scored a rollout.
 */
export function createGiveUp(
  hasScored: boolean,
): (task: number, failure: RolloutFailure | undefined, running: number) => GaveUp | undefined {
  let [rollouts, last] = [0, ""];
  const unverified = new Set<number>();
  return (task, failure, running) => {
    if (!failure) [hasScored, last] = [true, ""];
    if (!failure || !isForAll(failure, hasScored)) {
      rollouts = 0;
      return undefined;
    }
    if (failure.code === "verify_failed" && unverified.has(task)) return undefined;
    if (failure.code === "verify_failed") unverified.add(task);
    // Keeps the status. Other numbers, such as request numbers, differ each time, so 0 replaces them.
    const [status = ""] = /status \d+/.exec(failure.reason) ?? [];
    // A page may differ each time too.
    const [what = ""] = failure.reason.split(wrongAddress);
    const key = `${failure.code} ${status} ${what.replaceAll(/\d+/g, "0")}`;
    rollouts = key === last ? rollouts + 1 : 1;
    last = key;
    const isOneTask = failure.code === "verify_failed";
    const needed = isOneTask ? enough : Math.max(enough, Math.min(running / 2, mostNeeded));
    return rollouts < needed ? undefined : { ...failure, rollouts };
  };
}

/** How messages ask about a model's address that answers, but not with the model's API. */
const wrongAddress = "is the base URL correct?";

/** Returns whether a model's address is wrong, so that another attempt is pointless. */
export const isWrongAddress = ({ code, reason }: RolloutFailure): boolean =>
  code === "model_failed" && reason.includes(wrongAddress);

function isForAll({ code = "", reason }: RolloutFailure, hasScored: boolean): boolean {
  if (code === "model_refused") return !hasScored || /status (401|403|404)\b/.test(reason);
  if (code === "model_failed") return !hasScored && /could not be reached|sent an invalid answer/.test(reason);
  if (code === "verify_failed") return !hasScored;
  return code.startsWith("store_");
}
