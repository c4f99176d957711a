// run(): runs an agent on a message, or continues an interrupted run. Yields events after their commit.
import { hash } from "node:crypto";
import type { Agent } from "../core/agent.ts";
import type { Entered } from "../core/agent-sessions.ts";
import { canonicalText } from "../core/digest.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import type { AgentOutcome, EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { Conversations } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { faultInItems, type Item } from "../core/model.ts";
import { onAbort } from "../io/abort.ts";
import { cancelledRun } from "./callbacks.ts";
import { createChannel } from "./channel.ts";
import { createFamily, type Family } from "./transfer.ts";
import { createInvocation, Failed, type RunEvent } from "./invocation.ts";
import { runAgent } from "./run-agent.ts";
import { liveWorld, type Place, type World } from "./world.ts";

export interface RunOptions {
  sessions: Conversations;
  /** By default a new one. */
  session?: string | undefined;
  /** The user of a new session. An existing session must be this user's. */
  user?: string | undefined;
  /** The user's message. Without it, an interrupted run continues. */
  message?: string | Item[] | undefined;
  /** State to set with the message. Only this run sees keys that start with `temp:`. */
  stateDelta?: AgentState | undefined;
  signal?: AbortSignal | undefined;
  /** Also yields pieces of running answers. */
  stream?: boolean | undefined;
  /**
   * The id of the turn. A repeat with the same message gets the recorded events and outcome, or continues an interrupted
   * turn. Another message with the same id is refused as `call_conflict`.
   */
  call?: string | undefined;
  /**
   * While another run has the session, here or in another process: wait for it (by default), or be refused as `session_busy`
   * before anything begins. A repeat of the running call always waits. "take" continues a turn at once whose process is known
   * to be gone; otherwise a run continues it after its lease.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
}

/** The end of an invocation. "failed": the last event has the reason, and a run without a message retries that step. */
export interface RunResult {
  session: string;
  invocation: string;
  outcome: AgentOutcome | "failed" | "abandoned";
  /** The call id is a repeat: these are the recorded events. "abandoned": another message arrived before its end. */
  repeated: boolean;
}

/**
 * Runs an agent on a message. Every event is committed before it is yielded; partial ones are never committed.
 *
 * @example
 * for await (const event of run(agent, { sessions, session, message: "hello" })) {
 *   if (event.type === "model.answered") console.log(answerText(event.items));
 * }
 */
export function run(agent: Agent, options: RunOptions): AsyncGenerator<RunEvent, RunResult, undefined> {
  return runWith(agent, options);
}

/** Like `run`, in a world of its own. */
export async function* runWith(
  agent: Agent,
  options: RunOptions,
  world: World = liveWorld,
): AsyncGenerator<RunEvent, RunResult, undefined> {
  const { sessions, user, message, call, stateDelta, signal, busy } = options;
  if (message === undefined && stateDelta !== undefined) {
    throw invalidOption("stateDelta is set with a message, and there is none");
  }
  if (message === undefined && call !== undefined) {
    throw invalidOption("a call id belongs to a message, and there is none");
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
    // Another process was faster: it is waited for, or refuses this run.
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
): AsyncGenerator<RunEvent, RunResult | "not begun", undefined> {
  const { session, user, call, signal } = options;
  let isBegun = false;
  const stopping = new AbortController();
  const channel = createChannel<RunEvent>();
  const stop = (): void => {
    stopping.abort(signal?.aborted ? signal.reason : entered.signal.reason);
    // A reader that stopped reading must not keep the session.
    channel.close();
  };
  // Both may have been aborted while the session was entered.
  const stopListening = onAbort(signal, stop);
  onAbort(entered.signal, stop);
  let working: Promise<RunResult> | undefined;
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
      throw new HoldfastError("invalid_agent", `the session is with ${start.agent}, which ${agent.name} lacks`);
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
    working = (async (): Promise<RunResult> => {
      await begin();
      const about = { session, invocation: start.invocation, repeated: false };
      try {
        return { ...about, outcome: await runAgent(invocation, first, place) };
      } catch (thrown) {
        if (thrown instanceof Failed) return { ...about, outcome: "failed" };
        throw thrown;
      }
    })();
    // Not at the end of reading: the reader may never ask again.
    working = working.finally(() => entered.leave());
    yield* channel.read(working);
    return await working;
  } catch (thrown) {
    if (!isBegun && isHoldfastError(thrown) && thrown.code === "session_busy") return "not begun";
    // The session was closed, or the engine stopped.
    throw entered.signal.aborted && !signal?.aborted ? entered.signal.reason : thrown;
  } finally {
    // Also if the reader stopped early: uncommitted work is dropped. The reason is a constant, because the stack trace of a
    // new error costs more than a step.
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

/** Starts an invocation with the agent of the last transfer. */
function beginning({ conversation: { speaker } }: Entered, { name }: Agent, family: Family): Start {
  // No agent inside a composition could transfer it back.
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
