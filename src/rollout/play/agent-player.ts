// createAgentPlayer(): lets a remote agent run an episode. Posts the row to its /run and receives the verdict.
import { failedRollout, failureKinds, randomSeedField } from "../../core/rollout.ts";
import type { FailureKind, Play, Played, Rollout, TaskRow } from "../../core/rollout.ts";
import { messageOf } from "../../core/errors.ts";
import { failureIn, isOk, objectIn, rowAsSent, shownText, type GymClient, type GymReply } from "../gym-client.ts";
import { toVerdictFields } from "../row-fields.ts";
import { createDeadline } from "./deadline.ts";

export interface AgentPlayerOptions {
  client: GymClient;
  /** Time limit of an episode in milliseconds. */
  timeout?: number | undefined;
}

/** Plays rollouts with an agent that has its own model and calls the environment directly. Stores nothing. */
export function createAgentPlayer({ client, timeout }: AgentPlayerOptions): Play {
  return async (rollout, signal) => {
    const deadline = createDeadline(signal, timeout);
    try {
      const body = { ...rowAsSent(rollout.row), [randomSeedField]: rollout.random };
      return toPlayed(rollout, await client.post({ path: "/run", body, signal: deadline.signal }));
    } catch (thrown) {
      const failure = deadline.failure() ?? { kind: "agent" as const, reason: messageOf(thrown) };
      return { outcome: "failed", fields: {}, session: rollout.session, failure };
    } finally {
      deadline.end();
    }
  };
}

function toPlayed({ session, row }: Rollout, reply: GymReply): Played {
  const given = isOk(reply) ? objectIn(reply.text) : undefined;
  if (!given) {
    // The row is invalid and would be refused again.
    const kind = reply.status === 422 || reply.status === 400 ? "task" : "agent";
    const reason = `the agent answered /run with ${reply.status}: ${shownText(reply.text)}`;
    return failedRollout(session, kind, reason);
  }
  const { session_id, reward, [randomSeedField]: _, ...told } = given;
  const fields = toVerdictFields(told, row);
  const about = { session: typeof session_id === "string" ? session_id : session };
  const failed = failureIn(given);
  if (failed !== undefined)
    return { outcome: "failed", ...about, fields, failure: { kind: parseKind(given), reason: failed } };
  // JSON has no infinite numbers: a reward that overflows arrives as null.
  const isWhole = Array.isArray((Object(fields["response"]) as TaskRow)["output"]);
  if (Number.isFinite(reward) && isWhole)
    return { outcome: "scored", ...about, fields: { ...fields, reward: reward as number } };
  if (Number.isFinite(reward)) {
    const reason = "the agent answered /run without a `response` that has an `output`";
    return { outcome: "failed", ...about, fields, failure: { kind: "agent", reason } };
  }
  return {
    outcome: "failed",
    ...about,
    fields,
    failure: { kind: "verify", reason: "the agent answered /run without a reward" },
  };
}

/** Maps the agent's own failure names to a kind. */
function parseKind({ _ng_failure_class, failure_kind, _ng_failure_terminal: isTerminal }: TaskRow): FailureKind {
  const failed = _ng_failure_class ?? failure_kind;
  // This kind is never retried.
  if (isTerminal === true) return "task";
  const kind = failureKinds.find((known) => known === failed);
  if (kind) return kind;
  return failed === "judge_failed" ? "verify" : "agent";
}
