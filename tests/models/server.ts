// A real HTTP server on a free port that plays a model's API: it gives a test's prepared answers in order.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

export interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

/** Answers one request. */
export type Reply = (response: ServerResponse, asked: Asked) => void;

export interface Played {
  /** Without a trailing slash. */
  url: string;
  /** The requests so far. */
  asked: Asked[];
  /** The number of connections so far. */
  connections(): number;
  /** Resolves when a request arrives. */
  next(): Promise<void>;
  /** Closes all connections immediately. */
  drop(): void;
  /** Resolves when no connection is open. */
  left(): Promise<void>;
}

/** Starts a server for one test. It gives these replies in order and repeats the last one. */
export async function play(...replies: Reply[]): Promise<Played> {
  const asked: Asked[] = [];
  let connections = 0;
  const sockets = new Set<Socket>();
  const arrived: (() => void)[] = [];
  const gone: (() => void)[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const reply = replies[Math.min(asked.length, replies.length - 1)];
      const { url: path = "", headers } = request;
      const now = { path, headers, body: JSON.parse(body) as Asked["body"] };
      asked.push(now);
      for (const resolve of arrived.splice(0)) resolve();
      reply?.(response, now);
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    connections++;
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      if (sockets.size === 0) for (const resolve of gone.splice(0)) resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    connections: () => connections,
    next: () => new Promise((resolve) => arrived.push(resolve)),
    drop: () => sockets.forEach((socket) => socket.destroy()),
    left: () => (sockets.size === 0 ? Promise.resolve() : new Promise((resolve) => gone.push(resolve))),
  };
}

/** An address without a server. */
export const nowhere = "http://127.0.0.1:1";

/** Replies with JSON and a status. */
export const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Reply =>
  (response) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));

/** Replies with any body. */
export const raw =
  (body: string, headers: Record<string, string>, status = 200): Reply =>
  (response) =>
    response.writeHead(status, headers).end(body);

/** The text of a stream of events in each API's style: Anthropic and Responses name the events, Chat does not. */
export function eventText(events: readonly unknown[]): string {
  return events.map((event) => `${nameLine(event)}data: ${JSON.stringify(event)}\n\n`).join("");
}

function nameLine(event: unknown): string {
  const type = (event as { type?: unknown }).type;
  return typeof type === "string" ? `event: ${type}\n` : "";
}

export const done = "data: [DONE]\n\n";

/** Replies with a stream in the given chunks. */
export const stream =
  (...chunks: (string | Uint8Array)[]): Reply =>
  async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of chunks) {
      response.write(chunk);
      // One turn of the event loop per chunk: chunks written together would arrive together.
      if (chunks.length > 1) await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };

/** Sends part of an answer with a content-length of `length`, then closes the connection. */
export const cut =
  (body: string, type: string, length?: number): Reply =>
  (response) => {
    response.writeHead(200, { "content-type": type, ...(length === undefined ? {} : { "content-length": length }) });
    response.write(body, () => setImmediate(() => response.socket?.destroy()));
  };

/** Never replies. */
export const silent: Reply = () => undefined;

/** Sends part of a stream, and then nothing more. */
export const stuck =
  (body: string): Reply =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(body);
  };

/** Answers like a model that calls `add` when told to add, and otherwise repeats the message. */
export const echo =
  (answers: { said(text: string): Shapes; called(name: string, args: string): Shapes }): Reply =>
  (response, asked) => {
    const told = lastUserText(asked.body);
    const [, by] = /^add (\d+)$/.exec(told) ?? [];
    const { whole, events, end = "" } = by === undefined ? answers.said(told) : answers.called("add", `{"by":${by}}`);
    if (asked.body["stream"] === true) stream(eventText(events) + end)(response, asked);
    else json(whole)(response, asked);
  };

/** An answer in both shapes. */
interface Shapes {
  whole: unknown;
  events: readonly unknown[];
  end?: string;
}

function lastUserText({ input, messages }: Asked["body"]): string {
  const said = ((input ?? messages) as { role?: string; content?: string | { text?: string }[] }[]).findLast(
    ({ role }) => role === "user",
  )?.content;
  return typeof said === "string" ? said : (said ?? []).map(({ text = "" }) => text).join("");
}
