// openSource(): reads, forks and deletes sessions of a store, or of a server over its REST API.
import type { Environment } from "../core/environment.ts";
import { HoldfastError, messageOf, type ErrorCode } from "../core/errors.ts";
import type { Event, NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { decode } from "../core/session.ts";
import type { SessionInfo, Sessions } from "../core/sessions.ts";
import type { Listed, Store } from "../core/store.ts";
import { defineEnvironment } from "../environment/define-environment.ts";
import { isOfEnvironment } from "./episode-log.ts";
import { createSessions } from "../session/sessions.ts";
import { openStore } from "../stores/open.ts";

export interface SessionSource {
  list(open: boolean | undefined): AsyncIterable<Listed>;
  info(session: string): Promise<SessionInfo>;
  state(session: string, version?: number): Promise<Json>;
  events(session: string): AsyncIterable<NumberedEvent>;
  fork(session: string, version?: number): Promise<SessionInfo>;
  /** Deletes a session in a store, or closes it on a server. Returns false if there was nothing to do. */
  delete(session: string): Promise<boolean>;
  close(): Promise<void>;
}

export async function openSource(
  url: string,
  options: { environment?: string; token?: string },
): Promise<SessionSource> {
  if (!/^https?:\/\//.test(url)) return storeSource(await openStore(url, { isThere: true }), options.environment);
  const prefix = options.environment === undefined ? "" : `/${options.environment}`;
  return serverSource(url.replace(/\/+$/, "") + prefix, options.token);
}

function storeSource(store: Store, environment: string | undefined): SessionSource {
  const engines = new Map<string, Sessions>();

  /** Returns an engine for the session's environment. Its name is enough to read or copy a log. */
  async function openEngine(session: string): Promise<Sessions> {
    const [entry] = (await store.read(session, 0, 1)) ?? [];
    const first = entry && decode<Event>(entry.body, session);
    const isThere = first?.type === "session.opened" && isOfEnvironment(first);
    if (!isThere || (environment !== undefined && first.environment !== environment)) {
      throw new HoldfastError("session_not_found", `there is no session ${session}`);
    }
    const known = engines.get(first.environment);
    if (known) return known;
    const bare = defineEnvironment({ name: first.environment, tools: {} }) as Environment;
    const engine = createSessions({ environment: bare, store, keepEnded: true });
    engines.set(first.environment, engine);
    return engine;
  }

  return {
    async *list(open) {
      const filter = { ...(environment !== undefined && { environment }), ...(open !== undefined && { open }) };
      for await (const listed of store.list(filter)) if (isOfEnvironment(listed)) yield listed;
    },
    info: async (session) => (await openEngine(session)).info(session),
    state: async (session, version) => (await (await openEngine(session)).state(session, version)) as Json,
    async *events(session) {
      yield* (await openEngine(session)).events(session);
    },
    fork: async (session, version) =>
      (await openEngine(session)).fork(session, version === undefined ? {} : { version }),
    async delete(session) {
      await openEngine(session);
      return store.delete(session);
    },
    async close() {
      for (const engine of engines.values()) await engine.stop();
      await store.close();
    },
  };
}

function serverSource(url: string, token: string | undefined): SessionSource {
  async function ask<T>(path: string, method = "GET", body?: unknown): Promise<T> {
    const headers = {
      "content-type": "application/json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetch(`${url}/v1/sessions${path}`, init).catch((cause: Error) => {
      throw new HoldfastError("cannot_load", `${url} does not answer: ${messageOf(cause.cause ?? cause)}`, { cause });
    });
    const reply = (await response.json().catch(() => ({}))) as { error?: { code: ErrorCode; message: string } };
    if (response.ok) return reply as T;
    const { code = "cannot_load", message = `${url} answered ${response.status}` } = reply.error ?? {};
    throw new HoldfastError(code, message);
  }
  const at = (session: string): string => `/${encodeURIComponent(session)}`;

  return {
    async *list(open) {
      let after: string | null = null;
      do {
        const query = new URLSearchParams({ limit: "1000" });
        if (after !== null) query.set("after", after);
        if (open !== undefined) query.set("open", String(open));
        const page: { sessions: Listed[]; next: string | null } = await ask(`?${query}`);
        yield* page.sessions;
        after = page.next;
      } while (after !== null);
    },
    info: (session) => ask(at(session)),
    async state(session, version) {
      const query = version === undefined ? "" : `?version=${version}`;
      return (await ask<{ state: Json }>(`${at(session)}/state${query}`)).state;
    },
    async *events(session) {
      let after: number | null = 0;
      do {
        const page: { events: NumberedEvent[]; next: number | null } = await ask(
          `${at(session)}/events?limit=1000&after=${after}`,
        );
        yield* page.events;
        after = page.next;
      } while (after !== null);
    },
    fork: (session, version) => ask(`${at(session)}/fork`, "POST", version === undefined ? {} : { version }),
    delete: async (session) => (await ask<{ closed: boolean }>(at(session), "DELETE")).closed,
    close: async () => undefined,
  };
}
