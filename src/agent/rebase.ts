// A change that was made to one state, made to another: others may have changed it meanwhile.
import type { AgentState } from "../core/agent-sessions.ts";
import { applyDelta, type Delta } from "../core/delta.ts";
import { escapeKey, unescapeKey, type Json } from "../core/json.ts";

/** The state after a change; the one before it stays as it is. */
export function changed(state: AgentState, delta: Delta): AgentState {
  return applyDelta(state as Json, delta, new WeakSet()) as AgentState;
}

/**
 * The delta as it is where it still fits. Where others have changed what it builds on, each key at the top that it
 * touches gets the value it had given it.
 */
export function rebased(delta: Delta, from: AgentState, to: AgentState): Delta {
  if (from === to || delta.length === 0) return delta;
  try {
    changed(to, delta);
    return delta;
  } catch {
    const wanted = changed(from, delta);
    const keys = new Set(delta.map(({ path }) => unescapeKey(path.split("/")[1] as string)));
    return [...keys].flatMap((key): Delta => {
      const path = `/${escapeKey(key)}`;
      if (Object.hasOwn(wanted, key)) return [{ op: "add", path, value: wanted[key] as Json }];
      return Object.hasOwn(to, key) ? [{ op: "remove", path }] : [];
    });
  }
}
