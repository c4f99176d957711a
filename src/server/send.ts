// Writes a reply: JSON, text, or an event stream that waits for slow clients and keeps silent connections open.
import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Duplex, Writable } from "node:stream";
import type { Reply } from "../core/protocol.ts";

/**
 * Writes a reply that is not a stream. Throws before the first byte if the reply cannot be serialized. `keepAlive` is
 * how long the connection stays open afterwards, in milliseconds; 0 closes it.
 */
export function sendWhole(response: ServerResponse, reply: Reply, keepAlive: number): void {
  const last = keepAlive === 0;
  const { status, text = reply.body === undefined ? undefined : JSON.stringify(reply.body) } = reply;
  const type = reply.text === undefined ? "application/json" : "text/plain; charset=utf-8";
  const headers = buildHeaders(reply, text === undefined ? undefined : type, last);
  const length = text === undefined ? 0 : Buffer.byteLength(text);
  if (text !== undefined || (status !== 204 && status !== 304)) headers.push("content-length", String(length));
  const { socket, shouldKeepAlive, req } = response;
  // A reply whose turn has not come on its connection has no socket yet.
  const isPlain = shouldKeepAlive && !last && req.httpVersionMinor === 1 && req.method !== "HEAD";
  if (text !== undefined && socket && isPlain && !response.headersSent && "_headerSent" in response) {
    const head = plainHead(status, headers, keepAlive);
    // Node would validate and join the headers one by one, and cork, buffer and flush, which costs a tenth of a
    // request. The two fields tell Node that the head has been sent. Middleware relies on them too.
    if (head !== undefined) {
      Object.assign(response, { _header: head, _headerSent: true });
      // The response ends once the operating system has taken the bytes. Until then the reply may still be lost.
      socket.write(head + text, length === text.length ? "latin1" : "utf8", () => response.end());
      return;
    }
  }
  response.writeHead(status, headers);
  response.end(text);
}

/** Milliseconds that a client has to read a refusal, or the end of a failed stream, before its connection is cut. */
const closeWithin = 1_000;

/**
 * Sends a refusal on a connection without a response object, and closes the connection. Node has no time limit for such
 * a connection, so it is closed even if the client neither reads nor ends.
 */
export function sendRefusal(socket: Duplex, reply: Reply): void {
  socket.end(refusalText(reply));
  // Without a reader, the end of the client would not be noticed.
  socket.resume();
  setTimeout(() => socket.destroy(), closeWithin).unref();
}

