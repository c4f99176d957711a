// createCall(): one tool call from a model, with its callbacks and its result.
import type { Agent, AgentContext, CallOfTool, ModelAgent, Toolset } from "../core/agent.ts";
import type { ToolAgent, ToolDefinition } from "../core/environment.ts";
import { HoldfastError, isHoldfastError, isRefusal, messageOf } from "../core/errors.ts";
import type { Outcome, Thrown } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { Content, FunctionCall, FunctionCallOutput } from "../core/model.ts";
import { execute, prepared } from "../session/execute.ts";
import type { WorkingState, Writer } from "../session/working-state.ts";
import { thrownIn } from "../session/thrown.ts";
import { cancelledRun, firstValue, orAborted, sourceThrown } from "./callbacks.ts";
import { Failed, isOfCommit, type Invocation } from "./invocation.ts";
import type { Place, Result, ToolCall, Wishes } from "./world.ts";

/** The code that answers a call: the agent's own tool, a toolset, another agent, the transfer tool, or the client. */
export type Answerer =
  { tool: ToolDefinition } | { agent: Agent } | { toolset: Toolset } | { targets: string[] } | { client: true };

/** Why a call with external effects does not run again. */
export type NotRun = "cut short" | "undone";

export interface ToolsOptions {
  invocation: Invocation;
  agent: ModelAgent;
  place: Place;
  /** The model's answer that contains the calls. */
  answer: { version: number; at: number };
  answerers: ReadonlyMap<string, Answerer>;
  signal: AbortSignal;
  /** The client's results, by call id, once it has sent them. */
  received?: ReadonlyMap<string, FunctionCallOutput["output"]>;
  /** Runs an agent used as a tool, and returns its text. */
  runAgent(agent: Agent, call: CallOfTool): Promise<string>;
}

export function isExternal(answerer: Answerer | undefined): boolean {
  if (answerer === undefined) return false;
  if ("toolset" in answerer) return answerer.toolset.effects === "external";
  return "tool" in answerer && answerer.tool.kind === "external";
}

/**
 * Returns whether a call may run concurrently with other calls. A tool that only changes the state may not, because it
 * must see the writes of the calls before it.
 */
export function isSideBySide(answerer: Answerer | undefined): boolean {
  if (!answerer || "targets" in answerer) return false;
  return !("tool" in answerer) || answerer.tool.kind !== "state";
}

export function outputItem({ call, output, error, isContent }: Result): FunctionCallOutput {
  if (isContent) return { type: "function_call_output", call_id: call.call_id, output: output as unknown as Content[] };
  const told = error ? { error: { code: error.code, message: error.message } } : output;
  const text = typeof told === "string" ? told : JSON.stringify(told);
  return { type: "function_call_output", call_id: call.call_id, output: text };
}

