// withStepRewards(): adds the reward at every version of the episode to each scored row, with the call that caused it.
import type { Play, TaskRow } from "../../core/rollout.ts";
import type { Sessions } from "../../core/sessions.ts";
import { createKeyedQueue } from "../../io/keyed-queue.ts";
import { failureFromError } from "./failure.ts";

/** Number of entries before forks to remember, about 200 bytes each. */
const mostRemembered = 100_000;

/** The rewards come from `episodes.rewards`: verify without a response. */
export function withStepRewards(episodes: Sessions, play: Play): Play {
  const stepRewards = createStepRewards(episodes);
  return async (rollout, signal) => {
    const played = await play(rollout, signal);
    if (played.outcome !== "scored") return played;
    try {
      const steps = await stepRewards(played.session, signal);
      return { ...played, fields: { ...played.fields, step_rewards: steps } };
    } catch (thrown) {
      return { ...played, outcome: "failed", failure: failureFromError(thrown) };
    }
  };
}

function createStepRewards(episodes: Sessions) {
  const inTurn = createKeyedQueue();
  /** The lists up to forks, by the parent's session and version, least recently used first. */
  const remembered = new Map<string, TaskRow[]>();
  let entries = 0;

  /** A fork's list begins with its ancestors' rewards, because its response begins with their calls. */
  async function stepRewards(session: string, signal: AbortSignal, last = Infinity): Promise<TaskRow[]> {
    const calls = new Map<number, string>();
    let before: TaskRow[] = [];
    let fork = 0;
    for await (const event of episodes.events(session)) {
      if (event.type === "session.opened" && event.parent) {
        before = await upToFork(event.parent, signal);
        fork = event.version;
      }
      if (event.type !== "tool.called" && event.type !== "tool.settled") continue;
      // An agent's call id consists of its step and the model's call id.
      if (event.call !== undefined) calls.set(event.version, event.call.replace(/^\d+\./, ""));
    }
    const rewards = await episodes.rewards(session, { signal });
    // The parent's last entry is the state at the fork.
    const own = rewards.filter(({ version }) => version > fork && version <= last);
    const listed = own.map(({ version, reward, error }): TaskRow => {
      const call = calls.get(version);
      return { version, reward, ...(call !== undefined && { call }), ...(error !== undefined && { error }) };
    });
    return [...before, ...listed];
  }

  /** Judges a parent once for all its continuations. After a failure or a cancellation, the next one judges again. */
  function upToFork({ session, version }: { session: string; version: number }, signal: AbortSignal) {
    const key = `${session} ${version}`;
    return inTurn(key, async () => {
      const known = remembered.get(key);
      const list = known ?? (await stepRewards(session, signal, version)).map((one) => ({ session, ...one }));
      remembered.delete(key);
      remembered.set(key, list);
      if (!known) trim(list.length);
      return list;
    });
  }

  function trim(added: number): void {
    entries += added;
    for (const [oldest, { length }] of remembered) {
      if (entries <= mostRemembered) break;
      remembered.delete(oldest);
      entries -= length;
    }
  }

  return (session: string, signal: AbortSignal) => stepRewards(session, signal);
}
