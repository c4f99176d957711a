// mcpProtocol(): serves an environment's tools as an MCP server. Older and stateless MCP clients use the same path.
import { dropOldest } from "../core/drop-oldest.ts";
import { HoldfastError, isForModel, isHoldfastError } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import type { DecoratingProtocol, Reply, Request } from "../core/protocol.ts";
import type { Answer, CallOptions, Sessions } from "../core/sessions.ts";
import { readMetaCall } from "./http/call-id.ts";
import { keptCookie } from "./http/cookie.ts";
import { isMcpPath, refusalOf, type Binding, type Bindings } from "./http/mcp-binding.ts";
import { createCancellation } from "./mcp/cancel.ts";
import { isModern, legacyFault, legacyVersions, metaOf, modernFault, modernVersions } from "./mcp/era.ts";
import {
  codes,
  faultReply,
  invalidParams,
  isFault,
  readMessage,
  resultBody,
  toFault,
  type Fault,
  type Id,
  type Message,
} from "./http/json-rpc.ts";
import { defaultPace, withProgress, type Pace } from "./mcp/progress.ts";
import { failedResult, toResult, type ToolResult } from "./mcp/tools.ts";
import { listTools } from "./http/tool-list.ts";

export { createBindings, type Binding, type Bindings, type McpAddress } from "./http/mcp-binding.ts";
export type { Pace } from "./mcp/progress.ts";

export interface McpProtocolOptions {
  sessions: Sessions;
  /** Reads and issues session tokens: `createBindings`. */
  bindings: Bindings;
  /** The server's version, for its clients. */
  version: string;
  /** Refuses clients without a token. Otherwise, such a client gets its own session. */
  isBoundOnly?: boolean;
  /** When a long call's answer becomes a stream with progress notifications. */
  pace?: Pace;
}

/** A request with an id, after its session was identified. A client may have no session. */
interface Exchange {
  request: Request;
  message: Message & { id: Id; method: string };
  binding: Binding | undefined;
  isModern: boolean;
}

/** Milliseconds for which clients may cache the list of tools. */
const listLifetime = 60_000;
/** Maximum number of unbound clients' sessions to remember. */
const mostBegun = 100_000;

/**
 * Serves one environment's sessions. A signed token binds a client to a session. An unbound client that starts with
 * `initialize` gets its own session.
 *
 * @example
 * const bindings = createBindings(environment.name, tokens);
 * const protocol = mcpProtocol({ sessions, bindings, version: "1.0.0" });
 * const reply = await protocol.handle(request);
 */
