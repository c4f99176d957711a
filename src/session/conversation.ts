// Conversations: the sessions of an agent. Shared state has logs of its own, which are committed to together with them.
import type { Entered, EnterOptions, RecordedTurn } from "../core/agent-sessions.ts";
import type { Conversation } from "../core/conversation.ts";
import { replaceState, type Delta } from "../core/delta.ts";
import { createDraft } from "../core/draft.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { updateKey, type AgentEvent, type Event, type EventOf, type Labels, type OpenTurn } from "../core/event.ts";
import { copyJson, escapeKey, freezeJson, type Json } from "../core/json.ts";
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
import {
  nothingShared,
  splitDelta,
  splitState,
  withShared,
  type AgentState,
  type Scope,
} from "../core/shared-state.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { memoryStore } from "../stores/memory.ts";
import { createEngine, type EngineOptions } from "./engine.ts";
import { exclusive } from "./exclusive.ts";
import { createLogCache, createLogs, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { createScopes, type Make, type Shared } from "./scopes.ts";
import { createTurns } from "./turn.ts";
import { createViews } from "./views.ts";

export interface ConversationOptions extends EngineOptions {
  /** Letters, digits, `-` and `_`. `app:` state is shared under this name. */
  app: string;
  /** The agent that `replay` runs. By default each replay names one. */
  agent?: Replayable;
}

const eventTypes: ReadonlySet<Event["type"]> = new Set([
  "session.opened",
  "session.updated",
  "session.rewound",
  "session.closed",
  "invocation.began",
  "turn.taken",
  "turn.renewed",
  "turn.released",
  "agent.began",
  "model.answered",
  "tools.started",
  "tools.answered",
  "agent.ended",
  "agent.failed",
]);

export function createConversations(options: ConversationOptions): Conversations {
  const { app, store, timeout = 60_000 } = options;
  if (!isTimeout(timeout)) throw new HoldfastError("invalid_option", `the timeout must be ${timeoutRange}`);
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(app)) {
    throw new HoldfastError("invalid_option", `the app's name "${app}" is not 1 to 64 letters, digits, "-" and "_"`);
  }
  const environment = `agent:${app}`;
  const cache = createLogCache(options.cache);
  const logs = createLogs(store, environment, { cache, isHandedOut: true });
  const views = createViews(logs);
  const turns = createTurns(logs);
  const scopes = createScopes({ app, store, cache, logs });
  const engine = createEngine<AgentState, ConversationFork>(
    {
      environment,
      logs,
      stateOf,
      fork,
      eventTypes,
      restore,
      conversation: {
        aboutOf,
        savedOf: async (session) => ({
          app,
          user: userOf(session),
          shared: withShared({}, await sharedOf(session)),
        }),
      },
    },
    options,
  );
  /** The runs on each log, those that wait included. Readers take a log exclusively too, and are no reason to refuse. */
  const runs = new WeakMap<OpenLog, number>();
  const { track, useOpen, create, assertOpen, assertWithinLimits } = engine;

  /** The state that the session shares now. An isolated one shares none. */
  async function sharedOf(session: Session): Promise<Shared> {
    return isIsolated(session) ? { user: {}, app: {} } : scopes.all(userOf(session));
  }

  async function stateOf(session: Session): Promise<AgentState> {
    // Taken at once: the session may move on while the shared state is read.
    const own = session.state as AgentState;
    return copyJson(withShared(own, await sharedOf(session)), "state") as AgentState;
  }

  async function entered(log: OpenLog, continued: OpenTurn | undefined, leave: () => void): Promise<Entered> {
    const user = userOf(log.session);
    let steps = await views.openSteps(log);
    let sharedNow = await sharedOf(log.session);
    let state: AgentState | undefined;
    // One at a time: agents that run side by side commit to the same log.
    let last: Promise<unknown> = Promise.resolve();
    // Once another process has come between, what runs side by side here was made for a state that is no more.
    let lost: HoldfastError | undefined;
    const ending = new AbortController();
    const stop = (reason: HoldfastError): void => {
      lost ??= reason;
      ending.abort(reason);
    };
    (log.running ??= new Set()).add(stop);
    const stateNow = (): AgentState => (state ??= withShared(log.session.state as AgentState, sharedNow));
    return {
      session: log.id,
      continued,
      user,
      get steps() {
        return steps.events;
      },
      view: (key, create) => views.current(log, steps, key, create),
      get conversation() {
        return log.session.conversation as Conversation;
      },
      seed: log.session.randomness.seed,
      timeout,
      signal: ending.signal,
      stored: async () => stateOf((await logs.load(log.id)).session),
      leave() {
        log.running?.delete(stop);
        lost ??= new HoldfastError("session_busy", `the run on session ${log.id} is over`);
        views.catchUp(log, steps);
        leave();
      },
      get state() {
        return stateNow();
      },
      commit(given, change) {
        const committing = last.then(async () => {
          if (lost) throw lost;
          assertOpen(log);
          const make: Make = (sharedAs, changedBy) => {
            const isSeen = sharedAs === sharedNow;
            const now = isSeen ? stateNow() : withShared(log.session.state as AgentState, sharedAs);
            const { delta, fields } = change(now, changedBy);
            const { own, changes } = partsOf(log.session, delta);
            const event = { ...given, ...fields, at: timeNow(log.session) } as AgentEvent;
            if (own.length > 0) event.delta = own;
            return { event, changes };
          };
          const stored = await scopes.commit(log, make, sharedNow, user).catch((thrown: unknown) => {
            if (isHoldfastError(thrown) && thrown.code === "session_busy") lost = thrown;
            throw thrown;
          });
          sharedNow = { ...sharedNow, ...stored.now };
          state = undefined;
          const numbered = freezeJson({ ...(stored.event as AgentEvent), version: log.session.version });
          // The views of the turn before have seen all that it left.
          if (numbered.type === "invocation.began") {
            views.catchUp(log, steps);
            steps = { events: [], bytes: [] };
          }
          steps.events.push(numbered);
          steps.bytes.push(stored.bytes);
          return numbered;
        });
        last = committing.catch(() => undefined);
        return committing;
      },
    };
  }

  function enter(id: string, given: EnterOptions = {}): Promise<Entered | RecordedTurn> {
    const { signal, busy = "wait", call, digest, isContinuing = false } = given;
    return new Promise((resolve, reject) => {
      const work = (log: OpenLog): Promise<void> => {
        const before = runs.get(log) ?? 0;
        if (busy === "refuse" && before > 0) {
          const isRepeat = call !== undefined && log.session.conversation?.turn?.call === call;
          const message = `an agent is running on session ${log.id}`;
          throw new HoldfastError(isRepeat ? "call_in_progress" : "session_busy", message);
        }
        runs.set(log, before + 1);
        const running = exclusive(log, signal, async () => {
          await logs.refresh(log);
          // What was recorded before the session ended can still be asked for.
          const turn = await turns.decide(log, { call, digest, isContinuing });
          if (turn && "recorded" in turn) return resolve(turn.recorded);
          assertOpen(log);
          assertWithinLimits(log);
          let leave = (): void => undefined;
          const left = new Promise<void>((done) => (leave = done));
          resolve(await entered(log, turn?.open, leave));
          await left;
        });
        return running.finally(() => runs.set(log, (runs.get(log) ?? 1) - 1));
      };
      useOpen(id, async (log) => work(log)).catch(reject);
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

  /** Copies the events of the parent, so that versions, times and draws agree, and says at the end what is set. */
  async function fork(child: string, parent: string, at: number, options: ConversationFork): Promise<Session> {
    const { session } = await logs.load(parent, options.version);
    const set = copyJson(options.set ?? {}, "set", "drop") as AgentState;
    const { version } = session;
    const events: Event[] = [];
    for await (const { version: number, ...event } of logs.events(parent)) {
      if (number > version) break;
      events.push(withoutLease(event as Event));
    }
    const [opened, ...rest] = events as [EventOf<"session.opened">, ...Event[]];
    const first = { ...opened, parent: { session: parent, version, episode: 0, task: null, at } };
    const draft = createDraft<AgentState>(await stateOf(session));
    Object.assign(draft.state, set);
    const { own, changes } = partsOf(session, draft.delta());
    const updated: EventOf<"session.updated"> = { type: "session.updated", at: Math.max(at, session.touched) };
    if (own.length > 0) updated.delta = own;
    return scopes.create(child, [first, ...rest, updated], changes, userOf(session));
  }

  async function restore(id: string, events: Event[], { shared = {} }: SavedSession): Promise<Session> {
    const [opened] = events as [EventOf<"session.opened">];
    const user = String(opened.labels?.["user"] ?? "user");
    const now = opened.isolated ? shared : withShared({}, await scopes.all(user));
    const missing = Object.entries(shared).filter(([key]) => !Object.hasOwn(now, key));
    const { changes } = initialParts(Object.fromEntries(missing), false);
    return scopes.create(id, events, changes, user);
  }

  async function update(log: OpenLog, change: (state: AgentState) => void, call: string | undefined): Promise<void> {
    for (;;) {
      await logs.refresh(log);
      assertOpen(log);
      assertWithinLimits(log);
      if (call !== undefined && (await logs.find(log.id, updateKey(call)))) return;
      try {
        const made: Make = (shared) => updated(log.session, shared, change, call);
        await scopes.commit(log, made, await sharedOf(log.session), userOf(log.session));
        return;
      } catch (thrown) {
        // Another process was faster: the function runs again on what is there now.
        if (!isHoldfastError(thrown) || thrown.code !== "session_busy") throw thrown;
      }
    }
  }

  const { verbs } = engine;
  const save = verbs.save as Conversations["save"];

  async function replay(id: string, agent: Replayable | undefined): Promise<Replayed> {
    if (typeof agent?.[replaying] !== "function") {
      const message = "replay needs the agent of the conversation: give it to createSessions or to replay";
      throw new HoldfastError("invalid_option", message);
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

const isIsolated = ({ conversation }: Session): boolean => conversation?.isolated === true;

/** The changes of the session itself, and those of shared state. */
function partsOf(session: Session, delta: Delta): { own: Delta; changes: Record<Scope, Delta> } {
  if (isIsolated(session)) return { own: delta, changes: nothingShared() };
  const { session: own, user, app } = splitDelta(delta);
  return { own, changes: { user, app } };
}

/** The same of an initial state. */
function initialParts(state: AgentState, isolated: boolean): { own: AgentState; changes: Record<Scope, Delta> } {
  const { session, user, app } = splitState(state);
  if (!isolated) return { own: session, changes: { user: setAll(user), app: setAll(app) } };
  return { own: withShared(session, { user, app }), changes: nothingShared() };
}

/** The event of an update, on shared state as it is. */
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
  const { own, changes } = partsOf(session, draft.delta());
  const event: EventOf<"session.updated"> = { type: "session.updated", at: timeNow(session) };
  if (own.length > 0) event.delta = own;
  if (call !== undefined) event.call = call;
  return { event, changes };
}

/** A fork belongs to nobody yet. */
function withoutLease(event: Event): Event {
  if (event.type !== "invocation.began" && event.type !== "turn.taken") return event;
  const { lease: _, ...rest } = event;
  return rest as Event;
}

function userOf({ labels }: Session): string {
  return String(labels["user"] ?? "user");
}

function assertUser(user: unknown): void {
  if (typeof user === "string" && user.length > 0 && user.length <= 200) return;
  throw new HoldfastError("invalid_option", "the user must be a text of 1 to 200 characters");
}

function aboutOf(session: Session): Partial<SessionInfo> {
  const { user: _, ...labels } = session.labels;
  const { turn } = session.conversation ?? {};
  const about: Partial<SessionInfo> = { user: userOf(session), labels: copyJson(labels, "labels") as Labels };
  if (!turn) return about;
  const { invocation, agent, call } = turn;
  return { ...about, turn: { invocation, agent, ...(call !== undefined && { call }) } };
}

/** The delta that sets each of these keys. */
function setAll(state: AgentState): Delta {
  return Object.entries(state).map(([key, value]) => ({
    op: "add" as const,
    path: `/${escapeKey(key)}`,
    value: value as Json,
  }));
}
