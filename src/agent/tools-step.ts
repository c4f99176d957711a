// The step that runs the calls of one answer: each with its callbacks, side by side where the tools allow it, and all of
// their results in one event.
import type { Agent, AgentContext, CallOfTool, ModelAgent, Toolset } from "../core/agent.ts";
import type { AgentState } from "../core/agent-sessions.ts";
import { changed, rebased, type Delta } from "../core/delta.ts";
import { createDraft, readOnly } from "../core/draft.ts";
import type { ToolDefinition } from "../core/environment.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { FunctionCall, FunctionCallOutput } from "../core/model.ts";
import { randomStream } from "../core/random.ts";
import { check } from "../core/schema.ts";
import { splitDelta } from "../core/shared-state.ts";
import { cancelledRun, firstValue, orAborted } from "./callbacks.ts";
import { Failed, isOfCommit, placed, type Invocation, type Place, type StandIn } from "./invocation.ts";

/** What answers the calls of an agent: its own tools, those of its toolsets, other agents, and the hand-over. */
export type Answerer = { tool: ToolDefinition } | { agent: Agent } | { toolset: Toolset } | { targets: string[] };

export interface ToolsOptions {
  invocation: Invocation;
  agent: ModelAgent;
  place: Place;
  /** The answer that has the calls. */
  answer: { version: number; at: number };
  answerers: ReadonlyMap<string, Answerer>;
  signal: AbortSignal;
  /** Runs an agent that is a tool, and gives what it says. */
  runAgent(agent: Agent, call: CallOfTool): Promise<string>;
}

/** What came of one call. */
interface Result {
  call: FunctionCall;
  output: Json;
  error?: HoldfastError;
  /** Its change of the state that it began with. */
  delta: Delta;
  from: AgentState;
  /** What it asked to be done to the state as it is in the end. */
  updates: ((state: AgentState) => unknown)[];
  wishes: Wishes;
  /** It was not made again in a replay. */
  isTaken?: true;
}

/** What calls can do to the run of their agent. */
interface Wishes {
  transfer?: string;
  escalate?: true;
}

/** Runs the calls of an answer, unless their results were committed before the run was cut short. */
export async function runTools(options: ToolsOptions, calls: FunctionCall[]): Promise<EventOf<"tools.answered">> {
  const { invocation, place, signal } = options;
  // Nothing is begun that nobody waits for any more.
  if (signal.aborted) throw cancelledRun(signal);
  const lost = await startExternal(options, calls);
  const before = invocation.next(place, "tools.answered");
  if (before) return before;
  const results = await runAll(options, calls, lost);
  if (signal.aborted) throw cancelledRun(signal);
  const from = invocation.state();
  const delta = changeNow(options, results);
  const failed = results.flatMap(({ call, error }) =>
    error ? [{ call: call.call_id, code: error.code, message: error.message }] : [],
  );
  return invocation.commit(
    {
      type: "tools.answered" as const,
      ...placed(place, invocation.id),
      items: results.map(outputItem),
      ...(failed.length > 0 && { failed }),
      ...wishesOf(options, results),
    },
    () => {
      // Agents that run side by side may have changed the state since.
      if (invocation.state() === from) return delta;
      const again = changeNow(options, results);
      const late = results.find(({ error, call }) => error && !failed.some((known) => known.call === call.call_id));
      if (late?.error) throw late.error;
      return again;
    },
  );
}

/** Starts all calls, in turn where they have to be, and gives their results in the same order. */
async function runAll(options: ToolsOptions, calls: FunctionCall[], lost: ReadonlySet<string>): Promise<Result[]> {
  const { invocation, answerers } = options;
  // What calls that run in turn see of each other.
  let working = invocation.state();
  const running: Promise<Result>[] = [];
  const agents: Promise<Result>[] = [];
  try {
    for (const [index, call] of calls.entries()) {
      const answerer = answerers.get(call.name);
      const started = createCall({ ...options, index, isLost: lost.has(call.call_id) }, call).start(working);
      // It may fail before anybody waits for it, while one after it has its turn.
      started.catch(() => undefined);
      running.push(started);
      if (answerer && "agent" in answerer) agents.push(started);
      if (isSideBySide(answerer)) continue;
      const result = await started;
      if (!result.error) working = changed(working, rebased(result.delta, result.from, working)) as AgentState;
    }
    return await Promise.all(running);
  } finally {
    // An agent that is a tool commits to the same session, which must not go on when the run has ended.
    await Promise.allSettled(agents);
  }
}

/**
 * Commits that calls which touch the world are about to run, if there are any. Gives those of which that was committed
 * before the run was cut short: whether they took effect is not known, and they are not run again.
 */
async function startExternal(
  { invocation, place, answerers }: ToolsOptions,
  calls: FunctionCall[],
): Promise<ReadonlySet<string>> {
  const external = calls.filter(({ name }) => {
    const answerer = answerers.get(name);
    return answerer && "tool" in answerer && answerer.tool.kind === "external";
  });
  if (external.length === 0) return new Set();
  const before = invocation.next(place, "tools.started");
  if (before) return new Set(before.calls);
  const ids = external.map(({ call_id }) => call_id);
  await invocation.commit({ type: "tools.started", ...placed(place, invocation.id), calls: ids });
  return new Set();
}

