// Writes a reply: JSON, text, or an event stream that waits for slow clients and keeps silent connections open.
import { STATUS_CODES, type ServerResponse } from "node:http";
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
      // The reply ends once the operating system has taken the bytes. Until then the answer may still be lost.
      socket.write(head + text, length === text.length ? "latin1" : "utf8", () => response.end());
      return;
    }
  }
  response.writeHead(status, headers);
  response.end(text);
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

/** Other characters are left to Node, which refuses them or encodes them. */
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
  last: boolean;
  /** Milliseconds between comments. */
  heartbeat: number;
  failed(thrown: unknown): void;
}

/** Writes a stream and returns a function that ends it early. */
export function sendStream(
  response: ServerResponse,
  reply: Reply & { stream: AsyncIterable<string> },
  { last, heartbeat, failed }: StreamOptions,
): () => void {
  const headers = buildHeaders(reply, "text/event-stream", last);
  response.writeHead(reply.status, [...headers, "cache-control", "no-store", "x-accel-buffering", "no"]);
  response.flushHeaders();
  let ended = false;
  let wake: (() => void) | undefined;
  const end = (): void => {
    ended = true;
    wake?.();
  };
  const comments = setInterval(() => {
    if (!reply.quiet && !response.writableNeedDrain) response.write(": still here\n\n");
  }, heartbeat);
  response.once("close", end);
  response.on("drain", () => wake?.());

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
      if (!response.write(result.value)) await drained();
    }
  };
  void pump()
    .catch((thrown: unknown) => {
      failed(thrown);
      // Cuts the connection rather than ending it, because a client must not mistake a part for the whole.
      response.destroy();
    })
    .finally(() => {
      clearInterval(comments);
      response.end();
      // Not awaited, because a stream that is waiting for an event returns only after that event.
      if (ended) void Promise.resolve(iterator.return?.()).catch(failed);
    });
  return end;
}
