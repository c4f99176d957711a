// serveSockets(): WebSockets. Passes their messages to a protocol's channel one by one, and enforces the limits.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { Channel, Message } from "../core/protocol.ts";
import type { App } from "./app.ts";
import { createShapeCheck } from "./body.ts";
import type { Limits } from "./limits.ts";
import { HostRequest, hostFault } from "./request.ts";
import { sendRefusal } from "./send.ts";
import { createUnread, type Sent } from "./unread.ts";

/** An open WebSocket. */
interface Open {
  socket: WebSocket;
  /** The TCP connection of the WebSocket. */
  raw: Duplex & { readonly bytesRead?: number };
  /** Number of bytes read from the connection up to the last whole message. Later bytes are an unfinished message. */
  read: number;
  /** The tick at which an unfinished message was first noticed. */
  since?: number | undefined;
  /** The tick of the last message or pong. */
  heard: number;
  /** The tick at which its reply was given to the connection, until the connection has accepted it. */
  sending?: number | undefined;
  /** True if no more messages are answered. */
  isOver: boolean;
  /** Stops after the message in progress. */
  end(): void;
}

/** Maximum number of messages that wait on a connection. At this number, it is not read until they are answered. */
const mostWaiting = 16;
/** Milliseconds that a client has to confirm that its connection closes. */
const closeWithin = 1_000;
/** Close codes of RFC 6455. */
const codes = { done: 1000, goingAway: 1001, notText: 1003, failed: 1011 };

