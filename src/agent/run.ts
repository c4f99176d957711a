// run(): runs an agent on a message, or continues an interrupted run. Yields events after their commit.
// ask(): runs an agent to its end and returns the answer.
import { hash } from "node:crypto";
import type { Agent } from "../core/agent.ts";
import type { Entered } from "../core/agent-sessions.ts";
import { canonicalText } from "../core/digest.ts";
import { HoldfastError, invalidOption, isHoldfastError, type ErrorCode } from "../core/errors.ts";
import type { AgentOutcome, EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { Conversations } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { faultInItems, type Item } from "../core/model.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { onAbort } from "../io/abort.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import { cancelledRun } from "./callbacks.ts";
import { createChannel } from "./channel.ts";
import { createFamily, type Family } from "./transfer.ts";
import { createInvocation, Failed, type PartialEvent, type RunEvent } from "./invocation.ts";
import { lastWords, runAgent } from "./run-agent.ts";
import { liveWorld, type Place, type World } from "./world.ts";

export interface RunOptions {
  sessions: Conversations;
  /** Default: a new session. */
  session?: string | undefined;
  /** The user for a new session. An existing session must belong to this user. Default "user". */
  user?: string | undefined;
  /** The user's message. Without it, an interrupted run continues. */
  message?: string | Item[] | undefined;
  /** State to set with the message. Only this run sees keys that start with `temp:`. */
  stateDelta?: AgentState | undefined;
  /** Cancels the run. */
  signal?: AbortSignal | undefined;
  /** Also yields pieces of answers in progress. Default false. */
  stream?: boolean | undefined;
  /**
   * The turn's id. A retry with the same message gets the recorded events and outcome, or continues an interrupted
   * turn. A different message with the same id is refused with `call_conflict`.
   */
  call?: string | undefined;
  /**
   * If a different run holds the session, in this process or elsewhere: wait for it (the default), or fail with
   * `session_busy` before anything starts. A retry of the running call always waits. "take" immediately continues a
   * turn whose process is known to be gone. Without it, a run continues such a turn once the lease has expired.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
  /**
   * Whether a failed run throws its reason, after all its events. Default true. If false, the outcome is "failed", and
   * `error` has the reason. In both cases, reaching a limit is an outcome, and a cancelled run throws.
   */
  throwOnFailure?: boolean | undefined;
}

/** The end of an invocation. */
export interface RunResult {
  session: string;
  invocation: string;
  /** "failed": a run without a message retries that step. "abandoned": a new message arrived before the turn ended. */
  outcome: AgentOutcome | "failed" | "abandoned";
  /** The call id was used before, and these are the recorded events. */
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
  stateDelta: true,
  signal: true,
  stream: true,
  call: true,
  busy: true,
  throwOnFailure: true,
};

export interface AskOptions extends Omit<RunOptions, "sessions" | "stream"> {
  /** Default: an in-memory store that only this call uses. The conversation is lost afterwards. */
  sessions?: Conversations | undefined;
}

/** An agent's answer, and the end of its run. */
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
      // An agent used as a tool speaks only to its caller.
      if (done) return { ...value, text: lastWords(events, ({ path }) => !path.includes("#")), events };
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

/** Like `run`, but in its own world. A failure is returned as a result. */
export async function* runWith(
  agent: Agent,
  options: RunOptions,
  world: World = liveWorld,
): AsyncGenerator<RunEvent, Ran, undefined> {
  const { sessions, user, message, call, stateDelta, signal, busy } = options;
  if (message === undefined && stateDelta !== undefined) {
    throw invalidOption("`stateDelta` needs a message");
  }
  if (message === undefined && call !== undefined) {
    throw invalidOption("`call` needs a message");
  }
  const family = createFamily(agent);
  if (signal?.aborted) throw cancelledRun(signal);
  const items = message === undefined ? undefined : messageItems(message);
  const digest = call === undefined ? undefined : digestTurn({ items, stateDelta: stateDelta ?? {} });
  const session = options.session ?? (await sessions.open({ user })).session;
  const wanted = { signal, busy, call, digest, isContinuing: message === undefined };
  for (;;) {
    const entered = await sessions.enter(session, wanted).catch((thrown: unknown) => {
      throw signal?.aborted ? cancelledRun(signal) : thrown;
    });
    if (!("leave" in entered)) {
      for (const event of entered.events) yield event as RunEvent;
      return { session, invocation: entered.invocation, outcome: entered.outcome, repeated: true };
    }
    const result = yield* runEntered(agent, family, entered, { ...options, session }, items, digest, world);
    // Another process was first. Depending on the options, wait for it or refuse this run.
    if (result !== "not begun") return result;
  }
}

async function* runEntered(
  agent: Agent,
  family: Family,
  entered: Entered,
  options: RunOptions & { session: string },
  items: Item[] | undefined,
  digest: string | undefined,
  world: World,
): AsyncGenerator<RunEvent, Ran | "not begun", undefined> {
  const { session, user, call, signal } = options;
  let isBegun = false;
  const stopping = new AbortController();
  const channel = createChannel<RunEvent>();
  const stop = (): void => {
    stopping.abort(signal?.aborted ? signal.reason : entered.signal.reason);
    // A reader that has stopped reading must not hold the session.
    channel.close();
  };
  // Both may have been aborted while the session was being entered.
  const stopListening = onAbort(signal, stop);
  onAbort(entered.signal, stop);
  let working: Promise<Ran> | undefined;
  try {
    if (stopping.signal.aborted) throw cancelledRun(signal);
    if (user !== undefined && user !== entered.user) {
      throw new HoldfastError("session_not_found", `user ${user} has no session ${session}`);
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
        `the session's current agent is ${start.agent}, which is not one of the agents in ${agent.name}`,
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
      if (!continued) {
        const given = invocation.working();
        const draft = given.draft();
        Object.assign(draft.state, copyJson(options.stateDelta ?? {}, "stateDelta", "drop"));
        given.keep(draft);
        const began: BeganEvent = {
          type: "invocation.began",
          invocation: start.invocation,
          agent: first.name,
          items: items as Item[],
        };
        if (call !== undefined && digest !== undefined) Object.assign(began, { call, digest });
        if (lease) began.lease = lease;
        await invocation.commit(began, given);
      } else if (lease) {
        const taken = { type: "turn.taken" as const, invocation: continued.invocation, lease };
        const from = continued.lease?.owner;
        await entered.commit(from === undefined ? taken : { ...taken, from }, () => ({ delta: [] }));
      }
      isBegun = true;
    };
    working = (async (): Promise<Ran> => {
      await begin();
      const about = { session, invocation: start.invocation, repeated: false };
      try {
        return { ...about, outcome: await runAgent(invocation, first, place) };
      } catch (thrown) {
        if (!(thrown instanceof Failed)) throw thrown;
        const { event, error } = thrown;
        const { code, message } = event.error;
        const detail = { ...error.detail, session, invocation: start.invocation, agent: event.agent };
        const failure = new HoldfastError(code, message, { cause: error, detail });
        return { ...about, outcome: "failed", error: { code, message }, failure };
      }
    })();
    // Done here and not at the end of reading, because the reader may never ask again.
    working = working.finally(() => entered.leave());
    yield* channel.read(working);
    return await working;
  } catch (thrown) {
    if (!isBegun && isHoldfastError(thrown) && thrown.code === "session_busy") return "not begun";
    // The session was closed, or the engine stopped.
    throw entered.signal.aborted && !signal?.aborted ? entered.signal.reason : thrown;
  } finally {
    // This also happens if the reader stopped early: uncommitted work is dropped. The reason is a constant, because the
    // stack trace for a new error costs more than a step.
    stopping.abort(over);
    channel.close();
    stopListening();
    await working?.catch(() => undefined);
    if (!working) await entered.leave();
  }
}

type BeganEvent = Omit<EventOf<"invocation.began">, "at" | "delta" | "shared">;

const over = new HoldfastError("run_cancelled", "the run is over");

interface Start {
  invocation: string;
  /** The agent that answers. */
  agent: string;
}

/** Starts an invocation with the agent that the last transfer chose. */
function beginning({ conversation: { speaker } }: Entered, { name }: Agent, family: Family): Start {
  // No agent inside a composition could transfer the conversation back.
  const isModel = speaker !== undefined && family.find(speaker)?.kind === "model";
  return { invocation: newInvocation(), agent: isModel ? speaker : name };
}

function nothingToContinue(session: string): never {
  throw new HoldfastError("nothing_to_continue", `session ${session} has no turn to continue; send a message`);
}

const digestTurn = (asked: object): string => hash("sha256", canonicalText(asked as Json), "base64url");

const newInvocation = (): string => crypto.randomUUID();

function messageItems(message: string | Item[]): Item[] {
  if (typeof message === "string") return [{ type: "message", role: "user", content: message }];
  const fault = faultInItems(message);
  if (fault) throw invalidOption(`the message must be a text or items: ${fault}`);
  return copyJson(message, "message", "drop") as unknown as Item[];
}
