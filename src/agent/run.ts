// run(): runs an agent on a message, or continues an interrupted run. Yields events after their commit.
// ask(): runs an agent to its end and returns the answer.
import { hash } from "node:crypto";
import type { Agent } from "../core/agent.ts";
import type { Entered, NewAgentEvent } from "../core/agent-sessions.ts";
import { canonicalText } from "../core/digest.ts";
import { HoldfastError, invalidOption, isHoldfastError, type ErrorCode } from "../core/errors.ts";
import type { AgentOutcome, Labels } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import { finalText } from "../core/last-words.ts";
import type { Conversations } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { faultInItems, type FunctionCall, type Item, type ToolSchema } from "../core/model.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { onAbort } from "../io/abort.ts";
import { assertCallId } from "../session/find-repeat.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import { cancelledRun } from "./callbacks.ts";
import { createChannel } from "./channel.ts";
import {
  assertNoCollision,
  checkedTools,
  openCalls,
  toResultItems,
  Waiting,
  type ClientResult,
} from "./client-tools.ts";
import { createFamily, type Family } from "./transfer.ts";
import { createInvocation, Failed, type PartialEvent, type RunEvent } from "./invocation.ts";
import { runAgent } from "./run-agent.ts";
import { liveWorld, type Place, type World } from "./world.ts";

export interface RunOptions {
  sessions: Conversations;
  /** Default: a new session. */
  session?: string | undefined;
  /** The user for a new session. An existing session must belong to this user. Default "user". */
  user?: string | undefined;
  /** The user's message. Without it, an interrupted run continues. */
  message?: string | Item[] | undefined;
  /**
   * Tools that the caller runs, in addition to the agent's tools. When a model calls such a tool, the run ends with the
   * outcome "waiting". The tools are available until the turn ends, unless the run with `results` sets others.
   */
  clientTools?: ToolSchema[] | undefined;
  /**
   * The results of all calls that the turn waits for. The turn continues with them. If there is also a message, it is
   * added after the results.
   */
  results?: ClientResult[] | undefined;
  /** State to set with the message or the results. Only this run sees keys that start with `temp:`. */
  stateDelta?: AgentState | undefined;
  /** Labels to store with the message or the results. The agent does not see them. */
  labels?: Labels | undefined;
  /** Cancels the run. */
  signal?: AbortSignal | undefined;
  /** Also yields pieces of answers in progress. Default false. */
  stream?: boolean | undefined;
  /**
   * The turn's id. A retry with the same message gets the recorded events and outcome. If the turn was interrupted, the
   * retry gets the recorded events and continues the turn. A different message with the same id is refused with
   * `call_conflict`.
   */
  call?: string | undefined;
  /**
   * "wait", the default: wait for another run that holds the session, in any process. "refuse": fail with
   * `session_busy` before anything starts; a retry of the running call still waits. "take": immediately continue a turn
   * whose process is known to be gone. Without "take", such a turn can continue once its lease has expired.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
  /**
   * The newest version of the session that the caller has read. If a newer message, result or rewind was committed, the
   * run is refused with `version_conflict` before anything starts. A retry of a recorded call is not refused.
   */
  seen?: number | undefined;
  /**
   * Whether a failed run throws its error, after all its events. Default true. If false, the outcome is "failed", and
   * `error` has the reason. In both cases, a run that reaches a limit returns an outcome, and a cancelled run throws.
   */
  throwOnFailure?: boolean | undefined;
}

/** The result of a run. */
export interface RunResult {
  session: string;
  invocation: string;
  /**
   * "failed": a step failed; a run without a message retries it. "abandoned": a new message arrived before the turn
   * ended. "waiting": the turn continues with the results of `calls`.
   */
  outcome: AgentOutcome | "failed" | "abandoned" | "waiting";
  /** The calls that the turn waits for. Run them, and send their results in one run with `results`. */
  calls?: FunctionCall[];
  /** True if the call id was used before. Then the run yielded the recorded events. */
  repeated: boolean;
  /** Why the run failed. */
  error?: { code: ErrorCode; message: string };
}

