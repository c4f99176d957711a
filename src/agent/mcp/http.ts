// An MCP server over HTTP: one request per message. The response is JSON or a stream of events.
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { invalidOption, type HoldfastError } from "../../core/errors.ts";
import { exchange, ExchangeError, type Answer } from "../../io/exchange.ts";
import { parseEvents } from "../../models/wire/sse.ts";
import {
  answerTo,
  hasNoInitialize,
  initializeParams,
  isModern,
  legacyVersion,
  modernVersion,
  parseReply,
  resultOf,
  serverFailed,
  withMeta,
  type Greeting,
  type RpcCall,
  type RpcReply,
} from "./rpc.ts";

/**
 * Maximum number of attempts, and milliseconds before the second attempt. A request is repeated only if it did not
 * reach the server, or may safely reach the server twice.
 */
const attempts = 4;
const firstPause = 100;

interface Answered {
  status: number;
  session: string | undefined;
  reply: RpcReply | undefined;
  /** The body, unless it is a stream. */
  text?: string;
}

export function createHttpServer(url: string, headers: { [name: string]: string }) {
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw invalidOption(`"${url}" is not a valid MCP server URL; use a URL such as http://localhost:8080/mcp`);
  }
  const { origin, pathname, search } = new URL(url);
  let lastId = 0;

  async function post(
    body: { id?: unknown; [key: string]: unknown },
    more: { [name: string]: string },
    call: RpcCall,
  ): Promise<Answered> {
    const request = {
      origin,
      path: pathname + search,
      headers: {
        ...headers,
        ...more,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify(body),
      limits: { timeout: call.timeout, idle: call.timeout },
      signal: call.signal,
    };
    /** Answers a request of the server. If this fails, the call continues, because the server may not wait for it. */
    const respond = (data: string): void => {
      // Only during a request. Otherwise, a server that answers each answer with a request would get answers forever.
      const reply = body["method"] === undefined ? undefined : answerTo(data);
      if (reply) void post({ jsonrpc: "2.0", ...reply }, more, call).catch(() => undefined);
    };
    for (let attempt = 1; ; attempt++) {
      try {
        const answered = await new Promise<Answered>((resolve, reject) => {
          const read = async (answer: Answer): Promise<Answered> => {
            const { status, headers } = answer;
            const session = [headers["mcp-session-id"]].flat()[0];
            // The call does not wait for the rest of the stream.
            const take = (reply: RpcReply): void => resolve({ status, session, reply });
            const isStream = /^text\/event-stream/i.test(String(headers["content-type"]));
            if (isStream) return { status, session, reply: await readStream(answer, body.id, take, respond) };
            const text = await answer.text();
            return { status, session, text, reply: replyIn(text, body.id) };
          };
          exchange(request, read).then(resolve, reject);
        });
        if (answered.status !== 503 || !call.isRepeatable || attempt === attempts) return answered;
      } catch (thrown) {
        if (!(thrown instanceof ExchangeError)) throw thrown;
        const mayRepeat = thrown.kind === "connection" && (call.isRepeatable || !thrown.isSent);
        if (!mayRepeat || attempt === attempts)
          throw serverFailed(`the MCP server at ${origin} ${thrown.message}`, thrown.isSent, thrown);
      }
      await delay(firstPause * 2 ** (attempt - 1), undefined, { signal: call.signal });
    }
  }

  function send(greeting: Greeting | undefined, call: RpcCall): Promise<Answered> {
    const id = ++lastId;
    const { method } = call;
    const params = greeting && isModern(greeting) ? withMeta(call.params) : call.params;
    return post({ jsonrpc: "2.0", id, method, params }, greetingHeaders(greeting, call), call);
  }

  const noMessage = (status: number): HoldfastError =>
    serverFailed(
      `the MCP server at ${origin} answered with status ${status}, without a JSON-RPC message`,
      // A server that redirects or refuses a request has not run it.
      status < 300 || status >= 500,
    );

  return {
    name: `at ${origin}`,
    /** Initializes a connection, with the protocol version that the server supports. */
    async greet(call: Omit<RpcCall, "method" | "params">): Promise<Greeting> {
      const opening = { ...call, method: "initialize", params: initializeParams };
      const { status, session, reply } = await send(undefined, opening);
      if (!reply) throw noMessage(status);
      if (hasNoInitialize(reply)) return { version: modernVersion };
      const { protocolVersion } = resultOf(this.name, reply, opening.method);
      const version = typeof protocolVersion === "string" ? protocolVersion : legacyVersion;
      const greeting: Greeting = { version, ...(session !== undefined && { session }) };
      const notice = { ...opening, method: "notifications/initialized", params: {} };
      await post({ jsonrpc: "2.0", method: notice.method }, greetingHeaders(greeting, notice), notice);
      return greeting;
    },
    /** Sends a request. Returns undefined if the server does not know the session. */
    async request(greeting: Greeting, call: RpcCall): Promise<RpcReply | undefined> {
      const answered = await send(greeting, call);
      const { status, reply } = answered;
      if (greeting.session !== undefined && isLost(answered)) return undefined;
      if (!reply) throw noMessage(status);
      return { ...reply, status };
    },
    close: (): Promise<void> => Promise.resolve(),
  };
}

/**
 * Returns whether the server does not know the request's session, so that it has not run the request. The status 404 is
 * enough. Servers with the official SDK say it with status 400, also as plain text.
 */
function isLost({ status, reply, text = "" }: Answered): boolean {
  const { code, message } = reply?.error ?? { code: -32000, message: text };
  const isRefusal = status === 400 && (code === -32000 || code === -32600);
  return status === 404 || (isRefusal && /session id|not initialized/i.test(message));
}

/** Parses a message. Returns it if it is the reply to a request. An error may have the id `null`. */
function replyIn(text: string, id: unknown): RpcReply | undefined {
  const reply = parseReply(text);
  return reply?.id === id || reply?.id === null ? reply : undefined;
}

/**
 * Reads the reply to a request. `take` gets the reply while its stream is still open, and `other` gets the messages
 * before it.
 */
async function readStream(
  answer: Answer,
  id: unknown,
  take: (reply: RpcReply) => void,
  other: (data: string) => void,
): Promise<RpcReply | undefined> {
  let reply: RpcReply | undefined;
  try {
    for await (const data of parseEvents(answer.stream())) {
      // After the reply, the rest is read and ignored for a moment, so that the connection can be reused.
      if (reply) continue;
      reply = replyIn(data, id);
      if (!reply) {
        other(data);
        continue;
      }
      answer.finish();
      // Waits for the next turn of the event loop. If the stream has ended by then, its connection is free.
      void nextTurn(reply).then(take);
    }
  } catch (thrown) {
    if (!reply) throw thrown;
  }
  return reply;
}

function greetingHeaders(greeting: Greeting | undefined, { method, params }: RpcCall): { [name: string]: string } {
  if (!greeting) return {};
  const headers: { [name: string]: string } = { "mcp-protocol-version": greeting.version };
  if (greeting.session !== undefined) headers["mcp-session-id"] = greeting.session;
  if (!isModern(greeting)) return headers;
  const name = params["name"];
  headers["mcp-method"] = method;
  if (typeof name === "string") headers["mcp-name"] = headerValue(name);
  return headers;
}

/** Encodes a header value that contains characters other than visible ASCII. */
const headerValue = (text: string): string =>
  /^[\x21-\x7e]+$/.test(text) ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