export function mcpProtocol({
  sessions,
  bindings,
  version,
  isBoundOnly = false,
  pace = defaultPace,
}: McpProtocolOptions): DecoratingProtocol {
  const { environment } = sessions;
  const tools = listTools(environment);
  const known = tools.map(({ name }) => name).join(", ") || "none";
  const serverInfo = { name: environment.name, version };
  const resultMeta = { "io.modelcontextprotocol/serverInfo": serverInfo };
  const needsSeed = environment.unseeded === "guard" && environment.state !== undefined;
  const cancellation = createCancellation();
  /** Unbound clients' sessions that this process used or ended. If the store deletes one, it is not opened again. */
  const begun = new Set<string>();
  const remember = (session: string): void => {
    begun.add(session);
    dropOldest(begun, mostBegun);
  };
  const mayOpen = (session: string): boolean => !begun.has(session) && bindings.mayOpen(session);

  function instructions(binding: Binding | undefined): { instructions?: string } {
    const text = [environment.description, binding ? "" : howToBind].filter(Boolean).join("\n\n");
    return text === "" ? {} : { instructions: text };
  }

  function initialize({ message, binding }: Exchange): Reply {
    const asked = message.params["protocolVersion"];
    const protocolVersion = legacyVersions.find((served) => served === asked) ?? legacyVersions.at(-1);
    const { description } = environment;
    const result = {
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo,
      ...(description && { instructions: description }),
    };
    const reply: Reply = { status: 200, body: resultBody(message.id, result) };
    // A bound client gets no session id, because it could use the id to end the episode.
    if (!binding) reply.headers = { "mcp-session-id": bindings.issueOwn(sessions.newSession()) };
    return reply;
  }

  async function serveLegacy(exchange: Exchange): Promise<Reply> {
    const { message, binding } = exchange;
    const { id, method } = message;
    if (method === "initialize") return initialize(exchange);
    if (method === "tools/call") return callTool(exchange);
    await assertKnown(binding);
    if (method === "ping") return { status: 200, body: resultBody(id, {}) };
    if (method === "tools/list") return { status: 200, body: resultBody(id, { tools: allowed(binding) }) };
    return faultReply(id, unknownMethod(method, 200));
  }

  async function serveModern(exchange: Exchange): Promise<Reply> {
    const { message, binding } = exchange;
    const { id, method } = message;
    if (method === "tools/call") return callTool(exchange);
    if (method === "tools/list") {
      const cacheScope = binding?.tools ? "private" : "public";
      const result = { tools: allowed(binding), ttlMs: listLifetime, cacheScope };
      return { status: 200, body: resultBody(id, complete(result)) };
    }
    if (method !== "server/discover") return faultReply(id, unknownMethod(method, 404));
    const capabilities = { tools: {} };
    const found = { supportedVersions: modernVersions, capabilities, ttlMs: listLifetime, cacheScope: "public" };
    return { status: 200, body: resultBody(id, complete({ ...found, ...instructions(binding) })) };
  }

  const complete = ({ _meta: meta, ...result }: { [key: string]: unknown; _meta?: object }): object => ({
    resultType: "complete",
    ...result,
    _meta: { ...meta, ...resultMeta },
  });

  const allowed = (binding: Binding | undefined): typeof tools =>
    binding?.tools ? tools.filter(({ name }) => binding.tools?.includes(name)) : tools;

  /** Refuses an unbound client's session that has ended. */
  async function assertKnown(binding: Binding | undefined): Promise<void> {
    if (!binding?.isOwn) return;
    const info = await sessions.peek(binding.session);
    if (info ? info.ended : !mayOpen(binding.session)) throw ended(binding.session);
  }

  function callTool(exchange: Exchange): Reply | Promise<Reply> {
    const { request, message, binding, isModern } = exchange;
    const { id, params } = message;
    const { name } = params;
    // Some clients send null for a tool without arguments.
    const input = params["arguments"] ?? {};
    if (typeof name !== "string") return faultReply(id, invalidParams("params.name must be a tool name", 400));
    if (!isObject(input)) return faultReply(id, invalidParams("params.arguments must be an object", 400));
    if (!binding) return faultReply(id, invalidParams(isModern ? howToBind : noSession, 400));
    if (binding.tools?.includes(name) === false) {
      return resultReply(exchange, failedResult(refusalOf(name, binding.tools), "unknown_tool"));
    }
    const { session } = binding;
    const meta = metaOf(message);
    const call = readMetaCall(meta);
    const about = { session, ...(call !== undefined && { call }) };
    const send = async (options: CallOptions): Promise<Reply> => {
      let reply: Reply;
      try {
        const answer = await applied(binding, name, input, options);
        if (!answer) reply = resultReply(exchange, unknownTool(name));
        else if (answer.ok) reply = resultReply(exchange, toResult(answer.output));
        else reply = failedReply(exchange, new HoldfastError(answer.error.code, answer.error.message));
        if (answer?.repeated) reply.headers = { ...reply.headers, "holdfast-repeated": "true" };
      } catch (thrown) {
        if (!isHoldfastError(thrown)) throw thrown;
        reply = failedReply(exchange, thrown);
      }
      reply.about = about;
      return reply;
    };
    // A stateless client cancels by disconnecting. An older client cancels with a notification. A call that only
    // changes the state is not cancelled, as in the gym protocol, because a signal costs a tenth of a call's time.
    const isCancellable = (environment.definitions.get(name)?.kind ?? "state") !== "state";
    const start = (onProgress?: CallOptions["onProgress"]): Promise<Reply> => {
      const options: CallOptions = { seeded: needsSeed && !binding.isOwn, onProgress };
      if (call !== undefined) options.call = call;
      if (!isCancellable) return send(options);
      if (isModern) return send({ ...options, signal: request.signal });
      return cancellation.run(session, id, (signal) => send({ ...options, signal }));
    };
    const isStreamable = request.headers["accept"]?.includes("text/event-stream") === true;
    return isStreamable ? withProgress(start, meta["progressToken"], pace) : start();
  }

  /** Calls a tool. An unbound client's first call opens its session. Returns undefined if the tool does not exist. */
  async function applied(
    { session, isOwn }: Binding,
    tool: string,
    input: object,
    options: CallOptions,
  ): Promise<Answer | undefined> {
    try {
      const answer = await sessions.call(session, tool, input, options);
      if (isOwn) remember(session);
      return answer;
    } catch (thrown) {
      if (!isOwn || !isHoldfastError(thrown) || thrown.code !== "session_not_found") throw thrown;
      if (!mayOpen(session)) throw thrown;
    }
    // An unknown tool opens no session. Otherwise, a client that only guesses tool names could fill the store.
    if (!environment.definitions.has(tool)) return undefined;
    await open(session);
    return sessions.call(session, tool, input, options);
  }

  /** Opens an unbound client's session, unless another process has just opened it. */
  async function open(session: string): Promise<void> {
    try {
      await sessions.open({ session });
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "session_exists") throw thrown;
    }
    remember(session);
  }

  const unknownTool = (name: string): ToolResult =>
    failedResult(`there is no tool "${name}"; the tools are: ${known}`, "unknown_tool");

  function resultReply({ message, isModern }: Exchange, result: ToolResult): Reply {
    return { status: 200, body: resultBody(message.id, isModern ? complete(result) : result) };
  }

  /** Answers a failed call with a result, if the model should read the failure, and otherwise with an error. */
  function failedReply(exchange: Exchange, thrown: HoldfastError): Reply {
    const { code, message } = thrown;
    return isForModel(code) ? resultReply(exchange, failedResult(message, code)) : failureReply(exchange, thrown);
  }

  /** Answers a failure that the model did not cause with a JSON-RPC error, never with a tool result. */
  function failureReply({ message, binding }: Pick<Exchange, "message" | "binding">, thrown: HoldfastError): Reply {
    const fault = toFault(thrown);
    // This status tells a client with its own session that it has to initialize again.
    if (binding?.isOwn && fault.code === codes.session) fault.status = 404;
    // A cancelled call gets status 200. With status 408, clients would retry it, although they cancelled it.
    if (thrown.code === "call_cancelled") fault.status = 200;
    const reply: Reply = { ...faultReply(message.id, fault), thrown };
    if (fault.status === 503 || fault.status === 429) reply.headers = { "retry-after": "1" };
    if (binding) reply.about = { session: binding.session };
    return reply;
  }

  /** Ends an unbound client's session. A bound client's session is an episode, which the client that seeded it ends. */
  async function end(request: Request): Promise<Reply> {
    const binding = bindings.find(request, false);
    if (binding === null) return faultReply(undefined, unknownSession);
    if (!binding?.isOwn) return refusedMethod(request.method);
    const { session } = binding;
    await sessions.close(session);
    remember(session);
    return { status: 200 };
  }

  /** Answers a request. Returns undefined for a gym agent whose model made up a tool named "mcp". */
  async function answer(request: Request): Promise<Reply | undefined> {
    if (request.method === "DELETE") return end(request);
    if (request.method !== "POST") return refusedMethod(request.method);
    const { headers } = request;
    const message = readMessage(request.body);
    if (isFault(message)) return bindings.find(request, false)?.cookie ? undefined : faultReply(undefined, message);
    const { id, method } = message;
    if (headers["accept"] !== undefined && !/json|\*/.test(headers["accept"])) return faultReply(id, notAcceptable);
    const binding = bindings.find(request, method === "initialize");
    if (binding === null) return faultReply(id, unknownSession);
    if (!binding && isBoundOnly) return faultReply(id, unbound);
    if (id === undefined || method === undefined) {
      if (method === "notifications/cancelled" && binding) {
        cancellation.cancel(binding.session, message.params["requestId"]);
      }
      return { status: 202 };
    }
    const isNow = isModern(headers, message);
    const fault = isNow ? modernFault(headers, message) : method === "initialize" ? undefined : legacyFault(headers);
    if (fault) return faultReply(id, fault);
    const exchange: Exchange = { request, message: { ...message, id, method }, binding, isModern: isNow };
    try {
      return await (isNow ? serveModern(exchange) : serveLegacy(exchange));
    } catch (thrown) {
      if (!isHoldfastError(thrown)) throw thrown;
      return failureReply(exchange, thrown);
    }
  }

  /** Sets the client's session cookie again in the reply. */
  async function withCookie(request: Request, answered: Promise<Reply | undefined>): Promise<Reply | undefined> {
    const reply = await answered;
    if (!reply || request.headers["cookie"] === undefined) return reply;
    const { cookie } = bindings.find(request, false) ?? {};
    return cookie === undefined ? reply : { ...reply, headers: { ...reply.headers, "set-cookie": keptCookie(cookie) } };
  }

  return {
    name: "mcp",
    handle(request) {
      return isMcpPath(request.path) ? withCookie(request, answer(request)) : undefined;
    },
    decorate(request, reply) {
      const { error } = Object(reply.body) as { error?: HoldfastError };
      if (!isMcpPath(request.path) || typeof error?.code !== "string") return reply;
      const { code, message, detail } = error;
      return { ...reply, ...faultReply(undefined, toFault({ code, message, detail, status: reply.status })) };
    },
  };
}

