// The public API, each name written by hand. Heavy parts are subpaths: holdfast/stores/*, holdfast/testing.
export { HoldfastError, isHoldfastError, errorTable, type ErrorCode } from "./core/errors.ts";
export type { Json } from "./core/json.ts";
export type { Delta } from "./core/delta.ts";
export type { EndReason, Event, NumberedEvent, Outcome, Verdict } from "./core/event.ts";
export type { Environment, Tool } from "./core/environment.ts";
export type { Store } from "./core/store.ts";
export type { Answer, CallOptions, Replayed, SessionInfo, Sessions, Verification } from "./core/sessions.ts";
export { defineEnvironment } from "./environment/define-environment.ts";
export { tool } from "./environment/tool.ts";
export { createSessions, type SessionsOptions } from "./session/sessions.ts";
export { memoryStore } from "./stores/memory.ts";