/**
 * Runs an agent on a message. Every event is committed before it is yielded; partial events are never committed. A
 * failed run throws a HoldfastError with the failure's code and message, after all its events.
 *
 * @example
 * for await (const event of run(agent, { sessions, session, message: "hello" })) {
 *   if (event.type === "model.answered") console.log(answerText(event.items));
 * }
 */
export async function* run(agent: Agent, options: RunOptions): AsyncGenerator<RunEvent, RunResult, undefined> {
  refuseUnknown("run", options, known, invalidOption);
  const { failure, ...result } = yield* runWith(agent, options);
  if (failure && options.throwOnFailure !== false) throw failure;
  return result;
}

const known: Record<keyof RunOptions, true> = {
  sessions: true,
  session: true,
  user: true,
  message: true,
  clientTools: true,
  results: true,
  stateDelta: true,
  labels: true,
  signal: true,
  stream: true,
  call: true,
  busy: true,
  seen: true,
  throwOnFailure: true,
};

export interface AskOptions extends Omit<RunOptions, "sessions" | "stream"> {
  /** Default: an in-memory store that only this call uses. The conversation is lost afterwards. */
  sessions?: Conversations | undefined;
}

/** An agent's answer, and the result of its run. */
export interface Asked extends RunResult {
  /** The agent's last text; "" if it said nothing. */
  text: string;
  /** All events of the run, in order. */
  events: Exclude<RunEvent, PartialEvent>[];
}

/**
 * Runs an agent to its end, and returns its answer. Throws like `run` if the run fails.
 *
 * @example
 * const { text, outcome } = await ask(agent, { sessions, session, message: "hello" });
 */
export async function ask(agent: Agent, options: AskOptions): Promise<Asked> {
  const own = options.sessions ? undefined : createSessions({ app: agent.name, store: memoryStore() });
  const sessions = options.sessions ?? (own as Conversations);
  const events: Asked["events"] = [];
  try {
    const running = run(agent, { ...options, sessions });
    for (;;) {
      const { done, value } = await running.next();
      if (done) return { ...value, text: finalText(events), events };
      if (value.type !== "partial") events.push(value);
    }
  } finally {
    await own?.stop();
  }
}

/** The result of a run, and the error that ended it. */
interface Ran extends RunResult {
  failure?: HoldfastError;
}

/** Like `run`, but `world` provides the models, tools and clocks. A failed turn is returned, not thrown. */
export async function* runWith(
  agent: Agent,
  options: RunOptions,
  world: World = liveWorld,
): AsyncGenerator<RunEvent, Ran, undefined> {
  const { sessions, user, call, stateDelta, signal, busy, seen } = options;
  const { isContinuing, family, tools, results, items } = checkedRequest(agent, options, world);
  if (signal?.aborted) throw cancelledRun(signal);
  const client = { ...(results && { results }), ...(tools?.length && { tools }) };
  const asked = { ...(items && { items }), stateDelta: stateDelta ?? {}, ...client };
  const digest = call === undefined ? undefined : digestTurn(asked);
  const session = options.session ?? (await sessions.open({ user })).session;
  const wanted = { signal, busy, call, digest, seen, isContinuing, results: results?.map(({ call_id }) => call_id) };
  for (;;) {
    const entered = await sessions.enter(session, wanted).catch((thrown: unknown) => {
      throw signal?.aborted ? cancelledRun(signal) : thrown;
    });
    if (!("leave" in entered)) {
      for (const event of entered.events) yield event as RunEvent;
      const { invocation, outcome, events } = entered;
      return {
        session,
        invocation,
        outcome,
        repeated: true,
        ...(outcome === "waiting" && { calls: openCalls(events) }),
      };
    }
    const request: TurnRequest = { items, results, tools, digest };
    const result = yield* runEntered(agent, family, entered, { ...options, session }, request, world);
    // Another process entered the session first. Depending on `busy`, the next attempt waits for it or is refused.
    if (result !== "not begun") return result;
  }
}

