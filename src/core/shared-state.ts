// State that is shared: keys that start with `user:` or `app:` live in logs of their own, `temp:` in none.
import type { Delta } from "./delta.ts";
import { setOwn } from "./json.ts";

/** Keys that start with `user:` are shared by all sessions of a user, `app:` by all; `temp:` live for one turn. */
export type AgentState = Record<string, any>; // eslint-disable-line typescript/no-explicit-any -- known to its author alone

export type Scope = "user" | "app";

/** In the order in which their logs are written. */
export const sharedScopes: Scope[] = ["user", "app"];

export const nothingShared = (): Record<Scope, Delta> => ({ user: [], app: [] });

const isTemporary = (key: string): boolean => key.startsWith("temp:");
const scopeOf = (key: string): Scope | undefined => sharedScopes.find((scope) => key.startsWith(`${scope}:`));

/** A state with what is shared beside it, under its prefixes. Objects below the top are the same ones. */
export function withShared(state: AgentState, shared: Record<Scope, AgentState>): AgentState {
  const merged: AgentState = { ...state };
  for (const scope of sharedScopes) {
    for (const [key, value] of Object.entries(shared[scope])) setOwn(merged, `${scope}:${key}`, value);
  }
  return merged;
}

/** The parts of a state, without their prefixes. What is temporary is in none of them. */
export function splitState(state: AgentState): Record<Scope | "session", AgentState> {
  const parts = { session: {}, user: {}, app: {} };
  for (const [key, value] of Object.entries(state)) {
    const scope = scopeOf(key);
    if (scope) setOwn(parts[scope], key.slice(scope.length + 1), value);
    else if (!isTemporary(key)) setOwn(parts.session, key, value);
  }
  return parts;
}

/** The same of a delta. */
export function splitDelta(delta: Delta): Record<Scope | "session" | "temp", Delta> {
  const parts: Record<Scope | "session" | "temp", Delta> = { session: [], user: [], app: [], temp: [] };
  for (const operation of delta) {
    const key = operation.path.slice(1);
    const scope = scopeOf(key);
    if (scope) parts[scope].push({ ...operation, path: `/${key.slice(scope.length + 1)}` });
    else parts[isTemporary(key) ? "temp" : "session"].push(operation);
  }
  return parts;
}
