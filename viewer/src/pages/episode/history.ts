// Computes the state at every version of a log. Consecutive states share their unchanged parts.
import { applyDelta, type Delta } from "../../../../src/core/delta.ts";
import type { Event, NumberedEvent } from "../../../../src/core/event.ts";
import { unescapeKey, type Json } from "../../../../src/core/json.ts";

/** Every state at a multiple of this version is kept permanently. A shorter interval is not visibly faster. */
const keepEvery = 256;
/**
 * How many recently used states to keep. The next version is one step from a kept state. Each state holds its own copy
 * of a wide object, so only few are kept.
 */
const mostRecent = 8;

/** `shared` holds the `user:` and `app:` keys that an agent's events wrote. */
interface Folded {
  state: Json;
  shared: { [key: string]: Json };
}

export interface History {
  /** The number of events, which is the newest version. */
  readonly length: number;
  append(events: readonly NumberedEvent[]): void;
  /** The state after `version` events; null before the first. Callers must not change it. */
  stateAt(version: number, known?: { readonly [key: string]: Json }): Json;
}

export function createHistory(): History {
  const events: Event[] = [];
  const kept = new Map<number, Folded>([[0, { state: null, shared: {} }]]);
  const recent = new Map<number, Folded>();

  function at(version: number): Folded {
    const known = kept.get(version) ?? recent.get(version);
    if (known) return known;
    let from = version - 1;
    while (!kept.has(from) && !recent.has(from)) from--;
    let folded = (kept.get(from) ?? recent.get(from)) as Folded;
    let owned = new WeakSet<object>();
    for (let next = from; next < version; next++) {
      folded = foldEvent(folded, events[next] as Event, owned);
      if ((next + 1) % keepEvery !== 0) continue;
      kept.set(next + 1, folded);
      // Kept states must no longer be modified in place.
      owned = new WeakSet();
    }
    if (!kept.has(version)) remember(version, folded);
    return folded;
  }

  function remember(version: number, folded: Folded): void {
    recent.set(version, folded);
    const [oldest] = recent.keys();
    if (recent.size > mostRecent && oldest !== undefined) recent.delete(oldest);
  }

  return {
    get length() {
      return events.length;
    },
    append: (more) => {
      for (const event of more) events.push(event);
    },
    stateAt: (version, known = {}) => {
      const { state, shared } = at(Math.max(0, Math.min(version, events.length)));
      const all = { ...unwritten(known, events), ...shared };
      const isBoth = Object.keys(all).length > 0 && typeof state === "object" && !Array.isArray(state);
      return isBoth ? { ...state, ...all } : state;
    },
  };
}

/** The known shared keys that no event of this log wrote: the log says nothing about their earlier values. */
function unwritten(known: { readonly [key: string]: Json }, events: readonly Event[]): Folded["shared"] {
  const rest = { ...known };
  if (Object.keys(rest).length === 0) return rest;
  for (const event of events) {
    const delta = "shared" in event ? event.shared : undefined;
    for (const { path } of delta ?? []) delete rest[unescapeKey(path.split("/")[1] ?? "")];
  }
  return rest;
}

function foldEvent({ state, shared }: Folded, event: Event, owned: WeakSet<object>): Folded {
  return {
    state: event.delta ? applyDelta(state, event.delta, owned) : state,
    shared: "shared" in event && event.shared ? withShared(shared, event.shared, owned) : shared,
  };
}

/** Applies a shared delta. The log lacks the shared state before this session, so changes below it are skipped. */
function withShared(shared: Folded["shared"], delta: Delta, owned: WeakSet<object>): Folded["shared"] {
  let next = shared;
  for (const operation of delta) {
    const isTop = operation.path.lastIndexOf("/") === 0;
    const fitting: Delta = isTop && operation.op === "replace" ? [{ ...operation, op: "add" }] : [operation];
    try {
      next = applyDelta(next, fitting, owned) as Folded["shared"];
    } catch {
      continue;
    }
  }
  return next;
}
