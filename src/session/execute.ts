// Executes a tool: runs a call on a state, and returns an outcome, a delta and log lines. Environments, agents and
// replays all use it.
import { after } from "../core/after.ts";
import { createDraft, type Draft } from "../core/draft.ts";
import type { Progress, ToolAgent, ToolDefinition } from "../core/environment.ts";
import type { Outcome } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import { check, type Checked } from "../core/schema.ts";
import { applyUpdate, createUpdates } from "../core/update.ts";
import { guarded, HandlerCall, type HandlerOptions } from "./handler.ts";
import { buildDelta, runForOutcome, refusal, withDelta, type Finished } from "./outcome.ts";

/** One execution of a tool: all its inputs except the state. */
export interface Execution extends Omit<HandlerOptions, "what"> {
  tool: string;
  call: string | undefined;
  task: Json | null;
  /** The agent that owns the tool. */
  agent?: ToolAgent | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** A tool with valid arguments. */
export interface Prepared {
  ok: true;
  definition: ToolDefinition;
  args: unknown;
}

interface Refused {
  ok: false;
  outcome: Outcome;
}

/** Finds the tool and checks the arguments. */
export function prepare(
  tools: ReadonlyMap<string, ToolDefinition>,
  tool: string,
  input: Json,
): Prepared | Refused | Promise<Prepared | Refused> {
  const definition = tools.get(tool);
  if (!definition) {
    const known = [...tools.keys()].join(", ") || "none";
    return { ok: false, outcome: refusal("unknown_tool", `there is no tool "${tool}"; the tools are: ${known}`) };
  }
  return prepared(definition, tool, input);
}

/** Checks the arguments of a tool. */
export function prepared(
  definition: ToolDefinition,
  tool: string,
  input: Json,
): Prepared | Refused | Promise<Prepared | Refused> {
  // The arguments are a copy. If the handler changes them, the changes are not recorded, and its next run does not see
  // them.
  const checked = check(definition.input, copyJson(input, "input"));
  return after(checked, (result: Checked): Prepared | Refused =>
    result.ok
      ? { ok: true, definition, args: result.value }
      : { ok: false, outcome: refusal("invalid_input", `the arguments of ${tool} are wrong: ${result.message}`) },
  );
}

/** Returns the result, with the tool's change to the given state. Can be called more than once. */
export type Ran = (now: Json) => Finished;

/**
 * Runs a tool. A tool that only changes the state gets a draft of it, and its change applies only to that state. A
 * concurrent or external tool gets a snapshot, and its queued changes apply to any state.
 */
export function execute(execution: Execution, tool: Prepared, state: Json): Ran | Promise<Ran> {
  return tool.definition.kind === "state" ? onDraft(execution, tool, state) : onSnapshot(execution, tool, state);
}

/** Finds and runs a tool, and applies its change to the state that it saw. */
export function executeAtOnce(
  tools: ReadonlyMap<string, ToolDefinition>,
  execution: Execution,
  input: Json,
  state: Json,
): Finished | Promise<Finished> {
  return after(prepare(tools, execution.tool, input), (tool) =>
    tool.ok ? after(execute(execution, tool, state), (ran) => ran(state)) : { outcome: tool.outcome },
  );
}

type Change = (value: unknown) => unknown;

const tooLate = "the call of this state has ended; an assignment would not be kept";

function onDraft(execution: Execution, { definition, args }: Prepared, state: Json): Ran | Promise<Ran> {
  const draft = createDraft(state);
  const handler = createHandler(execution, definition);
  const context = new HandlerContext(handler, execution, draft.state, draft);
  const ran = (outcome: Outcome): Ran => {
    draft.close(tooLate);
    return () => {
      const finished = withDelta(outcome, handler, draft.delta);
      if (handler.updates && finished.outcome.ok) finished.updates = handler.updates.list();
      return finished;
    };
  };
  const outcome = runForOutcome(execution.tool, handler, () => definition.run(context, args));
  if (!(outcome instanceof Promise)) return ran(outcome);
  return outcome.then(ran, (thrown: unknown) => {
    draft.close(tooLate);
    throw thrown;
  });
}

async function onSnapshot(execution: Execution, { definition, args }: Prepared, state: Json): Promise<Ran> {
  const changes: Change[] = [];
  let isOpen = true;
  const handler = createHandler(execution, definition);
  const update = (first: Change | string, change?: Change): void => {
    if (!isOpen) throw new TypeError("update was called after the tool had returned");
    const isKey = typeof first === "string";
    changes.push(isKey ? (now) => applyUpdate(now, { key: first, change: change as Change }) : first);
  };
  const context = new HandlerContext(handler, execution, guarded(state), update);
  let outcome: Outcome;
  try {
    outcome = await runForOutcome(execution.tool, handler, () => definition.run(context, args));
  } finally {
    isOpen = false;
  }
  if (definition.kind === "external" && !outcome.ok && outcome.error.code === "tool_timeout") {
    outcome = refusal("outcome_unknown", `${outcome.error.message}; it may or may not have taken effect`);
  }
  const lines = handler.lines?.slice();
  return (now) => {
    // The changes may run several times. Each time, they must add the same log lines and draw the same random numbers.
    handler.lines = lines?.slice();
    handler.restart(1);
    return withDelta(outcome, handler, () => buildDelta(changes, now));
  };
}

function createHandler(execution: Execution, definition: ToolDefinition): HandlerCall {
  const { session, tool, at, timeout, seed, draws, signal, stops, onThrown } = execution;
  return new HandlerCall({
    session,
    at,
    timeout: definition.timeout ?? timeout,
    seed,
    draws,
    what: tool,
    signal,
    stops,
    onThrown,
  });
}

/** The context for a handler. It uses getters, so that an assignment throws and is not silently lost. */
class HandlerContext {
  readonly session: string;
  readonly call: string | undefined;
  readonly agent: ToolAgent | undefined;
  readonly #handler: HandlerCall;
  readonly #task: Json | null;
  readonly #onProgress: Execution["onProgress"];
  readonly #state: unknown;
  readonly #writes: Draft<unknown> | ((first: Change | string, change?: Change) => void);

  /** `writes` is the draft, or the function that queues updates. */
  constructor(
    handler: HandlerCall,
    { call, task, agent, onProgress }: Execution,
    state: unknown,
    writes: Draft<unknown> | ((first: Change | string, change?: Change) => void),
  ) {
    this.session = handler.session;
    this.call = call;
    this.agent = agent;
    this.#handler = handler;
    this.#task = task;
    this.#onProgress = onProgress;
    this.#state = state;
    this.#writes = writes;
  }

  get state(): unknown {
    return this.#state;
  }

  get update(): (first: never, change: Change) => void {
    const writes = this.#writes;
    if (typeof writes === "function") return writes;
    return (key, change) => {
      this.#handler.updates ??= createUpdates(writes);
      this.#handler.updates.add({ key, change });
    };
  }

  get task(): unknown {
    return this.#task === null ? undefined : guarded(this.#task);
  }

  get signal(): AbortSignal {
    return this.#handler.signal;
  }

  get random(): () => number {
    return this.#handler.random;
  }

  get now(): () => number {
    return this.#handler.now;
  }

  get log(): (line: string) => void {
    return this.#handler.log;
  }

  get progress(): (done: number, total?: number, message?: string) => void {
    return (done, total, message) => {
      if (!Number.isFinite(done)) throw new TypeError("progress takes a number first: progress(done, total, message)");
      this.#onProgress?.({ done, total, message });
    };
  }
}