/** Creates a call. `index`: its position in the answer. `notRun`: why it does not run again. */
export function createCall(
  options: ToolsOptions,
  working: WorkingState,
  call: FunctionCall,
  index: number,
  notRun: NotRun | undefined,
): ToolCall {
  const { invocation, agent, place, answer: made, answerers, signal } = options;
  const { callbacks } = agent;
  const answerer = answerers.get(call.name);
  const about: CallOfTool = { tool: call.name, call: call.call_id, input: {} };
  // A call that only changes the state fails if its change cannot be applied. Any other call keeps its result.
  const writer: Writer = { call: call.call_id, needs: !isSideBySide(answerer) };
  let wishes: Wishes = {};
  let lines: string[] | undefined;
  let thrownByTool: Thrown | undefined;
  /** Resolves to a function that keeps the handler's writes and returns its output. */
  let answering: Promise<() => Json> = Promise.resolve(() => null);
  const received = options.received?.get(call.call_id);
  let isWaiting = false;

  /** Runs callbacks on a draft. Their writes are kept unless they throw. */
  async function onDraft<T>(run: (context: AgentContext) => Promise<T>): Promise<T> {
    const draft = working.draft();
    try {
      const value = await run(invocation.context(place, draft));
      working.keep(draft, writer);
      return value;
    } finally {
      draft.close();
    }
  }

  async function begin(): Promise<void> {
    try {
      about.input = parseArguments(call);
      if (received !== undefined) {
        answering = Promise.resolve(() => received as Json);
        return;
      }
      const { beforeTool } = callbacks;
      const instead = beforeTool && (await onDraft((context) => firstValue("beforeTool", beforeTool, context, about)));
      isWaiting = instead === undefined && answerer !== undefined && "client" in answerer;
      if (isWaiting) return;
      answering = instead === undefined ? answer() : Promise.resolve(() => instead);
    } catch (thrown) {
      answering = Promise.reject(thrown);
    }
    // Prevents an unhandled rejection: the promise may reject before it is awaited.
    answering.catch(() => undefined);
  }

  async function end(): Promise<Result> {
    if (isWaiting) return { call, output: null, isWaiting };
    try {
      const output = asOutput(await outcome());
      const { afterTool } = callbacks;
      const after =
        afterTool && (await onDraft((context) => firstValue("afterTool", afterTool, context, { ...about, output })));
      if (after !== undefined) return { call, output: asOutput(after), wishes, lines };
      return { call, output, wishes, lines, isContent: Array.isArray(received) };
    } catch (thrown) {
      if (signal.aborted) throw cancelledRun(signal);
      const error = toolError(call.name, thrown);
      working.drop(call.call_id);
      if (isRefusal(error)) return { call, output: null, error, lines };
      const authors = sourceThrown(thrown) ?? sourceThrown(error.cause) ?? thrownByTool ?? thrownIn(error, call.name);
      return { call, output: null, error, lines, thrown: authors };
    }
  }

  const asOutput = (value: Json | undefined): Json => copyJson(value ?? null, `the output of ${call.name}`, "drop");

  async function outcome(): Promise<Json> {
    try {
      const finish = await answering;
      return finish();
    } catch (thrown) {
      if (signal.aborted || isOfCommit(thrown)) throw thrown;
      const error = toolError(call.name, thrown);
      const { onToolError } = callbacks;
      const value =
        onToolError && (await onDraft((context) => firstValue("onToolError", onToolError, context, error, about)));
      if (value === undefined) throw error;
      return value;
    }
  }

  async function answer(): Promise<() => Json> {
    if (signal.aborted) throw cancelledRun(signal);
    if (!answerer) {
      const known = [...answerers.keys()].join(", ") || "none";
      throw new HoldfastError("unknown_tool", `there is no tool "${about.tool}"; the tools are: ${known}`);
    }
    if ("tool" in answerer) return runTool(answerer.tool);
    if ("toolset" in answerer) return askToolset(answerer.toolset);
    if ("agent" in answerer) {
      const said = await options.runAgent(answerer.agent, about);
      return () => said;
    }
    if ("client" in answerer) throw new TypeError(`the client runs ${about.tool}`);
    const { agent: to } = Object(about.input) as { agent?: unknown };
    wishes.transfer = oneOf(answerer.targets, to);
    return () => ({ transferred: to as string });
  }

  /** Refuses to repeat a call with external effects that has started before. */
  function assertNotLost(): void {
    if (notRun === undefined) return;
    const start = `${about.tool} was started before`;
    if (notRun === "undone") {
      throw new HoldfastError("call_undone", `${start} a rewind undid its result; it does not run again`);
    }
    const message = `${start} the run was cut short; whether it took effect is not known`;
    throw new HoldfastError("outcome_unknown", message);
  }

  async function askToolset(toolset: Toolset): Promise<() => Json> {
    assertNotLost();
    // Throws if another process has taken over the turn since the call was committed.
    if (toolset.effects === "external") await invocation.assertHeld();
    const draft = working.draft();
    try {
      const asked = { ...about, once: `${made.version}.${about.call}` };
      const output = await orAborted(signal, toolset.call(invocation.context(place, draft), asked));
      return () => {
        working.keep(draft, writer);
        return output;
      };
    } catch (thrown) {
      draft.close();
      throw thrown;
    }
  }

  async function runTool(definition: ToolDefinition): Promise<() => Json> {
    const { tool, call: id, input } = about;
    assertNotLost();
    const ready = await prepared(definition, tool, input);
    if (!ready.ok) throw toFailure(ready.outcome);
    let cause: unknown;
    const wished: Wishes = {};
    const { world, entered } = invocation;
    const execution = {
      session: entered.session,
      tool,
      call: id,
      task: null,
      timeout: entered.timeout,
      signal,
      agent: toolAgent(wished),
      // The random numbers and the time are derived from the log, so a replay gets the same values.
      seed: world.seed(entered.seed),
      draws: made.version * 1000 + index,
      at: world.at(made),
      onThrown: (thrown: unknown) => void (cause = thrown),
    };
    // Throws if another process has taken over the turn since the call was committed.
    if (definition.kind === "external") await invocation.assertHeld();
    const ran = await execute(execution, ready, working.state as Json);
    return () => {
      const finished = working.keepRan(ran, writer);
      lines = finished.log;
      thrownByTool = finished.thrown;
      if (!finished.outcome.ok) throw toFailure(finished.outcome, cause);
      // Copies `wished`, because a stopped handler may still change it.
      wishes = { ...wished };
      return finished.outcome.output;
    };
  }

  function toolAgent(wished: Wishes): ToolAgent {
    const { entered, family, id } = invocation;
    const targets = (): string[] => family.targets(agent).map(({ name }) => name);
    return {
      name: agent.name,
      user: entered.user,
      invocation: id,
      escalate: () => void (wished.escalate = true),
      transfer: (to) => void (wished.transfer = oneOf(targets(), to)),
    };
  }

  return {
    index,
    get work() {
      return answering;
    },
    begin,
    end,
  };
}

function oneOf(targets: string[], to: unknown): string {
  if (typeof to === "string" && targets.includes(to)) return to;
  throw new HoldfastError("invalid_input", `\`agent\` must be one of: ${targets.join(", ")}`);
}

/** Returns the error for a tool's failure. A HoldfastError that the tool threw keeps its code, for the agent. */
function toFailure(outcome: Outcome, cause?: unknown): HoldfastError {
  if (outcome.ok) throw new TypeError("the outcome is not a failure");
  const { code, message, detail } = outcome.error;
  if (code === "tool_failed" && isHoldfastError(cause)) return cause;
  return new HoldfastError(code, message, { cause, detail: { ...Object(detail) } });
}

function parseArguments({ name, arguments: text }: FunctionCall): Json {
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
