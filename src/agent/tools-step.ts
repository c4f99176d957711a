// The step that runs the calls of one answer: each with its callbacks, handlers side by side where the tools allow it,
// and all results in one event.
import type { EventOf } from "../core/event.ts";
import type { FunctionCall } from "../core/model.ts";
import { splitDelta } from "../core/shared-state.ts";
import type { Placed, WorkingState } from "../session/working-state.ts";
import { cancelledRun } from "./callbacks.ts";
import { placed, type Conflict, type StandIn } from "./invocation.ts";
import {
  createCall,
  isExternal,
  isSideBySide,
  outputItem,
  type Result,
  type ToolCall,
  type ToolsOptions,
} from "./tool-call.ts";

/** So many handlers of one answer run at once. The others wait. */
const mostAtOnce = 64;

/** Runs the calls of an answer, unless their results were committed before the run was cut short. */
export async function runTools(options: ToolsOptions, calls: FunctionCall[]): Promise<EventOf<"tools.answered">> {
  const { invocation, place, signal } = options;
  // Begins nothing that nobody waits for any more.
  if (signal.aborted) throw cancelledRun(signal);
  const lost = await startExternal(options, calls);
  const before = invocation.next(place, "tools.answered");
  if (before) return before;
  const working = invocation.working();
  const results = await runAll(options, working, calls, lost);
  if (signal.aborted) throw cancelledRun(signal);
  const event = { type: "tools.answered" as const, ...placed(place, invocation.id), items: [] };
  return invocation.commit(event, working, (...given) => fieldsOf(options, results, ...given));
}

/**
 * Runs all calls, and gives their results in the same order. Handlers overlap; everything that writes to the state comes
 * one at a time, in the order of the calls, so that a replay writes in the same order whatever the time that they take.
 */
async function runAll(
  options: ToolsOptions,
  working: WorkingState,
  calls: FunctionCall[],
  lost: ReadonlySet<string>,
): Promise<Result[]> {
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
      const started = createCall(options, working, call, index, lost.has(call.call_id));
      await started.begin();
      if (answerer && "agent" in answerer) agents.push(started.work);
      if (isSideBySide(answerer)) running.push(started);
      else results[index] = await started.end();
    }
    await settle();
    return results;
  } finally {
    // An agent that is a tool commits to the same session, and must not continue after the run has ended.
    await Promise.allSettled(agents);
  }
}

/**
 * Commits that external calls are about to run, if there are any. Gives the calls for which an earlier run committed that:
 * whether they took effect is not known, and they are not run again.
 */
async function startExternal(
  { invocation, place, answerers }: ToolsOptions,
  calls: FunctionCall[],
): Promise<ReadonlySet<string>> {
  const external = calls.filter(({ name }) => isExternal(answerers.get(name)));
  if (external.length === 0) return new Set();
  const before = invocation.next(place, "tools.started");
  if (before) return new Set(before.calls);
  const ids = external.map(({ call_id }) => call_id);
  await invocation.commit({ type: "tools.started", ...placed(place, invocation.id), calls: ids });
  return new Set();
}

type Fields = Pick<EventOf<"tools.answered">, "items" | "failed" | "log" | "refused" | "transfer" | "escalate">;

/** The fields of the event. A call whose own writes could not be placed has failed: it did nothing else. */
function fieldsOf({ invocation, place }: ToolsOptions, all: Result[], writes: Placed, conflict: Conflict) {
  const placedResult = (result: Result): Result => {
    const path = writes.failed.get(result.call.call_id);
    return path === undefined ? result : { call: result.call, output: null, error: conflict(path) };
  };
  const results = writes.failed.size === 0 ? all : all.map(placedResult);
  const fields: Fields = { items: results.map(outputItem) };
  for (const { call, error, lines } of results) {
    const { call_id: id } = call;
    if (error) (fields.failed ??= []).push({ call: id, code: error.code, message: error.message });
    if (lines) (fields.log ??= []).push({ call: id, lines });
  }
  for (const { call = "", path } of writes.refused) {
    (fields.refused ??= []).push({ call, path, message: conflict(path).message });
  }
  if (results.some(({ isTaken }) => isTaken)) {
    const { delta, ...wishes } = (invocation.standIn as StandIn).results(place);
    // No log has what is temporary.
    return { ...fields, ...wishes, delta: [...delta, ...splitDelta(writes.delta).temp] };
  }
  for (const { error, wishes } of results) if (!error) Object.assign(fields, wishes);
  return fields;
}
