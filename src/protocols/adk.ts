// adkProtocol(): serves agents to clients of Google's ADK, such as its web UI: apps, sessions, runs and traces.
import type { RunEvent } from "../agent/invocation.ts";
import { createFamily } from "../agent/transfer.ts";
import type { Agent } from "../core/agent.ts";
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, invalidOption, unlessCoded } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import { notAllowed, type DecoratingProtocol, type Reply, type Request } from "../core/protocol.ts";
import { inForceIn } from "../core/session.ts";
import type { Conversations } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import type { Listed } from "../core/store.ts";
import { readEvents } from "../rollout/episode-log.ts";
import { conversationsOf } from "../session/of-user.ts";
import { createAdkEvents, type AdkEvent } from "./adk/events.ts";
import { readMessage } from "./adk/parts.ts";
import { clientId, findSession, openChosen } from "./adk/session-ids.ts";
import { toSpans } from "./adk/spans.ts";
import { findBegan } from "./http/find-began.ts";
import { decoded, ok } from "./http/route.ts";
import {
  collectRun,
  runAgent,
  streamRun,
  type CommittedEvent,
  type RunFrames,
  type ServedAgent,
} from "./http/running.ts";

export interface AdkProtocolOptions {
  /** The agents. ADK calls them apps. */
  agents: readonly ServedAgent[];
  /** The server's version, for its clients. */
  version: string;
}

/** The path of all routes. It is the `backendUrl` of ADK's web UI. */
export const adkPath = "/v1/adk";

/** Maximum number of sessions in a list whose states are read at the same time. */
const readAtOnce = 16;

interface AdkSession {
  id: string;
  appName: string;
  userId: string;
  state: AgentState;
  events: AdkEvent[];
  /** In seconds since 1970. */
  lastUpdateTime: number;
}

/** One user's sessions of one app. */
interface Place {
  app: ServedAgent;
  sessions: Conversations;
  user: string;
}

type Fields = { [name: string]: unknown };

/**
 * Serves agents as ADK's server does.
 *
 * @example
 * const protocol = adkProtocol({ agents: [{ agent, sessions }], version: "1.0.0" });
 * const reply = await protocol.handle(request); // of GET /v1/adk/list-apps
 */
