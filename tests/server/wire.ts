// A connection that sends exact bytes and returns one reply, fast enough for thousands of requests.
import { connect, type Socket } from "node:net";

export interface WireReply {
  status: number;
  /** By lower-case name; the last of duplicates. */
  headers: Map<string, string>;
  /** Each character is a byte. */
  body: string;
}

export interface WireRequest {
  bytes: Buffer;
  /** Needed because a reply to HEAD has a content-length but no body. */
  method: string;
  /** The client's action after the last byte: wait for a reply, or half-close. */
  after: "wait" | "end";
  /** Whether the server may wait for more after its reply, which makes the connection unusable. */
  isLast: boolean;
}

export interface Wire {
  /** Returns the reply; undefined if the connection ended without one. Reconnects if the last connection was closed. */
  ask(request: WireRequest): Promise<WireReply | undefined>;
  close(): void;
}

/** Bounds the wait for a server that does not answer at all. */
const timeout = 15_000;

export function wire(port: number): Wire {
  let open: Socket | undefined;

  function connected(): Socket {
    // Replies are still read after our own end.
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.setNoDelay();
    // Broken connections are expected; "close" follows.
    socket.on("error", () => undefined);
    socket.on("end", () => socket.destroy());
    socket.on("close", () => {
      if (open === socket) open = undefined;
    });
    return socket;
  }

  return {
    ask: ({ bytes, method, after, isLast }) =>
      new Promise((resolve, reject) => {
        const socket = (open ??= connected());
        let text = "";
        const finish = (reply: WireReply | undefined): void => {
          clearTimeout(timer);
          socket.off("data", read);
          socket.off("close", closed);
          if (isLast || reply?.headers.get("connection") === "close") drop();
          resolve(reply);
        };
        const drop = (): void => {
          socket.destroy();
          if (open === socket) open = undefined;
        };
        const read = (chunk: Buffer): void => {
          text += chunk.toString("latin1");
          const reply = replyIn(text, method);
          if (reply) finish(reply);
        };
        const closed = (): void => finish(undefined);
        const timer = setTimeout(() => {
          drop();
          reject(new Error(`no reply to ${JSON.stringify(bytes.toString("latin1").slice(0, 2_000))}`));
        }, timeout);
        socket.on("data", read);
        socket.on("close", closed);
        if (after === "end") socket.end(bytes);
        else socket.write(bytes);
      }),
    close: () => open?.destroy(),
  };
}

/** Parses the first reply, if it is complete. */
function replyIn(text: string, method: string): WireReply | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const status = Number(first.slice(9, 12));
  // "100 Continue" is not the final reply.
  if (status < 200) return replyIn(text.slice(end + 4), method);
  const headers = new Map(lines.map((line) => [nameOf(line), line.slice(line.indexOf(":") + 1).trim()]));
  const rest = text.slice(end + 4);
  if (method === "HEAD" || status === 204 || status === 304) return { status, headers, body: "" };
  const length = headers.get("content-length");
  // A stream has no end, so its beginning is enough.
  if (length === undefined) return { status, headers: headers.set("connection", "close"), body: rest };
  return rest.length < Number(length) ? undefined : { status, headers, body: rest.slice(0, Number(length)) };
}

const nameOf = (line: string): string => line.slice(0, line.indexOf(":")).toLowerCase();