/** What the calls want done to the run. */
function wishesOf({ invocation, place }: ToolsOptions, results: Result[]): Wishes {
  if (results.some(({ isTaken }) => isTaken)) {
    const { delta: _, ...wishes } = (invocation.standIn as StandIn).results(place);
    return wishes;
  }
  const wishes: Wishes = {};
  for (const result of results) if (!result.error) Object.assign(wishes, result.wishes);
  return wishes;
}

/** What all calls together do to the state as it is now. Those fail whose changes cannot be made. */
function changeNow({ invocation, place }: ToolsOptions, results: Result[]): Delta {
  const merged = mergedChange(invocation.state(), results);
  if (!results.some(({ isTaken }) => isTaken)) return merged;
  // What is temporary is in no log.
  return [...(invocation.standIn as StandIn).results(place).delta, ...splitDelta(merged).temp];
}

/** Tools that change only the state run in turn, so that each sees what those before it have done. */
function isSideBySide(answerer: Answerer | undefined): boolean {
  if (!answerer || "targets" in answerer) return false;
  return !("tool" in answerer) || answerer.tool.kind !== "state";
}

/** The changes of all calls, made in the order of the calls. */
function mergedChange(state: AgentState, results: Result[]): Delta {
  let now = state;
  const delta: Delta = [];
  for (const result of results) {
    if (result.error) continue;
    try {
      const change = changeOf(result, now);
      now = changed(now, change) as AgentState;
      delta.push(...change);
    } catch (thrown) {
      // What it queued cannot be done, or is not JSON: this call has failed, and not the others.
      result.error = toolError(result.call.name, thrown);
    }
  }
  return delta;
}

/** What a call does to the state: first what was written, then what it queued. */
function changeOf({ delta, from, updates }: Result, state: AgentState): Delta {
  const written = rebased(delta, from, state);
  if (updates.length === 0) return written;
  const draft = createDraft<AgentState>(changed(state, written));
  for (const update of updates) {
    if (update(draft.state) instanceof Promise) throw new TypeError("update takes a function that is not async");
  }
  return [...written, ...draft.delta()];
}

function outputItem({ call, output, error }: Result): FunctionCallOutput {
  const text = error ? JSON.stringify({ error: { code: error.code, message: error.message } }) : textOf(output);
  return { type: "function_call_output", call_id: call.call_id, output: text };
}

const textOf = (output: Json): string => (typeof output === "string" ? output : JSON.stringify(output));