export function adkProtocol({ agents, version }: AdkProtocolOptions): DecoratingProtocol {
  const apps = new Map(agents.map((served) => [served.agent.name, served]));

  function findApp(name: string): ServedAgent {
    const app = apps.get(name);
    if (app) return app;
    const known = [...apps.keys()].join(", ");
    throw new HoldfastError("not_found", `there is no app ${ellipsis(name, 100)}; the apps are: ${known}`);
  }

  function findPlace(name: string, user: string): Place {
    const app = findApp(name);
    return { app, sessions: conversationsOf(app.sessions, user), user };
  }

  function toSession(place: Place, { session, touched }: Listed, state: AgentState): AdkSession {
    const { app, user } = place;
    return {
      id: clientId(place, session),
      appName: app.agent.name,
      userId: user,
      state,
      events: [],
      lastUpdateTime: touched / 1000,
    };
  }

  /** Returns a listed session; undefined if it was deleted since it was listed. */
  async function toListed(place: Place, info: Listed): Promise<AdkSession | undefined> {
    const state = await place.app.sessions.state(info.session).catch(unlessCoded("session_not_found"));
    return state && toSession(place, info, state);
  }

  async function wholeSession(place: Place, info: Listed): Promise<AdkSession> {
    const { sessions } = place;
    const { session: id } = info;
    const log = await readEvents(sessions, id);
    const isInForce = inForceIn(log);
    const readState = (): Promise<AgentState> => sessions.state(id);
    const translator = createAdkEvents({
      session: id,
      state: {},
      readState,
      clientTools: clientToolsOf(place.app.agent),
    });
    const session = toSession(place, info, await readState());
    for (const event of log) {
      const made = await translator.add(event);
      if (made && isInForce(event.version)) session.events.push(made);
    }
    return session;
  }

  async function openSession(place: Place, id: string | undefined, state: AgentState | undefined): Promise<Reply> {
    const { sessions } = place;
    const info = await (id === undefined ? sessions.open({ state }) : openChosen(place, id, state));
    return { ...ok(toSession(place, info, await sessions.state(info.session))), about: { session: info.session } };
  }

  const routes: { [pattern: string]: { [method: string]: Handler } } = {
    "/list-apps": {
      GET: (_, { query }) => {
        if (query.get("detailed") !== "true") return ok([...apps.keys()]);
        const described = agents.map(({ agent: { name, description } }) => ({
          name,
          rootAgentName: name,
          description,
          language: "typescript",
        }));
        return ok({ apps: described });
      },
    },
    "/version": {
      GET: () => ok({ version, language: "typescript", language_version: process.versions.node }),
    },
    "/apps/*/users/*/sessions": {
      async GET([name = "", user = ""]) {
        const place = findPlace(name, user);
        const listed: Listed[] = [];
        for await (const info of place.sessions.list({ open: true })) listed.push(info);
        const found: (AdkSession | undefined)[] = [];
        for (let from = 0; from < listed.length; from += readAtOnce) {
          const group = listed.slice(from, from + readAtOnce);
          found.push(...(await Promise.all(group.map((info) => toListed(place, info)))));
        }
        return ok(found.filter((session) => session !== undefined));
      },
      async POST([name = "", user = ""], { body }) {
        const place = findPlace(name, user);
        const { sessionId, state, events } = readBody(body ?? {});
        if (Array.isArray(events) && events.length > 0) {
          throw invalidOption("`events` cannot be imported; open a session without events");
        }
        return openSession(place, optionalText(sessionId, "sessionId"), readState(state, "state"));
      },
    },
    "/apps/*/users/*/sessions/*": {
      async GET([name = "", user = "", id = ""]) {
        const place = findPlace(name, user);
        return ok(await wholeSession(place, await findSession(place, id)));
      },
      // Deprecated in ADK. The body is the state itself.
      POST: ([name = "", user = "", id = ""], { body }) =>
        openSession(findPlace(name, user), id, readState(body, "body")),
      async PATCH([name = "", user = "", id = ""], { body }) {
        const place = findPlace(name, user);
        const change = readState(readBody(body)["stateDelta"], "stateDelta") ?? {};
        const { session } = await findSession(place, id);
        const info = await place.sessions.update(session, (state) => void Object.assign(state, change));
        return ok(await wholeSession(place, info));
      },
      async DELETE([name = "", user = "", id = ""]) {
        const place = findPlace(name, user);
        await place.sessions.close((await findSession(place, id)).session);
        return ok(null);
      },
    },
    "/run": { POST: (_, request) => answerRun(request, false) },
    "/run_sse": { POST: (_, request) => answerRun(request, true) },
    "/dev/apps/*/debug/trace/session/*": {
      async GET([name = "", id = ""], { query }) {
        const { agent, sessions } = findApp(name);
        const family = createFamily(agent);
        // The path does not name the user. Only an id that the client chose depends on it.
        const known = await sessions.peek(id);
        const user = known?.user ?? sessions.user ?? query.get("userId") ?? "user";
        const { session } = await findSession(findPlace(name, user), id);
        const log = await readEvents(sessions, session);
        return ok(toSpans(session, log, (each) => family.find(each)?.description || each));
      },
    },
  };
  const patterns = Object.entries(routes).map(([pattern, methods]) => ({
    matches: new RegExp(`^${pattern.replaceAll("*", "([^/]+)")}$`),
    methods,
  }));

  /** Creates the translator for a turn. It reads the turn's earlier events, because they name the called tools. */
  async function translatorAt({ agent, sessions }: ServedAgent, session: string, event: CommittedEvent) {
    const isFirst = event.type === "invocation.began";
    const began = isFirst ? event : (await findBegan(sessions, session, event.invocation))?.turn;
    const after = (began ?? event).version - 1;
    const state = await sessions.state(session, after);
    const readState = (): Promise<AgentState> => sessions.state(session);
    const translator = createAdkEvents({ session, state, readState, clientTools: clientToolsOf(agent) });
    if (isFirst) return translator;
    for await (const earlier of sessions.events(session, { after })) {
      if (earlier.version >= event.version) break;
      await translator.add(earlier);
    }
    return translator;
  }

  async function answerRun(request: Request, isStream: boolean): Promise<Reply> {
    const { signal, headers } = request;
    const { appName, userId, sessionId, newMessage, streaming, stateDelta } = readBody(request.body);
    const place = findPlace(text(appName, "appName"), text(userId, "userId"));
    const { app, user } = place;
    const { session } = await findSession(place, text(sessionId, "sessionId"));
    const running = runAgent(app, {
      sessions: app.sessions,
      session,
      user,
      // A request without a message continues an interrupted turn.
      ...(newMessage !== undefined && newMessage !== null && readMessage(newMessage)),
      stateDelta: readState(stateDelta, "stateDelta"),
      call: headers["idempotency-key"],
      signal,
      stream: isStream && streaming === true,
      busy: "refuse",
    });
    const about = { session };
    let translator: ReturnType<typeof createAdkEvents> | undefined;
    const translate = async (event: RunEvent): Promise<AdkEvent | undefined> => {
      if (event.type === "partial") return translator?.partial(event);
      translator ??= await translatorAt(app, session, event);
      const made = await translator.add(event);
      // The client does not get its own messages and results back.
      return event.type === "invocation.began" || event.type === "client.answered" ? undefined : made;
    };
    const frames: RunFrames = {
      async event(event) {
        const made = await translate(event);
        return made ? frame(made) : "";
      },
      done: () => "",
      error: ({ message }) => frame({ error: message }),
    };
    if (isStream) return { ...(await streamRun(running, signal, frames)), about };
    const { events } = await collectRun(running);
    const made: AdkEvent[] = [];
    for (const event of events) {
      const one = await translate(event);
      if (one) made.push(one);
    }
    return { ...ok(made), about };
  }

  async function answer(request: Request): Promise<Reply> {
    const path = request.path.slice(adkPath.length);
    for (const { matches, methods } of patterns) {
      const found = matches.exec(path);
      if (!found) continue;
      const handler = methods[request.method];
      if (!handler) throw notAllowed(request.path, request.method, Object.keys(methods));
      return handler(found.slice(1).map(decoded), request);
    }
    throw new HoldfastError("not_found", `${ellipsis(request.path, 100)} is not one of the ADK routes of this server`);
  }

  const isOurs = ({ path }: Request): boolean => path === adkPath || path.startsWith(`${adkPath}/`);

  return {
    name: "adk",
    handle: (request) => (isOurs(request) ? answer(request) : undefined),
    decorate(request, reply) {
      const { error } = Object(reply.body) as { error?: { code?: unknown; message?: unknown } };
      if (!isOurs(request) || typeof error?.code !== "string") return reply;
      // ADK's Python clients read `detail`, and its JavaScript clients read `error`.
      return { ...reply, body: { detail: error.message, error: error.message, code: error.code } };
    },
  };
}

/** Returns a function that takes the name of an agent, and lists the tools that the client runs for this agent. */
function clientToolsOf(agent: Agent): (name: string) => readonly { name: string }[] {
  const family = createFamily(agent);
  return (name) => {
    const found = family.find(name);
    return found?.kind === "model" ? found.clientTools : [];
  };
}

type Handler = (parameters: string[], request: Request) => Reply | Promise<Reply>;

/** Builds a frame as one string. ADK's web UI parses every chunk that it receives, so a frame must not be split. */
const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** Reads a body, with its keys in camelCase. ADK's Python clients send them in snake_case. */
function readBody(body: unknown): Fields {
  if (!isObject(body)) throw invalidOption("the body must be an object");
  const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [camel(name), value]));
}

function text(value: unknown, name: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalidOption(`\`${name}\` must be a string that is not empty`);
}

const optionalText = (value: unknown, name: string): string | undefined =>
  value === undefined || value === null ? undefined : text(value, name);

function readState(value: unknown, name: string): AgentState | undefined {
  if (value === undefined || value === null) return undefined;
  if (isObject(value)) return value as AgentState;
  throw invalidOption(`\`${name}\` must be an object`);
}
