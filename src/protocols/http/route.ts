// createRouter(): routes as data. Finds a request's route and checks the request against the route's schemas.
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError } from "../../core/errors.ts";
import { problemIn, readQuery, type FieldSchema, type ParsedBy } from "./field-schema.ts";
import { notAllowed, type Reply, type Request } from "../../core/protocol.ts";

export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** The only path parameter is `{id}`, which identifies a session, a rollout request or a split of the tasks. */
  readonly path: string;
  readonly query?: FieldSchema;
  readonly body?: FieldSchema;
  /** True if the Idempotency-Key header sets `call`. */
  readonly idempotent?: true;
}

type QueryOf<R> = R extends { readonly query: infer S } ? ParsedBy<S> : Record<never, never>;
type BodyOf<R> = R extends { readonly body: infer S } ? ParsedBy<S> : Record<never, never>;

/** The input for a route's handler. */
export interface RouteInput<R> {
  id: string;
  query: QueryOf<R>;
  body: BodyOf<R>;
  request: Request;
}

export type Handlers<Routes> = { [Name in keyof Routes]: (given: RouteInput<Routes[Name]>) => Reply | Promise<Reply> };

/** Builds the schema of a body or a query. */
export const object = <const P, const R extends readonly (keyof P & string)[] = []>(properties: P, required?: R) =>
  ({ type: "object", properties, required: required ?? ([] as unknown as R), additionalProperties: false }) as const;

/** Builds `handle` for a protocol with routes under /v1. `help` is part of the message for an unknown path. */
export function createRouter<Routes extends { readonly [name: string]: Route }>(
  routes: Routes,
  handlers: Handlers<Routes>,
  help: string,
): (request: Request) => Promise<Reply | undefined> {
  /** Route names by path, then by method. */
  const table = new Map<string, Map<string, string>>();
  for (const [name, { path, method }] of Object.entries(routes)) {
    table.set(path, (table.get(path) ?? new Map<string, string>()).set(method, name));
  }
  return async (request) => {
    const { path, method } = request;
    const [, kind, encoded = "", rest = ""] = /^\/v1\/(sessions|rollouts|tasks)\/([^/]+)(\/.*)?$/.exec(path) ?? [];
    const methods = table.get(encoded === "" ? path : `/v1/${kind}/{id}${rest}`);
    if (!methods) {
      if (path !== "/v1" && !path.startsWith("/v1/")) return undefined;
      throw new HoldfastError("not_found", `no route matches ${ellipsis(path, 100)}; ${help}`);
    }
    const name = methods.get(method);
    if (name === undefined) throw notAllowed(path, method, [...methods.keys()]);
    const id = decoded(encoded);
    const { query, body } = checkedRequest(routes[name] as Route, request);
    const handler = handlers[name] as unknown as (given: object) => Reply | Promise<Reply>;
    const reply = await handler({ id, query, body, request });
    const { call } = body as { call?: string };
    if (kind === "rollouts") reply.about = { rollout: id };
    else if (kind === "sessions") reply.about = { session: id, ...(call !== undefined && { call }) };
    return reply;
  };
}

export const ok = (body: unknown): Reply => ({ status: 200, body });

const nothing: FieldSchema = { type: "object", properties: {}, additionalProperties: false };

function checkedRequest(route: Route, request: Request): { query: object; body: object } {
  const schema = route.query ?? nothing;
  const query = checked(schema, readQuery(schema, request.query), "the query") as object;
  // Ignore a body sent to a route that takes none.
  const given = route.body ? checked(route.body, request.body === undefined ? {} : request.body, "the body") : {};
  const key = route.idempotent && request.headers["idempotency-key"];
  return { query, body: { ...(key !== undefined && { call: key }), ...(given as object) } };
}

/** Returns the value if it matches the schema, and throws otherwise. */
export function checked(schema: FieldSchema, value: unknown, name: string): unknown {
  const problem = problemIn(schema, value, name);
  if (!problem) return value;
  throw new HoldfastError("invalid_option", problem.message, { detail: { field: problem.field } });
}

/** Decodes a part of a path, such as an id. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new HoldfastError("invalid_request", `${ellipsis(part, 100)} in the path has an invalid percent-encoding`);
  }
}

/** Approximate maximum size of a page in bytes, unless one item is larger. */
const pageBytes = 4 * 1024 * 1024;

/** Reads up to `limit` items and at most `pageBytes`, but at least one item, and returns whether there are more. */
export async function takeFirst<T>(all: AsyncIterable<T>, limit: number): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = [];
  let bytes = 0;
  for await (const item of all) {
    bytes += JSON.stringify(item).length;
    if (items.length === limit || (items.length > 0 && bytes > pageBytes)) return { items, more: true };
    items.push(item);
  }
  return { items, more: false };
}
