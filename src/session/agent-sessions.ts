// createAgentSessions(): the engine of agents. Conversations are sessions; what users and apps share has logs of its own,
// which are committed to together with them.
import type {
  AgentSessionInfo,
  AgentSessions,
  AgentState,
  Entered,
  EnterOptions,
  SavedSession,
} from "../core/agent-sessions.ts";
import type { Conversation } from "../core/conversation.ts";
import { replaceState, type Delta } from "../core/delta.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import type { AgentEvent, Event } from "../core/event.ts";
import { copyJson, escapeKey, freezeJson, type Json } from "../core/json.ts";
import { faultInItems } from "../core/model.ts";
import { newSeed } from "../core/random.ts";
import { isInForce, type Session } from "../core/session.ts";
import { nothingShared, splitDelta, splitState, withShared } from "../core/shared-state.ts";
import type { Listed, Store } from "../core/store.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import type { CacheLimits } from "./cache.ts";
import { newId } from "./id.ts";
import { createShared, type Make } from "./shared.ts";
import { exclusive } from "./exclusive.ts";
import { createLogCache, createLogs, resting, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { createViews } from "./views.ts";

export interface AgentSessionsOptions {
  /** Letters, digits, `-` and `_`. What is shared as `app:` is shared under this name. */
  app: string;
  /** Where the logs live. Who opened it closes it. */
  store: Store;
  /** Milliseconds that a tool may take that sets no limit of its own. Default 60,000. */
  timeout?: number;
  /** How much is kept in the process between runs. */
  cache?: CacheLimits;
}

/**
 * The conversations of one app in one store. Any number of processes may have one on the same store.
 *
 * @example
 * const sessions = createAgentSessions({ app: "concierge", store: memoryStore() });
 * const { session } = await sessions.open({ user: "ann" });
 * for await (const event of run(agent, { sessions, session, message: "hello" })) console.log(event);
 */
export function createAgentSessions(options: AgentSessionsOptions): AgentSessions {
  const { app, store, timeout = 60_000, cache } = options;
  if (!isTimeout(timeout)) throw new HoldfastError("invalid_option", `the timeout must be ${timeoutRange}`);
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(app)) {
    throw new HoldfastError("invalid_option", `the app's name "${app}" is not 1 to 64 letters, digits, "-" and "_"`);
  }
  const environment = `agent:${app}`;
  const logCache = createLogCache(cache);
  const logs = createLogs(store, environment, { cache: logCache, isHandedOut: true });
  const views = createViews(logs);
  const shared = createShared({ app, store, cache: logCache, logs });
  let underWay = 0;
  let stopping: Promise<void> | undefined;
  let allDone: (() => void) | undefined;

  async function track<T>(run: () => Promise<T>): Promise<T> {
    if (stopping) throw new HoldfastError("engine_stopped", "the engine was stopped");
    underWay++;
    try {
      return await run();
    } finally {
      if (--underWay === 0) allDone?.();
    }
  }

  /** The version of the event that began an invocation. */
  async function beginningOf({ id, session }: OpenLog, invocation: string): Promise<number> {
    for await (const event of logs.events(id)) {
      if (event.type !== "invocation.began" || event.invocation !== invocation) continue;
      if (isInForce(session, event.version)) return event.version;
    }
    const message = `session ${id} has no invocation ${invocation}, or it was undone already`;
    throw new HoldfastError("version_not_found", message, { detail: { invocation } });
  }

  async function entered(log: OpenLog, leave: () => void): Promise<Entered> {
    await logs.refresh(log);
    assertOpen(log);
    const user = userOf(log.session);
    let steps = await views.openSteps(log);
    let sharedNow = await shared.all(user);
    let state: AgentState | undefined;
    // One at a time: agents that run side by side commit to the same log.
    let last: Promise<unknown> = Promise.resolve();
    // Once another process has come between, what runs side by side here was made for a state that is no more.
    let lost: HoldfastError | undefined;
    const stateNow = (): AgentState => (state ??= withShared(log.session.state as AgentState, sharedNow));
    return {
      session: log.id,
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
      stored: () => storedState(log.id),
      leave() {
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
            const { session: own, user: ofUser, app: ofApp } = splitDelta(delta);
            const event = { ...given, ...fields, at: timeNow(log.session) } as AgentEvent;
            if (own.length > 0) event.delta = own;
            return { event, changes: { user: ofUser, app: ofApp } };
          };
          const stored = await shared.commit(log, make, sharedNow, user).catch((thrown: unknown) => {
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

  function enter(id: string, { signal, busy = "wait" }: EnterOptions = {}): Promise<Entered> {
    return new Promise((resolve, reject) => {
      const work = (log: OpenLog): Promise<void> => {
        if (busy === "refuse" && log.busy) {
          throw new HoldfastError("session_busy", `an agent is running on session ${log.id}`);
        }
        return exclusive(log, signal, async () => {
          let leave = (): void => undefined;
          const left = new Promise<void>((done) => (leave = done));
          resolve(await entered(log, leave));
          await left;
        });
      };
      track(() => logs.use(id, async (log) => work(log))).catch(reject);
    });
  }

  async function commitAlone(log: OpenLog, event: Event): Promise<void> {
    const make = () => ({ event, changes: nothingShared() });
    await shared.commit(log, make, { user: {}, app: {} }, userOf(log.session));
  }

  function assertOpen({ id, session: { ended } }: OpenLog): void {
    if (ended) throw new HoldfastError("session_closed", `session ${id} was closed`, { detail: { reason: ended } });
  }

  async function storedState(id: string, version?: number): Promise<AgentState> {
    const { session } = await logs.load(id, version);
    const merged = withShared(session.state as AgentState, await shared.all(userOf(session)));
    return copyJson(merged, "state") as AgentState;
  }

  /** Reads the session as it is in the store now, beside whoever runs on it. */
  function fresh<T>(id: string, look: (session: Session) => T | Promise<T>): Promise<T> {
    return track(async () => look((await logs.load(id)).session));
  }

  async function create(id: string, user: string, events: Event[], initial: AgentState): Promise<AgentSessionInfo> {
    // The logs of what is shared have such names.
    if (id.startsWith("holdfast:")) throw new HoldfastError("invalid_option", `the id ${id} is reserved`);
    const { user: ofUser, app: ofApp } = splitState(initial);
    const changes = { user: setAll(ofUser), app: setAll(ofApp) };
    return infoOf(id, await shared.create(id, events, changes, user));
  }

  const sessions: AgentSessions = {
    app,
    open: ({ session: id = newId(), user = "user", state = {} } = {}) =>
      track(async () => {
        assertUser(user);
        const initial = copyJson(state, "state", "drop") as AgentState;
        const opened: Event = {
          type: "session.opened",
          at: Date.now(),
          environment,
          randomness: { seed: newSeed(), turn: 0 },
          labels: { user },
          delta: replaceState(splitState(initial).session as Json),
        };
        return create(id, user, [opened], initial);
      }),
    info: (id) => fresh(id, (session) => infoOf(id, session)),
    state: (id, version) => track(() => storedState(id, version)),
    async *events(id, { after = 0 } = {}) {
      await fresh(id, () => undefined);
      yield* logs.events(id, after);
    },
    enter,
    rewind: (id, invocation) =>
      track(() =>
        logs.use(id, (log) =>
          exclusive(log, undefined, async () => {
            await logs.refresh(log);
            assertOpen(log);
            const to = (await beginningOf(log, invocation)) - 1;
            const { session: then } = await logs.load(id, to);
            const { episode, task, randomness, labels, state } = then;
            const event: Event = {
              type: "session.rewound",
              at: timeNow(log.session),
              to,
              episode,
              task,
              randomness,
              labels,
              conversation: resting(then.conversation),
              delta: replaceState(state),
            };
            await commitAlone(log, event);
            return infoOf(id, log.session);
          }),
        ),
      ),
    save: (id) =>
      track(async () => {
        const { session } = await logs.load(id);
        const user = userOf(session);
        const events: Event[] = [];
        for await (const { version: _, ...event } of logs.events(id)) events.push(event as Event);
        return { app, session: id, user, shared: withShared({}, await shared.all(user)), events };
      }),
    restore: (saved, id = newId()) =>
      track(async () => {
        const { user, events, shared: wanted } = checkedSave(saved);
        const [opened, ...rest] = events;
        const now = withShared({}, await shared.all(user));
        const missing = Object.entries(wanted).filter(([key]) => !Object.hasOwn(now, key));
        const first = { ...opened, environment } as Event;
        return create(id, user, [first, ...rest], Object.fromEntries(missing)).catch((thrown: unknown) => {
          // Folded before it is stored: what does not fit together is refused.
          if (!(thrown instanceof TypeError) && !(isHoldfastError(thrown) && thrown.code === "store_corrupt"))
            throw thrown;
          throw new HoldfastError("invalid_option", "this is not a saved session: its events do not fit together");
        });
      }),
    async *list({ after } = {}) {
      for await (const { session, ...listed } of store.list({ environment, ...(after !== undefined && { after }) })) {
        // It may have been forgotten since it was listed.
        const info = await sessions.info(session).catch(unlessMissing);
        if (info) yield { session, user: info.user, ...aboutOf(listed) };
      }
    },
    close: (id) =>
      track(() =>
        logs.use(id, (log) =>
          exclusive(log, undefined, async () => {
            await logs.refresh(log);
            if (log.session.ended) return false;
            const event: Event = { type: "session.closed", at: timeNow(log.session), reason: "closed" };
            await commitAlone(log, event);
            return true;
          }),
        ),
      ),
    stop() {
      stopping ??= new Promise((resolve) => {
        allDone = resolve;
        if (underWay === 0) resolve();
      });
      return stopping;
    },
  };
  return sessions;
}

function unlessMissing(thrown: unknown): undefined {
  if (!isHoldfastError(thrown) || thrown.code !== "session_not_found") throw thrown;
}

function userOf({ labels }: Session): string {
  return String(labels["user"] ?? "user");
}

function assertUser(user: unknown): void {
  if (typeof user === "string" && user.length > 0 && user.length <= 200) return;
  throw new HoldfastError("invalid_option", "the user must be a text of 1 to 200 characters");
}

function infoOf(session: string, folded: Session): AgentSessionInfo {
  return { session, user: userOf(folded), ...aboutOf(folded) };
}

function aboutOf({
  version,
  opened,
  touched,
  ended,
}: Session | Omit<Listed, "session">): Omit<AgentSessionInfo, "session" | "user"> {
  return { version, opened, touched, ...(ended && { ended }) };
}

/** The delta that sets each of these keys. */
function setAll(state: AgentState): Delta {
  return Object.entries(state).map(([key, value]) => ({
    op: "add" as const,
    path: `/${escapeKey(key)}`,
    value: value as Json,
  }));
}

const savedTypes = new Set<string>([
  "session.opened",
  "session.rewound",
  "session.closed",
  "invocation.began",
  "agent.began",
  "model.answered",
  "tools.started",
  "tools.answered",
  "agent.ended",
  "agent.failed",
]);

/** A file may have been written by anybody, and what is restored from it is kept for good. */
function checkedSave(saved: SavedSession): SavedSession {
  const wrong = (what: string): HoldfastError =>
    new HoldfastError("invalid_option", `this is not a saved session: ${what}`);
  const { events, user, shared } = Object(saved) as Partial<SavedSession>;
  if (!Array.isArray(events) || typeof user !== "string" || typeof shared !== "object" || shared === null) {
    throw wrong("it has no user, shared state and events");
  }
  const copied = copyJson(saved, "the saved session", "drop") as unknown as SavedSession;
  for (const [at, event] of copied.events.entries()) {
    if (!savedTypes.has(event.type) || (at === 0) !== (event.type === "session.opened")) {
      throw wrong(`event ${at + 1} cannot be there`);
    }
    const fault = "items" in event && event.items !== undefined ? faultInItems(event.items) : undefined;
    if (fault) throw wrong(`of event ${at + 1}, ${fault}`);
  }
  const [opened] = copied.events;
  if (opened?.type !== "session.opened" || opened.labels?.["user"] !== user) throw wrong("it is not its user's");
  return copied;
}
