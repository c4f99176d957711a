// Writes a reply: JSON, text, or an event stream that waits for slow clients and keeps silent connections open.
import type { ServerResponse } from "node:http";
import type { Reply } from "../core/protocol.ts";

/** Writes a reply that is not a stream. Throws before the first byte if the reply cannot be serialized. */
export function sendWhole(response: ServerResponse, reply: Reply, last: boolean): void {
  const { status, text = reply.body === undefined ? undefined : JSON.stringify(reply.body) } = reply;
  const type = reply.text === undefined ? "application/json" : "text/plain; charset=utf-8";
  const headers = buildHeaders(reply, text === undefined ? undefined : type, last);
  const length = text === undefined ? 0 : Buffer.byteLength(text);
  if (text !== undefined || (status !== 204 && status !== 304)) headers.push("content-length", String(length));
  response.writeHead(status, headers);
  if (text === undefined || length === 0) {
    response.end();
    return;
  }
  // `end(text)` sends two buffers with writev, which costs a sixth of a request. Here head and text leave as one string
  // when Node uncorks the socket, and the end has nothing left to send.
  response.write(text, length === text.length ? "latin1" : "utf8");
  process.nextTick(end, response);
}

function end(response: ServerResponse): void {
  response.end();
}

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
    if (!response.writableNeedDrain) response.write(": still here\n\n");
  }, heartbeat);
  response.once("close", end);
  response.on("drain", () => wake?.());

  const iterator = reply.stream[Symbol.asyncIterator]();
  /** Returns the next event; undefined at the end, or when the stream was ended meanwhile. */
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
      // Cut the connection instead of ending it: a client must not mistake a part for the whole.
      response.destroy();
    })
    .finally(() => {
      clearInterval(comments);
      response.end();
      // Not awaited: a stream that waits for an event returns only after that event.
      if (ended) void Promise.resolve(iterator.return?.()).catch(failed);
    });
  return end;
}
