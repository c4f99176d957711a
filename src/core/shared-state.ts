// Shared state: keys that start with `user:` or `app:` are stored in their own logs; `temp:` keys not at all.
import type { Delta } from "./delta.ts";
import { setOwn } from "./json.ts";

/** `user:` keys are shared by all sessions of a user, `app:` keys by all sessions. `temp:` keys exist for one turn. */
export type AgentState = Record<string, any>; // eslint-disable-line typescript/no-explicit-any -- known to its author alone

export type Scope = "user" | "app";

/** The scopes, in the order in which their logs are written. */
export const sharedScopes: Scope[] = ["user", "app"];

export const nothingShared = (): Record<Scope, Delta> => ({ user: [], app: [] });

const isTemporary = (key: string): boolean => key.startsWith("temp:");
const findScope = (key: string): Scope | undefined => sharedScopes.find((scope) => key.startsWith(`${scope}:`));

/**
 * Returns a shallow copy of a state with the shared keys added under their prefixes. Without shared keys, returns the
 * state itself, because a copy of a large state costs more than a step. The caller must not change the result.
 */
export function withShared(state: AgentState, shared: Record<Scope, AgentState>): AgentState {
  if (sharedScopes.every((scope) => Object.keys(shared[scope]).length === 0)) return state;
  const merged: AgentState = { ...state };
  for (const scope of sharedScopes) {
    for (const [key, value] of Object.entries(shared[scope])) setOwn(merged, `${scope}:${key}`, value);
  }
  return merged;
}

/** Splits a state by prefix, and removes the prefixes. Temporary keys are dropped. */
export function splitState(state: AgentState): Record<Scope | "session", AgentState> {
  const parts = { session: {}, user: {}, app: {} };
  for (const [key, value] of Object.entries(state)) {
    const scope = findScope(key);
    if (scope) setOwn(parts[scope], key.slice(scope.length + 1), value);
    else if (!isTemporary(key)) setOwn(parts.session, key, value);
  }
  return parts;
}

/** Adds a scope's prefix to a delta. */
export const prefixed = (scope: Scope, delta: Delta): Delta =>
  delta.map((operation) => ({ ...operation, path: `/${scope}:${operation.path.slice(1)}` }));

/** Splits a delta by prefix. */
export function splitDelta(delta: Delta): Record<Scope | "session" | "temp", Delta> {
  const parts: Record<Scope | "session" | "temp", Delta> = { session: [], user: [], app: [], temp: [] };
  for (const operation of delta) {
    const key = operation.path.slice(1);
    const scope = findScope(key);
    if (scope) parts[scope].push({ ...operation, path: `/${key.slice(scope.length + 1)}` });
    else parts[isTemporary(key) ? "temp" : "session"].push(operation);
  }
  return parts;
}
