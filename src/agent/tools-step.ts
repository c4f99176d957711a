// The step that runs the calls of one answer: each with its callbacks, side by side where the tools allow it, and all of
// their results in one event.
import type { Agent, AgentContext, CallOfTool, ModelAgent, Toolset } from "../core/agent.ts";
import type { AgentState } from "../core/agent-sessions.ts";
import type { Delta } from "../core/delta.ts";
import { createDraft, readOnly } from "../core/draft.ts";
import type { ToolDefinition } from "../core/environment.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { FunctionCall, FunctionCallOutput } from "../core/model.ts";
import { check } from "../core/schema.ts";
import { firstValue } from "./callbacks.ts";
import { cancelledRun, Failed, placed, type Invocation, type Place } from "./invocation.ts";
import { changed, rebased } from "./rebase.ts";

/** What answers the calls of an agent: its own tools, those of its toolsets, other agents, and the hand-over. */
export type Answerer = { tool: ToolDefinition } | { agent: Agent } | { toolset: Toolset } | { targets: string[] };

export interface ToolsOptions {
  invocation: Invocation;
  agent: ModelAgent;
  place: Place;
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
}

/** What calls can do to the run of their agent. */
interface Wishes {
  transfer?: string;
  escalate?: true;
}

/** Runs the calls of an answer, unless their results were committed before the run was cut short. */
export async function runTools(options: ToolsOptions, calls: FunctionCall[]): Promise<EventOf<"tools.answered">> {
  const { invocation, place, answerers } = options;
  const lost = await startExternal(options, calls);
  const before = invocation.next(place, "tools.answered");
  if (before) return before;
  const wishes: Wishes = {};
  // What calls that run in turn see of each other.
  let working = invocation.state();
  const running: Promise<Result>[] = [];
  for (const call of calls) {
    const one = createCall({ ...options, wishes, isLost: lost.has(call.call_id) }, call);
    if (isSideBySide(answerers.get(call.name))) {
      running.push(one.start(working));
      continue;
    }
    const result = await one.start(working);
    if (!result.error) working = changed(working, rebased(result.delta, result.from, working));
    running.push(Promise.resolve(result));
  }
  const results = await Promise.all(running);
  if (options.signal.aborted) throw cancelledRun(options.signal);
  const { delta, from } = mergedChange(invocation, results);
  const failed = results.flatMap(({ call, error }) =>
    error ? [{ call: call.call_id, code: error.code, message: error.message }] : [],
  );
  return invocation.commit(
    {
      ...{ type: "tools.answered" as const, ...placed(place, invocation.id), items: results.map(outputItem) },
      ...(failed.length > 0 && { failed }),
      ...wishes,
    },
    delta,
    from,
  );
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

/** Tools that change only the state run in turn, so that each sees what those before it have done. */
function isSideBySide(answerer: Answerer | undefined): boolean {
  if (!answerer || "targets" in answerer) return false;
  return !("tool" in answerer) || answerer.tool.kind !== "state";
}

/** The changes of all calls, made in the order of the calls. */
function mergedChange(invocation: Invocation, results: Result[]): { delta: Delta; from: AgentState } {
  const from = invocation.state();
  let now = from;
  const delta: Delta = [];
  const add = (change: Delta): void => {
    now = changed(now, change);
    delta.push(...change);
  };
  for (const { error, delta: own, from: began, updates } of results) {
    if (error) continue;
    add(rebased(own, began, now));
    for (const update of updates) {
      const draft = createDraft<AgentState>(now as Json);
      update(draft.state);
      add(draft.delta());
    }
  }
  return { delta, from };
}

function outputItem({ call, output, error }: Result): FunctionCallOutput {
  const text = error ? JSON.stringify({ error: { code: error.code, message: error.message } }) : textOf(output);
  return { type: "function_call_output", call_id: call.call_id, output: text };
}

const textOf = (output: Json): string => (typeof output === "string" ? output : JSON.stringify(output));

/** One call on its way. */
function createCall(options: ToolsOptions & { wishes: Wishes; isLost: boolean }, call: FunctionCall) {
  const { invocation, agent, place, answerers, signal, wishes, isLost } = options;
  const { callbacks } = agent;
  const updates: Result["updates"] = [];

  async function start(base: AgentState): Promise<Result> {
    const draft = invocation.draft(base);
    const context = invocation.context(place, draft.state);
    try {
      const output = await outcome(context, draft.state);
      // Copied while it is open: a change that is not JSON is this call's failure.
      return { call, output, delta: draft.delta(), from: draft.from, updates };
    } catch (thrown) {
      if (signal.aborted) throw cancelledRun(signal);
      return { call, output: null, error: toolError(call.name, thrown), delta: [], from: draft.from, updates: [] };
    } finally {
      draft.close();
    }
  }

  async function outcome(context: AgentContext, state: AgentState): Promise<Json> {
    const about: CallOfTool = { tool: call.name, call: call.call_id, input: {} };
    let output: Json;
    try {
      about.input = argumentsOf(call);
      const instead = await firstValue(callbacks.beforeTool, context, about);
      output = instead === undefined ? await answer(about, context, state) : instead;
    } catch (thrown) {
      if (signal.aborted || isFatal(thrown)) throw thrown;
      const error = toolError(call.name, thrown);
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
    if ("toolset" in answerer) return answerer.toolset.call(context, about);
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
    const run = new AbortController();
    const context = {
      ...{ session: invocation.entered.session, call: about.call, task: undefined, random: Math.random },
      ...{ now: Date.now, signal: run.signal, log: () => undefined },
      state: isDetached ? readOnly<AgentState>(state as Json) : state,
      update: (change: (state: AgentState) => unknown) => void updates.push(change),
      agent: {
        ...{ name: agent.name, user: invocation.entered.user, invocation: invocation.id },
        escalate: () => void (wishes.escalate = true),
        transfer: (to: string) => void handOver({ ...about, input: { agent: to } }, targetsOf(invocation, agent)),
      },
    };
    return within(definition, about.tool, run, signal, async () => definition.run(context, checked.value) as Json);
  }

  return { start };
}

export const targetsOf = ({ family }: Invocation, agent: ModelAgent): string[] =>
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
    if (signal.aborted) cancel();
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
  if (isFatal(thrown)) throw thrown;
  if (thrown instanceof Failed) {
    const { error } = thrown.event;
    return new HoldfastError("tool_failed", `the agent behind ${tool} failed: ${error.message}`);
  }
  if (isHoldfastError(thrown)) return thrown;
  return new HoldfastError("tool_failed", messageOf(thrown), { cause: thrown });
}

/** The conversation itself cannot be written to any more. */
function isFatal(thrown: unknown): boolean {
  return isHoldfastError(thrown) && (thrown.code === "session_busy" || thrown.code === "run_cancelled");
}
