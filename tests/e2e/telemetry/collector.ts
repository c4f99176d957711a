// A trace collector on its own port: accepts OTLP over HTTP as JSON and exposes the received spans.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

type Value = { stringValue?: string; intValue?: number | string; doubleValue?: number; boolValue?: boolean };

export interface ReceivedSpan {
  name: string;
  trace: string;
  id: string;
  parent: string | undefined;
  /** 2 is a server span, 3 a client span. */
  kind: number;
  failed: boolean;
  attributes: { [name: string]: unknown };
  resource: { [name: string]: unknown };
}

interface Sent {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: {
      spans: {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        kind: number;
        status: { code?: number };
        attributes: Attribute[];
      }[];
    }[];
  }[];
}

interface Attribute {
  key: string;
  value: Value & { arrayValue?: { values: Value[] } };
}

export interface Collector {
  url: string;
  spans: ReceivedSpan[];
  /** Everything received, unparsed. */
  raw(): string;
  /** Resolves when the condition holds for the received spans. */
  until(isThere: (spans: ReceivedSpan[]) => boolean): Promise<ReceivedSpan[]>;
}

/** `answers: false` accepts requests and never replies. */
export async function startCollector({ answers = true } = {}): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const waiting = new Set<() => void>();
  let raw = "";
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      raw += text;
      if (request.url === "/v1/traces") spans.push(...spansIn(JSON.parse(text) as Sent));
      if (answers) response.writeHead(200, { "content-type": "application/json" }).end("{}");
      for (const look of waiting) look();
    });
  });
  await listening(server);
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    raw: () => raw,
    until: (isThere) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (!isThere(spans)) return;
          waiting.delete(look);
          resolve(spans);
        };
        waiting.add(look);
        look();
      }),
  };
}

const listening = (server: Server): Promise<void> =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve()));

function spansIn({ resourceSpans }: Sent): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        name: span.name,
        trace: span.traceId,
        id: span.spanId,
        parent: span.parentSpanId,
        kind: span.kind,
        failed: span.status.code === 2,
        attributes: plain(span.attributes),
        resource: plain(resource.attributes),
      })),
    ),
  );
}

function plain(attributes: Attribute[]): { [name: string]: unknown } {
  return Object.fromEntries(
    attributes.map(({ key, value: { arrayValue, ...value } }) => [
      key,
      arrayValue ? arrayValue.values.map((one) => Object.values(one)[0]) : Object.values(value)[0],
    ]),
  );
}
