// createScopes(): state that conversations share, for each user and for the app. It is stored in separate logs. A
// change to it is committed atomically with the conversation's event.
import type { OtherChanges } from "../core/agent-sessions.ts";
import { replaceState, topKey, type Delta } from "../core/delta.ts";
import { HoldfastError, unlessCoded } from "../core/errors.ts";
import type { Event } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import {
  nothingShared,
  prefixed,
  sharedScopes,
  splitDelta,
  type AgentState,
  type Scope,
} from "../core/shared-state.ts";
import type { Store } from "../core/store.ts";
import type { Cache } from "./cache.ts";
import { exclusive } from "./exclusive.ts";
import { createLogs, timeNow, type Logs, type Part } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

/** The environment name under which a store lists the logs of shared state. */
const sharedEnvironment = "holdfast:shared";
const attempts = 200;

export type Shared = Record<Scope, AgentState>;
export type SharedVersions = Record<Scope, number>;

/** An event with its changes to shared state. */
export interface Made {
  event: Event;
  changes: Record<Scope, Delta>;
}

/** Creates an event from the current shared state. */
export type Make = (shared: Shared, others: OtherChanges) => Made;

const noChanges: OtherChanges = { writerOf: () => undefined, hasReplaced: () => false };

interface Stored {
  event: Event;
  bytes: number;
  now: Partial<Shared>;
}

interface OpenScope {
  scope: Scope;
  log: OpenLog;
}

export type Scopes = ReturnType<typeof createScopes>;

