// listen(): the HTTP/1.1 host. Turns bytes into requests and replies into bytes, and enforces the limits.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { HoldfastError } from "../core/errors.ts";
import type { Reply } from "../core/protocol.ts";
import type { App } from "./app.ts";
import { bodyFault, hasBody } from "./body.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { HostRequest, hostFault, parseFault } from "./request.ts";
import { sendRefusal, sendStream, sendWhole } from "./send.ts";
import { serveSockets } from "./sockets.ts";
import { createTurns } from "./turns.ts";
import { createUnread, type Sent } from "./unread.ts";
import { createUploads, type Upload } from "./uploads.ts";

export interface ListenOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free port. */
  port: number;
  limits?: Partial<Limits>;
}

export interface Host {
  /** For example http://127.0.0.1:8080, without a trailing slash. */
  readonly url: string;
  /**
   * Refuses new calls, finishes calls in flight, and resolves when everything is closed. A second close ends
   * immediately.
   */
  close(): Promise<void>;
}

/** A request and its reply, from the headers until the connection accepts the last byte. */
interface Exchange {
  request: HostRequest;
  incoming: IncomingMessage;
  response: ServerResponse;
  /** The tick at which the request arrived, or at which the reply was sent. */
  since: number;
  /** The body while it is arriving. Until it is complete, the exchange does not count among the active requests. */
  upload?: Upload | undefined;
  /** True if the exchange counts as an active request. */
  placed: boolean;
  /** True when the connection closes after this exchange. */
  last: boolean;
  /** Index in the list of active exchanges; -1 after the exchange has ended. */
  at: number;
  reply?: Reply;
  endStream?: () => void;
}

/** Serves an app on a port. */
export async function listen(app: App, { host = "127.0.0.1", port, limits: given }: ListenOptions): Promise<Host> {
  const limits = limitsWith(given);
  const exchanges = serveExchanges(app, limits);
  const server = createServer(
    {
      keepAliveTimeout: limits.keepAlive,
      headersTimeout: limits.requestTimeout,
      // A slow body gets Holdfast's own error within `requestTimeout`. Node's limit is only for discarded bodies.
      requestTimeout: limits.requestTimeout + 5_000,
      connectionsCheckingInterval: Math.min(1_000, Math.ceil(limits.requestTimeout / 4)),
      maxHeaderSize: limits.headers,
      // `hostFault` checks the Host header and sends Holdfast's own error.
      requireHostHeader: false,
    },
    (incoming, response) => exchanges.begin(incoming, response),
  );
  server.on("clientError", exchanges.malformed);
  // New connections are read in turns. Otherwise, Node parses all requests of one connection before it serves the next.
  const readInTurn = createTurns(connectionsPerTurn);
  server.on("connection", (socket) => {
    socket.pause();
    readInTurn(() => socket.resume());
  });
  server.on("checkContinue", (incoming, response) => exchanges.begin(incoming, response, "continue"));
  server.on("checkExpectation", (incoming, response) => exchanges.begin(incoming, response, "unknown"));
  const sockets = serveSockets(app, limits, (socket) => server.emit("connection", socket));
  server.on("upgrade", sockets.upgrade);
  await started(server, host, port);
  server.on("error", (error) => app.log.error("the server failed", error));

  const closed = new Promise<void>((resolve) => server.once("close", resolve));
  let closing = false;
  return {
    url: toUrl(server.address() as AddressInfo),
    close() {
      if (closing) {
        server.closeAllConnections();
        exchanges.abandon();
        sockets.abandon();
        return closed;
      }
      closing = true;
      app.stop();
      // Only stops listening. Closing the HTTP server would cut idle connections on which a request may be arriving.
      NetServer.prototype.close.call(server);
      void Promise.all([exchanges.stop(), sockets.stop()]).then(() => {
        server.close(() => undefined);
        // The remaining connections have sent nothing, or only part of a request.
        server.closeAllConnections();
      });
      return closed;
    },
  };
}

function started(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, backlog: 1_024 }, () => {
      server.removeListener("error", reject);
      resolve();
    });
  });
}

