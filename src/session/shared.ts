// What users and apps share: state in logs of its own, which a conversation's events are committed together with.
import type { AgentState } from "../core/agent-sessions.ts";
import { rebased, replaceState, type Delta } from "../core/delta.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import type { Event } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { Session } from "../core/session.ts";
import { sharedScopes, type Scope } from "../core/shared-state.ts";
import type { Store } from "../core/store.ts";
import type { Cache } from "./cache.ts";
import { exclusive } from "./exclusive.ts";
import { createLogs, timeNow, type Logs, type Part } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

/** What the logs of shared state belong to. */
const sharedEnvironment = "holdfast:shared";
const attempts = 200;

/** `logs` are those of the conversations. */
export function createShared(options: { app: string; store: Store; cache: Cache<OpenLog>; logs: Logs }) {
  const { app, store, cache, logs: sessionLogs } = options;
  const logs = createLogs(store, sharedEnvironment, { cache, isHandedOut: true });

  /** The log of what a user, or all, share. Colons cannot be in the app's name, so that no two meet. */
  const scopeId = (scope: Scope, user: string): string =>
    scope === "app" ? `holdfast:app:${app}` : `holdfast:user:${app}:${user}`;

  /** What is shared in a scope now. */
  async function sharedIn(scope: Scope, user: string): Promise<AgentState> {
    try {
      return await logs.use(scopeId(scope, user), (log) =>
        exclusive(log, undefined, async () => {
          await logs.refresh(log);
          return log.session.state as AgentState;
        }),
      );
    } catch (thrown) {
      // Nobody has shared anything yet.
      if (isHoldfastError(thrown) && thrown.code === "session_not_found") return {};
      throw thrown;
    }
  }

  async function all(user: string): Promise<Record<Scope, AgentState>> {
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
    try {
      await logs.create(id, [first]);
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "session_exists") throw thrown;
    }
  }

  /** Runs exclusively with the log of a scope, which is created if it is missing. */
  async function inScope<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    const work = (log: OpenLog): Promise<T> => exclusive(log, undefined, () => run(log));
    try {
      return await logs.use(id, work);
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "session_not_found") throw thrown;
    }
    await ensureScope(id);
    return logs.use(id, work);
  }

  /**
   * Runs with the logs of the scopes that are changed. Always in the same order, so that two who wait for each other's
   * cannot be.
   */
  function withScopes<T>(
    changes: Record<Scope, Delta>,
    user: string,
    run: (opened: { scope: Scope; log: OpenLog }[]) => Promise<T>,
  ): Promise<T> {
    const enterNext = (scopes: Scope[], opened: { scope: Scope; log: OpenLog }[]): Promise<T> => {
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
   * Appends an event to a conversation together with what it changes in what is shared; `seen` is what its run saw of
   * that. Gives the event as it was stored, and the scopes that it changed as they are then.
   */
  function commit(
    log: OpenLog,
    event: Event,
    changes: Record<Scope, Delta>,
    seen: Record<Scope, AgentState>,
    user: string,
  ): Promise<{ event: Event; bytes: number; now: Partial<Record<Scope, AgentState>> }> {
    return withScopes(changes, user, async (scopes) => {
      for (let attempt = 1; attempt <= attempts; attempt++) {
        // Others share it, and may have changed it since.
        const fitting = scopes.map(({ scope, log: at }) => ({
          scope,
          log: at,
          delta: rebased(changes[scope], seen[scope] as Json, at.session.state),
        }));
        const own = scopes.length === 0 ? event : { ...event, shared: fitting.flatMap(prefixed) };
        const parts: [Part, ...Part[]] = [{ log, event: own }];
        for (const { log: at, delta } of fitting) {
          parts.push({ log: at, event: { type: "shared.changed", at: timeNow(at.session), session: log.id, delta } });
        }
        if ((await sessionLogs.appendAll(parts)) === "ok") {
          const now = Object.fromEntries(scopes.map(({ scope, log: at }) => [scope, at.session.state as AgentState]));
          return { event: own as Event, bytes: parts[0].bytes ?? 0, now };
        }
        const version = log.session.version;
        await sessionLogs.refresh(log);
        if (log.session.version !== version) {
          throw new HoldfastError("session_busy", `another process has run an agent on session ${log.id} meanwhile`);
        }
        for (const { log: at } of scopes) {
          await logs.refresh(at);
        }
        if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempt, 20)));
      }
      const message = `what session ${log.id} shares was changed ${attempts} times in a row`;
      throw new HoldfastError("version_conflict", message);
    });
  }

  /** Creates a conversation together with what it brings to what is shared. */
  function create(id: string, events: Event[], changes: Record<Scope, Delta>, user: string): Promise<Session> {
    return withScopes(changes, user, async (scopes) => {
      for (let attempt = 1; attempt <= attempts; attempt++) {
        const parts = scopes.map(({ scope, log }): Part => {
          const at = timeNow(log.session);
          return { log, event: { type: "shared.changed", at, session: id, delta: changes[scope] } };
        });
        const session = await sessionLogs.createWith(id, events, parts);
        if (session) return session;
        for (const { log } of scopes) {
          await logs.refresh(log);
        }
      }
      throw new HoldfastError("version_conflict", `what session ${id} shares was changed ${attempts} times in a row`);
    });
  }

  return { all, commit, create };
}

/** The changes of a scope as a run makes them: under its prefix. */
function prefixed({ scope, delta }: { scope: Scope; delta: Delta }): Delta {
  return delta.map((operation) => ({ ...operation, path: `/${scope}:${operation.path.slice(1)}` }));
}
