// openSource(): the sessions in a store, or on a server through its REST API. Handles both episodes and conversations.
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "../client/client.ts";
import type { Agent } from "../core/agent.ts";
import { isConversation } from "../core/conversation.ts";
import type { AnyEnvironment, Environment } from "../core/environment.ts";
import { cannotLoad, HoldfastError, invalidOption, isHoldfastError, messageOf, unlessCoded } from "../core/errors.ts";
import type { Event, Labels, NumberedEvent } from "../core/event.ts";
import { equalJson } from "../core/json.ts";
import { decode } from "../core/session.ts";
import type { Conversations, Episodes, Replayed, SessionInfo, SessionsBase } from "../core/sessions.ts";
import type { Listed, Store } from "../core/store.ts";
import { defineEnvironment } from "../environment/define-environment.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { createSessions } from "../session/sessions.ts";
import { openStore } from "../stores/open.ts";
import { isOfEnvironment, readEvents } from "./episode-log.ts";

type Verb = "info" | "state" | "events" | "fork" | "rewind" | "replay" | "close";
export type SessionVerbs = Pick<SessionsBase<unknown>, Verb>;

export interface SourceFilter {
  open?: boolean;
  user?: string;
  labels?: Labels;
}

export interface SessionSource {
  /** Lists sessions. Conversations, and lists by label, have the complete info. */
  list(filter: SourceFilter): AsyncIterable<Listed & Partial<SessionInfo>>;
  /** Returns the operations for a session. Throws if a store does not have the session. */
  verbs(session: string): Promise<SessionVerbs>;
  /** Deletes a session in a store, or closes it on a server. Returns false if there was nothing to do. */
  delete(session: string): Promise<boolean>;
  stop(): Promise<void>;
}

export interface SourceOptions {
  /** Only sessions of this environment or agent, which a server serves under that name. */
  environment?: string;
  agent?: string;
  token?: string;
  /** The code that runs when a session in a store is replayed. */
  code?: AnyEnvironment | Agent | undefined;
}

export async function openSource(url: string, options: SourceOptions): Promise<SessionSource> {
  const { environment, agent, token } = options;
  if (!/^https?:\/\//i.test(url) || hasToken(url) || (token === undefined && (await isHttpStore(url)))) {
    return storeSource(await openStore(url, { isThere: true }), options);
  }
  const name = environment ?? agent;
  return serverSource(url.replace(/\/+$/, "") + (name === undefined ? "" : `/${name}`), token);
}

/** Returns whether a URL has a token. Only a store's URL may have one. */
const hasToken = (url: string): boolean =>
  URL.canParse(url) && (new URL(url).username !== "" || new URL(url).password !== "");

/** Returns whether an address answers as a store does, and not as a server. */
async function isHttpStore(url: string): Promise<boolean> {
  const storeToken = process.env["HOLDFAST_STORE_TOKEN"]?.trim();
  const headers = new Headers(storeToken ? { authorization: `Bearer ${storeToken}` } : {});
  try {
    const reply = await fetch(`${url.replace(/\/+$/, "")}/about`, { headers, signal: AbortSignal.timeout(5000) });
    return reply.ok && typeof ((await reply.json()) as { format?: unknown }).format === "number";
  } catch {
    return false;
  }
}

/** Runs the work. If the session is busy, retries when the turn's lease expires: its process may have died. */
export async function whenFree<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const lapsesIn = isHoldfastError(thrown) && thrown.code === "session_busy" && thrown.detail["lapsesIn"];
    if (typeof lapsesIn !== "number") throw thrown;
    await delay(lapsesIn);
    return work();
  }
}

/** Returns the given ids, or without any, the ids of all sessions. */
export async function sessionIds(source: SessionSource, ids: string[]): Promise<string[]> {
  if (ids.length > 0) return ids;
  const all: string[] = [];
  for await (const { session } of source.list({})) all.push(session);
  return all;
}

