// Test servers: a protocol that echoes its requests, and raw connections to a port.
import { connect, type Socket } from "node:net";
import { memoryStore } from "holdfast";
import { afterEach } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import type { Protocol, Reply, Request } from "../../src/core/protocol.ts";
import { createApp, type App, type AppOptions } from "../../src/server/app.ts";
import { listen, type Host } from "../../src/server/host.ts";
import type { Limits } from "../../src/server/limits.ts";
import { createLog } from "../../src/server/log.ts";
import { createMetrics } from "../../src/server/metrics.ts";

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Waits until a condition holds. */
export async function until(what: () => boolean): Promise<void> {
  for (let turn = 0; !what(); turn++) {
    if (turn > 2_000) throw new Error("waited for too long");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Echoes its requests; throws, waits and streams on request. Marks every reply as its own. */
export function echo(): Protocol & { waiting: (() => void)[]; signals: AbortSignal[]; lost: number } {
  const handle = async (request: Request): Promise<Reply | undefined> => {
    const { method, path, body, query, headers } = request;
    switch (path) {
      case "/echo":
        return { status: 200, body: { method, body, query: [...query], cookie: headers["cookie"] } };
      case "/wait":
        protocol.signals.push(request.signal);
        request.gone = () => void protocol.lost++;
        await new Promise<void>((resolve) => protocol.waiting.push(resolve));
        return { status: 200, body: { waited: true } };
      case "/closed":
        throw new HoldfastError("session_closed", "it is closed", { detail: { session: "abc" } });
      case "/bug":
        throw new Error("the secret is 42");
      case "/circle": {
        const circle: { self?: unknown } = {};
        circle.self = circle;
        return { status: 200, body: circle };
      }
      case "/split":
        return { status: 200, headers: { "x-odd": "a\r\nb: c" }, body: {} };
      case "/large":
        request.gone = () => void protocol.lost++;
        return { status: 200, text: "x".repeat(20_000_000) };
      case "/v1/secret":
        return { status: 200, body: "secret" };
      default:
        return undefined;
    }
  };
  const protocol = {
    name: "echo",
    waiting: [] as (() => void)[],
    signals: [] as AbortSignal[],
    lost: 0,
    handle,
    decorate: (request: Request, reply: Reply): Reply => ({
      ...reply,
      headers: { ...reply.headers, "set-cookie": `kept=${request.headers["cookie"] ?? "new"}` },
    }),
  };
  return protocol;
}

export function appOf(protocols: Protocol[], options: Partial<AppOptions> = {}): App {
  const log = createLog({ what: "none" });
  const mounts = [{ prefix: "", protocols }];
  return createApp({ mounts, store: memoryStore(), metrics: createMetrics(), log, ...options });
}

export function asked(path: string, request: Partial<Request> = {}): Request {
  const { signal } = new AbortController();
  const headers = { host: "localhost", ...request.headers };
  return { method: "GET", path, query: new URLSearchParams(), body: undefined, signal, ...request, headers };
}

export async function served(app: App, limits: Partial<Limits> = {}): Promise<Host & { port: number }> {
  const host = await listen(app, { port: 0, limits });
  cleanups.push(async () => {
    void host.close();
    await host.close();
  });
  return { ...host, port: Number(new URL(host.url).port) };
}

/** A connection that sends exact bytes. */
export interface Raw {
  readonly socket: Socket;
  /** Everything received. */
  readonly text: string;
  readonly closed: boolean;
  send(text: string | Buffer): void;
  /** Waits for `count` complete replies, by their content-length. */
  replies(count: number): Promise<{ status: number; head: string; body: string }[]>;
}

export function raw(port: number): Raw {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  cleanups.push(() => socket.destroy());
  const state = { text: "", closed: false };
  socket.on("data", (chunk) => (state.text += chunk.toString("latin1")));
  socket.on("end", () => (state.closed = true));
  socket.on("close", () => (state.closed = true));
  socket.on("error", () => (state.closed = true));
  const parsed = (): { status: number; head: string; body: string }[] => {
    const replies: { status: number; head: string; body: string }[] = [];
    for (let rest = state.text; ;) {
      const end = rest.indexOf("\r\n\r\n");
      if (end < 0) return replies;
      const head = rest.slice(0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const body = rest.slice(end + 4, end + 4 + length);
      if (body.length < length) return replies;
      replies.push({ status: Number(head.slice(9, 12)), head, body });
      rest = rest.slice(end + 4 + length);
    }
  };
  return {
    socket,
    get text() {
      return state.text;
    },
    get closed() {
      return state.closed;
    },
    send: (text) => void socket.write(text),
    async replies(count) {
      await until(() => parsed().length >= count || state.closed);
      return parsed();
    },
  };
}

/** The text of a POST. */
export const post = (path: string, body: string | Buffer, headers = "content-type: application/json\r\n"): string =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body.toString()}`;
