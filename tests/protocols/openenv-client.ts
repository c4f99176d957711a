// An OpenEnv client over a WebSocket, written from the wire, and a server to try it on.
import { once } from "node:events";
import type { Store } from "holdfast";
import { WebSocket } from "ws";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { serve, type Serving } from "../../src/server/serve.ts";

/** A reply, typed as loosely as a program in another language would read it. */
export type Loose = any; // eslint-disable-line typescript/no-explicit-any

export interface Frame {
  type: string;
  data: Loose;
}

export interface OpenEnvClient {
  readonly socket: WebSocket;
  /** Sends a frame, and returns the next frame. Rejects if the connection ends first. */
  ask(type: string, data?: unknown): Promise<Frame>;
  /** Sends text as it is. */
  send(text: string): Promise<Frame>;
  /** Waits for a frame without asking. */
  next(): Promise<Frame>;
  /** Resolves to the close code. */
  readonly closed: Promise<number>;
}

export async function openEnvClient(base: string, id?: string): Promise<OpenEnvClient> {
  const socket = new WebSocket(`${base.replace("http", "ws")}/ws${id === undefined ? "" : `?session_id=${id}`}`);
  const frames: Frame[] = [];
  const waiting: { resolve(frame: Frame): void; reject(error: Error): void }[] = [];
  socket.on("message", (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as Frame;
    const first = waiting.shift();
    if (first) first.resolve(frame);
    else frames.push(frame);
  });
  const closed = new Promise<number>((resolve) => {
    socket.on("close", (code) => {
      for (const { reject } of waiting.splice(0)) reject(new Error(`closed with ${code}`));
      resolve(code);
    });
  });
  const next = (): Promise<Frame> =>
    new Promise((resolve, reject) => {
      const frame = frames.shift();
      if (frame) resolve(frame);
      else if (socket.readyState !== WebSocket.OPEN) reject(new Error("closed"));
      else waiting.push({ resolve, reject });
    });
  const send = (text: string): Promise<Frame> => {
    const frame = next();
    socket.send(text);
    return frame;
  };
  await Promise.race([once(socket, "open"), once(socket, "error").then(([error]) => Promise.reject(error as Error))]);
  return { socket, next, send, closed, ask: (type, data) => send(JSON.stringify({ type, data })) };
}

/** Serves environments from a store on a free port. */
export function served(
  environments: AnyEnvironment[],
  store: Store,
  targets?: ReadonlyMap<string, string>,
): Promise<Serving> {
  return serve({ environments, store, port: 0, targets, log: { what: "none" } });
}

export async function post(url: string, body: unknown, headers: { [name: string]: string } = {}) {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  const reply = await fetch(url, init);
  const text = await reply.text();
  return {
    status: reply.status,
    text,
    body: reply.headers.get("content-type")?.includes("json") ? (JSON.parse(text) as Loose) : undefined,
  };
}

export async function get(url: string, headers: { [name: string]: string } = {}) {
  const reply = await fetch(url, { headers });
  return { status: reply.status, body: (await reply.json()) as Loose };
}
