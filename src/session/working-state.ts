// The state of one step while it runs: its writes in order, one writer at a time, and how they are placed on the state
// as it is at the commit.
import type { AgentState } from "../core/agent-sessions.ts";
import { changed, type Delta } from "../core/delta.ts";
import { createDraft } from "../core/draft.ts";
import { equalJson, escapeKey, unescapeKey, type Json } from "../core/json.ts";
import { merge, type Merged } from "../core/merge.ts";
import { applyUpdate, createUpdates, type Update } from "../core/update.ts";
import type { Ran } from "./execute.ts";
import type { Finished } from "./outcome.ts";

/** A draft of a step's state. */
export interface StepDraft {
  readonly state: AgentState;
  update(key: string, change: (value: unknown) => unknown): void;
  /** Refuses writes from now on. */
  close(): void;
}

/** The writes of a step as they are placed on a state. */
export interface Placed {
  delta: Delta;
  /** JSON Pointers of values that others had changed, and that the step replaced. */
  overwrote: string[];
  /** Writes that were left out, as others had changed what they change a part of. */
  refused: Refused[];
  /** Calls that failed so: all their writes were left out. */
  failed: ReadonlyMap<string, string>;
}

export interface Refused {
  call?: string;
  /** A JSON Pointer. */
  path: string;
}

/** Whose a write is. A call that `needs` its writes fails if one of them is refused. */
export interface Writer {
  call: string;
  needs: boolean;
}

export interface WorkingState {
  /** As all writes so far have left it. Not to be changed. */
  readonly state: AgentState;
  draft(): StepDraft;
  /** Keeps what was written to a draft, and closes it. */
  keep(draft: StepDraft, writer?: Writer): void;
  /** Keeps the change of a tool. */
  keepRan(ran: Ran, writer: Writer): Finished;
  /** Drops all writes of a call. */
  drop(call: string): void;
  /** Places all writes on a state that others may have changed. */
  placeOn(now: AgentState): Placed;
}

interface Write {
  writer: Writer | undefined;
  /** The state that it was made for, and that state after it. */
  base: AgentState;
  after: AgentState;
  delta: Delta;
  /** The keys that were changed by functions. */
  updates: Update[];
  /** Makes all of the change again. */
  again?: Ran | undefined;
}

const tooLate = "the step that this state belongs to is over; what is assigned now would not be kept";

export function createWorkingState(base: AgentState): WorkingState {
  let state = base;
  let writes: Write[] = [];
  const drafts = new WeakMap<StepDraft, () => Pick<Write, "base" | "delta" | "updates">>();

  function add(write: Omit<Write, "after">): void {
    if (write.delta.length + write.updates.length === 0 && !write.again) return;
    const after = changed(write.base as Json, write.delta) as AgentState;
    writes.push({ ...write, after });
    // What was written to an older state is placed, or left out for now.
    state = write.base === state ? after : placeAll(writes.slice(-1), state).state;
  }

  return {
    get state() {
      return state;
    },
    draft() {
      const from = state;
      const draft = createDraft<AgentState>(from as Json);
      let updates: ReturnType<typeof createUpdates> | undefined;
      const made: StepDraft = {
        state: draft.state,
        update(key, change) {
          updates ??= createUpdates(draft);
          updates.add({ key, change });
        },
        close: () => draft.close(tooLate),
      };
      drafts.set(made, () => ({ base: from, delta: draft.delta(), updates: updates?.list() ?? [] }));
      return made;
    },
    keep(draft, writer) {
      const written = drafts.get(draft)?.();
      draft.close();
      if (written) add({ writer, ...written });
    },
    keepRan(ran, writer) {
      const finished = ran(state as Json);
      const { outcome, delta = [], updates = [] } = finished;
      // The change of a tool that needs its writes is for the state that it saw.
      const again = writer.needs ? undefined : ran;
      if (outcome.ok) add({ writer, base: state, delta, updates, again });
      return finished;
    },
    drop(call) {
      writes = writes.filter(({ writer }) => writer?.call !== call);
      const placed = placeAll(writes, base);
      writes = placed.writes;
      state = placed.state;
    },
    placeOn(now) {
      const failed = new Map<string, string>();
      for (;;) {
        const placed = placeAll(
          writes.filter(({ writer }) => !writer || !failed.has(writer.call)),
          now,
        );
        const { delta, overwrote, refused } = placed;
        const needed = refused.find(({ write: { writer } }) => writer?.needs);
        if (!needed?.write.writer) return { delta, overwrote, refused: refused.map(toRefused), failed };
        failed.set(needed.write.writer.call, needed.path);
      }
    },
  };
}

function toRefused({ write: { writer }, path }: { write: Write; path: string }): Refused {
  return writer ? { call: writer.call, path } : { path };
}

/** Places writes one after the other, from a state on. Gives them as they were placed. */
function placeAll(all: Write[], from: AgentState) {
  let state = from;
  const [delta, overwrote, writes]: [Delta, string[], Write[]] = [[], [], []];
  const refused: { write: Write; path: string }[] = [];
  for (const write of all) {
    if (write.base === state) {
      state = write.after;
      delta.push(...write.delta);
      writes.push(write);
      continue;
    }
    const merged = place(write, state);
    for (const path of merged.refused) refused.push({ write, path });
    if (merged.refused.length > 0) {
      // All or nothing: what is left of a callback's writes need not make sense.
      writes.push(write);
      continue;
    }
    const after = changed(state as Json, merged.delta) as AgentState;
    writes.push({ ...write, base: state, after, delta: merged.delta });
    state = after;
    delta.push(...merged.delta);
    overwrote.push(...merged.overwrote);
  }
  return { state, delta, overwrote, refused, writes };
}

function place(write: Write, now: AgentState): Merged {
  const { writer, base, delta, updates, again } = write;
  if (again) {
    const { outcome, delta: made = [] } = again(now as Json);
    return { delta: made, overwrote: [], refused: outcome.ok ? [] : [""] };
  }
  const stale = updates.filter(({ key }) => !equalJson(valueOf(base, key), valueOf(now, key)));
  if (stale.length === 0) return merge(delta, base as Json, now as Json);
  const rerun = new Set(stale.map(({ key }) => key));
  const merged = merge(
    delta.filter(({ path }) => !rerun.has(keyOf(path))),
    base as Json,
    now as Json,
  );
  const draft = createDraft(changed(now as Json, merged.delta));
  for (const update of stale) {
    try {
      applyUpdate(draft.state, update);
    } catch (thrown) {
      // The call has happened. A step that has not can fail.
      if (!writer) throw thrown;
      return { delta: [], overwrote: [], refused: [`/${escapeKey(update.key)}`] };
    }
  }
  return { ...merged, delta: [...merged.delta, ...draft.delta()] };
}

const valueOf = (state: AgentState, key: string): Json | undefined =>
  Object.hasOwn(state, key) ? (state[key] as Json) : undefined;

/** The key at the top that an operation changes. */
const keyOf = (path: string): string => unescapeKey(path.split("/", 2)[1] ?? "");
