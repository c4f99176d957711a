// enterLog(): enters a conversation for one run. The run holds the open turn with a lease and commits its steps in
// order.
import { setTimeout as delay } from "node:timers/promises";
import type { Entered } from "../core/agent-sessions.ts";
import type { Conversation } from "../core/conversation.ts";
import { HoldfastError } from "../core/errors.ts";
import type { AgentEvent, Event, EventOf, OpenTurn, Thrown } from "../core/event.ts";
import { freezeJson } from "../core/json.ts";
import type { Session } from "../core/session.ts";
import { withShared, type AgentState } from "../core/shared-state.ts";
import { busyError, lostTurn, type Hold, type Leases } from "./lease.ts";
import { timeNow, type Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { splitChange, readUser, type Make, type Scopes, type Shared } from "./scopes.ts";
import { thrownInEvent } from "./thrown.ts";
import type { Views } from "./views.ts";

/** Milliseconds that a run's caller waits until its turn is released. */
const releaseWait = 1000;

const runOver = new HoldfastError("run_cancelled", "the run is over");

export interface EnteredOptions {
  logs: Logs;
  scopes: Scopes;
  views: Views;
  /** Undefined if no other process uses the store. */
  leases: Leases | undefined;
  timeout: number;
  assertOpen(log: OpenLog): void;
  readShared(session: Session): Promise<Shared>;
  readState(session: Session): Promise<AgentState>;
  /** Called for errors from an author's code in committed events. */
  onError: ((error: Thrown, session: string) => void) | undefined;
  /** The turn that the run continues. */
  continued: OpenTurn | undefined;
  /** Called when the run has left. */
  leave(): void;
}

/** Enters a log, which the caller holds exclusively until `leave` is called. */
export async function enterLog(log: OpenLog, options: EnteredOptions): Promise<Entered> {
  const { logs, scopes, views, assertOpen, readState, onError } = options;
  const user = readUser(log.session);
  let steps = await views.openSteps(log);
  let sharedNow = await options.readShared(log.session);
  let state: AgentState | undefined;
  // Serialised: parallel agents commit to the same log.
  let last: Promise<unknown> = Promise.resolve();
  /** The reason why this run commits nothing more. */
  let refusal: HoldfastError | undefined;
  let isBegun = false;
  const ending = new AbortController();
  const hold = options.leases?.hold(renew);
  const stop = (reason: HoldfastError): void => {
    refusal ??= reason;
    ending.abort(reason);
  };
  (log.running ??= new Set()).add(stop);

  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const working = last.then(() => {
      if (refusal) throw refusal;
      return work();
    });
    last = working.catch(() => undefined);
    return working;
  }

  /** Commits a lease event, as long as the log names this run as the holder. */
  function commitLease(make: (about: { at: number; invocation: string; owner: string }) => Event) {
    return logs.commit(
      log,
      () => undefined,
      (session) => {
        if (!hold?.isIn(session)) return undefined;
        const { invocation } = (session.conversation as Conversation).turn as OpenTurn;
        return make({ at: timeNow(session), invocation, owner: hold.lease.owner });
      },
    );
  }

  function renew(): Promise<void> {
    return inOrder(async () => {
      if (!hold?.isIn(log.session)) return;
      const sent = performance.now();
      const result = await commitLease((about) => ({ type: "turn.renewed", ...about }));
      if (result === "ok") hold.confirm(sent);
      else stop(lostTurn(log.id));
      if (refusal) throw refusal;
    });
  }

  /** Renews until the store answers within the lease. An answer after the lease proves nothing. */
  async function renewUntilFresh(held: Hold): Promise<void> {
    while (!held.isFresh()) {
      await renew();
      if (!held.isIn(log.session)) throw lostTurn(log.id);
    }
  }

  /** If the run stops before the turn's end, lets others continue the turn immediately. */
  async function release(): Promise<void> {
    const isFailed = steps.events.at(-1)?.type === "agent.failed";
    const reason = ending.signal.aborted ? "stopped" : isFailed ? "failed" : "cancelled";
    // If the release fails, the lease expires by itself.
    await commitLease((about) => ({ type: "turn.released", ...about, reason })).catch(() => undefined);
  }

  const stateNow = (): AgentState => (state ??= withShared(log.session.state as AgentState, sharedNow));

  /** Returns whether this run still holds the turn after others have added events. */
  function isStillHeld(): boolean {
    state = undefined;
    return isBegun && hold?.isIn(log.session) === true;
  }

  return {
    session: log.id,
    continued: options.continued,
    user,
    lease: hold?.lease,
    get steps() {
      return steps.events;
    },
    view: (key, create) => views.current(log, steps, key, create),
    get conversation() {
      return log.session.conversation as Conversation;
    },
    seed: log.session.randomness.seed,
    timeout: options.timeout,
    signal: ending.signal,
    stored: async () => readState((await logs.load(log.id)).session),
    assertHeld: () => (!hold || hold.isFresh() ? undefined : renewUntilFresh(hold)),
    async leave() {
      // Created once: an error captures a stack trace, which costs more than a step.
      refusal ??= runOver;
      log.running?.delete(stop);
      const left = (): void => {
        hold?.end();
        views.catchUp(log, steps);
        options.leave();
      };
      await last;
      if (log.ending || !hold?.isIn(log.session)) return left();
      // The log stays exclusive until the store has answered the release, because the release changes the fold.
      await Promise.race([release().then(left), delay(releaseWait, undefined, { ref: false })]);
    },
    get state() {
      return stateNow();
    },
    commit: (given, change) =>
      inOrder(async () => {
        assertOpen(log);
        const make: Make = (sharedAs, changedBy) => {
          const isSeen = sharedAs === sharedNow;
          const now = isSeen ? stateNow() : withShared(log.session.state as AgentState, sharedAs);
          const { delta, fields } = change(now, changedBy);
          const { own, changes } = splitChange(log.session, delta);
          const event = { ...given, ...fields, at: timeNow(log.session) } as AgentEvent;
          if (own.length > 0) event.delta = own;
          return { event, changes };
        };
        const sent = performance.now();
        const stored = await scopes.commit(log, make, sharedNow, user, isStillHeld);
        if (!stored) throw isBegun ? (refusal = lostTurn(log.id)) : busyError(log.id);
        isBegun = true;
        hold?.confirm(sent);
        sharedNow = { ...sharedNow, ...stored.now };
        state = undefined;
        const numbered = freezeJson({ ...(stored.event as AgentEvent), version: log.session.version });
        // The views contain all events of the previous turn.
        if (numbered.type === "invocation.began") {
          views.catchUp(log, steps);
          steps = { events: [], bytes: [] };
        }
        steps.events.push(numbered);
        steps.bytes.push(stored.bytes);
        if (onError) for (const error of thrownInEvent(numbered)) onError(error, log.id);
        return numbered;
      }),
  };
}

/** Removes the lease from an event, for a fork or a restored session. */
export function withoutLease(event: Event): Event {
  if (event.type !== "invocation.began" && event.type !== "turn.taken") return event;
  const { lease: _, ...rest } = event as EventOf<"turn.taken">;
  return rest as Event;
}