/** `logs` are the conversations' logs. */
export function createScopes(options: { app: string; store: Store; cache: Cache<OpenLog>; logs: Logs }) {
  const { app, store, cache, logs: sessionLogs } = options;
  const logs = createLogs(store, sharedEnvironment, { cache, isHandedOut: true });

  /** For each shared state that was handed to a run: its version. */
  const versions = new WeakMap<AgentState, number>();

  function handedOut({ session }: OpenLog): AgentState {
    versions.set(session.state as AgentState, session.version);
    return session.state as AgentState;
  }

  /** Returns the versions of a shared state that was handed out; 0 if a scope does not exist. */
  const versionsOf = ({ user, app }: Shared): SharedVersions => ({
    user: versions.get(user) ?? 0,
    app: versions.get(app) ?? 0,
  });

  /** Returns the id of a scope's log. The app's name has no colons, so ids do not collide. */
  const scopeId = (scope: Scope, user: string): string =>
    scope === "app" ? `holdfast:app:${app}` : `holdfast:user:${app}:${user}`;

  /** Returns the current state of a scope. */
  async function sharedIn(scope: Scope, user: string): Promise<AgentState> {
    const shared = await logs.useIfThere(scopeId(scope, user), (log) =>
      exclusive(log, undefined, async () => {
        await logs.refresh(log);
        return handedOut(log);
      }),
    );
    return shared ?? {};
  }

  async function all(user: string): Promise<Shared> {
    const [ofUser, ofApp] = await Promise.all([sharedIn("user", user), sharedIn("app", user)]);
    return { user: ofUser, app: ofApp };
  }

  async function ensureScope(id: string): Promise<void> {
    const first: Event = {
      type: "session.opened",
      at: Date.now(),
      environment: sharedEnvironment,
      randomness: { seed: 0, turn: 0 },
      delta: replaceState({}),
    };
    await logs.create(id, [first]).catch(unlessCoded("session_exists"));
  }

  /** Runs a function with exclusive access to a scope's log. The log is created if it is missing. */
  async function inScope<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    const work = (log: OpenLog): Promise<T> => exclusive(log, undefined, () => run(log));
    const done = await logs.useIfThere(id, async (log) => ({ result: await work(log) }));
    if (done) return done.result;
    await ensureScope(id);
    return logs.use(id, work);
  }

  /**
   * Runs a function with exclusive access to the changed scopes' logs. They are always acquired in the same order.
   * Otherwise, two writers could wait for each other forever.
   */
  function withScopes<T>(
    changes: Record<Scope, Delta>,
    user: string,
    run: (opened: OpenScope[]) => Promise<T>,
  ): Promise<T> {
    const enterNext = (scopes: Scope[], opened: OpenScope[]): Promise<T> => {
      const [scope, ...rest] = scopes;
      if (scope === undefined) return run(opened);
      return inScope(scopeId(scope, user), (log) => enterNext(rest, [...opened, { scope, log }]));
    };
    return enterNext(
      sharedScopes.filter((scope) => changes[scope].length > 0),
      [],
    );
  }

  /**
   * Appends an event to a conversation, atomically with its changes to shared state. `seen` is the newest shared state
   * that the run saw. If another session has changed it since, the event is created again. `make` is told the changes
   * since `base`, the versions that the event's step saw. Returns the stored event and the changed scopes' new
   * state; undefined if the conversation has new commits and `isStillHeld` returns false.
   */
  async function commit(
    log: OpenLog,
    make: Make,
    { seen, base, user }: { seen: Shared; base: SharedVersions; user: string },
    isStillHeld = (): boolean => false,
  ): Promise<Stored | undefined> {
    const makeFor = (now: Shared): Promise<Made> | Made => makeSince(make, base, now, user, log.id);
    for (let made = await makeFor(seen); ;) {
      const result = await withScopes(made.changes, user, (scopes) => commitIn(log, scopes, made, makeFor, seen));
      if (result !== "moved" && "now" in result) return result;
      if (result === "moved" && !isStillHeld()) return undefined;
      // Retries in two cases: the conversation has changed, or the new event changes a scope whose log is not open.
      made = result === "moved" ? await makeFor(seen) : result;
    }
  }

  async function commitIn(
    log: OpenLog,
    scopes: OpenScope[],
    first: Made,
    makeFor: (now: Shared) => Promise<Made> | Made,
    seen: Shared,
  ) {
    let made = first;
    let madeFor = seen;
    for (let attempt = 1; attempt <= attempts; attempt++) {
      if (scopes.some(({ scope, log: at }) => at.session.state !== madeFor[scope])) {
        madeFor = { user: seen.user, app: seen.app };
        for (const { scope, log: at } of scopes) madeFor[scope] = handedOut(at);
        made = await makeFor(madeFor);
      }
      const { event, changes } = made;
      const changed = sharedScopes.filter((scope) => changes[scope].length > 0);
      if (changed.some((scope) => !scopes.some((opened) => opened.scope === scope))) return made;
      const shared = changed.flatMap((scope) => prefixed(scope, changes[scope]));
      const own = changed.length === 0 ? event : ({ ...event, shared } as Event);
      const parts: [Part, ...Part[]] = [{ log, event: own }];
      for (const { scope, log: at } of scopes) {
        const delta = changes[scope];
        if (delta.length === 0) continue;
        parts.push({ log: at, event: { type: "shared.changed", at: timeNow(at.session), session: log.id, delta } });
      }
      if ((await sessionLogs.appendAll(parts)) === "ok") {
        const stored = scopes.map(({ scope, log: at }) => [scope, handedOut(at)]);
        return { event: own, bytes: parts[0].bytes ?? 0, now: Object.fromEntries(stored) as Partial<Shared> };
      }
      const version = log.session.version;
      await sessionLogs.refresh(log);
      if (log.session.version !== version) return "moved";
      for (const { log: at } of scopes) await logs.refresh(at);
      if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempt, 20)));
    }
    const message = `other sessions changed the shared state of session ${log.id} ${attempts} times in a row; retry`;
    throw new HoldfastError("version_conflict", message);
  }

  /** Creates an event. Looks up the other sessions' changes to the shared state since `base` only if `make` asks. */
  function makeSince(make: Make, base: SharedVersions, now: Shared, user: string, own: string): Promise<Made> | Made {
    const current = versionsOf(now);
    const scopes = sharedScopes.filter((scope) => base[scope] !== current[scope]);
    if (scopes.length === 0) return make(now, noChanges);
    let isAsked = false;
    const asked = <T>(answer: T): T => {
      isAsked = true;
      return answer;
    };
    try {
      const made = make(now, { writerOf: () => asked(undefined), hasReplaced: () => asked(false) });
      if (!isAsked) return made;
    } catch (thrown) {
      if (!isAsked) throw thrown;
    }
    return changesSince(base, scopes, user, own).then((others) => make(now, others));
  }

  async function changesSince(base: SharedVersions, scopes: Scope[], user: string, own: string): Promise<OtherChanges> {
    const writers = new Map<string, string>();
    const replaced = new Set<string>();
    for (const scope of scopes) {
      const id = scopeId(scope, user);
      for await (const { version, ...event } of logs.events(id, base[scope])) {
        if (event.type !== "shared.changed" || event.session === own) continue;
        // Another user's session id must not appear in a message, because it grants access to that session.
        const who = scope === "user" ? `session ${event.session}` : `another session (version ${version} of ${id})`;
        for (const { path } of event.delta ?? []) {
          writers.set(`${scope}:${topKey(path)}`, who);
          replaced.add(`/${scope}:${path.slice(1)}`);
        }
      }
    }
    return { writerOf: (key) => writers.get(key), hasReplaced: (pointer) => replaced.has(pointer) };
  }

  /** Creates a conversation, atomically with its changes to shared state. */
  function create(id: string, events: Event[], changes: Record<Scope, Delta>, user: string): Promise<Session> {
    return withScopes(changes, user, async (scopes) => {
      for (let attempt = 1; attempt <= attempts; attempt++) {
        const parts = scopes.map(({ scope, log }): Part => {
          const at = timeNow(log.session);
          return { log, event: { type: "shared.changed", at, session: id, delta: changes[scope] } };
        });
        const session = await sessionLogs.createWith(id, events, parts);
        if (session) return session;
        for (const { log } of scopes) await logs.refresh(log);
      }
      throw new HoldfastError(
        "version_conflict",
        `other sessions changed the shared state of session ${id} ${attempts} times in a row; retry`,
      );
    });
  }

  return { all, commit, create, versionsOf };
}

export const isIsolated = ({ conversation }: Session): boolean => conversation?.isolated === true;

export function readUser({ labels }: Session): string {
  return String(labels["user"] ?? "user");
}

/** Splits a change into the session's own part and the changes to shared state. */
export function splitChange(session: Session, delta: Delta): { own: Delta; changes: Record<Scope, Delta> } {
  if (isIsolated(session)) return { own: delta, changes: nothingShared() };
  const { session: own, user, app } = splitDelta(delta);
  return { own, changes: { user, app } };
}
