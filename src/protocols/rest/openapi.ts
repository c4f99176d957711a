// buildOpenApi(): turns the routes into an OpenAPI 3.1 document.
import { errorTable, type ErrorCode } from "../../core/errors.ts";
import type { FieldSchema } from "../http/field-schema.ts";
import { escapeKey, type Json } from "../../core/json.ts";
import { sample } from "../../core/json-sample.ts";
import { replies } from "./replies.ts";
import type { Route } from "./routes.ts";

export type JsonObject = { [key: string]: Json };

export interface ListedTool {
  name: string;
  description: string;
  input: JsonObject;
}

/** A route that another protocol serves under the same prefix. The page at `url` describes it. */
export type OtherRoute = readonly [id: string, method: string, path: string, summary: string, url: string];

const openai = "https://platform.openai.com/docs/api-reference";
const a2a = "https://a2a-protocol.org/latest/specification/";

/** The routes of an agent that OpenAI's and A2A's clients use. */
export const agentRoutes: readonly OtherRoute[] = [
  ["createResponse", "post", "/v1/responses", "OpenAI: run the agent", `${openai}/responses/create`],
  ["getResponse", "get", "/v1/responses/{id}", "OpenAI: get a response", `${openai}/responses/get`],
  ["deleteResponse", "delete", "/v1/responses/{id}", "OpenAI: delete a response", `${openai}/responses/delete`],
  ["cancelResponse", "post", "/v1/responses/{id}/cancel", "OpenAI: cancel a run", `${openai}/responses/cancel`],
  ["listInput", "get", "/v1/responses/{id}/input_items", "OpenAI: get the input", `${openai}/responses/input-items`],
  ["createChatCompletion", "post", "/v1/chat/completions", "OpenAI: run the agent", `${openai}/chat/create`],
  ["listModels", "get", "/v1/models", "OpenAI: get the agent as a model", `${openai}/models/list`],
  ["getModel", "get", "/v1/models/{id}", "OpenAI: get the agent as a model", `${openai}/models/retrieve`],
  ["sendA2a", "post", "/v1/a2a", "A2A: call a method over JSON-RPC", a2a],
  ["getAgentCard", "get", "/.well-known/agent-card.json", "A2A: get the agent's card", a2a],
];

export interface Described {
  name: string;
  description: string;
  routes: { readonly [id: string]: Route };
  tools: readonly ListedTool[];
  /** Schemas in addition to the reply schemas. */
  schemas: { readonly [name: string]: JsonObject };
  /** Example values of fields, by name. */
  examples: JsonObject;
  others?: readonly OtherRoute[] | undefined;
}

export function buildOpenApi(described: Described): JsonObject {
  const { name, description, routes, tools, schemas, examples, others = [] } = described;
  const paths: { [path: string]: JsonObject } = {};
  for (const [id, route] of Object.entries(routes)) {
    (paths[route.path] ??= {})[route.method.toLowerCase()] = buildOperation(id, route, examples);
  }
  for (const [id, method, path, summary, url] of others) {
    (paths[path] ??= {})[method] = {
      operationId: id,
      summary,
      externalDocs: { url },
      ...(path.includes("{id}") && { parameters: [parameter("path", "id", { type: "string" }, true)] }),
      ...(method === "post" && { requestBody: buildRequestBody({ type: "object" }, {}, {}) }),
      responses: { default: { description: `See ${url}` } },
    };
  }
  const at = (schema: string): string => `#/components/schemas/${schema}`;
  return {
    openapi: "3.1.0",
    info: { title: name, description, version: "1" },
    // The server URL is relative to the document's own URL, which may have a prefix.
    servers: [{ url: "." }],
    // A server bound to loopback needs no token.
    security: [{}, { bearer: [] }],
    paths,
    components: {
      schemas: {
        ...Object.fromEntries(Object.entries(schemas).map(([key, schema]) => [key, moved(schema, at(key))])),
        ...(replies as { [name: string]: unknown } as JsonObject),
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
    "x-tools": Object.fromEntries(
      tools.map(({ name, description, input }) => {
        const place = `#/x-tools/${escapeKey(name)}/input`;
        return [name, { description, input: moved(input, place), example: sample(input) }];
      }),
    ),
  };
}

function buildOperation(operationId: string, route: Route, examples: JsonObject): JsonObject {
  const { summary, description, path, query, body, idempotent, resumable } = route;
  const parameters = [
    ...(path.includes("{id}") ? [parameter("path", "id", { type: "string", description: aboutId(path) }, true)] : []),
    ...Object.entries(query?.properties ?? {}).map(([name, schema]) => parameter("query", name, schema)),
    ...(idempotent
      ? [parameter("header", "Idempotency-Key", { type: "string", description: "the same as `call` in the body" })]
      : []),
    ...(resumable
      ? [
          parameter("header", "Last-Event-ID", {
            type: "integer",
            minimum: 0,
            description: "the same as the query parameter `after`",
          }),
        ]
      : []),
  ];
  return {
    operationId,
    summary,
    ...(description !== undefined && { description }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: buildRequestBody(body, route.example, examples) }),
    responses: buildResponses(route),
  };
}

const aboutId = (path: string): string =>
  path.startsWith("/v1/rollouts") ? "the request" : path.startsWith("/v1/tasks") ? "the split" : "the session";

function parameter(where: string, name: string, { description = "", ...schema }: FieldSchema, required = false): Json {
  const head = { name, in: where, required, description };
  // An object in a query is JSON.
  if (schema.type === "object") return { ...head, content: { "application/json": { schema: schema as Json } } };
  return { ...head, schema: schema as Json };
}

function buildRequestBody(body: FieldSchema, given: Route["example"], examples: JsonObject): Json {
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
        example: (given ?? Object.fromEntries(example)) as Json,
      },
    },
  };
}

function buildResponses({ status = 200, reply, stream, resumable, query, body, path, errors = [] }: Route): JsonObject {
  const schema = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
  const content: JsonObject =
    reply === "page"
      ? { "text/html": { schema: { type: "string" } } }
      : reply === "lines"
        ? { "application/x-ndjson": { schema: { type: "string", description: stream ?? "" } } }
        : { "application/json": { schema: schema(reply) } };
  if (stream !== undefined && reply !== "lines")
    content["text/event-stream"] = { schema: { type: "string", description: stream } };
  const responses: { [status: string]: Json } = {
    [status]: { description: status === 201 ? "Opened." : "Done.", content },
    ...(resumable && { 204: { description: "The session has ended, and all its events were sent." } }),
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
  const others =
    "Any request can fail with: a missing token, a body that is too large, too many requests, or a store failure.";
  responses["default"] = { description: others, content: { "application/json": { schema: schema("Error") } } };
  return responses;
}

/** Moves a schema to a different place in the document and adjusts its internal references. */
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
