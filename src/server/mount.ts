// mount(): serves environments and agents inside another server, as a handler of node:http and as a web fetch handler.
import { randomBytes } from "node:crypto";
import { IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { errorReply, type Reply } from "../core/protocol.ts";
import { assemble, servedOptions, type ServedOptions } from "./assemble.ts";
import { hasBody } from "./body.ts";
import { serveExchanges } from "./host.ts";
import { limitsWith } from "./limits.ts";
import { sendWhole } from "./send.ts";
import { serveSockets } from "./sockets.ts";
import type { UserToken } from "./user-tokens.ts";
import { serveFetch } from "./web.ts";

export interface MountOptions extends ServedOptions {
  /** The path of the app as clients see it, such as "/holdfast". Default: the root of the server. */
  at?: string;
  /** Bearer token required by /v1 and /metrics. Default: a new one, which `Mounted.token` has. */
  token?: string | undefined;
}

export interface Mounted {
  /** The bearer token that opens everything. */
  readonly token: string;
  /**
   * Signs a token that opens only the conversations of one user. `expires`: in milliseconds since 1970; by default in
   * 24 hours.
   */
  userToken(user: string, expires?: number): UserToken;
  /**
   * Answers a request of node:http, or of Express as middleware. Calls `next` for a path outside the app. Without
   * `next`, such a path gets a 404.
   */
  node(incoming: IncomingMessage, response: ServerResponse, next?: () => void): void;
  /** Accepts a WebSocket: `server.on("upgrade", mounted.upgrade)`. Returns false for a path outside the app. */
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** Answers a web Request, for example in Hono, Bun, Deno or a route handler of Next.js. */
  fetch(request: Request): Promise<Response>;
  /** Refuses new requests and finishes active ones. A second close gives up on them. The store stays open. */
  close(): Promise<void>;
}

/**
 * Serves environments and agents inside your own server. Everything that `serve` serves is below the path `at`.
 *
 * @example
 * const mounted = await mount({ environments: [counter], store, at: "/holdfast" });
 * createServer((request, response) => mounted.node(request, response)).listen(8080);
 */
export async function mount(options: MountOptions): Promise<Mounted> {
  refuseUnknown("mount", options, { ...servedOptions, at: true }, invalidOption);
  const { at = "", token = randomBytes(24).toString("base64url") } = options;
  if (at !== "" && !/^(?:\/[\w.~-]+)+$/.test(at)) {
    throw invalidOption(`${JSON.stringify(at)} is not a valid path to mount at; use a path such as /holdfast`);
  }
  const limits = limitsWith(options.limits);
  const { app, userToken, close } = await assemble({ ...options, at, token });
  const exchanges = serveExchanges(app, limits);
  const sockets = serveSockets(app, limits, (socket) => {
    (socket as Socket & { server?: Server }).server?.emit("connection", socket);
  });
  const web = serveFetch(app, limits);
  let closing: Promise<void> | undefined;

  /** Returns the path and query below `at`; undefined if they are elsewhere. */
  function targetIn(target: string): string | undefined {
    if (!target.startsWith(at)) return undefined;
    const rest = target.slice(at.length);
    if (rest === "" || rest[0] === "?") return `/${rest}`;
    return rest[0] === "/" ? rest : undefined;
  }

  const elsewhere = (path: string): Reply =>
    errorReply(new HoldfastError("not_found", `${ellipsis(path, 200)} is outside ${at}`));

  return {
    token,
    userToken,
    node(incoming, response, next) {
      const target = fullTarget(incoming);
      const inside = targetIn(target);
      if (inside === undefined) {
        return next ? next() : sendWhole(response, elsewhere(target), limits.keepAlive);
      }
      // Without this field, `sendWhole` leaves the head to Node, which adds the headers of the app's middleware.
      Reflect.deleteProperty(response, "_headerSent");
      const isRead = incoming.readableEnded && hasBody(incoming);
      const body = isRead ? parsedBody(incoming) : undefined;
      if (isRead && body === undefined) return sendWhole(response, errorReply(bodyTaken()), limits.keepAlive);
      const request = body === undefined ? incoming : readAgain(incoming, body);
      request.url = inside;
      exchanges.begin(request, response);
    },
    upgrade(incoming, socket, head) {
      const inside = targetIn(fullTarget(incoming));
      if (inside === undefined) return false;
      // Only a WebSocket gets the path below `at`. Requests for other protocols are served again with their whole path.
      if (incoming.headers.upgrade?.toLowerCase() === "websocket") incoming.url = inside;
      sockets.upgrade(incoming, socket, head);
      return true;
    },
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const inside = targetIn(pathname + search);
      if (inside !== undefined) return web.answer(request, inside);
      const { status, body } = elsewhere(pathname);
      return Response.json(body, { status });
    },
    close() {
      if (closing) {
        exchanges.abandon();
        sockets.abandon();
        web.abandon();
        return closing;
      }
      app.stop();
      closing = close(async () => {
        await Promise.all([exchanges.stop(), sockets.stop(), web.stop()]);
      });
      return closing;
    },
  };
}

/** Returns the whole path and query. Express takes the path of a router out of `url`. */
const fullTarget = (incoming: IncomingMessage & { originalUrl?: string }): string =>
  incoming.originalUrl ?? incoming.url ?? "/";

/** Returns the body that a parser of the app has read: bytes, text, or a value. */
function parsedBody({ body }: IncomingMessage & { body?: unknown }): string | Uint8Array | undefined {
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  return body === undefined ? undefined : JSON.stringify(body);
}

const bodyTaken = (): HoldfastError =>
  new HoldfastError(
    "invalid_request",
    "the app read the body before Holdfast could; mount Holdfast before the app's body parsers",
  );

/** Returns a request whose body was read before, with that body. */
function readAgain(incoming: IncomingMessage, body: string | Uint8Array): IncomingMessage {
  const again = new IncomingMessage(incoming.socket);
  const { method, headers, rawHeaders, httpVersionMajor, httpVersionMinor } = incoming;
  Object.assign(again, { method, headers, rawHeaders, httpVersionMajor, httpVersionMinor, complete: true });
  again.push(body);
  again.push(null);
  return again;
}
