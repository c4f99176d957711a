// EpisodeHost: where a player runs an episode, either in an environment in this process or on a server.
import type { Toolset } from "../../core/agent.ts";
import type { AgentState } from "../../core/shared-state.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import type { Item } from "../../core/model.ts";
import type { Rollout, TaskRow } from "../../core/rollout.ts";

export interface EpisodeHost {
  /** Returns the episode's session, as far as it is known before running. */
  findSession(rollout: Rollout): string;
  /** Opens the episode, or forks it from its origin. Returns the conversation's first state, to find the episode. */
  open(rollout: Rollout, signal: AbortSignal): Promise<AgentState>;
  /** Returns the current version of the episode's session, for a fork. */
  version(rollout: Rollout): Promise<number>;
  /** Returns the model's tools. `events`: the events of the conversation so far. The list grows during the episode. */
  tools(rollout: Rollout, events: readonly NumberedEvent[]): EpisodeTools;
  /** Returns the fields to add to the row, with the reward and further results as `metrics`, and a new session id. */
  verdict(rollout: Rollout, played: Transcript): Promise<{ verdict: TaskRow; session?: string }>;
  /** Ends an episode that failed, so that its server can free it. */
  abandon?(state: () => Promise<AgentState>): Promise<unknown>;
}

export interface EpisodeTools extends Toolset {
  /**
   * Returns how the episode begins, or how it continues after an answer, given the conversation's state. Without
   * `next`, the agent's first turn is the whole episode.
   */
  next?(state: AgentState, signal: AbortSignal): Promise<NextTurn>;
}

export interface NextTurn {
  isOver: boolean;
  /** The items that the model reads next, in addition to the outputs of its calls. */
  message: Item[];
  /** Keys to set in the conversation's state. */
  state: AgentState;
}

export interface Transcript {
  /** Returns the conversation's state. */
  state(): Promise<AgentState>;
  response: Json;
  signal: AbortSignal;
}
