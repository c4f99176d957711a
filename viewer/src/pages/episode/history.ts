// The state at every version of a log. States share all that did not change between them.
import { applyDelta, type Delta } from "../../../../src/core/delta.ts";
import type { Event, NumberedEvent } from "../../../../src/core/event.ts";
import type { Json } from "../../../../src/core/json.ts";

/** Between two states that are kept for good. To keep more makes scrubbing no faster that an eye could see. */
const between = 256;
/** States that were asked for lately: going on from one of them is one step. A wide object is in each of them anew. */
const mostRecent = 8;

/** `shared`: what an agent's events say of keys that start with `user:` or `app:`. */
interface Folded {
  state: Json;
  shared: { [key: string]: Json };
}

export interface History {
  /** How many events it has: the newest version. */
  readonly length: number;
  append(events: readonly NumberedEvent[]): void;
  /** The state after that many events; null before the first. Must not be changed. */
  stateAt(version: number): Json;
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
      folded = folder(folded, events[next] as Event, owned);
      if ((next + 1) % between !== 0) continue;
      kept.set(next + 1, folded);
      // What is kept is not ours to change any more.
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
    stateAt: (version) => {
      const { state, shared } = at(Math.max(0, Math.min(version, events.length)));
      const isBoth = Object.keys(shared).length > 0 && typeof state === "object" && !Array.isArray(state);
      return isBoth ? { ...state, ...shared } : state;
    },
  };
}

function folder({ state, shared }: Folded, event: Event, owned: WeakSet<object>): Folded {
  return {
    state: event.delta ? applyDelta(state, event.delta, owned) : state,
    shared: "shared" in event && event.shared ? withShared(shared, event.shared, owned) : shared,
  };
}

/** What was shared before this session is not in its log: a change below that cannot be followed, and is passed over. */
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