const howToBind =
  "The request names no session. Open one with POST /seed_session or POST /v1/sessions. The reply has an `mcp` field: " +
  "send its `headers` with every request, or use its `bound_url_path` as the path of this server.";
const noSession =
  "the request names no session; send the Mcp-Session-Id header from the reply to initialize, or bind the client to a session";

const unknownSession: Fault = {
  status: 404,
  code: codes.session,
  message: "the session token is not valid; initialize again, or use the token from the reply that opened the session",
};

const unbound: Fault = {
  status: 401,
  code: codes.session,
  message: "the request has no session token; use the address that the episode's harness was given",
};

const notAcceptable: Fault = {
  status: 406,
  code: codes.invalidRequest,
  message: "the reply can only be JSON or an event stream; send accept: application/json, text/event-stream",
};

const ended = (session: string): HoldfastError =>
  new HoldfastError("session_closed", `session ${session} has ended; initialize again`, { detail: { session } });

const unknownMethod = (method: string, status: number): Fault => ({
  status,
  code: codes.methodNotFound,
  message: `the method ${method.slice(0, 100)} is not supported`,
});

function refusedMethod(method: string): Reply {
  const message = `${method} is not supported here; use POST`;
  const reply = faultReply(undefined, { status: 405, code: codes.invalidRequest, message });
  return { ...reply, headers: { allow: "POST" } };
}
