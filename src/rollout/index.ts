// holdfast/rollout: collects, reads and measures rollouts from code.
export { collectRollouts, type CollectionHooks, type CollectionResult } from "./collect-rollouts.ts";
export type { CollectionSettings, RandomSeedPolicy, SourceSettings, Target } from "./collection-settings.ts";
export type { Collected, CollectOptions } from "./collect.ts";
export type { CollectionRecord, CollectionSummary } from "./collection-record.ts";
export type { CollectionOutput, ExistingRows, Tries } from "./output.ts";
export type { Forget } from "./forget.ts";
export type { GaveUp } from "./give-up.ts";
export type { Branching } from "./tree.ts";
export type { HarnessAddress, HarnessModel, HarnessServer, RunningServer } from "./harness/server.ts";
export { createPlayer, type PlayerOptions } from "./play/player.ts";
export { createRolloutRequests, type RolloutRequests, type RolloutRequestsOptions } from "./requests.ts";
export type { RequestedModel, RolloutRequest } from "./requests/request.ts";
export type { PlayerFor, PlayingOptions } from "./requests/playing.ts";
export type { ModelFor, PlayOptions, PlayResult, SessionPlayer } from "./play/continue-session.ts";
export type { OfferedModels } from "./offered-models.ts";
export type { OnEvent, Player } from "./source.ts";
export type { LinesOptions, RequestInfo } from "./requests/reading.ts";
export { createPlaces, type Lane, type Places } from "./places.ts";
export { finishedRollouts, type Finished } from "./finished.ts";
export type { BadRow, OnBad, ReadRow, Span } from "./tasks.ts";
export {
  aggregate,
  createMetrics,
  type AggregateMetrics,
  type CollectionMetrics,
  type Estimate,
  type MetricsOptions,
  type RunningMetrics,
} from "./metrics.ts";
export type { GroupEntry } from "./metrics/baseline.ts";
export type { Interval } from "./metrics/bootstrap.ts";
export type { FailureCount } from "./metrics/failures.ts";
export type { Bin } from "./metrics/histogram.ts";
export type { Metrics } from "./metrics/statistics.ts";
export type { TaskMetrics } from "./metrics/task-table.ts";
export type {
  About,
  AgentAbout,
  Collection,
  CollectionAbout,
  CollectionDetails,
  CollectionTotals,
  EnvironmentAbout,
  RowSummary,
} from "./collection-view.ts";
export type { Curve, CurvePoint } from "./curve-series.ts";
export { createTaskFiles, type Split, type TaskFiles } from "./task-files.ts";
export { openStore } from "../stores/open.ts";
export type {
  FailedRollout,
  FailureKind,
  ForkedRollout,
  Origin,
  Play,
  Played,
  Rollout,
  RolloutFailure,
  ScoredRollout,
  TaskRow,
} from "../core/rollout.ts";
