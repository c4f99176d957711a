// WorkingState: the state of a running step. It collects writes in order, and merges them into the current state at the
// commit.
import { changed, topKey, type Delta } from "../core/delta.ts";
import { createDraft, type Draft } from "../core/draft.ts";
import { equalJson, escapeKey, type Json } from "../core/json.ts";
import { merge, type Merged } from "../core/merge.ts";
import type { AgentState } from "../core/shared-state.ts";
import { applyUpdate, createUpdates, type Update, type Updates } from "../core/update.ts";
import type { Ran } from "./execute.ts";
import type { Finished } from "./outcome.ts";

/** A step's writes, merged into a state. */
export interface Placed {
  delta: Delta;
  /** JSON Pointers to replaced values that another writer had changed. */
  overwrote: string[];
  /** Omitted writes. Each changes a part of a value that another writer had changed. */
  refused: Refused[];
  /** Calls that failed because a write was omitted, with its path. All writes of these calls are omitted too. */
  failed: ReadonlyMap<string, string>;
}

export interface Refused {
  call?: string;
  /** A JSON Pointer. */
  path: string;
}

/** The call that made a write. A call that `needs` its writes fails if one of them is refused. */
export interface Writer {
  call: string;
  needs: boolean;
}

interface Write {
  writer: Writer | undefined;
  /** Counts the step's writes. */
  number: number;
  /** The number of the newest write that `base` includes. */
  seen: number;
  /** The state that the write was made for, and the state after it, once computed. */
  base: AgentState;
  after?: AgentState | undefined;
  delta: Delta;
  /** The changes that were made with `update`, as functions. */
  updates: Update[];
  /** Repeats the whole change on another state. */
  again: Ran | undefined;
}

const tooLate = "the step of this state has ended; an assignment would not be kept";

/** A draft of a step's state. Created on first use, because most callbacks and toolsets never use it. */
export class StepDraft {
  readonly base: AgentState;
  /** The number of the newest write that `base` includes. */
  readonly seen: number;
  #draft: Draft<AgentState> | undefined = undefined;
  #updates: Updates | undefined = undefined;
  #isClosed = false;

  constructor(base: AgentState, seen: number) {
    this.base = base;
    this.seen = seen;
  }

  get state(): AgentState {
    return this.#made().state;
  }

  update(key: string, change: (value: unknown) => unknown): void {
    this.#updates ??= createUpdates(this.#made());
    this.#updates.add({ key, change });
  }

  /** Refuses later writes. */
  close(): void {
    this.#isClosed = true;
    this.#draft?.close(tooLate);
  }

  delta(): Delta {
    return this.#draft?.delta() ?? [];
  }

  updates(): Update[] {
    return this.#updates?.list() ?? [];
  }

  #made(): Draft<AgentState> {
    if (!this.#draft) {
      this.#draft = createDraft<AgentState>(this.base as Json);
      if (this.#isClosed) this.#draft.close(tooLate);
    }
    return this.#draft;
  }
}

export class WorkingState {
  /** The version of the session when the step began. */
  readonly since: number;
  readonly #base: AgentState;
  #writes: Write[] = [];
  /** Counts all writes, including dropped ones. */
  #count = 0;
  /** The number of writes that `#state` includes. */
  #applied = 0;
  #state: AgentState;

  constructor(base: AgentState, since: number) {
    this.since = since;
    this.#base = base;
    this.#state = base;
  }

  /** The state after all writes so far. Read-only. */
  get state(): AgentState {
    if (this.#applied < this.#writes.length) {
      this.#state = placeAll(this.#writes.slice(this.#applied), this.#state).state;
      this.#applied = this.#writes.length;
    }
    return this.#state;
  }

  draft(): StepDraft {
    return new StepDraft(this.state, this.#count);
  }

  /** Keeps a draft's writes, and closes the draft. */
  keep(draft: StepDraft, writer?: Writer): void {
    const { base, seen } = draft;
    const [delta, updates] = [draft.delta(), draft.updates()];
    draft.close();
    if (delta.length + updates.length > 0) this.#add({ writer, base, seen, delta, updates, again: undefined });
  }

  /** Keeps a tool's change. */
  keepRan(ran: Ran, writer: Writer): Finished {
    const base = this.state;
    const finished = ran(base as Json);
    const { outcome, delta = [], updates = [] } = finished;
    // If a call needs its writes, its change applies only to the state that the tool saw, and is never repeated.
    const again = writer.needs ? undefined : ran;
    if (outcome.ok && (again || delta.length + updates.length > 0)) {
      this.#add({ writer, base, seen: this.#count, delta, updates, again });
    }
    return finished;
  }

  #add(write: Omit<Write, "number">): void {
    this.#writes.push({ ...write, number: ++this.#count });
  }

