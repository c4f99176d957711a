// withStepRewards(): adds the reward at every version of the episode to each scored row, with the call that caused it.
import type { Json } from "../../core/json.ts";
import type { Play } from "../../core/rollout.ts";
import type { Sessions } from "../../core/sessions.ts";
import { failureFromError } from "./failure.ts";

/** The rewards come from `episodes.rewards`: verify without a response. */
export function withStepRewards(episodes: Sessions, play: Play): Play {
  return async (rollout, signal) => {
    const played = await play(rollout, signal);
    if (played.outcome !== "scored") return played;
    try {
      const steps = await stepRewards(episodes, played.session, signal);
      return { ...played, fields: { ...played.fields, step_rewards: steps } };
    } catch (thrown) {
      return { ...played, outcome: "failed", failure: failureFromError(thrown) };
    }
  };
}

async function stepRewards(episodes: Sessions, session: string, signal: AbortSignal): Promise<Json[]> {
  const calls = new Map<number, string>();
  for await (const event of episodes.events(session)) {
    if (event.type !== "tool.called" && event.type !== "tool.settled") continue;
    // An agent's call id consists of its step and the model's call id.
    if (event.call !== undefined) calls.set(event.version, event.call.replace(/^\d+\./, ""));
  }
  const rewards = await episodes.rewards(session, { signal });
  return rewards.map(({ version, reward, error }): Json => {
    const call = calls.get(version);
    return { version, reward, ...(call !== undefined && { call }), ...(error !== undefined && { error }) };
  });
}
