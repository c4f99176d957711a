// The public API, each name written by hand. Heavy parts are subpaths: holdfast/rollout, holdfast/serve,
// holdfast/protocols/*, holdfast/stores/*, holdfast/models/*, holdfast/testing.
export { HoldfastError, isHoldfastError, errorTable, type ErrorCode } from "./core/errors.ts";
export type { Json } from "./core/json.ts";
export type { Delta } from "./core/delta.ts";
export type { EndReason, Event, Labels, NumberedEvent, Outcome, Verdict } from "./core/event.ts";
export type {
  AnyEnvironment,
  Context,
  DetachedToolContext,
  Environment,
  SeedContext,
  Tool,
  ToolContext,
  VerifyContext,
} from "./core/environment.ts";
export type { Store } from "./core/store.ts";
export type {
  Answer,
  CallOptions,
  Conversations,
  Episodes,
  ForkOptions,
  ListFilter,
  OpenOptions,
  Replayable,
  Replayed,
  SavedSession,
  Seeded,
  SeedOptions,
  SessionInfo,
  Sessions,
  StepReward,
  Verification,
  VerifyOptions,
} from "./core/sessions.ts";
export type { AgentState } from "./core/shared-state.ts";
export type { Agent, AgentContext, Callbacks, ModelAgent, Toolset } from "./core/agent.ts";
export { answerText, type Item, type Model, type ModelRequest, type ModelResponse } from "./core/model.ts";
export { defineEnvironment } from "./environment/define-environment.ts";
export { tool } from "./environment/tool.ts";
export { createSessions } from "./session/sessions.ts";
export type { EpisodeOptions } from "./session/episode.ts";
export type { ConversationOptions } from "./session/conversation.ts";
export { defineAgent, sequence, loop, parallel, type AgentOptions } from "./agent/define-agent.ts";
export { environmentTools, type EnvironmentToolsOptions } from "./agent/environment-tools.ts";
export { gymTools, type GymToolsOptions } from "./rollout/gym-tools.ts";
export { run, type RunOptions, type RunResult } from "./agent/run.ts";
export type { RunEvent } from "./agent/invocation.ts";
export { scriptedModel } from "./models/scripted.ts";
export { memoryStore } from "./stores/memory.ts";
