// The public API: every exported name is listed by hand. Larger parts have their own import paths: holdfast/rollout,
// holdfast/serve, holdfast/protocols/*, holdfast/stores/*, holdfast/models/*, holdfast/testing.
export { HoldfastError, isHoldfastError, refuse, errorTable, type ErrorCode } from "./core/errors.ts";
export type { Json } from "./core/json.ts";
export type { Delta, Operation } from "./core/delta.ts";
export type {
  AgentEvent,
  AgentOutcome,
  EndReason,
  Event,
  Labels,
  Lease,
  NumberedEvent,
  OpenTurn,
  Outcome,
  Randomness,
  Thrown,
  Verdict,
} from "./core/event.ts";
export type {
  AnyEnvironment,
  Context,
  DeepReadonly,
  DetachedToolContext,
  Environment,
  Progress,
  SeedContext,
  StateOf,
  TaskOf,
  Tool,
  ToolAgent,
  ToolContext,
  ToolDefinition,
  ToolInput,
  ToolName,
  ToolOutput,
  UpdateKey,
  VerifyContext,
} from "./core/environment.ts";
export type {
  Appended,
  Commit,
  Entry,
  Filter,
  Heading,
  Listed,
  Loaded,
  NewEntry,
  Snapshot,
  Store,
} from "./core/store.ts";
export type {
  Answer,
  AskModelOptions,
  CallArguments,
  CallOptions,
  ConversationFork,
  Conversations,
  Episodes,
  ForkOptions,
  ListFilter,
  ModelAnswer,
  OpenConversation,
  OpenOptions,
  OpenSession,
  Replayable,
  Replayed,
  SavedConversation,
  SavedSession,
  SeedOptions,
  Seeded,
  SessionInfo,
  Sessions,
  SessionsBase,
  StepReward,
  Verification,
  VerifyOptions,
} from "./core/sessions.ts";
export type { AgentState } from "./core/shared-state.ts";
export type {
  Agent,
  AgentContext,
  AgentLimits,
  AgentTool,
  CallOfTool,
  Callbacks,
  Composition,
  ModelAgent,
  ReadonlyAgentContext,
  Said,
  Toolset,
} from "./core/agent.ts";
export { answerText } from "./core/model.ts";
export type {
  Content,
  FunctionCall,
  FunctionCallOutput,
  Item,
  Message,
  Model,
  ModelRequest,
  ModelResponse,
  OtherItem,
  Piece,
  Reasoning,
  RespondOptions,
  ToolSchema,
  Usage,
} from "./core/model.ts";
export type { ModelExchange, ModelLimits } from "./core/model-exchange.ts";
export type { AnyObject, Input, Output, Schema } from "./core/schema.ts";
export { defineEnvironment, type EnvironmentOptions } from "./environment/define-environment.ts";
export {
  tool,
  type ConcurrentToolOptions,
  type ExternalToolOptions,
  type StateToolOptions,
} from "./environment/tool.ts";
export { createSessions } from "./session/sessions.ts";
export type { CacheLimits } from "./session/cache.ts";
export type { EngineOptions } from "./session/engine.ts";
export type { EpisodeOptions } from "./session/episode.ts";
export type { ConversationOptions } from "./session/conversation.ts";
export type { Limits } from "./session/limits.ts";
export {
  defineAgent,
  sequence,
  loop,
  parallel,
  type AgentOptions,
  type CompositionOptions,
} from "./agent/define-agent.ts";
export type { ClientResult } from "./agent/client-tools.ts";
export { environmentTools, type EnvironmentToolsOptions } from "./agent/environment-tools.ts";
export { mcpTools, type McpTools, type McpToolsOptions } from "./agent/mcp-tools.ts";
export { gymTools, type GymToolsOptions } from "./rollout/gym-tools.ts";
export { ask, run, type Asked, type AskOptions, type RunOptions, type RunResult } from "./agent/run.ts";
export type { PartialEvent, RunEvent } from "./agent/invocation.ts";
export { scriptedModel, type Script, type ScriptedAnswer, type ScriptedCall } from "./models/scripted.ts";
export { memoryStore } from "./stores/memory.ts";