/** `serveAgain`: serves a connection whose bytes were put back, as if it were new. */
export function serveSockets(app: App, limits: Limits, serveAgain: (socket: Duplex) => void) {
  const { metrics, log } = app;
  const server = new WebSocketServer({ noServer: true, maxPayload: limits.body, clientTracking: false });
  const open = new Set<Open>();
  let ticks = 0;
  /** Total bytes of the waiting messages on all connections. */
  let held = 0;
  let allDone: (() => void) | undefined;
  const tick = Math.min(1_000, limits.heartbeat, Math.ceil(limits.requestTimeout / 4));
  const timeoutTicks = Math.ceil(limits.requestTimeout / tick);
  const pingTicks = Math.ceil(limits.heartbeat / tick);
  const cutUnread = createUnread(limits, tick);

  const clock = setInterval(() => {
    ticks++;
    let arriving = 0;
    for (const each of open) {
      const { socket, heard } = each;
      // A ping in the same packet as a message is counted twice, so the difference may be negative.
      const unfinished = Math.max(0, (each.raw.bytesRead ?? 0) - each.read);
      each.since = unfinished > 0 && !socket.isPaused ? (each.since ?? ticks) : undefined;
      arriving += unfinished;
      const isSlow = each.since !== undefined && ticks - each.since > timeoutTicks;
      if (isSlow || (unfinished > 0 && arriving > limits.uploads)) {
        arriving -= unfinished;
        socket.terminate();
        continue;
      }
      // A paused connection does not count as silent, because its pongs are not read.
      const isSilent = !socket.isPaused && ticks - heard > 3 * pingTicks;
      if (isSilent) socket.terminate();
      else if (ticks % pingTicks === 0) socket.ping();
    }
    const sentOn = ({ raw, sending }: Open): Sent[] =>
      sending === undefined ? [] : [{ connection: raw, since: sending }];
    cutUnread([...open].flatMap(sentOn), ticks);
  }, tick).unref();

  /** Answers a request to upgrade its connection. */
  function upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (incoming.headers.upgrade?.toLowerCase() !== "websocket") return ignoreUpgrade(incoming, socket, head);
    socket.on("error", () => socket.destroy());
    const request = new HostRequest(incoming);
    const fault = hostFault(incoming) ?? request.fault();
    const refusal =
      fault !== undefined
        ? new HoldfastError("invalid_request", fault)
        : allDone
          ? new HoldfastError("server_stopping", "the server is shutting down")
          : open.size >= limits.sockets
            ? new HoldfastError("too_busy", `the server has ${open.size} WebSockets open; try again later`)
            : undefined;
    const { path } = request;
    const channel = refusal ? app.refuse(request, refusal) : app.connect(request);
    if (typeof channel !== "function") return sendRefusal(socket, channel);
    server.handleUpgrade(incoming, socket, head, (accepted) => {
      accepted.on("close", () => request.leave());
      void serve(accepted, channel, socket, path);
    });
  }

  async function serve(socket: WebSocket, channel: Channel, raw: Open["raw"], path: string): Promise<void> {
    const waiting: { message: Message; bytes: number }[] = [];
    /** The message in progress, and when it began. */
    let current: { message: Message; start: number } | undefined;
    let isPlaced = false;
    let wake: (() => void) | undefined;
    /** Counts the bytes of a ping or pong, which may come between two parts of a message. Its header has six bytes. */
    const control = (data: Buffer): void => {
      own.heard = ticks;
      own.read += 6 + data.length;
    };
    const own: Open = {
      socket,
      raw,
      read: raw.bytesRead ?? 0,
      heard: ticks,
      isOver: false,
      end() {
        own.isOver = true;
        wake?.();
      },
    };
    open.add(own);
    metrics.streams++;
    socket.on("ping", control);
    socket.on("pong", control);
    socket.on("message", (data: Buffer, isBinary) => {
      own.heard = ticks;
      own.read = raw.bytesRead ?? 0;
      if (isBinary) return socket.close(codes.notText, "send text");
      const message =
        held + data.length > limits.uploads ? { fault: crowded("messages waiting") } : parsed(data, limits);
      const bytes = message.fault ? 0 : data.length;
      held += bytes;
      waiting.push({ message, bytes });
      if (waiting.length >= mostWaiting) socket.pause();
      wake?.();
    });
    // Ignores the error of a frame that is invalid or too large, because the client gets a close code.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      own.end();
      open.delete(own);
      for (const { bytes } of waiting.splice(0)) held -= bytes;
      metrics.streams--;
      if (open.size === 0) allDone?.();
    });

    /**
     * Counts a message among the requests in progress. If there are too many, the message is refused like a request.
     */
    function admitted({ message, bytes }: { message: Message; bytes: number }): Message {
      held -= bytes;
      const isFull = metrics.inflight >= limits.maxInflight;
      current = {
        message: isFull && !message.fault ? { fault: crowded("requests in progress") } : message,
        start: performance.now(),
      };
      if (!current.message.fault) {
        isPlaced = true;
        metrics.inflight++;
      }
      return current.message;
    }

    function leavePlace(): void {
      if (isPlaced) metrics.inflight--;
      isPlaced = false;
    }

    /** Logs the message in progress like a request. */
    function logged(): void {
      if (!current) return;
      const { message, start } = current;
      const thrown = message.thrown ?? message.fault;
      const status = thrown === undefined ? 200 : isHoldfastError(thrown) ? thrown.status : 500;
      log.request({ method: "WS", path, status, ms: performance.now() - start, session: message.session, thrown });
      current = undefined;
    }

    async function* messages(): AsyncGenerator<Message, void, undefined> {
      while (!own.isOver) {
        leavePlace();
        const next = waiting.shift();
        if (next) yield admitted(next);
        else {
          if (socket.isPaused) socket.resume();
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    }

    const replies = channel(messages())[Symbol.asyncIterator]();

    /** Sends the next reply. Returns false at the end. A function, so that an idle connection does not keep the text. */
    async function sendNext(): Promise<boolean> {
      const { value: text, done } = await replies.next();
      if (done) return false;
      leavePlace();
      // A channel may keep its last message, and an idle connection must not keep a large one in memory.
      if (current) current.message.body = undefined;
      logged();
      own.sending = ticks;
      await new Promise<void>((resolve) => socket.send(text, () => resolve()));
      own.sending = undefined;
      return true;
    }

    let code = codes.done;
    try {
      while (await sendNext());
    } catch (thrown) {
      log.error("a WebSocket failed", thrown);
      code = codes.failed;
    } finally {
      leavePlace();
      void replies.return?.();
    }
    closed(socket, allDone && code === codes.done ? codes.goingAway : code);
  }

  /** Closes a connection, even if its client does not confirm the close. */
  function closed(socket: WebSocket, code: number): void {
    socket.close(code);
    setTimeout(() => socket.terminate(), closeWithin).unref();
  }

  /**
   * Serves a request that asks for a different protocol, such as HTTP/2, as a normal request. A server may ignore the
   * Upgrade header, but Node has stopped parsing the connection. So the request is parsed again without that header.
   * The connection then closes, because the bytes after the request may belong to the other protocol.
   */
  function ignoreUpgrade({ method, url, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
    let text = `${method} ${url} HTTP/1.1\r\n`;
    for (let at = 0; at < rawHeaders.length; at += 2) {
      if (!/^(?:upgrade|connection|http2-settings)$/i.test(rawHeaders[at]!)) {
        text += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`;
      }
    }
    socket.unshift(Buffer.concat([Buffer.from(`${text}connection: close\r\n\r\n`, "latin1"), head]));
    serveAgain(socket);
  }

  return {
    upgrade,
    /** Refuses new connections, finishes messages in progress, and resolves when all connections are closed. */
    async stop(): Promise<void> {
      const done = new Promise<void>((resolve) => (allDone = resolve));
      for (const each of open) each.end();
      if (open.size > 0) await done;
      clearInterval(clock);
    },
    abandon(): void {
      for (const { socket } of open) socket.terminate();
    },
  };
}

const crowded = (what: string): HoldfastError =>
  new HoldfastError("too_busy", `the server has its maximum of ${what}; try again later`);

function parsed(data: Buffer, limits: Limits): Message {
  const fault = createShapeCheck(limits)(data);
  if (fault !== undefined) return { fault: new HoldfastError("invalid_json", `the message is refused: ${fault}`) };
  try {
    return { body: JSON.parse(data.toString()) as unknown };
  } catch (thrown) {
    return { fault: new HoldfastError("invalid_json", `the message is not JSON: ${messageOf(thrown)}`) };
  }
}