function toUrl({ address, family, port }: AddressInfo): string {
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

/** Number of new connections that are first read in one turn of the event loop. */
const connectionsPerTurn = 4;
/** Number of pipelined requests that are served in one turn of the event loop. */
const pipelinedPerTurn = 4;

const sentOn = ({ reply, since, response: { socket } }: Exchange): Sent[] =>
  reply && socket ? [{ connection: socket, since }] : [];

const isProbe = (path: string): boolean => path === "/healthz" || path === "/readyz";

/** Tracks one server's active exchanges. */
export function serveExchanges(app: App, limits: Limits) {
  const { metrics } = app;
  // An array, whose last entry fills a gap. A Set would keep ended exchanges in its old hash tables.
  const active: Exchange[] = [];
  let ticks = 0;
  let streams = 0;
  let allDone: (() => void) | undefined;
  let ready: { exchange: Exchange; reply: Reply }[] = [];
  const tick = Math.min(1_000, Math.ceil(limits.requestTimeout / 4));
  const uploads = createUploads({ limits, tick, metrics });
  const cutUnread = createUnread(limits, tick);
  const serveInTurn = createTurns(pipelinedPerTurn);
  const readInTurn = createTurns(1);
  /** For each connection: the number of requests that wait for earlier ones, and whether its next bytes wait. */
  const lines = new WeakMap<Socket, { waiting: number; isPaused: boolean }>();
  metrics.places = limits.maxInflight;

  // One interval for all exchanges, because a timer per body would cost more than most bodies.
  const clock = setInterval(() => {
    ticks++;
    for (const exchange of Array.from(active)) {
      // Node emits no close event for a reply that was queued behind another on a broken connection.
      const { socket } = exchange.incoming;
      if (socket.destroyed) ended(exchange);
      else if (exchange.endStream && !exchange.last && !socket.writableNeedDrain) exchange.since = ticks;
      else if (exchange.upload) {
        const fault = exchange.upload.tick();
        if (fault === undefined) continue;
        exchange.last = true;
        refuse(exchange, fault);
      }
    }
    cutUnread(active.flatMap(sentOn), ticks);
  }, tick).unref();

  /** Drops a body that is complete, refused or lost. */
  function endUpload(exchange: Exchange): void {
    exchange.upload?.end();
    exchange.upload = undefined;
  }

  const isFull = (): boolean => metrics.inflight >= limits.maxInflight;

  function takePlace(exchange: Exchange): void {
    exchange.placed = true;
    metrics.inflight++;
  }

  function leavePlace(exchange: Exchange): void {
    if (exchange.placed) metrics.inflight--;
    exchange.placed = false;
  }

  /**
   * Counts a pipelined request. Node assigns the socket to its reply after the earlier replies are sent. The
   * connection's next bytes wait for their turn. Returns false if too many requests are waiting.
   */
  function joinLine(socket: Socket, response: ServerResponse): boolean {
    const line = lines.get(socket) ?? { waiting: 0, isPaused: false };
    if (++line.waiting > limits.pipelined) socket.destroy();
    if (socket.destroyed) return false;
    lines.set(socket, line);
    response.once("socket", () => line.waiting--);
    if (line.isPaused) return true;
    line.isPaused = true;
    // Pauses the connection later, because Node starts to read again after this request.
    setImmediate(() => {
      socket.pause();
      readInTurn(() => {
        line.isPaused = false;
        socket.resume();
      });
    });
    return true;
  }

  /** `expects`: the Expect header that the client waits on before it sends the body. */
  function begin(incoming: IncomingMessage, response: ServerResponse, expects?: "continue" | "unknown"): void {
    const { socket } = incoming;
    if (!response.socket && !joinLine(socket, response)) return;
    const request = new HostRequest(incoming);
    const last = allDone !== undefined;
    const exchange: Exchange = {
      request,
      incoming,
      response,
      since: ticks,
      placed: false,
      last,
      at: active.length,
    };
    active.push(exchange);
    // Node detaches the socket after the last byte and also when the connection breaks. Only a broken one is destroyed.
    response.on("close", () => ended(exchange, response.writableEnded && !response.socket && !socket.destroyed));

    const unmet = expects === "unknown" ? "the only supported value of the Expect header is 100-continue" : undefined;
    const fault = hostFault(incoming) ?? request.fault() ?? unmet;
    if (fault !== undefined) return refuse(exchange, new HoldfastError("invalid_request", fault));
    const isProbed = isProbe(request.path);
    if (last && !isProbed) {
      return refuse(exchange, new HoldfastError("server_stopping", "the server is shutting down"));
    }
    if (isFull() && !isProbed) return refuse(exchange, crowded());
    if (!hasBody(incoming)) return handle(exchange);
    const unread = bodyFault(incoming, limits);
    if (unread) {
      uploads.discard(incoming);
      return refuse(exchange, unread);
    }
    if (expects) response.writeContinue();
    exchange.upload = uploads.begin(incoming, (fault, body) => {
      exchange.upload = undefined;
      if (fault) {
        // A client that is told to come back later should not send the rest of its body.
        exchange.last ||= fault.code === "too_busy";
        return refuse(exchange, fault);
      }
      request.body = body;
      handle(exchange);
    });
  }

  const crowded = (): HoldfastError =>
    new HoldfastError("too_busy", `the server has ${limits.maxInflight} requests in progress; try again later`);

  /** Serves a complete request. A pipelined one is served when the earlier requests on its connection are answered. */
  function handle(exchange: Exchange): void {
    if (exchange.response.socket) return serve(exchange);
    exchange.response.once("socket", () => serveInTurn(() => serve(exchange)));
  }

  function serve(exchange: Exchange): void {
    if (exchange.at < 0) return;
    if (isFull() && !isProbe(exchange.request.path)) return refuse(exchange, crowded());
    takePlace(exchange);
    void app.handle(exchange.request).then((reply) => {
      if (ready.push({ exchange, reply }) === 1) setImmediate(sendReady);
    });
  }

  /**
   * Sends all replies from one event-loop turn together. If sent one by one, each would wake its sleeping client, which
   * costs more than the rest of a request.
   */
  function sendReady(): void {
    const now = ready;
    ready = [];
    for (const { exchange, reply } of now) send(exchange, reply);
  }

  function refuse(exchange: Exchange, error: HoldfastError): void {
    endUpload(exchange);
    send(exchange, app.refuse(exchange.request, error));
  }

  function send(exchange: Exchange, reply: Reply): void {
    const { request, incoming, response } = exchange;
    if (exchange.at < 0 || incoming.socket.destroyed) return ended(exchange);
    exchange.reply = reply;
    exchange.since = ticks;
    const last = exchange.last || allDone !== undefined;
    try {
      if (isStream(reply) && incoming.method === "HEAD") {
        request.leave();
        sendWhole(response, { status: reply.status, headers: reply.headers ?? {} }, 0);
      } else if (!isStream(reply)) sendWhole(response, reply, last ? 0 : limits.keepAlive);
      else if (exchange.last || (allDone && !reply.isRun) || streams >= limits.maxInflight) {
        delete exchange.reply;
        // The stream will not be read, so its producer must stop waiting for a reader.
        request.leave();
        refuse(exchange, new HoldfastError("too_busy", `the server has ${streams} streams open; try again later`));
      } else startStream(exchange, reply);
    } catch (cause) {
      if (response.headersSent) response.destroy();
      else
        sendWhole(
          response,
          app.refuse(
            request,
            new HoldfastError("internal", "the reply cannot be written as JSON; the server's log has the cause", {
              cause,
            }),
          ),
          0,
        );
    }
  }

  function startStream(exchange: Exchange, reply: Reply & { stream: AsyncIterable<string> }): void {
    exchange.endStream = sendStream(exchange.response, reply, {
      heartbeat: limits.heartbeat,
      keepAlive: limits.keepAlive,
      failed: (thrown) => app.log.error("a stream failed", thrown),
    });
    // A stream stays open as long as its client wants, so it is not counted as a request.
    leavePlace(exchange);
    metrics.streams++;
    streams++;
  }

  /** Ends an exchange once, when its reply was delivered or cannot be delivered. */
  function ended(exchange: Exchange, delivered = false): void {
    if (exchange.at < 0) return;
    const filler = active.pop() as Exchange;
    if (filler !== exchange) {
      active[exchange.at] = filler;
      filler.at = exchange.at;
    }
    exchange.at = -1;
    endUpload(exchange);
    leavePlace(exchange);
    if (exchange.endStream) {
      metrics.streams--;
      streams--;
    }
    if (!delivered) exchange.request.leave();
    if (active.length === 0) allDone?.();
  }

  /** Answers bytes that Node cannot parse as HTTP. */
  function malformed(error: NodeJS.ErrnoException, socket: Duplex): void {
    // HPE_INVALID_EOF_STATE: the connection ended in the middle of a request.
    if (error.code === "ECONNRESET" || error.code === "HPE_INVALID_EOF_STATE" || !socket.writable) {
      socket.destroy();
      return;
    }
    const fault = parseFault(error);
    const open = active.filter(({ incoming }) => incoming.socket === socket);
    for (const exchange of open) {
      exchange.last = true;
      if (exchange.upload) refuse(exchange, fault);
    }
    // A reply is already being sent on this connection, so another reply cannot follow.
    if (open.length > 0) return;
    metrics.request(fault.status);
    sendRefusal(socket, { status: fault.status, body: fault });
  }

  return {
    begin,
    malformed,
    /** Refuses new exchanges, ends streams except runs, and resolves when no exchange is active. */
    stop(): Promise<void> {
      const done = new Promise<void>((resolve) => (allDone = resolve)).then(() => clearInterval(clock));
      for (const exchange of Array.from(active)) {
        if (!exchange.endStream || exchange.reply?.isRun) continue;
        exchange.last = true;
        exchange.since = ticks;
        exchange.request.leave();
        exchange.endStream();
      }
      if (active.length === 0) allDone?.();
      return done;
    },
    abandon(): void {
      for (const exchange of Array.from(active)) {
        // Cuts a stream rather than ending it, because a client must not mistake a part for the whole.
        if (exchange.endStream) exchange.response.destroy();
        ended(exchange);
      }
    },
  };
}

const isStream = (reply: Reply): reply is Reply & { stream: AsyncIterable<string> } => reply.stream !== undefined;
