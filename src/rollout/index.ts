// holdfast/rollout: collects, reads and measures rollouts from code.
export { collectRollouts, type CollectionHooks, type CollectionResult } from "./collect-rollouts.ts";
export type { CollectionSettings, SourceSettings } from "./collection-settings.ts";
export { createPlayer, type PlayerOptions } from "./play/player.ts";
export { createRolloutRequests, type RolloutRequests, type RolloutRequestsOptions } from "./requests.ts";
export type { RequestedModel, RolloutRequest } from "./requests/request.ts";
export type { PlayerFor, PlayingOptions } from "./requests/playing.ts";
export type { Player } from "./source.ts";
export type { LinesOptions, RequestInfo } from "./requests/reading.ts";
export { createPlaces, type Lane, type Places } from "./places.ts";
export { finishedRollouts } from "./finished.ts";
export { aggregate, createMetrics, type AggregateMetrics, type CollectionMetrics } from "./metrics.ts";
export { createTaskFiles, type Split, type TaskFiles } from "./task-files.ts";
export { openStore } from "../stores/open.ts";
export type {
  FailedRollout,
  FailureKind,
  ForkedRollout,
  Play,
  Played,
  Rollout,
  RolloutFailure,
  ScoredRollout,
  TaskRow,
} from "../core/rollout.ts";