function refusalText({ status, headers, body }: Reply): string {
  const text = JSON.stringify(body);
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return `${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

let second = 0;
let date = "";

/**
 * Joins a reply's head for a connection that stays open. Returns undefined if it has characters that are not allowed in
 * headers.
 */
function plainHead(status: number, headers: readonly string[], keepAlive: number): string | undefined {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    date = new Date(now * 1000).toUTCString();
  }
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1]!;
    if (!isPlainValue.test(value)) return undefined;
    head += `${headers[at]}: ${value}\r\n`;
  }
  return `${head}Date: ${date}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`;
}

/** Matches a value of printable ASCII. Other values are left to Node, which refuses or encodes them. */
const isPlainValue = /^[ -~]*$/;

function buildHeaders({ headers }: Reply, type: string | undefined, last: boolean): string[] {
  const list: string[] = [];
  let typed = type === undefined;
  for (const name in headers) {
    if (name.length === 12 && name.toLowerCase() === "content-type") typed = true;
    list.push(name, headers[name] ?? "");
  }
  if (!typed && type !== undefined) list.push("content-type", type);
  if (last) list.push("connection", "close");
  return list;
}

export interface StreamOptions {
  /** Milliseconds between the comments that keep a silent stream open. */
  heartbeat: number;
  /** Milliseconds that the connection stays open after the stream. */
  keepAlive: number;
  failed(thrown: unknown): void;
}

/** Writes a stream and returns a function that ends it early. */
export function sendStream(
  response: ServerResponse,
  reply: Reply & { stream: AsyncIterable<string> },
  { heartbeat, keepAlive, failed }: StreamOptions,
): () => void {
  const headers = [...buildHeaders(reply, "text/event-stream", false), "cache-control", "no-store"];
  headers.push("x-accel-buffering", "no");
  const body = plainBody(response, reply.status, headers, keepAlive) ?? nodeBody(response, reply.status, headers);
  let ended = false;
  let wake: (() => void) | undefined;
  const end = (): void => {
    ended = true;
    wake?.();
  };
  const comments = setInterval(() => {
    if (!reply.quiet && !body.connection.writableNeedDrain) body.write(": still here\n\n");
  }, heartbeat);
  const drain = (): void => wake?.();
  response.once("close", end);
  body.connection.on("drain", drain);

  const iterator = reply.stream[Symbol.asyncIterator]();
  /** Returns the next event; undefined at the end, or if the stream was ended in the meantime. */
  const next = (): Promise<IteratorResult<string> | undefined> =>
    new Promise((resolve, reject) => {
      wake = () => ended && resolve(undefined);
      iterator.next().then(resolve, reject);
    });
  const drained = (): Promise<void> => new Promise((resolve) => (wake = resolve));

  const pump = async (): Promise<void> => {
    for (;;) {
      const result = await next();
      if (ended || !result || result.done) return;
      body.write(result.value);
      if (body.connection.writableNeedDrain) await drained();
    }
  };
  void pump()
    .catch(async (thrown: unknown) => {
      failed(thrown);
      // The last event may be the error for the client, so it is sent before the cut.
      if (!ended) {
        await new Promise<void>((resolve) => {
          setTimeout(resolve, closeWithin).unref();
          body.flush(resolve);
        });
      }
      // Cuts the connection rather than ending it, because a client must not mistake a part for the whole.
      response.destroy();
    })
    .finally(() => {
      clearInterval(comments);
      body.connection.removeListener("drain", drain);
      body.end();
      // Does not wait for the return, because a stream that is waiting for an event returns only after that event.
      if (ended) void Promise.resolve(iterator.return?.()).catch(failed);
    });
  return end;
}

/** The body of a stream. */
interface StreamBody {
  write(text: string): void;
  /** Calls `sent` once the operating system has taken everything that was written. */
  flush(sent: () => void): void;
  end(): void;
  /** Shows whether the client reads too slowly. */
  readonly connection: Writable;
}

function nodeBody(response: ServerResponse, status: number, headers: string[]): StreamBody {
  response.writeHead(status, headers);
  response.flushHeaders();
  return {
    connection: response,
    write: (text) => void response.write(text),
    flush: (sent) => void response.write("", sent),
    end: () => void response.end(),
  };
}

/** Maximum number of characters that wait for the end of a turn of the event loop. */
const mostWaiting = 16_384;

/**
 * Writes the head and all events of one turn of the event loop together. Like `sendWhole`, it bypasses Node, which
 * would write the head, every event and the end one by one. Returns undefined if only Node can write the reply.
 */
function plainBody(
  response: ServerResponse,
  status: number,
  headers: string[],
  keepAlive: number,
): StreamBody | undefined {
  const { socket, shouldKeepAlive, req } = response;
  const isPlain = shouldKeepAlive && req.httpVersionMinor === 1 && !response.headersSent && "_headerSent" in response;
  const head = isPlain ? plainHead(status, [...headers, "transfer-encoding", "chunked"], keepAlive) : undefined;
  if (!socket || head === undefined) return undefined;
  Object.assign(response, { _header: head, _headerSent: true });
  let waiting = head;
  let isLatin = true;
  const flush = (sent?: () => void): void => {
    if (socket.destroyed) sent?.();
    else if (waiting !== "" || sent) socket.write(waiting, isLatin ? "latin1" : "utf8", sent);
    waiting = "";
    isLatin = true;
  };
  process.nextTick(flush);
  return {
    connection: socket,
    write(text) {
      // An empty chunk would end the body.
      if (text === "") return;
      if (waiting === "") process.nextTick(flush);
      const length = Buffer.byteLength(text);
      isLatin &&= length === text.length;
      waiting += `${length.toString(16)}\r\n${text}\r\n`;
      // Flushes early. Otherwise, a stream that never waits would fill the memory.
      if (waiting.length > mostWaiting) flush();
    },
    flush,
    end() {
      if (response.destroyed || socket.destroyed) return void response.end();
      socket.write(`${waiting}0\r\n\r\n`, isLatin ? "latin1" : "utf8", () => response.end());
      waiting = "";
    },
  };
}