/** Checks a run's options, as far as this is possible without reading the conversation. */
export function checkedRequest(agent: Agent, options: Omit<RunOptions, "sessions">, world: World = liveWorld) {
  const { message, call, stateDelta, clientTools } = options;
  const isContinuing = message === undefined && options.results === undefined;
  if (isContinuing && stateDelta !== undefined) throw invalidOption("`stateDelta` needs a message or results");
  if (isContinuing && call !== undefined) throw invalidOption("`call` needs a message or results");
  if (isContinuing && clientTools) throw invalidOption("`clientTools` needs a message or results");
  assertCallId(call);
  const family = createFamily(agent);
  const tools = clientTools && checkedTools(clientTools);
  if (tools) assertNoCollision(tools, family);
  const results = options.results && toResultItems(options.results, world !== liveWorld);
  const items = message === undefined ? undefined : messageItems(message);
  return { isContinuing, family, tools, results, items };
}

/** The checked input of a run. */
interface TurnRequest {
  items: Item[] | undefined;
  results: Item[] | undefined;
  tools: ToolSchema[] | undefined;
  digest: string | undefined;
}

async function* runEntered(
  agent: Agent,
  family: Family,
  entered: Entered,
  options: RunOptions & { session: string },
  { items, results = [], tools, digest }: TurnRequest,
  world: World,
): AsyncGenerator<RunEvent, Ran | "not begun", undefined> {
  const { session, user, call, signal } = options;
  let isBegun = false;
  const stopping = new AbortController();
  const channel = createChannel<RunEvent>();
  const stop = (): void => {
    stopping.abort(signal?.aborted ? signal.reason : entered.signal.reason);
    // Closes the channel, because a reader that has stopped reading must not hold the session.
    channel.close();
  };
  // Either signal may have been aborted while the run entered the session.
  const stopListening = onAbort(signal, stop);
  onAbort(entered.signal, stop);
  let working: Promise<Ran> | undefined;
  try {
    if (stopping.signal.aborted) throw cancelledRun(signal);
    if (user !== undefined && user !== entered.user) {
      throw new HoldfastError("session_not_found", `the user ${user} has no session ${session}`);
    }
    const start = entered.continued ?? (items ? beginning(entered, agent, family) : nothingToContinue(session));
    const invocation = createInvocation({
      id: start.invocation,
      isContinued: entered.continued !== undefined,
      entered,
      family,
      signal: stopping.signal,
      world,
      isStreaming: options.stream ?? false,
      put: channel.put,
      drop: channel.drop,
      taken: channel.taken,
    });
    const first = family.find(start.agent);
    if (!first)
      throw new HoldfastError(
        "invalid_agent",
        `the session's current agent is ${start.agent}, but the agent ${agent.name} has no sub-agent with that name`,
      );
    const place: Place = {
      agent: first.name,
      path: first.name,
      branch: undefined,
      alone: undefined,
      isOutermost: true,
    };
    const begin = async (): Promise<void> => {
      const { continued, lease } = entered;
      if (!continued || entered.isAnswering) {
        const given = invocation.working();
        const draft = given.draft();
        Object.assign(draft.state, copyJson(options.stateDelta ?? {}, "stateDelta", "drop"));
        given.keep(draft);
        const said = [...results, ...(items ?? [])];
        const { invocation: id } = start;
        const began: BeganEvent = continued
          ? { type: "client.answered", invocation: id, items: said }
          : { type: "invocation.began", invocation: id, agent: first.name, items: said };
        if (tools && (continued || tools.length > 0)) began.tools = tools;
        if (call !== undefined && digest !== undefined) Object.assign(began, { call, digest });
        if (options.labels) began.labels = copyJson(options.labels, "labels", "drop") as Labels;
        if (lease) began.lease = lease;
        await invocation.commit(began, given);
      } else if (lease) {
        const taken = { type: "turn.taken" as const, invocation: continued.invocation, lease };
        const from = continued.lease?.owner;
        await entered.commit(from === undefined ? taken : { ...taken, from }, () => ({ delta: [] }));
      }
      isBegun = true;
    };
    const earlier = entered.continued && !entered.isAnswering ? recordedPart(entered, call) : [];
    const begun = begin();
    working = (async (): Promise<Ran> => {
      await begun;
      const about = { session, invocation: start.invocation, repeated: false };
      try {
        return { ...about, outcome: await runAgent(invocation, first, place) };
      } catch (thrown) {
        if (thrown instanceof Waiting) return { ...about, outcome: "waiting", calls: openCalls(entered.steps) };
        if (!(thrown instanceof Failed)) throw thrown;
        const { event, error } = thrown;
        const { code, message } = event.error;
        const detail = { ...error.detail, session, invocation: start.invocation, agent: event.agent };
        const failure = new HoldfastError(code, message, { cause: error, detail });
        return { ...about, outcome: "failed", error: { code, message }, failure };
      }
    })();
    // The run leaves the session when its work ends, without waiting for the reader, because the reader may stop early.
    working = working.then(
      async (ran) => {
        await entered.leave(ran.outcome === "waiting");
        return ran;
      },
      async (thrown: unknown) => {
        await entered.leave();
        throw thrown;
      },
    );
    if (earlier.length > 0) {
      // The reader may leave, or the run may fail, before the channel is read.
      working.catch(() => undefined);
      // If another process continues the turn, the next attempt returns the recorded events.
      await begun.catch(() => undefined);
      if (isBegun) for (const event of earlier) yield event;
    }
    yield* channel.read(working);
    return await working;
  } catch (thrown) {
    if (!isBegun && isHoldfastError(thrown) && thrown.code === "session_busy") return "not begun";
    // The session was closed, or the engine stopped.
    throw entered.signal.aborted && !signal?.aborted ? entered.signal.reason : thrown;
  } finally {
    // If the reader stopped early, this stops the run, and uncommitted work is dropped. The reason is a constant,
    // because the stack trace for a new error costs more than a step.
    stopping.abort(over);
    channel.close();
    stopListening();
    await working?.catch(() => undefined);
    if (!working) await entered.leave();
  }
}

