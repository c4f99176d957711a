// runTools(): the step that runs the calls in one answer. Handlers run concurrently if their tools allow it, and one
// event contains all results.
import type { EventOf } from "../core/event.ts";
import type { FunctionCall } from "../core/model.ts";
import type { Placed, WorkingState } from "../session/working-state.ts";
import { cancelledRun } from "./callbacks.ts";
import { findResults, Waiting } from "./client-tools.ts";
import { placed, type Conflict } from "./invocation.ts";
import { createCall, isExternal, isSideBySide, outputItem, type NotRun, type ToolsOptions } from "./tool-call.ts";
import type { Effects, Result, ToolCall, Wishes } from "./world.ts";

/** Maximum number of concurrent handlers per answer. Further calls wait. */
const mostAtOnce = 64;

type Answered = EventOf<"tools.answered"> & { version: number };

/**
 * Runs an answer's calls, unless their results were committed before the run was interrupted. Calls of the client's
 * tools wait for the client: the other results are committed first, and the client's results in a second event.
 */
export async function runTools(options: ToolsOptions, calls: FunctionCall[]): Promise<Answered> {
  const { invocation, place, signal } = options;
  // Starts nothing after a cancellation.
  if (signal.aborted) throw cancelledRun(signal);
  const lost = await startExternal(options, calls);
  const first = invocation.next(place, "tools.answered") ?? (await answerCalls(options, calls, lost));
  if (!first.waiting) return first;
  const before = invocation.next(place, "tools.answered");
  if (before) return before;
  const received = findResults(invocation.entered.steps, first.version);
  if (!received) throw new Waiting(first);
  const { waiting, transfer, escalate } = first;
  const wishes: Wishes = { ...(transfer !== undefined && { transfer }), ...(escalate && { escalate }) };
  return answerCalls({ ...options, received }, waiting, new Map(), wishes);
}

/** Runs calls and commits their results. `wishes`: the transfer or escalation from the answer's other calls. */
async function answerCalls(
  options: ToolsOptions,
  calls: FunctionCall[],
  lost: Lost,
  wishes: Wishes = {},
): Promise<Answered> {
  const { invocation, place, signal } = options;
  const working = invocation.working();
  const results = await runAll(options, working, calls, lost);
  if (signal.aborted) throw cancelledRun(signal);
  const event = { type: "tools.answered" as const, ...placed(place, invocation.id), items: [] };
  return invocation.commit(event, working, (...given) => buildFields(options, results, wishes, ...given));
}

/**
 * Runs all calls, and returns their results in the same order. Handlers overlap, but writes to the state happen one by
 * one, in the order of the calls. So a replay writes in the same order, whatever the handlers' timing.
 */
async function runAll(
  options: ToolsOptions,
  working: WorkingState,
  calls: FunctionCall[],
  lost: Lost,
): Promise<Result[]> {
  const { place } = options;
  const { world } = options.invocation;
  const results: Result[] = [];
  const running: ToolCall[] = [];
  const settle = async (): Promise<void> => {
    for (const call of running) results[call.index] = await call.end();
    running.length = 0;
  };
  const agents: Promise<unknown>[] = [];
  try {
    for (const [index, call] of calls.entries()) {
      if (running.length === mostAtOnce) await settle();
      const answerer = options.answerers.get(call.name);
      const live = (): ToolCall => createCall(options, working, call, index, lost.get(call.call_id));
      const isAgent = answerer !== undefined && "agent" in answerer;
      const started = isAgent ? live() : world.call(place, call, index, isExternal(answerer), live);
      await started.begin();
      if (isAgent) agents.push(started.work);
      if (isSideBySide(answerer)) running.push(started);
      else results[index] = await started.end();
    }
    await settle();
    return results;
  } finally {
    // An agent used as a tool commits to the same session, and must not continue after the run has ended.
    await Promise.allSettled(agents);
  }
}

/** Why calls do not run, by their ids. */
type Lost = ReadonlyMap<string, NotRun>;

/**
 * If there are external calls, commits that they are about to run. Returns the calls that have started before, and so
 * do not run again: an earlier run was cut short, or a rewind undid their results.
 */
async function startExternal(
  { invocation, place, answer, answerers }: ToolsOptions,
  calls: FunctionCall[],
): Promise<Lost> {
  const external = calls.filter(({ name }) => isExternal(answerers.get(name)));
  if (external.length === 0) return new Map();
  const before = invocation.next(place, "tools.started");
  if (before) return new Map(before.calls.map((id) => [id, "cut short"]));
  const ids = external.map(({ call_id }) => call_id);
  const undone = await invocation.undoneCalls(answer.version);
  await invocation.commit({ type: "tools.started", ...placed(place, invocation.id), calls: ids });
  return new Map(ids.filter((id) => undone.has(id)).map((id) => [id, "undone"]));
}

type Fields = Pick<
  EventOf<"tools.answered">,
  "items" | "waiting" | "failed" | "log" | "thrown" | "refused" | "transfer" | "escalate"
>;

/** Builds the event's fields. A call that only writes state fails if its writes could not be merged. */
function buildFields(
  { invocation, place }: ToolsOptions,
  all: Result[],
  earlier: Wishes,
  writes: Placed,
  conflict: Conflict,
) {
  const placedResult = (result: Result): Result => {
    const path = writes.failed.get(result.call.call_id);
    return path === undefined ? result : { call: result.call, output: null, error: conflict(path) };
  };
  const results = writes.failed.size === 0 ? all : all.map(placedResult);
  const fields: Fields = { items: results.filter(({ isWaiting }) => !isWaiting).map(outputItem) };
  const waiting = results.filter(({ isWaiting }) => isWaiting).map(({ call }) => bareCall(call));
  if (waiting.length > 0) fields.waiting = waiting;
  for (const { call, error, lines, thrown } of results) {
    const { call_id: id } = call;
    if (error) (fields.failed ??= []).push({ call: id, code: error.code, message: error.message });
    if (lines) (fields.log ??= []).push({ call: id, lines });
    if (error && thrown) (fields.thrown ??= []).push({ call: id, ...thrown });
  }
  for (const { call = "", path } of writes.refused) {
    (fields.refused ??= []).push({ call, path, message: conflict(path).message });
  }
  const made: Effects = { delta: writes.delta, ...earlier };
  for (const { error, wishes } of results) if (!error) Object.assign(made, wishes);
  return { ...fields, ...invocation.world.effects(place, results, made) };
}

/** Returns a call without the fields that a server added, such as token ids. */
const bareCall = ({ call_id, name, arguments: given }: FunctionCall): FunctionCall => ({
  type: "function_call",
  call_id,
  name,
  arguments: given,
});
