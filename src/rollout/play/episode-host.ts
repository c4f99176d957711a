// Where a player plays an episode: in an environment of this process, or on a server.
import type { Toolset } from "../../core/agent.ts";
import type { AgentState } from "../../core/agent-sessions.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import type { Rollout, TaskRow } from "../../core/rollout.ts";

export interface Stage {
  /** The session of the episode, as far as it is known before it was played. */
  sessionOf(rollout: Rollout): string;
  /** Opens the episode, or forks it off the one that it goes on with. Gives the state that its conversation begins with: how the episode is found again. */
  open(rollout: Rollout, signal: AbortSignal): Promise<AgentState>;
  /** The version of the episode's session, to fork it at. */
  version(rollout: Rollout): Promise<number>;
  /** What the model can call, where this has happened in the conversation already. */
  tools(rollout: Rollout, before: readonly NumberedEvent[]): Toolset;
  /** What is added to the row: the reward, and what else was found out. And the session, if it was not known before. */
  verdict(rollout: Rollout, played: Transcript): Promise<{ verdict: TaskRow; session?: string }>;
}

export interface Transcript {
  /** The state of the conversation. */
  state(): Promise<AgentState>;
  response: Json;
  signal: AbortSignal;
}