  /** Drops all writes from a call. */
  drop(call: string): void {
    const rest = this.#writes.filter(({ writer }) => writer?.call !== call);
    if (rest.length === this.#writes.length) return;
    const { writes, state } = placeAll(rest, this.#base);
    this.#writes = writes;
    this.#state = state;
    this.#applied = writes.length;
  }

  /**
   * Merges all writes into a state that others may have changed. `isReplaced` tells whether another writer replaced the
   * value at a JSON Pointer since the step began.
   */
  placeOn(now: AgentState, isReplaced: (pointer: string) => boolean): Placed {
    const failed = new Map<string, string>();
    for (;;) {
      const writes = failed.size === 0 ? this.#writes : this.#writes.filter(({ writer }) => !isIn(failed, writer));
      const { delta, overwrote, refused } = placeAll(writes, now, isReplaced);
      const needed = refused.find(({ write: { writer } }) => writer?.needs);
      if (!needed?.write.writer) return { delta, overwrote, refused: refused.map(toRefused), failed };
      failed.set(needed.write.writer.call, needed.path);
    }
  }
}

const isIn = (calls: ReadonlyMap<string, string>, writer: Writer | undefined): boolean =>
  writer !== undefined && calls.has(writer.call);

function toRefused({ write: { writer }, path }: { write: Write; path: string }): Refused {
  return writer ? { call: writer.call, path } : { path };
}

/**
 * Merges writes into a state, one by one. Returns the merged writes, and the state after them. With `isReplaced`, the
 * state after the last write is not computed.
 */
function placeAll(all: readonly Write[], from: AgentState, isReplaced?: (pointer: string) => boolean) {
  let state = from;
  /** For each JSON Pointer: the newest of these writes that assigned or removed its value. */
  const assigned = new Map<string, number>();
  const [delta, overwrote, writes]: [Delta, string[], Write[]] = [[], [], []];
  const refused: { write: Write; path: string }[] = [];
  for (const [at, write] of all.entries()) {
    const isNew = (pointer: string): boolean =>
      (assigned.get(pointer) ?? 0) > write.seen || isReplaced?.(pointer) === true;
    const merged = write.base === state ? undefined : place(write, state, isNew);
    if (merged && merged.refused.length > 0) {
      for (const path of merged.refused) refused.push({ write, path });
      // If one part of a write is refused, the whole write is omitted, because the other parts may make no sense alone.
      writes.push(write);
      continue;
    }
    const seen = all[at - 1]?.number ?? write.seen;
    const placed: Write = merged ? { ...write, seen, base: state, delta: merged.delta, after: undefined } : write;
    for (const { path } of placed.delta) assigned.set(path, write.number);
    writes.push(placed);
    // Not `push(...list)`, which overflows the stack if the list is long.
    for (const operation of placed.delta) delta.push(operation);
    for (const path of merged?.overwrote ?? []) overwrote.push(path);
    if (isReplaced && at === all.length - 1) break;
    placed.after ??= changed(state as Json, placed.delta) as AgentState;
    state = placed.after;
  }
  return { state, delta, overwrote, refused, writes };
}

function place(write: Write, now: AgentState, isReplaced: (pointer: string) => boolean): Merged {
  const { writer, base, delta, updates, again } = write;
  if (again) {
    const { outcome, delta: made = [] } = again(now as Json);
    return { delta: made, overwrote: [], refused: outcome.ok ? [] : [""] };
  }
  const stale = updates.filter(({ key }) => !equalJson(readKey(base, key), readKey(now, key)));
  if (stale.length === 0) return merge(delta, base as Json, now as Json, isReplaced);
  const rerun = new Set(stale.map(({ key }) => key));
  const merged = merge(
    delta.filter(({ path }) => !rerun.has(topKey(path))),
    base as Json,
    now as Json,
    isReplaced,
  );
  const draft = createDraft(changed(now as Json, merged.delta));
  for (const update of stale) {
    try {
      applyUpdate(draft.state, update);
    } catch (thrown) {
      // A call has already run, so only its write is refused. A step without calls has had no effect, so it fails.
      if (!writer) throw thrown;
      return { delta: [], overwrote: [], refused: [`/${escapeKey(update.key)}`] };
    }
  }
  return { ...merged, delta: [...merged.delta, ...draft.delta()] };
}

const readKey = (state: AgentState, key: string): Json | undefined =>
  Object.hasOwn(state, key) ? (state[key] as Json) : undefined;
