// createConversations(): an agent's sessions. Shared state has its own logs, which are committed together with theirs.
import { setTimeout as delay } from "node:timers/promises";
import type { Entered, EnterOptions, RecordedTurn } from "../core/agent-sessions.ts";
import { replaceState, type Delta } from "../core/delta.ts";
import { createDraft } from "../core/draft.ts";
import { invalidOption } from "../core/errors.ts";
import { updateKey, type Event, type EventOf, type Labels } from "../core/event.ts";
import { copyJson, escapeKey, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import type { Session } from "../core/session.ts";
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
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { memoryStore } from "../stores/memory.ts";
import { createEngine, type EngineOptions } from "./engine.ts";
import { enterLog, withoutLease } from "./entered.ts";
import { cancelled, exclusive } from "./exclusive.ts";
import { busyError, createLeases } from "./lease.ts";
import { createLogCache, createLogs, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { createScopes, isIsolated, splitChange, readUser, type Make, type Shared } from "./scopes.ts";
import { createTurns } from "./turn.ts";
import { createViews } from "./views.ts";

export interface ConversationOptions extends EngineOptions {
  /** Letters, digits, `-` and `_`. `app:` state is shared under this name. */
  app: string;
  /** The agent that `replay` runs. By default, each replay names its agent. */
  agent?: Replayable;
  /**
   * Milliseconds of silence after which other processes may continue a process's turn. Default 15,000. A running turn
   * commits a heartbeat every third of this time.
   */
  lease?: number;
}

/** Milliseconds between two checks of a turn that a different process runs. */
const shortestPause = 10;
const longestPause = 250;

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
  /** The call ids of running and waiting runs, by log. The log's queue cannot tell, because readers wait there too. */
  const runs = new WeakMap<OpenLog, (string | undefined)[]>();
  const { track, useOpen, create, assertOpen, assertWithinLimits } = engine;
  const entering = { logs, scopes, views, timeout, assertOpen, readShared, readState, onError: options.onError };

  /** Returns the session's shared state. An isolated session has none. */
  async function readShared(session: Session): Promise<Shared> {
    return isIsolated(session) ? { user: {}, app: {} } : scopes.all(readUser(session));
  }

  async function readState(session: Session): Promise<AgentState> {
    // Read first: the session may change while the shared state is read.
    const own = session.state as AgentState;
    return copyJson(withShared(own, await readShared(session)), "state") as AgentState;
  }

  function enter(id: string, given: EnterOptions = {}): Promise<Entered | RecordedTurn> {
    const { signal, busy = "wait", call } = given;
    return new Promise((resolve, reject) => {
      /**
       * Enters the log until the run leaves it. Returns for how many milliseconds a different process may still hold
       * it.
       */
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
        const isRepeat = turn !== undefined && call !== undefined;
        if (left > 0 && busy === "refuse" && !isRepeat) throw busyError(id, left);
        if (left > 0) return left;
        await new Promise<void>((leave, fail) => {
          const continued = turn?.open;
          const own = { leases: given.isAlone ? undefined : leases, continued, leave };
          enterLog(log, { ...entering, ...own }).then(resolve, fail);
        });
        return 0;
      };
      const work = async (log: OpenLog): Promise<void> => {
        const calls = runs.get(log) ?? [];
        // A retry waits for the turn that it repeats.
        if (busy === "refuse" && calls.length > 0 && !(call !== undefined && calls.includes(call))) throw busyError(id);
        runs.set(log, [...calls, call]);
        try {
          for (let pause = shortestPause; ; pause = Math.min(2 * pause, longestPause)) {
            const left = await exclusive(log, signal, () => attempt(log));
            if (left === 0) return;
            await delay(Math.min(pause, left), undefined, signal ? { signal } : {}).catch(() => {
              throw cancelled(signal);
            });
            engine.assertRunning();
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

  /** Copies the parent's events, so that versions, times and draws agree, and adds an event with the new keys. */
  async function fork(child: string, parent: string, at: number, options: ConversationFork): Promise<Session> {
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
    const now = opened.isolated ? shared : withShared({}, await scopes.all(user));
    const missing = Object.entries(shared).filter(([key]) => !Object.hasOwn(now, key));
    const { changes } = initialParts(Object.fromEntries(missing), false);
    return scopes.create(id, events.map(withoutLease), changes, user);
  }

  async function update(log: OpenLog, change: (state: AgentState) => void, call: string | undefined): Promise<void> {
    for (;;) {
      await logs.refresh(log);
      assertOpen(log);
      assertWithinLimits(log);
      if (call !== undefined && (await logs.find(log.id, updateKey(call)))) return;
      const refusal = leases.refusal(log);
      if (refusal) throw refusal;
      const made: Make = (shared) => updated(log.session, shared, change, call);
      // If another process committed first, the function runs again on the new state.
      if (await scopes.commit(log, made, await readShared(log.session), readUser(log.session))) return;
    }
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
    update: (id, change, { call } = {}) =>
      useOpen(id, async (log) => {
        await exclusive(log, undefined, () => update(log, change, call));
        return verbs.info(id);
      }),
    enter,
  };
}

/** Splits an initial state into the session's own state and the shared state. */
function initialParts(state: AgentState, isolated: boolean): { own: AgentState; changes: Record<Scope, Delta> } {
  const { session, user, app } = splitState(state);
  if (!isolated) return { own: session, changes: { user: setAll(user), app: setAll(app) } };
  return { own: withShared(session, { user, app }), changes: nothingShared() };
}

/** Returns the event for an update, based on the current shared state. */
function updated(
  session: Session,
  shared: Shared,
  change: (state: AgentState) => void,
  call: string | undefined,
): ReturnType<Make> {
  const draft = createDraft<AgentState>(withShared(session.state as AgentState, shared) as Json);
  if ((change(draft.state) as unknown) instanceof Promise) {
    throw new TypeError("update takes a function that is not async");
  }
  const { own, changes } = splitChange(session, draft.delta());
  const event: EventOf<"session.updated"> = { type: "session.updated", at: timeNow(session) };
  if (own.length > 0) event.delta = own;
  if (call !== undefined) event.call = call;
  return { event, changes };
}

function assertUser(user: unknown): void {
  if (typeof user === "string" && user.length > 0 && user.length <= 200) return;
  throw invalidOption("the user must be a text of 1 to 200 characters");
}

function describeConversation(session: Session): Partial<SessionInfo> {
  const { user: _, ...labels } = session.labels;
  const { turn } = session.conversation ?? {};
  const about: Partial<SessionInfo> = { user: readUser(session), labels: copyJson(labels, "labels") as Labels };
  if (!turn) return about;
  const { invocation, agent, call } = turn;
  return { ...about, turn: { invocation, agent, ...(call !== undefined && { call }) } };
}

/** Returns the delta that sets each of these keys. */
function setAll(state: AgentState): Delta {
  return Object.entries(state).map(([key, value]) => ({
    op: "add" as const,
    path: `/${escapeKey(key)}`,
    value: value as Json,
  }));
}
