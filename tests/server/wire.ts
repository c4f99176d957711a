// A connection that sends bytes as they are and gives one reply for them, quick enough for thousands of requests.
import { connect, type Socket } from "node:net";

export interface WireReply {
  status: number;
  /** By lower-case name; of what comes twice, the last. */
  headers: Map<string, string>;
  /** Each character is a byte. */
  body: string;
}

export interface WireRequest {
  bytes: Buffer;
  /** A reply to HEAD tells the length of a body that it does not have. */
  method: string;
  /** What the client does after the last byte: waits for a reply, or says that there is nothing more to come. */
  after: "wait" | "end";
  /** Whether the server may be waiting for more after its reply, so that the connection is of no more use. */
  isLast: boolean;
}

export interface Wire {
  /** The reply; undefined if the connection ended without one. Connects again where the last one was closed. */
  ask(request: WireRequest): Promise<WireReply | undefined>;
  close(): void;
}

/** A server that does not answer at all must not be waited for until the whole run is given up. */
const patience = 15_000;

export function wire(port: number): Wire {
  let open: Socket | undefined;

  function connected(): Socket {
    // Replies are read also after our own end, as long as the server sends any.
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.setNoDelay();
    // Broken connections are part of it; "close" follows.
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
        }, patience);
        socket.on("data", read);
        socket.on("close", closed);
        if (after === "end") socket.end(bytes);
        else socket.write(bytes);
      }),
    close: () => open?.destroy(),
  };
}

/** The first reply in what has come, if all of it has. */
function replyIn(text: string, method: string): WireReply | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const status = Number(first.slice(9, 12));
  // "100 Continue" is no reply yet.
  if (status < 200) return replyIn(text.slice(end + 4), method);
  const headers = new Map(lines.map((line) => [nameOf(line), line.slice(line.indexOf(":") + 1).trim()]));
  const rest = text.slice(end + 4);
  if (method === "HEAD" || status === 204 || status === 304) return { status, headers, body: "" };
  const length = headers.get("content-length");
  // A stream has no end to wait for: what it begins with is enough.
  if (length === undefined) return { status, headers: headers.set("connection", "close"), body: rest };
  return rest.length < Number(length) ? undefined : { status, headers, body: rest.slice(0, Number(length)) };
}

const nameOf = (line: string): string => line.slice(0, line.indexOf(":")).toLowerCase();
