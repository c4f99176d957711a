// MCP clients without a port: the official SDKs on a fetch that calls the app, and plain JSON-RPC requests.
import { createSessions, memoryStore, type Sessions, type Store } from "holdfast";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { HoldfastError } from "../../src/core/errors.ts";
import type { Protocol, Reply, Request as HostRequest } from "../../src/core/protocol.ts";
import { gymProtocol } from "../../src/protocols/gym.ts";
import { mcpProtocol, type McpProtocolOptions } from "../../src/protocols/mcp.ts";
import { createBindings, type Bindings } from "../../src/protocols/mcp.ts";
import { restProtocol } from "../../src/protocols/rest.ts";
import { aggregate } from "../../src/rollout/metrics.ts";
import type { App } from "../../src/server/app.ts";
import { appOf } from "../server/serving.ts";
import { tokensOf } from "./gym-client.ts";
import { connectFirst, connectSecond } from "./sdk-clients.mjs";

export const modern = "2026-07-28";
export const origin = "http://localhost:8080";

/** One replica: an engine on a store, with the protocols of a server. */
export interface Replica<E extends AnyEnvironment = AnyEnvironment> {
  sessions: Sessions<E>;
  bindings: Bindings;
  app: App;
  fetch: typeof fetch;
}

export function replicaOf<E extends AnyEnvironment>(
  environment: E,
  options: { store?: Store; pace?: McpProtocolOptions["pace"]; protocols?: Protocol[] } = {},
): Replica<E> {
  const { store = memoryStore(), pace, protocols = [] } = options;
  const sessions = createSessions({ environment, store, keepEnded: true });
  const tokens = tokensOf();
  const bindings = createBindings(environment.name, tokens);
  const served = [
    ...protocols,
    mcpProtocol({ sessions, bindings, version: "1.2.3", ...(pace && { pace }) }),
    gymProtocol({ sessions, tokens, bindings, aggregate }),
    restProtocol({ sessions, bindings }),
  ];
  const mounts = [
    { prefix: "", protocols: served },
    { prefix: `/${environment.name}`, protocols: served },
  ];
  const app = appOf([], { mounts, store });
  return { sessions, bindings, app, fetch: fetchOf(app) };
}

/** A fetch that calls an app. Aborting it means that the client leaves. */
export function fetchOf(app: App): typeof fetch {
  return async (target, init = {}) => {
    const url = new URL(target instanceof Request ? target.url : target);
    const headers = Object.fromEntries([...new Headers(init.headers)].map(([name, value]) => [name, value]));
    const leaving = new AbortController();
    const request: HostRequest = {
      method: (init.method ?? "GET").toUpperCase(),
      path: url.pathname,
      query: url.searchParams,
      headers: { host: url.host, ...headers },
      body: undefined,
      signal: leaving.signal,
    };
    let leave = (): void => undefined;
    const left = new Promise<never>((_, reject) => {
      leave = () => {
        leaving.abort();
        request.gone?.();
        reject(init.signal?.reason as Error);
      };
    });
    init.signal?.addEventListener("abort", leave);
    const reply = await Promise.race([handled(app, request, init.body), left]);
    // A client may still leave during a stream.
    if (!reply.headers.get("content-type")?.startsWith("text/event-stream"))
      init.signal?.removeEventListener("abort", leave);
    return reply;
  };
}

async function handled(app: App, request: HostRequest, body: unknown): Promise<Response> {
  try {
    if (typeof body === "string") request.body = JSON.parse(body);
  } catch (cause) {
    return responseOf(app.refuse(request, new HoldfastError("invalid_json", "the body is not JSON", { cause })));
  }
  return responseOf(await app.handle(request));
}

function responseOf({ status, headers = {}, body, text, stream }: Reply): Response {
  if (stream) {
    const content = ReadableStream.from(encoded(stream));
    return new Response(content, { status, headers: { "content-type": "text/event-stream", ...headers } });
  }
  const written = text ?? (body === undefined ? null : JSON.stringify(body));
  return new Response(written, {
    status,
    headers: { ...(written !== null && { "content-type": "application/json" }), ...headers },
  });
}

async function* encoded(stream: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const part of stream) yield new TextEncoder().encode(part);
}

export interface ClientOptions {
  path?: string;
  headers?: { [name: string]: string };
}

/** The client of the SDK's first line, which speaks the era with `initialize`. */
export const clientV1 = ({ fetch }: Pick<Replica, "fetch">, { path = "/mcp", headers = {} }: ClientOptions = {}) =>
  connectFirst(new URL(path, origin), { fetch, headers });

/** The client of the SDK's second line, in the era of choice. */
export const clientV2 = (
  { fetch }: Pick<Replica, "fetch">,
  { path = "/mcp", headers = {}, era }: ClientOptions & { era: "legacy" | "modern" },
) => connectSecond(new URL(path, origin), { fetch, headers, era });

export interface Asked {
  method?: string;
  params?: object;
  id?: string | number | null;
  era?: "legacy" | "modern";
  path?: string;
  headers?: { [name: string]: string };
  /** Sent instead of a JSON-RPC message. */
  body?: unknown;
  verb?: string;
}

/** Sends one request as a client would, in the era with `initialize` by default. */
export async function ask({ fetch }: Pick<Replica, "fetch">, asked: Asked) {
  const { method = "tools/list", params = {}, id = 1, era = "legacy", path = "/mcp", verb = "POST" } = asked;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": modern,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...(params as { [key: string]: object })["_meta"],
  };
  const name = (params as { name?: unknown }).name;
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(era === "modern" && { "mcp-protocol-version": modern, "mcp-method": method }),
    ...(era === "modern" && typeof name === "string" && { "mcp-name": name }),
    ...asked.headers,
  };
  const sent = era === "modern" ? { ...params, _meta: meta } : params;
  const message = "body" in asked ? asked.body : { jsonrpc: "2.0", ...(id !== null && { id }), method, params: sent };
  const body = verb === "POST" ? { body: typeof message === "string" ? message : JSON.stringify(message) } : {};
  const response = await fetch(new URL(path, origin), { method: verb, headers, ...body });
  const text = await response.text();
  // eslint-disable-next-line typescript/no-explicit-any -- tests inspect any shape
  const json: any = text === "" ? undefined : text.startsWith("event:") ? undefined : JSON.parse(text);
  return { status: response.status, headers: response.headers, text, json };
}
