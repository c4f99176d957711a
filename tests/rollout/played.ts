// Reads the results of players.
import type { Played, RolloutFailure } from "../../src/core/rollout.ts";

export const failureIn = (played: Played): RolloutFailure | undefined =>
  played.outcome === "failed" ? played.failure : undefined;
