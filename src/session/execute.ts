// Executing a tool: from a call and the session it sees to an outcome and a delta. Live calls and replays share it.
import { after } from "../core/after.ts";
import { createDraft } from "../core/draft.ts";
import type { AnyEnvironment, ToolDefinition } from "../core/environment.ts";
import type { Outcome } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import { check, type Checked } from "../core/schema.ts";
import type { Session } from "../core/session.ts";
import { guarded, Run } from "./handler.ts";
import type { Stops } from "./open-log.ts";
import { deltaOf, outcomeOf, refusal, withDelta, type Finished } from "./outcome.ts";

/** One run of a tool. */
export interface Execution {
  session: string;
  tool: string;
  call: string | undefined;
  at: number;
  /** Milliseconds, if the tool sets none. */
  timeout: number;
  signal?: AbortSignal | undefined;
  stops?: Stops;
}

export interface Prepared {
  ok: true;
  definition: ToolDefinition;
  args: unknown;
}

/** Finds the tool and checks the arguments. What is wrong with them is the call's outcome. */
export function prepare(
  environment: AnyEnvironment,
  tool: string,
  input: Json,
): Prepared | { ok: false; outcome: Outcome } | Promise<Prepared | { ok: false; outcome: Outcome }> {
  const definition = environment.definitions.get(tool);
  if (!definition) {
    const known = [...environment.definitions.keys()].join(", ") || "none";
    return { ok: false, outcome: refusal("unknown_tool", `there is no tool "${tool}"; the tools are: ${known}`) };
  }
  // A copy: what the handler does to its arguments is neither recorded nor seen by its next run.
  const checked = check(definition.input, copyJson(input, "input"));
  const prepared = (result: Checked): Prepared | { ok: false; outcome: Outcome } =>
    result.ok
      ? { ok: true, definition, args: result.value }
      : { ok: false, outcome: refusal("invalid_input", `the arguments of ${tool} are wrong: ${result.message}`) };
  return after(checked, prepared);
}

/** Runs a tool that changes only state, from its arguments on. */
export function runOnState(
  environment: AnyEnvironment,
  execution: Execution,
  input: Json,
  session: Session,
): Finished | Promise<Finished> {
  const run = (prepared: Awaited<ReturnType<typeof prepare>>): Finished | Promise<Finished> =>
    prepared.ok ? runOnDraft(execution, prepared, session) : { outcome: prepared.outcome };
  const prepared = prepare(environment, execution.tool, input);
  return after(prepared, run);
}

function runOnDraft(
  execution: Execution,
  { definition, args }: Prepared,
  session: Session,
): Finished | Promise<Finished> {
  const draft = createDraft(session.state);
  const run = runOf(execution, definition, session.randomness.seed, session.randomness.turn);
  const context = contextOf(run, execution, session.task, draft.state, undefined);
  const outcome = outcomeOf(execution.tool, run, () => definition.run(context, args));
  const finish = (result: Outcome): Finished => withDelta(result, run, () => draft.delta());
  return after(outcome, finish);
}

/** Runs a tool beside others. Gives what makes its changes to the session as it is then. */
export async function runDetached(
  execution: Execution,
  { definition, args }: Prepared,
  session: Pick<Session, "state" | "task">,
  seed: number,
): Promise<(now: Session) => Finished> {
  const changes: ((state: unknown) => unknown)[] = [];
  let open = true;
  const run = runOf(execution, definition, seed, 0);
  const update = (change: (state: unknown) => unknown): void => {
    if (!open) throw new TypeError("update was called after the tool had returned");
    changes.push(change);
  };
  const context = contextOf(run, execution, session.task, guarded(session.state), update);
  let outcome = await outcomeOf(execution.tool, run, () => definition.run(context, args));
  open = false;
  if (definition.kind === "external" && !outcome.ok && outcome.error.code === "tool_timeout") {
    outcome = refusal("outcome_unknown", `${outcome.error.message}; it may or may not have taken effect`);
  }
  const lines = run.lines?.slice();
  return (now) => {
    // Changes that are made again say again what they had to say, and draw again what they drew.
    run.lines = lines?.slice();
    run.restart(1);
    return withDelta(outcome, run, () => deltaOf(changes, now.state));
  };
}

function runOf(execution: Execution, definition: ToolDefinition, seed: number, draws: number): Run {
  const { session, tool, at, timeout, signal, stops } = execution;
  return new Run({ session, at, timeout: definition.timeout ?? timeout, signal, stops, seed, draws, what: tool });
}

function contextOf(run: Run, { call }: Execution, task: Json | null, state: unknown, update: unknown): object {
  return new HandlerContext(run, call, task, state, update);
}

/** What a handler is given. Getters: to assign to one is an error instead of a change that nobody sees. */
class HandlerContext {
  readonly session: string;
  readonly call: string | undefined;
  readonly update: unknown;
  readonly #run: Run;
  readonly #task: Json | null;
  readonly #state: unknown;

  constructor(run: Run, call: string | undefined, task: Json | null, state: unknown, update: unknown) {
    this.session = run.session;
    this.call = call;
    this.update = update;
    this.#run = run;
    this.#task = task;
    this.#state = state;
  }

  get state(): unknown {
    return this.#state;
  }

  get task(): unknown {
    return this.#task === null ? undefined : guarded(this.#task);
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get random(): () => number {
    return this.#run.random;
  }

  get now(): () => number {
    return this.#run.now;
  }

  get log(): (line: string) => void {
    return this.#run.log;
  }
}
