// createAgentPlayer(): has an agent elsewhere play an episode: a row is posted to its /run, and the verdict comes back.
import type { FailureKind, Play, Played, Rollout, TaskRow } from "../../core/rollout.ts";
import { messageOf } from "../../core/errors.ts";
import { failureIn, isOk, objectIn, rowAsSent, shownText, type GymClient, type GymReply } from "../gym-client.ts";
import { createPatience } from "./deadline.ts";

export interface AgentPlayerOptions {
  client: GymClient;
  /** Milliseconds that an episode may take. */
  timeout?: number | undefined;
}

/** Plays by an agent that has its own model, and its own way to the environment. Nothing of an episode is kept here. */
export function createAgentPlayer({ client, timeout }: AgentPlayerOptions): Play {
  return async (rollout, signal) => {
    const patience = createPatience(signal, timeout);
    try {
      const body = rowAsSent(rollout.row);
      return playedBy(rollout, await client.post({ path: "/run", body, signal: patience.signal }));
    } catch (thrown) {
      const failure = patience.failure() ?? { kind: "agent" as const, reason: messageOf(thrown) };
      return { outcome: "failed", fields: {}, session: rollout.session, failure };
    } finally {
      patience.end();
    }
  };
}

function playedBy({ session }: Rollout, reply: GymReply): Played {
  const given = isOk(reply) ? objectIn(reply.text) : undefined;
  if (!given) {
    // It is the row that does not fit: it would be refused again.
    const kind = reply.status === 422 || reply.status === 400 ? "task" : "agent";
    const reason = `the agent answered /run with ${reply.status}: ${shownText(reply.text)}`;
    return { outcome: "failed", fields: {}, session, failure: { kind, reason } };
  }
  const { session_id, reward, ...fields } = given;
  const about = { session: typeof session_id === "string" ? session_id : session };
  const failed = failureIn(given);
  if (failed !== undefined)
    return { outcome: "failed", ...about, fields, failure: { kind: kindIn(given), reason: failed } };
  // A number that is too large for one is none in JSON.
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

const kinds = new Set<unknown>(["task", "seed", "model", "agent", "tool", "store", "verify", "timeout", "internal"]);

/** What has failed, as far as the agent's own names for it tell. */
function kindIn({ _ng_failure_class, failure_kind, _ng_failure_terminal: isTerminal }: TaskRow): FailureKind {
  const failed = _ng_failure_class ?? failure_kind;
  // The one kind that is not tried again.
  if (isTerminal === true) return "task";
  if (kinds.has(failed)) return failed as FailureKind;
  return failed === "judge_failed" ? "verify" : "agent";
}