/** One call on its way. */
function createCall(options: ToolsOptions & { index: number; isLost: boolean }, call: FunctionCall) {
  const { invocation, agent, place, answer: made, index, answerers, signal, isLost } = options;
  const wishes: Wishes = {};
  const { callbacks } = agent;
  const updates: Result["updates"] = [];

  async function start(base: AgentState): Promise<Result> {
    const answerer = answerers.get(call.name);
    const isExternal = answerer !== undefined && "tool" in answerer && answerer.tool.kind === "external";
    const isAgent = answerer !== undefined && "agent" in answerer;
    const taken = isAgent ? undefined : invocation.standIn?.result(place, call.call_id, isExternal);
    if (taken) return { call, ...taken, delta: [], from: base, updates: [], wishes, isTaken: true };
    const writes = createWrites(invocation, base);
    try {
      const output = await outcome(writes);
      // Copied while it is open: a change that is not JSON is this call's failure.
      return { call, output, delta: writes.delta(), from: base, updates, wishes };
    } catch (thrown) {
      if (signal.aborted) throw cancelledRun(signal);
      const error = toolError(call.name, thrown);
      return { call, output: null, error, delta: [], from: base, updates: [], wishes };
    } finally {
      writes.close();
    }
  }

  async function outcome(writes: Writes): Promise<Json> {
    const about: CallOfTool = { tool: call.name, call: call.call_id, input: {} };
    let context = invocation.context(place, writes.state());
    let before: Delta = [];
    let output: Json;
    try {
      about.input = argumentsOf(call);
      const instead = await firstValue(callbacks.beforeTool, context, about);
      before = writes.delta();
      output = instead === undefined ? await answer(about, context, writes.state()) : instead;
    } catch (thrown) {
      if (signal.aborted || isOfCommit(thrown)) throw thrown;
      const error = toolError(call.name, thrown);
      // What a tool has done that failed is not kept, also where a callback sets it right.
      writes.backTo(before);
      updates.length = 0;
      delete wishes.transfer;
      delete wishes.escalate;
      context = invocation.context(place, writes.state());
      const value = await firstValue(callbacks.onToolError, context, error, about);
      if (value === undefined) throw error;
      output = value;
    }
    output = copyJson(output ?? null, `the output of ${call.name}`, "drop");
    const after = await firstValue(callbacks.afterTool, context, { ...about, output });
    return after === undefined ? output : copyJson(after, `the output of ${call.name}`, "drop");
  }

  async function answer(about: CallOfTool, context: AgentContext, state: AgentState): Promise<Json> {
    const answerer = answerers.get(about.tool);
    if (!answerer) {
      const known = [...answerers.keys()].join(", ") || "none";
      throw new HoldfastError("unknown_tool", `there is no tool "${about.tool}"; the tools are: ${known}`);
    }
    if ("targets" in answerer) return handOver(about, answerer.targets);
    if ("agent" in answerer) return options.runAgent(answerer.agent, about);
    if ("toolset" in answerer) {
      return orAborted(signal, answerer.toolset.call(context, { ...about, once: `${made.version}.${about.call}` }));
    }
    return runOwn(answerer.tool, about, state);
  }

  function handOver({ input }: CallOfTool, targets: string[]): Json {
    const to = (input as { agent?: unknown } | null)?.agent;
    if (typeof to !== "string" || !targets.includes(to)) {
      throw new HoldfastError("invalid_input", `\`agent\` must be one of: ${targets.join(", ")}`);
    }
    wishes.transfer = to;
    return { transferred: to };
  }

  async function runOwn(definition: ToolDefinition, about: CallOfTool, state: AgentState): Promise<Json> {
    if (isLost) {
      const message = `${about.tool} was started before the run was cut short; whether it took effect is not known`;
      throw new HoldfastError("outcome_unknown", message);
    }
    const checked = await check(definition.input, copyJson(about.input, "input"));
    if (!checked.ok) {
      throw new HoldfastError("invalid_input", `the arguments of ${about.tool} are wrong: ${checked.message}`);
    }
    const isDetached = definition.kind !== "state";
    let isOpen = true;
    const update = (change: (state: AgentState) => unknown): void => {
      if (!isOpen) throw new TypeError("update was called after the tool had returned");
      updates.push(change);
    };
    const run = new AbortController();
    const { standIn, entered } = invocation;
    // Both are functions of what the log holds, so that a replay has them again.
    const random = randomStream(standIn?.seed ?? entered.seed, made.version * 1000 + index);
    const at = standIn?.at(made.version) ?? made.at;
    const context = {
      session: entered.session,
      call: about.call,
      task: undefined,
      random,
      now: () => at,
      signal: run.signal,
      log: () => undefined,
      state: isDetached ? readOnly<AgentState>(state as Json) : state,
      update,
      agent: {
        name: agent.name,
        user: invocation.entered.user,
        invocation: invocation.id,
        escalate: () => void (wishes.escalate = true),
        transfer: (to: string) => void handOver({ ...about, input: { agent: to } }, targetsOf(invocation, agent)),
      },
    };
    const work = async (): Promise<Json> => definition.run(context, checked.value) as Json;
    try {
      return await within(definition, about.tool, run, signal, work);
    } finally {
      isOpen = false;
    }
  }

  return { start };
}

type Writes = ReturnType<typeof createWrites>;

/** What a call writes, of which the end can be taken back. */
function createWrites(invocation: Invocation, base: AgentState) {
  let kept: Delta = [];
  let draft = invocation.draft(base);
  return {
    state: () => draft.state,
    delta: (): Delta => [...kept, ...draft.delta()],
    /** Drops what was written since it was this. */
    backTo(delta: Delta): void {
      draft.close();
      kept = delta;
      draft = invocation.draft(changed(base, delta) as AgentState);
    },
    close: () => draft.close(),
  };
}

const targetsOf = ({ family }: Invocation, agent: ModelAgent): string[] =>
  family.targets(agent).map(({ name }) => name);

/** Bounds the time of a tool, and passes on that it should stop. */
function within<T>(
  { timeout }: ToolDefinition,
  tool: string,
  run: AbortController,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (error: HoldfastError): void => {
      reject(error);
      run.abort(error);
    };
    const cancel = (): void => stop(cancelledRun(signal));
    const late = (): void => stop(new HoldfastError("tool_timeout", `${tool} did not return within ${timeout} ms`));
    const timer = timeout === undefined ? undefined : setTimeout(late, timeout);
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) return cancel();
    work()
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer);
        signal.removeEventListener("abort", cancel);
      });
  });
}

function argumentsOf({ name, arguments: text }: FunctionCall): Json {
  if (text.trim() === "") return {};
  try {
    return copyJson(JSON.parse(text), "input");
  } catch (thrown) {
    const message = `the arguments of ${name} are not JSON: ${messageOf(thrown)}`;
    throw new HoldfastError("invalid_input", message, { cause: thrown });
  }
}

function toolError(tool: string, thrown: unknown): HoldfastError {
  if (isOfCommit(thrown)) throw thrown;
  if (thrown instanceof Failed) {
    const { error } = thrown.event;
    return new HoldfastError("tool_failed", `the agent behind ${tool} failed: ${error.message}`);
  }
  if (isHoldfastError(thrown)) return thrown;
  return new HoldfastError("tool_failed", messageOf(thrown), { cause: thrown });
}