/** Yields sessions with all their events; without ids, all sessions. */
export async function* exportSessions(
  source: SessionSource,
  ids: string[],
): AsyncGenerator<SessionInfo & { events: NumberedEvent[] }> {
  for (const id of await sessionIds(source, ids)) {
    const verbs = await source.verbs(id);
    const events = await readEvents(verbs, id);
    yield { ...(await verbs.info(id)), events };
  }
}

const agentPrefix = "agent:";

function storeSource(store: Store, { environment, agent, code }: SourceOptions): SessionSource {
  const engines = new Map<string, Episodes | Conversations>();
  const only = agent === undefined ? environment : agentPrefix + agent;
  const codeOf = code && ("definitions" in code ? code.name : agentPrefix + code.name);

  /** Creates the engine for an environment or agent. Its name is enough to read, copy and rewind logs. */
  function createEngine(of: string): Episodes | Conversations {
    const options = { store, keepEnded: true };
    if (isConversation({ environment: of })) {
      const app = of.slice(agentPrefix.length);
      return createSessions({ ...options, app, ...(codeOf === of && { agent: code as Agent }) });
    }
    const bare = defineEnvironment({ name: of, tools: {} }) as Environment;
    return createSessions({ ...options, environment: codeOf === of ? (code as Environment) : bare });
  }

  async function verbs(session: string): Promise<SessionVerbs> {
    const [entry] = (await store.read(session, 0, 1)) ?? [];
    const first = entry && decode<Event>(entry.body, session);
    if (first?.type !== "session.opened" || !isSession(first) || (only ?? first.environment) !== first.environment) {
      throw new HoldfastError("session_not_found", `there is no session ${session}`);
    }
    const of = first.environment;
    const engine = engines.get(of) ?? createEngine(of);
    engines.set(of, engine);
    const replay = async (id: string): Promise<Replayed> => {
      assertCode(of);
      return engine.replay(id);
    };
    return { ...engine, replay };
  }

  /** Throws unless the session's code is loaded. Without the session's tools, every replay would report differences. */
  function assertCode(of: string): void {
    if (codeOf === of) return;
    const message = code
      ? `the session belongs to ${of}, but --code is ${codeOf}`
      : `a replay needs the code of ${of}; name it with --code`;
    throw invalidOption(message);
  }

  /** Returns undefined if the session lacks one of the labels, or was deleted since it was listed. */
  async function labelled({ session }: Listed, wanted: Labels): Promise<SessionInfo | undefined> {
    const info = await verbs(session)
      .then((found) => found.info(session))
      .catch(unlessCoded("session_not_found"));
    const all: Labels = { ...info?.labels, ...(info?.user !== undefined && { user: info.user }) };
    return Object.entries(wanted).every(([name, value]) => equalJson(all[name] ?? null, value)) ? info : undefined;
  }

  return {
    async *list({ open, user, labels }) {
      const of = only ?? codeOf;
      const filter = { ...(of !== undefined && { environment: of }), ...(open !== undefined && { open }) };
      const wanted = { ...labels, ...(user !== undefined && { user }) };
      const isAny = Object.keys(wanted).length === 0;
      for await (const listed of store.list(filter)) {
        if (!isSession(listed)) continue;
        const row = isAny && !isConversation(listed) ? listed : await labelled(listed, wanted);
        if (row) yield row;
      }
    },
    verbs,
    async delete(session) {
      await verbs(session);
      return store.delete(session);
    },
    async stop() {
      for (const engine of engines.values()) await engine.stop();
      await store.close();
    },
  };
}

/** Logs for the server and for shared state are not sessions. */
const isSession = (of: { environment: string }): boolean => isOfEnvironment(of) || isConversation(of);

function serverSource(url: string, token: string | undefined): SessionSource {
  const client = createClient(url, {
    ...(token !== undefined && { token }),
    retryFor: 0,
    fetch: (...request) =>
      fetch(...request).catch((cause: Error) => {
        throw cannotLoad(`${hideSecrets(url)} does not answer: ${messageOf(cause.cause ?? cause)}`, cause);
      }),
  });
  return { list: client.list, verbs: async () => client, delete: client.close, stop: async () => undefined };
}
