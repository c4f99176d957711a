// replay(): runs a log's calls again using only the log, and reports the first event that differs.
import { setImmediate as nextTurn } from "node:timers/promises";
import { applyDelta, type Delta } from "../core/delta.ts";
import { showJson } from "../core/ellipsis.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { EventOf, NumberedEvent } from "../core/event.ts";
import { copyJson, equalJson, type Json } from "../core/json.ts";
import { fold, type Session } from "../core/session.ts";
import type { Replayed } from "../core/sessions.ts";
import { checkState } from "./check-state.ts";
import { execute, executeAtOnce, prepare } from "./execute.ts";
import type { Finished } from "./outcome.ts";
import { seedEvent } from "./seed.ts";

/** Outcomes that depend on the clock rather than the code. They are taken from the log. */
const fromOutside = new Set<string>(["tool_timeout", "outcome_unknown"]);

export interface ReplayOptions {
  environment: AnyEnvironment;
  session: string;
  timeout: number;
  events(): AsyncIterable<NumberedEvent>;
}

/**
 * Runs seeds and calls again. External tools do not run: their answers come from the log, and so do timeout outcomes.
 */
export async function replay(options: ReplayOptions): Promise<Replayed> {
  // Counts the readers of each version: a concurrent call reads an earlier version, whose state is kept until its last
  // reader.
  const readers = new Map<number, number>();
  let newest = 0;
  for await (const event of options.events()) {
    newest = event.version;
    if (event.type === "tool.called" && event.run) {
      readers.set(event.run.version, (readers.get(event.run.version) ?? 0) + 1);
    }
  }
  const read = new Map<number, Seen>();
  let session: Session | undefined;
  for await (const event of options.events()) {
    // The session may be in use. Events that were added after the replay started are ignored.
    if (event.version > newest) break;
    // With a synchronous store and synchronous tools, nothing else in the process could run without this pause.
    if (event.version % 16 === 0) await nextTurn();
    if (session) {
      const again = await rerun(options, session, event, read);
      const difference = again && compare(session.state, event, again);
      if (difference) {
        const message = inWords(event, difference);
        return { same: false, version: event.version, ...difference, message };
      }
    }
    session = fold(session, event);
    const left = readers.get(event.version);
    if (left) read.set(event.version, { state: copyJson(session.state, "state"), task: session.task, left });
  }
  return { same: true, events: session?.version ?? 0 };
}

/** The state and task at a version, and the number of calls that have yet to read it. */
type Seen = Pick<Session, "state" | "task"> & { left: number };

async function rerun(
  { environment, session: id, timeout }: ReplayOptions,
  session: Session,
  event: NumberedEvent,
  read: Map<number, Seen>,
): Promise<Partial<Finished> | undefined> {
  if (event.type === "session.seeded") {
    const { task, at, began = at, randomness } = event;
    return seedEvent(environment, { session: id, task, at: began, timeout, randomSeed: randomness.seed });
  }
  if (event.type !== "tool.called" || isFromOutside(event)) return undefined;
  const { tool, input, call, at, began = at, run } = event;
  const { definitions } = environment;
  const execution = { session: id, tool, call, at: began, timeout };
  // Only a recorded refusal is checked again. Older Holdfast versions accepted changes without a check.
  const isRefused = !event.outcome.ok && event.outcome.error.code === "state_invalid";
  const checked = (made: Finished): Finished | Promise<Finished> =>
    isRefused ? checkState(environment, tool, session.state, made) : made;
  if (!run) {
    const { seed, turn: draws } = session.randomness;
    const about = { ...execution, seed, draws, task: session.task };
    return checked(await executeAtOnce(definitions, about, input, session.state));
  }
  const prepared = await prepare(definitions, tool, input);
  if (!prepared.ok) return { outcome: prepared.outcome };
  const seen = read.get(run.version) as Seen;
  if (--seen.left === 0) read.delete(run.version);
  const detached = { ...execution, seed: run.seed, draws: 0, task: seen.task };
  return checked((await execute(detached, prepared, seen.state))(session.state));
}

function isFromOutside({ outcome }: EventOf<"tool.called">): boolean {
  return !outcome.ok && fromOutside.has(outcome.error.code);
}

interface Difference {
  what: "outcome" | "state";
  recorded: Json;
  replayed: Json;
}

function inWords(event: NumberedEvent, { what, recorded, replayed }: Difference): string {
  const where = "tool" in event ? `${event.type} ${event.tool}` : event.type;
  const [was, is] = [showJson(recorded, 200), showJson(replayed, 200)];
  return `event ${event.version} (${where}) has a different ${what}: recorded ${was}, replayed ${is}`;
}

function compare(before: Json, event: NumberedEvent, again: Partial<Finished>): Difference | undefined {
  if (event.type === "tool.called" && again.outcome && !equalJson(event.outcome as Json, again.outcome as Json)) {
    return { what: "outcome", recorded: event.outcome as Json, replayed: again.outcome as Json };
  }
  const recorded = event.delta ?? [];
  const replayed = again.delta ?? [];
  if (equalJson(recorded as Json, replayed as Json)) return undefined;
  // Compares states, because two different deltas may lead to the same state.
  const after = (delta: Delta): Json => applyDelta(copyJson(before, "state"), copyJson(delta, "delta") as Delta);
  if (equalJson(after(recorded), after(replayed))) return undefined;
  return { what: "state", recorded: recorded as Json, replayed: replayed as Json };
}
