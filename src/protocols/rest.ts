// Our own REST API, under /v1: the verbs of Sessions, one route each, with an OpenAPI document and a page to try it.
import { HoldfastError } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { Protocol, Reply, Request } from "../core/protocol.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Listed } from "../core/store.ts";
import { liveEvents } from "./rest/live.ts";
import { describeEnvironment, openApiOf } from "./rest/openapi.ts";
import { page, pageHeaders } from "./rest/page.ts";
import { routes, type BodyOf, type QueryOf, type Route, type RouteName, type RouteOf } from "./rest/routes.ts";
import { problemIn, readQuery, readText, type FieldSchema } from "./rest/schema.ts";

interface Given<Name extends RouteName> {
  id: string;
  query: QueryOf<RouteOf<Name>>;
  body: BodyOf<RouteOf<Name>>;
  request: Request;
}

type Handlers = { [Name in RouteName]: (given: Given<Name>) => Reply | Promise<Reply> };

/** By path, then by method. */
const table = new Map<string, Map<string, RouteName>>();
for (const [name, { path, method }] of Object.entries(routes) as [RouteName, Route][]) {
  table.set(path, (table.get(path) ?? new Map<string, RouteName>()).set(method, name));
}

/**
 * Serves sessions over HTTP, to programs and to people. What `sessions` throws is left to the server.
 *
 * @example
 * const rest = restProtocol({ sessions });
 * await rest.handle({ method: "POST", path: "/v1/sessions", query, headers: {}, body: { task }, signal });
 */
export function restProtocol({ sessions }: { sessions: Sessions }): Protocol {
  let document: unknown;
  const handlers: Handlers = {
    environment: () => ok(describeEnvironment(sessions.environment)),
    openSession: async ({ body }) => {
      const info = await sessions.open(body);
      return { status: 201, body: info, about: { session: info.session } };
    },
    listSessions: async ({ query }) => {
      const { open, opened_before: openedBefore, idle_before: idleBefore, after, limit } = query;
      const { items, more } = await firstOf<Listed>(sessions.list({ open, openedBefore, idleBefore, after }), limit);
      // By idle time there is no place in the list to go on from: sessions move in it.
      const next = more && idleBefore === undefined ? items.at(-1)?.session : undefined;
      return ok({ sessions: items, next: next ?? null, more });
    },
    getSession: async ({ id }) => ok(await sessions.info(id)),
    closeSession: async ({ id }) => ok({ closed: await sessions.close(id) }),
    getState: async ({ id, query }) => {
      // Asked for by its number, so that the state is of the version that is said beside it.
      const version = query.version ?? (await sessions.info(id)).version;
      return ok({ session: id, version, state: (await sessions.state(id, version)) as unknown });
    },
    listEvents: async ({ id, query: { after, limit }, request }) => {
      if (/\btext\/event-stream\b/i.test(request.headers["accept"] ?? "")) return live(id, after, request);
      const { items, more } = await firstOf<NumberedEvent>(sessions.events(id, { after }), limit);
      return ok({ events: items, next: more ? (items.at(-1)?.version ?? null) : null });
    },
    callTool: async ({ id, body: { tool, input, call, episode }, request: { signal } }) => {
      return ok(await sessions.call(id, tool, input, { call, episode, signal }));
    },
    seedSession: async ({ id, body: { task, ...options } }) => ok(await sessions.seed(id, task, options)),
    verifySession: async ({ id, body, request: { signal } }) => ok(await sessions.verify(id, { ...body, signal })),
    forkSession: async ({ id, body }) => {
      const info = await sessions.fork(id, body);
      return { status: 201, body: info };
    },
    rewindSession: async ({ id, body }) => ok(await sessions.rewind(id, body.version)),
    replaySession: async ({ id }) => ok(await sessions.replay(id)),
    openapi: () => ok((document ??= openApiOf(sessions.environment))),
    docs: () => ({ status: 200, headers: pageHeaders, text: page }),
  };

  async function live(session: string, from: number, request: Request): Promise<Reply> {
    const field = { type: "integer", minimum: 0 } as const;
    const last = request.headers["last-event-id"];
    // The header, where both are there: a browser that connects again repeats the query.
    const after = last === undefined ? from : (checked(field, readText(field, last), "Last-Event-ID") as number);
    const { ended, version } = await sessions.info(session);
    // The one answer after which a browser does not connect again.
    if (ended && version <= after) return { status: 204 };
    return {
      status: 200,
      headers: { "content-type": "text/event-stream" },
      stream: liveEvents(sessions, { session, after, ended: ended !== undefined, signal: request.signal }),
    };
  }

  return {
    name: "rest",
    async handle(request) {
      const { path, method } = request;
      const [, encoded = "", rest = ""] = /^\/v1\/sessions\/([^/]+)(\/.*)?$/.exec(path) ?? [];
      const methods = table.get(encoded === "" ? path : `/v1/sessions/{id}${rest}`);
      if (!methods) {
        if (path !== "/v1" && !path.startsWith("/v1/")) return undefined;
        throw new HoldfastError(
          "not_found",
          `there is nothing at ${shortened(path)}; /openapi.json lists what there is`,
        );
      }
      const name = methods.get(method);
      if (name === undefined) {
        const allow = [...methods.keys()];
        const message = `${shortened(path)} takes ${allow.join(" or ")}, not ${method}`;
        throw new HoldfastError("method_not_allowed", message, { detail: { allow } });
      }
      const id = decoded(encoded);
      const { query, body } = checkedRequest(routes[name], request);
      const reply = await (handlers[name] as (given: object) => Reply | Promise<Reply>)({ id, query, body, request });
      const { call } = body as { call?: string };
      if (id !== "") reply.about = { session: id, ...(call !== undefined && { call }) };
      return reply;
    },
  };
}

const ok = (body: unknown): Reply => ({ status: 200, body });

const nothing: FieldSchema = { type: "object", properties: {}, additionalProperties: false };

function checkedRequest(route: Route, request: Request): { query: object; body: object } {
  const schema = route.query ?? nothing;
  const query = checked(schema, readQuery(schema, request.query), "the query") as object;
  // What a method without a body is sent as one means nothing.
  const given = route.body ? checked(route.body, request.body === undefined ? {} : request.body, "the body") : {};
  const key = route.idempotent && request.headers["idempotency-key"];
  return { query, body: { ...(key !== undefined && { call: key }), ...(given as object) } };
}

function checked(schema: FieldSchema, value: unknown, name: string): unknown {
  const problem = problemIn(schema, value, name);
  if (!problem) return value;
  throw new HoldfastError("invalid_option", problem.message, { detail: { field: problem.field } });
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    throw new HoldfastError("invalid_request", `${shortened(id)} in the path is not percent-encoded as it should be`);
  }
}

const shortened = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text);

/** As many as there are up to a limit, and whether there are more. */
async function firstOf<T>(all: AsyncIterable<T>, limit: number): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = [];
  for await (const item of all) {
    if (items.length === limit) return { items, more: true };
    items.push(item);
  }
  return { items, more: false };
}
