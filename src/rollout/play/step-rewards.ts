// withStepRewards(): adds the reward at every version of the episode to each scored row, with the call that caused it.
import type { Play, TaskRow } from "../../core/rollout.ts";
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

/** A fork's list begins with its ancestors' rewards, because its response begins with their calls. */
async function stepRewards(episodes: Sessions, session: string, signal: AbortSignal): Promise<TaskRow[]> {
  const calls = new Map<number, string>();
  let before: TaskRow[] = [];
  let fork = 0;
  for await (const event of episodes.events(session)) {
    if (event.type === "session.opened" && event.parent) {
      const { session: parent } = event.parent;
      before = (await stepRewards(episodes, parent, signal)).map((one) => ({ session: parent, ...one }));
      fork = event.version;
    }
    if (event.type !== "tool.called" && event.type !== "tool.settled") continue;
    // An agent's call id consists of its step and the model's call id.
    if (event.call !== undefined) calls.set(event.version, event.call.replace(/^\d+\./, ""));
  }
  const rewards = await episodes.rewards(session, { signal });
  // The parent's last entry is the state at the fork.
  const own = rewards.filter(({ version }) => version > fork);
  const listed = own.map(({ version, reward, error }): TaskRow => {
    const call = calls.get(version);
    return { version, reward, ...(call !== undefined && { call }), ...(error !== undefined && { error }) };
  });
  return [...before, ...listed];
}
