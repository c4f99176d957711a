// EpisodeHost: where a player plays an episode, either in an environment in this process or on a server.
import type { Toolset } from "../../core/agent.ts";
import type { AgentState } from "../../core/shared-state.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import type { Rollout, TaskRow } from "../../core/rollout.ts";

export interface EpisodeHost {
  /** Returns the episode's session, as far as it is known before playing. */
  findSession(rollout: Rollout): string;
  /**
   * Opens the episode, or forks it from its origin. Returns the conversation's initial state, which is used to find the
   * episode again.
   */
  open(rollout: Rollout, signal: AbortSignal): Promise<AgentState>;
  /** Returns the version of the episode's session, to fork it there. */
  version(rollout: Rollout): Promise<number>;
  /** Returns the model's tools. `before`: the events of the conversation so far. */
  tools(rollout: Rollout, before: readonly NumberedEvent[]): Toolset;
  /**
   * Returns the fields to add to the row: the reward, and further results as `metrics`. Adds the session if it was
   * unknown before.
   */
  verdict(rollout: Rollout, played: Transcript): Promise<{ verdict: TaskRow; session?: string }>;
}

export interface Transcript {
  /** Returns the conversation's state. */
  state(): Promise<AgentState>;
  response: Json;
  signal: AbortSignal;
}
