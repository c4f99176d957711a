// createConversations(): the sessions of an app's agents. Shared state has separate logs, and a change to it is
// committed atomically with the session's event.
import { setTimeout as delay } from "node:timers/promises";
import type { Entered, EnterOptions, RecordedTurn } from "../core/agent-sessions.ts";
import { isWaiting } from "../core/conversation.ts";
import { replaceState, type Delta } from "../core/delta.ts";
import { createDraft } from "../core/draft.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Event, EventOf, Labels, OpenTurn } from "../core/event.ts";
import { updateKey } from "../core/event-key.ts";
import { copyJson, escapeKey, isObject, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import { isInForce, isSessionId, type Session } from "../core/session.ts";
import {
  replaying,
  type ConversationFork,
  type Conversations,
  type OpenConversation,
  type Replayable,
  type Replayed,
  type SavedSession,
  type SessionInfo,
} from "../core/sessions.ts";
import { nothingShared, splitState, withShared, type AgentState, type Scope } from "../core/shared-state.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { memoryStore } from "../stores/memory.ts";
import { createEngine, type EngineOptions } from "./engine.ts";
import { enterLog, withoutLease } from "./entered.ts";
import { cancelled, exclusive } from "./exclusive.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import { busyError, createLeases } from "./lease.ts";
import { createLogCache, createLogs, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { createScopes, isIsolated, splitChange, readUser, type Make, type Shared } from "./scopes.ts";
import { createTurns, overtaken } from "./turn.ts";
import { createViews } from "./views.ts";

export interface ConversationOptions extends EngineOptions {
  /** The app's name: letters, digits, `-` and `_`. Its conversations share the state keys that start with `app:`. */
  app: string;
  /** The agent that `replay` runs. By default, each replay names its agent. */
  agent?: Replayable;
  /**
   * Milliseconds without a commit after which another process may continue a turn. Default 15,000. A running turn
   * commits a renewal after a third to half of this time.
   */
  lease?: number;
}

const ofOpen: Record<keyof OpenConversation, true> = {
  session: true,
  labels: true,
  user: true,
  state: true,
  isolated: true,
};

/** Minimum and maximum milliseconds between two checks of a turn that another process runs. */
const shortestPause = 10;
const longestPause = 250;
/** Maximum milliseconds that `cancel` waits for the cancelled run to end. */
const cancelWait = 1000;

export function createConversations(options: ConversationOptions): Conversations {
  const { app, store, timeout = 60_000 } = options;
  if (!isTimeout(timeout)) throw invalidOption(`the timeout must be ${timeoutRange}`);
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(app)) {
    throw invalidOption(
      `the app's name "${app}" must be 1 to 64 letters, digits, "-" or "_", and start with a letter or digit`,
    );
  }
  const environment = `agent:${app}`;
  const cache = createLogCache(options.cache);
  const logs = createLogs(store, environment, { cache, isHandedOut: true });
  const views = createViews(logs);
  const turns = createTurns(logs);
  const leases = createLeases(options.lease);
  const scopes = createScopes({ app, store, cache, logs });
  const engine = createEngine<AgentState, ConversationFork>(
    {
      environment,
      logs,
      readState,
      fork,
      restore,
      conversation: {
        describeConversation,
        refusal: leases.refusal,
        readSaved: async (session) => ({
          app,
          user: readUser(session),
          shared: withShared({}, await readShared(session)),
        }),
      },
    },
    options,
  );
  /** For each log: the call ids of running and waiting runs. The log's queue is not enough: readers wait in it too. */
  const runs = new WeakMap<OpenLog, (string | undefined)[]>();
  const { track, useOpen, create, assertOpen, assertWithinLimits } = engine;
  const entering = { logs, scopes, views, timeout, assertOpen, readShared, readState, onError: options.onError };

  /** Returns the session's shared state. An isolated session has none. */
  async function readShared(session: Session): Promise<Shared> {
    return isIsolated(session) ? { user: {}, app: {} } : scopes.all(readUser(session));
  }

  async function readState(session: Session): Promise<AgentState> {
    // Reads the session's state before it waits for the shared state, because the session may change in the meantime.
    const own = session.state as AgentState;
    return copyJson(withShared(own, await readShared(session)), "state") as AgentState;
  }

  /** Returns whether to refuse a run because of other runs in this process. A retry of such a run waits instead. */
  function isBusy(log: OpenLog, { busy, call }: EnterOptions): boolean {
    const calls = runs.get(log) ?? [];
    return busy === "refuse" && calls.length > 0 && !(call !== undefined && calls.includes(call));
  }

  async function pauseFor(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    await delay(milliseconds, undefined, signal ? { signal } : {}).catch(() => {
      throw cancelled(signal);
    });
    engine.assertRunning();
  }

  function enter(id: string, given: EnterOptions = {}): Promise<Entered | RecordedTurn> {
    const { signal, busy = "wait", call, seen } = given;
    return new Promise((resolve, reject) => {
      /** Enters the log until the run leaves it. Returns the milliseconds left of another process's lease, or 0. */
      const attempt = async (log: OpenLog): Promise<number> => {
        await logs.refresh(log);
        // A recorded turn is still available after the session has ended.
        const turn = await turns.decide(log, given);
        if (turn && "recorded" in turn) {
          resolve(turn.recorded);
          return 0;
        }
        assertOpen(log);
        assertWithinLimits(log);
        const left = busy === "take" || given.isAlone ? 0 : leases.remaining(log);
        if (left > 0 && busy === "refuse" && !turn?.isRepeat) throw busyError(id, left);
        if (left > 0) return left;
        await new Promise<void>((leave, fail) => {
          const continued = turn?.open;
          const isAnswering = given.results !== undefined && turn?.isRepeat === false;
          const own = { leases: given.isAlone ? undefined : leases, continued, isAnswering, leave };
          enterLog(log, { ...entering, ...own }).then(resolve, fail);
        });
        return 0;
      };
      const work = async (log: OpenLog): Promise<void> => {
        while (isBusy(log, given)) {
          const { turn } = log.session.conversation ?? {};
          if (seen === undefined || (turn?.lease && newestPart(turn) <= seen)) throw busyError(id);
          if (turn && newestPart(turn) > seen) throw overtaken(id, seen);
          // The other run has not begun yet, or has just ended.
          await pauseFor(shortestPause, signal);
        }
        runs.set(log, [...(runs.get(log) ?? []), call]);
        try {
          for (let pause = shortestPause; ; pause = Math.min(2 * pause, longestPause)) {
            const left = await exclusive(log, signal, () => attempt(log));
            if (left === 0) return;
            await pauseFor(Math.min(pause, left), signal);
          }
        } finally {
          const under = runs.get(log) ?? [];
          runs.set(log, under.toSpliced(under.indexOf(call), 1));
        }
      };
      useOpen(id, work).catch(reject);
    });
  }

  async function open(id: string, at: number, given: OpenConversation): Promise<Session> {
    refuseUnknown("open", given, ofOpen, invalidOption);
    const { user = "user", state = {}, labels = {}, isolated = false } = given;
    assertUser(user);
    const initial = copyJson(state, "state", "drop") as AgentState;
    const { own, changes } = initialParts(initial, isolated);
    const opened: EventOf<"session.opened"> = {
      type: "session.opened",
      at,
      environment,
      randomness: { seed: newSeed(), turn: 0 },
      labels: { ...(copyJson(labels, "labels", "drop") as Labels), user },
      delta: replaceState(own as Json),
    };
    if (isolated) opened.isolated = true;
    return scopes.create(id, [opened], changes, user);
  }

  /**
   * Copies the parent's events, so versions, times and random numbers stay the same. Then adds an event that sets the
   * keys in `set`.
   */
  async function fork(child: string, parent: string, at: number, options: ConversationFork): Promise<Session> {
    refuseUnknown("fork", options, { version: true, session: true, set: true }, invalidOption);
    const { session } = await logs.load(parent, options.version);
    const set = copyJson(options.set ?? {}, "set", "drop") as AgentState;
    const { version } = session;
    const events: Event[] = [];
    for await (const { version: number, ...event } of logs.events(parent)) {
      if (number > version) break;
      // The fork of a closed conversation is open.
      if (event.type !== "session.closed") events.push(withoutLease(event as Event));
    }
    const [opened, ...rest] = events as [EventOf<"session.opened">, ...Event[]];
    const first = { ...opened, parent: { session: parent, version, episode: 0, task: null, at } };
    const draft = createDraft<AgentState>(await readState(session));
    Object.assign(draft.state, set);
    const { own, changes } = splitChange(session, draft.delta());
    const updated: EventOf<"session.updated"> = { type: "session.updated", at: Math.max(at, session.touched) };
    if (own.length > 0) updated.delta = own;
    return scopes.create(child, [first, ...rest, updated], changes, readUser(session));
  }

  async function restore(id: string, events: Event[], { shared = {} }: SavedSession): Promise<Session> {
    const [opened] = events as [EventOf<"session.opened">];
    const user = String(opened.labels?.["user"] ?? "user");
    assertUser(user);
    const now = opened.isolated ? shared : withShared({}, await scopes.all(user));
    const missing = Object.entries(shared).filter(([key]) => !Object.hasOwn(now, key));
    const { changes } = initialParts(Object.fromEntries(missing), false);
    return scopes.create(id, events.map(withoutLease), changes, user);
  }

  async function update(log: OpenLog, { change = nothing, call, labels }: Change): Promise<void> {
    assertCallId(call);
    for (;;) {
      await logs.refresh(log);
      // A recorded update is still found after the session has ended.
      const before = call === undefined ? undefined : await logs.find(log.id, updateKey(call));
      if (before && !isInForce(log.session, before.version)) throw undone(call as string);
      if (before) return;
      assertOpen(log);
      assertWithinLimits(log);
      const refusal = leases.refusal(log);
      if (refusal) throw refusal;
      const made: Make = (shared) => updated(log.session, shared, { change, call, labels });
      // If another process committed first, the function runs again on the new state.
      const seen = await readShared(log.session);
      if (await scopes.commit(log, made, { seen, base: scopes.versionsOf(seen), user: readUser(log.session) })) return;
    }
  }

  async function updateNow(log: OpenLog, made: Change): Promise<SessionInfo> {
    await exclusive(log, undefined, () => update(log, made));
    return verbs.info(log.id);
  }

  async function cancel(log: OpenLog, invocation: string | undefined): Promise<boolean> {
    const open = (): OpenTurn | undefined => {
      const { turn } = log.session.conversation ?? {};
      return invocation === undefined || turn?.invocation === invocation ? turn : undefined;
    };
    if (log.running?.size) {
      if (!open()) return false;
      const reason = new HoldfastError("run_cancelled", `the turn of session ${log.id} was cancelled`);
      for (const stop of log.running) stop(reason);
      // Does not wait longer for a run that ignores the cancellation.
      await Promise.race([
        exclusive(log, undefined, async () => undefined),
        delay(cancelWait, undefined, { ref: false }),
      ]);
      return true;
    }
    return exclusive(log, undefined, async () => {
      await logs.refresh(log);
      // The process that runs the turn notices at its next commit that it has lost the lease.
      const released = await logs.commit(
        log,
        () => assertOpen(log),
        (session) => {
          const turn = open();
          if (!turn?.lease && !isWaiting(turn)) return undefined;
          const { invocation: id, lease } = turn;
          const about = { type: "turn.released" as const, at: timeNow(session), invocation: id };
          return { ...about, ...(lease && { owner: lease.owner }), reason: "cancelled" };
        },
      );
      return released === "ok";
    });
  }

  const { verbs } = engine;
  const save = verbs.save as Conversations["save"];

  async function replay(id: string, agent: Replayable | undefined): Promise<Replayed> {
    if (typeof agent?.[replaying] !== "function") {
      const message = "replay needs the agent that ran the conversation; pass it to createSessions or to replay";
      throw invalidOption(message);
    }
    const scratch = createConversations({ app, store: memoryStore(), timeout, keepEnded: true });
    try {
      return await agent[replaying](await save(id), scratch);
    } finally {
      await scratch.stop();
    }
  }

  return {
    ...verbs,
    app,
    open: (given = {}) => track(() => create((id, at) => open(id, at, given), given.session)),
    save,
    replay: (id, { agent = options.agent } = {}) => track(() => replay(id, agent)),
    update: (id, change, { call } = {}) => useOpen(id, (log) => updateNow(log, { change, call })),
    label: (id, labels) => useOpen(id, (log) => updateNow(log, { labels: checkedLabels(labels) })),
    cancel: (id, { invocation } = {}) => useOpen(id, (log) => cancel(log, invocation)),
    enter,
  };
}

/** Returns the version at which the newest part of a turn began: its message, or the client's newest results. */
const newestPart = ({ began, answered }: OpenTurn): number => answered ?? began;

/** Splits an initial state into the session's own state and the shared state. */
function initialParts(state: AgentState, isolated: boolean): { own: AgentState; changes: Record<Scope, Delta> } {
  const { session, user, app } = splitState(state);
  if (!isolated) return { own: session, changes: { user: setAll(user), app: setAll(app) } };
  return { own: withShared(session, { user, app }), changes: nothingShared() };
}

/** A change outside a turn. */
interface Change {
  change?: (state: AgentState) => void;
  call?: string | undefined;
  labels?: Labels | undefined;
}

const nothing = (): void => undefined;

/** Returns the event for an update, based on the current shared state. */
function updated(session: Session, shared: Shared, { change = nothing, call, labels }: Change): ReturnType<Make> {
  const draft = createDraft<AgentState>(withShared(session.state as AgentState, shared) as Json);
  if ((change(draft.state) as unknown) instanceof Promise) {
    throw new TypeError("update takes a function that is not async");
  }
  const { own, changes } = splitChange(session, draft.delta());
  const event: EventOf<"session.updated"> = { type: "session.updated", at: timeNow(session) };
  if (own.length > 0) event.delta = own;
  if (call !== undefined) event.call = call;
  if (labels) event.labels = labels;
  return { event, changes };
}

/** Checks a change of labels. A conversation's user is stored as a label too, and never changes. */
function checkedLabels(labels: Labels): Labels {
  if (!isObject(labels)) throw invalidOption("the labels must be an object");
  if (Object.hasOwn(labels, "user"))
    throw invalidOption("the label `user` is the conversation's user and cannot change");
  return copyJson(labels, "labels", "drop") as Labels;
}

function assertUser(user: unknown): void {
  if (isSessionId(user) && user.length > 0 && user.length <= 200) return;
  throw invalidOption("the user must be a string of 1 to 200 characters, without lone surrogates");
}

function describeConversation(session: Session): Partial<SessionInfo> {
  const { user: _, ...labels } = session.labels;
  const { turn } = session.conversation ?? {};
  const about: Partial<SessionInfo> = { user: readUser(session), labels: copyJson(labels, "labels") as Labels };
  if (!turn) return about;
  const { invocation, agent, call } = turn;
  const open = isWaiting(turn) && { waiting: turn.waiting };
  return { ...about, turn: { invocation, agent, ...(call !== undefined && { call }), ...open } };
}

/** Returns the delta that sets each of these keys. */
function setAll(state: AgentState): Delta {
  return Object.entries(state).map(([key, value]) => ({
    op: "add" as const,
    path: `/${escapeKey(key)}`,
    value: value as Json,
  }));
}
