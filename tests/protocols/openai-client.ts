// The official OpenAI client for an agent, without a port.
import type { Agent, Conversations } from "holdfast";
import OpenAI from "openai";
import type { Request } from "../../src/core/protocol.ts";
import { openaiProtocol } from "../../src/protocols/openai.ts";
import { restProtocol } from "../../src/protocols/rest.ts";
import type { App } from "../../src/server/app.ts";
import { appOf, asked } from "../server/serving.ts";

export function openaiClient(agent: Agent, sessions: Conversations): { app: App; client: OpenAI } {
  const app = appOf([openaiProtocol({ agent, sessions }), restProtocol({ agent, sessions })]);
  const baseURL = "http://127.0.0.1/v1";
  return { app, client: new OpenAI({ apiKey: "none", baseURL, fetch: fetchFrom(app), maxRetries: 0 }) };
}

/** Sends the client's requests to the app, without a port. `onRequest` gets each request before the app. */
export function fetchFrom(app: App, onRequest?: (request: Request) => void): typeof fetch {
  return async (target, init) => {
    const { pathname, searchParams: query } = new URL(String(target));
    const headers = { ...Object.fromEntries(new Headers(init?.headers)), host: "127.0.0.1" };
    const body = init?.body ? (JSON.parse(String(init.body)) as unknown) : undefined;
    const request = asked(pathname, { method: init?.method ?? "GET", query, headers, body });
    onRequest?.(request);
    const reply = await app.handle(request);
    const { status, stream, headers: sent = {} } = reply;
    const type = { "content-type": "application/json", ...sent };
    if (!stream) return new Response(reply.text ?? JSON.stringify(reply.body), { status, headers: type });
    return new Response(ReadableStream.from(encoded(stream)), { status, headers: type });
  };
}

async function* encoded(stream: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const text of stream) yield new TextEncoder().encode(text);
}
