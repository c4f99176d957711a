// buildOpenApi(): turns the routes into an OpenAPI 3.1 document.
import type { AnyEnvironment } from "../../core/environment.ts";
import { errorTable, type ErrorCode } from "../../core/errors.ts";
import type { FieldSchema } from "../http/field-schema.ts";
import { escapeKey, type Json } from "../../core/json.ts";
import { sample } from "../../core/json-sample.ts";
import { toJsonSchema } from "../../core/schema.ts";
import { replies } from "./replies.ts";
import { routes, type Route } from "./routes.ts";

type JsonObject = { [key: string]: Json };

/** Builds the reply to `GET /v1/environment`. */
export function describeEnvironment(environment: AnyEnvironment): JsonObject {
  const { name, description, unseeded, reseed, task, state, definitions } = environment;
  const tools = [...definitions].map(([tool, { description, kind, input }]) => ({
    name: tool,
    description,
    kind,
    input: toInputSchema(toJsonSchema(input)),
  }));
  return { name, description, tools, task: toJsonSchema(task), state: toJsonSchema(state), unseeded, reseed };
}

/** A tool without input still takes an object. */
function toInputSchema(schema: JsonObject): JsonObject {
  return Object.keys(schema).length > 0 ? schema : { type: "object" };
}

/** Builds the document. `models`: names of the models that can continue a session. */
export function buildOpenApi(environment: AnyEnvironment, models: readonly string[]): JsonObject {
  const { name, description, tools, task, state } = describeEnvironment(environment) as {
    [key: string]: JsonObject;
  } & { name: string; description: string; tools: { name: string; description: string; input: JsonObject }[] };
  const paths: { [path: string]: JsonObject } = {};
  const [first] = tools;
  const examples = {
    task: sample(task as JsonObject),
    ...(first && { tool: first.name, input: sample(first.input) }),
  };
  for (const [id, route] of Object.entries(routes) as [string, Route][]) {
    if (id === "playSession" && models.length === 0) continue;
    const offered = id === "playSession" ? withModels(route, models) : route;
    (paths[route.path] ??= {})[route.method.toLowerCase()] = buildOperation(id, offered, examples);
  }
  return {
    openapi: "3.1.0",
    info: { title: name, description, version: "1" },
    // Relative to the document's own URL, which may have a prefix.
    servers: [{ url: "." }],
    // A server bound to loopback needs no token.
    security: [{}, { bearer: [] }],
    paths,
    components: {
      schemas: {
        Task: moved(task as JsonObject, "#/components/schemas/Task"),
        EnvironmentState: moved(state as JsonObject, "#/components/schemas/EnvironmentState"),
        ...(replies as { [name: string]: unknown } as JsonObject),
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
    "x-tools": Object.fromEntries(
      tools.map(({ name, description, input }) => {
        const at = `#/x-tools/${escapeKey(name)}/input`;
        return [name, { description, input: moved(input, at), example: sample(input) }];
      }),
    ),
  };
}

function withModels(route: Route, models: readonly string[]): Route {
  const { properties = {} } = route.body ?? {};
  return {
    ...route,
    body: { ...route.body, properties: { ...properties, model: { ...properties["model"], enum: models } } },
  };
}

function buildOperation(operationId: string, route: Route, examples: JsonObject): JsonObject {
  const { summary, description, path, query, body, idempotent, live } = route;
  const parameters = [
    ...(path.includes("{id}") ? [parameter("path", "id", { type: "string", description: "the session" }, true)] : []),
    ...Object.entries(query?.properties ?? {}).map(([name, schema]) => parameter("query", name, schema)),
    ...(idempotent
      ? [parameter("header", "Idempotency-Key", { type: "string", description: "stands for `call`" })]
      : []),
    ...(live
      ? [parameter("header", "Last-Event-ID", { type: "integer", minimum: 0, description: "stands for `after`" })]
      : []),
  ];
  return {
    operationId,
    summary,
    ...(description !== undefined && { description }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: buildRequestBody(body, examples) }),
    responses: buildResponses(route),
  };
}

function parameter(where: string, name: string, { description = "", ...schema }: FieldSchema, required = false): Json {
  return { name, in: where, required, description, schema: schema as Json };
}

function buildRequestBody(body: FieldSchema, examples: JsonObject): Json {
  const { properties = {}, required = [] } = body;
  const described = Object.entries(properties).map(([name, schema]) => [
    name,
    name === "task" ? { ...schema, $ref: "#/components/schemas/Task" } : schema,
  ]);
  const example = Object.entries(properties)
    .filter(([name]) => required.includes(name) || (name === "input" && "tool" in properties))
    .map(([name, schema]) => [name, examples[name] ?? sample(schema as JsonObject)]);
  return {
    required: required.length > 0,
    content: {
      "application/json": {
        schema: { ...(body as unknown as JsonObject), properties: Object.fromEntries(described) as Json },
        example: Object.fromEntries(example) as Json,
      },
    },
  };
}

function buildResponses({ status, reply, live, query, body, path, errors }: Route): JsonObject {
  const schema = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
  const content: JsonObject =
    reply === "page"
      ? { "text/html": { schema: { type: "string" } } }
      : { "application/json": { schema: schema(reply) } };
  if (live) {
    const description = "`id` is the version, `event` the type, and `data` an Event as JSON";
    content["text/event-stream"] = { schema: { type: "string", description } };
  }
  const responses: { [status: string]: Json } = {
    [status]: { description: status === 201 ? "Opened." : "Done.", content },
    ...(live && { 204: { description: "The session has ended, and there is nothing to come." } }),
  };
  const codes: ErrorCode[] = [
    ...(query || body || path.includes("{id}") ? (["invalid_option"] as const) : []),
    ...errors,
  ];
  for (const each of new Set(codes.map((code) => errorTable[code].status))) {
    const lines = codes
      .filter((code) => errorTable[code].status === each)
      .map((code) => `\`${code}\`: ${errorTable[code].meaning}`);
    responses[each] = { description: lines.join("\n\n"), content: { "application/json": { schema: schema("Error") } } };
  }
  const others = "What can happen to any request: no token, too large, too many, a store that fails.";
  responses["default"] = { description: others, content: { "application/json": { schema: schema("Error") } } };
  return responses;
}

/** Moves a schema to another place in the document and adjusts its internal references. */
function moved(schema: JsonObject, to: string): JsonObject {
  const walk = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(([key, item]): [string, Json] =>
      key === "$ref" && typeof item === "string" && item.startsWith("#")
        ? [key, to + item.slice(1)]
        : [key, walk(item)],
    );
    return Object.fromEntries(entries);
  };
  return walk(schema) as JsonObject;
}