/** Returns the recorded events of the part of a turn that a call id began. A retry that continues the part gets them. */
function recordedPart({ steps }: Entered, call: string | undefined): RunEvent[] {
  const began = call === undefined ? -1 : steps.findIndex((event) => "call" in event && event.call === call);
  return began < 0 ? [] : (steps.slice(began).filter(({ type }) => !type.startsWith("turn.")) as RunEvent[]);
}

type BeganEvent = Extract<NewAgentEvent, { type: "invocation.began" | "client.answered" }>;

const over = new HoldfastError("run_cancelled", "the run has ended");

interface Start {
  invocation: string;
  /** The agent that answers. */
  agent: string;
}

/** Starts an invocation with the agent that the last transfer chose. */
function beginning({ conversation: { speaker } }: Entered, { name }: Agent, family: Family): Start {
  // A composition does not keep the conversation, because the agents inside it could not transfer it to another agent.
  const isModel = speaker !== undefined && family.find(speaker)?.kind === "model";
  return { invocation: crypto.randomUUID(), agent: isModel ? speaker : name };
}

function nothingToContinue(session: string): never {
  throw new HoldfastError(
    "nothing_to_continue",
    `session ${session} has no interrupted turn to continue; send a message`,
  );
}

const digestTurn = (asked: object): string => hash("sha256", canonicalText(asked as Json), "base64url");

function messageItems(message: string | Item[]): Item[] {
  if (typeof message === "string") return [{ type: "message", role: "user", content: message }];
  const fault = faultInItems(message);
  if (fault) throw invalidOption(`the message must be a string or a list of items: ${fault}`);
  return copyJson(message, "message", "drop") as unknown as Item[];
}
