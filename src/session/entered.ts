// enterLog(): gives one run of an agent access to a conversation. The run holds the open turn with a lease, and commits
// its steps in order.
import { setTimeout as delay } from "node:timers/promises";
import type { Entered } from "../core/agent-sessions.ts";
import type { Conversation } from "../core/conversation.ts";
import { HoldfastError } from "../core/errors.ts";
import type { AgentEvent, Event, EventOf, OpenTurn, Thrown } from "../core/event.ts";
import { freezeJson } from "../core/json.ts";
import type { Session } from "../core/session.ts";
import { sharedScopes, withShared, type AgentState } from "../core/shared-state.ts";
import { busyError, lostTurn, type Hold, type Leases } from "./lease.ts";
import { timeNow, type Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { splitChange, readUser, type Make, type Scopes, type Shared, type SharedVersions } from "./scopes.ts";
import { thrownInEvent } from "./thrown.ts";
import type { Views } from "./views.ts";

/** Maximum milliseconds that a run waits, after its last step, for the store to record the turn's release. */
const releaseWait = 1000;

const runOver = new HoldfastError("run_cancelled", "the run has ended");

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
  /** The turn that the run continues; undefined if it starts a new turn. */
  continued: OpenTurn | undefined;
  /** Whether the run brings the client's results for the turn. */
  isAnswering: boolean;
  /** Called when the run has left the conversation. */
  leave(): void;
}

/** Gives a run access to a conversation's log. The caller holds the log exclusively until `leave` is called. */
export async function enterLog(log: OpenLog, options: EnteredOptions): Promise<Entered> {
  const { logs, scopes, views, assertOpen, readState, onError } = options;
  const user = readUser(log.session);
  let steps = await views.openSteps(log);
  let sharedNow = await options.readShared(log.session);
  /** The versions of the shared state after each of this run's commits that changed it, newest last. */
  const sharedAfter: { version: number; shared: SharedVersions }[] = [
    { version: 0, shared: scopes.versionsOf(sharedNow) },
  ];
  let state: AgentState | undefined;
  // Commits are serialised, because parallel agents commit to the same log.
  let last: Promise<unknown> = Promise.resolve();
  /** Why this run must not commit anything more. */
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

  /** Renews the lease until the store confirms a renewal before the lease expires. */
  async function renewUntilFresh(held: Hold): Promise<void> {
    while (!held.isFresh()) {
      await renew();
      if (!held.isIn(log.session)) throw lostTurn(log.id);
    }
  }

  /** Releases the turn if the run stops before its end, so that other processes can continue it immediately. */
  async function release(isWaiting: boolean): Promise<void> {
    const isFailed = steps.events.at(-1)?.type === "agent.failed";
    const isStopped = refusal !== undefined && refusal.code !== "run_cancelled";
    const reason = isWaiting ? "waiting" : isStopped ? "stopped" : isFailed ? "failed" : "cancelled";
    // If the release fails, the lease expires by itself.
    await commitLease((about) => ({ type: "turn.released", ...about, reason })).catch(() => undefined);
  }

  const stateNow = (): AgentState => (state ??= withShared(log.session.state as AgentState, sharedNow));

  /** Returns the versions of the shared state that a step saw, or later ones if only this run has changed it since. */
  function seenAt(since: number): SharedVersions {
    const from = sharedAfter.findLastIndex(({ version }) => version <= since);
    const seen = { ...sharedAfter[from]!.shared };
    for (const scope of sharedScopes) {
      for (const { shared } of sharedAfter.slice(from + 1)) {
        if (shared[scope] > seen[scope] + 1) break;
        seen[scope] = shared[scope];
      }
    }
    return seen;
  }

  /** Returns whether this run still holds the turn after another writer has added events. */
  function isStillHeld(): boolean {
    state = undefined;
    return isBegun && hold?.isIn(log.session) === true;
  }

  return {
    session: log.id,
    continued: options.continued,
    isAnswering: options.isAnswering,
    user,
    lease: hold?.lease,
    get steps() {
      return steps.events;
    },
    view: (key, create) => views.current(log, steps, key, create),
    get conversation() {
      return log.session.conversation as Conversation;
    },
    async undoneCalls(invocation, answer) {
      const undone = new Set<string>();
      if (log.session.rewinds.length === 0) return undone;
      for await (const event of logs.events(log.id, answer)) {
        if (event.type !== "tools.started" || event.invocation !== invocation) continue;
        for (const call of event.calls) undone.add(call);
      }
      return undone;
    },
    seed: log.session.randomness.seed,
    timeout: options.timeout,
    signal: ending.signal,
    stored: async () => readState((await logs.load(log.id)).session),
    assertHeld: () => (!hold || hold.isFresh() ? undefined : renewUntilFresh(hold)),
    async leave(isWaiting = false) {
      // `runOver` is created only once, because capturing a stack trace costs more than a step.
      refusal ??= runOver;
      log.running?.delete(stop);
      const left = (): void => {
        hold?.end();
        views.catchUp(log, steps);
        options.leave();
      };
      await last;
      if (log.ending || !hold?.isIn(log.session)) return left();
      // The log stays exclusive until the store has answered, because the release changes the session in memory.
      await Promise.race([release(isWaiting).then(left), delay(releaseWait, undefined, { ref: false })]);
    },
    get state() {
      return stateNow();
    },
    commit: (given, change, since = log.session.version) =>
      inOrder(async () => {
        assertOpen(log);
        const make: Make = (sharedAs, others) => {
          const isSeen = sharedAs === sharedNow;
          const now = isSeen ? stateNow() : withShared(log.session.state as AgentState, sharedAs);
          const { delta, fields } = change(now, others);
          const { own, changes } = splitChange(log.session, delta);
          const event = { ...given, ...fields, at: timeNow(log.session) } as AgentEvent;
          if (own.length > 0) event.delta = own;
          return { event, changes };
        };
        const sent = performance.now();
        const stored = await scopes.commit(log, make, { seen: sharedNow, base: seenAt(since), user }, isStillHeld);
        if (!stored) throw isBegun ? (refusal = lostTurn(log.id)) : busyError(log.id);
        isBegun = true;
        hold?.confirm(sent);
        if (Object.keys(stored.now).length > 0) {
          sharedNow = { ...sharedNow, ...stored.now };
          sharedAfter.push({ version: log.session.version, shared: scopes.versionsOf(sharedNow) });
        }
        state = undefined;
        const numbered = freezeJson({ ...(stored.event as AgentEvent), version: log.session.version });
        // Adds the previous turn's events to the views, before the list of steps starts again.
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
  if (event.type !== "invocation.began" && event.type !== "client.answered" && event.type !== "turn.taken")
    return event;
  const { lease: _, ...rest } = event as EventOf<"turn.taken">;
  return rest as Event;
}
