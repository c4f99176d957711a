// Raw HTTP: requests that two parsers may read differently. Nothing hidden in a body or a header is ever executed.
import { createSessions, memoryStore } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../src/server/serve.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { raw } from "../server/serving.ts";
import { limitMemory } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

const json = "content-type: application/json\r\n";
const small = '{"task":{"initial_count":1}}';

/** A request as text. `body` is sent as it is, and no header is added but the host. */
const request = (line: string, headers: string, body = "", host = "host: localhost\r\n"): string =>
  `${line}\r\n${host}${headers}\r\n${body}`;

const open = "POST /v1/sessions HTTP/1.1";
const health = "GET /healthz HTTP/1.1";
const sized = (text: string | Buffer): string => `content-length: ${Buffer.byteLength(text)}\r\n`;
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

interface Case {
  name: string;
  bytes: string | Buffer;
  /** The statuses that the first reply may have. 0: the connection ends without one. */
  statuses: number[];
  /** The number of replies, if more than one is right. */
  replies?: number;
}

const bad = [400];

/** The cases. `hidden` is a complete request that must never run. */
function casesWith(hidden: string): Case[] {
  const with0 = `0\r\n\r\n${hidden}`;
  const chunked = "transfer-encoding: chunked\r\n";
  const ambiguous: [name: string, headers: string, body: string][] = [
    ["a length and chunks", `${json}${sized(with0)}${chunked}`, with0],
    ["chunks and a length", `${json}${chunked}${sized(with0)}`, with0],
    ["two lengths", `${json}content-length: 0\r\n${sized(hidden)}`, hidden],
    ["a list of lengths", `${json}content-length: 0, ${hidden.length}\r\n`, hidden],
    ["a negative length", `${json}content-length: -1\r\n`, hidden],
    ["a length with a sign", `${json}content-length: +0\r\n`, hidden],
    ["a length in hexadecimal", `${json}content-length: 0x0\r\n`, hidden],
    ["a huge length", `${json}content-length: 99999999999999999999\r\n`, hidden],
    ["an unknown encoding", `${json}transfer-encoding: xchunked\r\n`, with0],
    ["chunks before another encoding", `${json}transfer-encoding: chunked, identity\r\n`, with0],
    ["two encodings", `${json}${chunked}transfer-encoding: identity\r\n`, with0],
    ["a space before the colon", `${json}content-length : 0\r\n`, hidden],
    ["a folded header", `${json}x: a\r\n content-length: 0\r\n`, hidden],
    ["a header without a name", `${json}: x\r\n`, hidden],
    ["a header without a colon", `${json}nonsense\r\n`, hidden],
    ["NUL in a header", `${json}x: a\u0000b\r\n`, hidden],
    ["CR in a header", `${json}x: a\rb\r\n`, hidden],
    ["a bare LF in a header", `${json}x: a\ncontent-length: 0\r\n`, hidden],
    ["a bare LF after the headers", `${json}content-length: 0\n`, `\n${hidden}`],
    ["a chunk length with a sign", `${json}${chunked}`, `+0\r\n\r\n${hidden}`],
    ["a chunk length in words", `${json}${chunked}`, `zz\r\n\r\n${hidden}`],
    ["a huge chunk length", `${json}${chunked}`, `fffffffffffffffff\r\n${hidden}`],
    ["a chunk that is longer than it says", `${json}${chunked}`, `1\r\n${hidden}\r\n0\r\n\r\n`],
    ["a bare LF in chunks", `${json}${chunked}`, `1\n{\n0\n\n${hidden}`],
    ["NUL in a chunk length", `${json}${chunked}`, `0\u0000\r\n\r\n${hidden}`],
  ];
  const utf16 = Buffer.from(small, "utf16le");
  const head = (body: string | Buffer): string => request(open, json + sized(body));
  const bodies: [name: string, body: Buffer][] = [
    ["a byte order mark", Buffer.from(`\uFEFF${small}`)],
    ["UTF-16", utf16],
    ["UTF-16 with a mark", Buffer.concat([Buffer.from([0xff, 0xfe]), utf16])],
    ["NUL after the JSON", Buffer.from(`${small}\u0000`)],
    ["two values", Buffer.from(`${small}${small}`)],
    ["cut UTF-8", Buffer.from([0x22, 0xc3])],
    ["an encoded surrogate", Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ];
  const lines = [
    "GET /healthz HTTP/9.9",
    "GET /healthz http/1.1",
    "GET /health\u0000z HTTP/1.1",
    "GET /healthz\u0080 HTTP/1.1",
    "PRI * HTTP/2.0",
    "GET",
    "",
    "\u0016\u0003\u0001\u0002",
  ];
  return [
    ...ambiguous.map(([name, headers, body]) => ({ name, bytes: request(open, headers, body), statuses: bad })),
    ...bodies.map(([name, body]) => ({ name, bytes: Buffer.concat([Buffer.from(head(body)), body]), statuses: bad })),
    ...lines.map((line) => ({ name: `the line ${JSON.stringify(line)}`, bytes: request(line, ""), statuses: bad })),
    { name: "no host", bytes: request(health, "", "", ""), statuses: bad },
    { name: "two hosts", bytes: request(health, "host: evil.example\r\n"), statuses: bad },
    { name: "CONNECT", bytes: request("CONNECT x:80 HTTP/1.1", "", hidden), statuses: [0, 400, 404, 405] },
    { name: "TRACE", bytes: request("TRACE /healthz HTTP/1.1", ""), statuses: [400, 404, 405] },
    {
      name: "an upgrade",
      bytes: request(health, "connection: upgrade\r\nupgrade: h2c\r\n", hidden),
      statuses: [200, 400, 426],
    },
    { name: "two spaces", bytes: request("GET  /healthz HTTP/1.1", ""), statuses: [200, 400] },
    { name: "HTTP/0.9", bytes: request("GET /healthz HTTP/0.9", "", hidden), statuses: [200, 400] },
    { name: "HTTP/1.0", bytes: request("GET /healthz HTTP/1.0", "", hidden), statuses: [200, 400] },
    { name: "large headers", bytes: request(health, `x: ${"x".repeat(40_000)}\r\n`), statuses: [431] },
    { name: "many headers", bytes: request(health, "x: y\r\n".repeat(5_000)), statuses: [200, 400, 431] },
    {
      name: "trailers",
      bytes: request(open, json + chunked, `${chunk(small)}0\r\nhost: evil\r\n\r\n`),
      statuses: [201],
    },
    {
      name: "chunk extensions",
      bytes: request(open, json + chunked, `1c;a=b\r\n${small}\r\n0\r\n\r\n`),
      statuses: [201, 400],
    },
    { name: "pipelined requests", bytes: request(health, "").repeat(30), statuses: [200], replies: 30 },
  ];
}

test("ISOLATION: no ambiguous request runs a request that is hidden in it", lasting(30), async () => {
  // The server and its clients together.
  const memory = limitMemory();
  const store = memoryStore();
  const serving = await serve({ environments: [gymCounter], store, port: 0, log: { what: "none" } });
  const port = Number(new URL(serving.url).port);
  const sessions = createSessions({ environment: gymCounter, store });
  onTestFinished(async () => {
    void serving.close();
    await serving.close();
    await sessions.stop();
    await store.close();
  });
  const { session } = await sessions.open({ task: { initial_count: 0 } });
  const call = '{"tool":"increment_counter","input":{"count":1}}';
  const hidden = request(`POST /v1/sessions/${session}/call HTTP/1.1`, json + sized(call), call);
  // The same request does run when it is not hidden.
  const control = raw(port);
  control.send(hidden);
  expect(await control.replies(1)).toMatchObject([{ status: 200 }]);
  const wrong: string[] = [];
  let sent = 0;
  for (let round = 0; round < attacks(20); round++) {
    for (const { name, bytes, statuses, replies = 1 } of casesWith(hidden)) {
      const connection = raw(port);
      // Whole, and in two pieces.
      const half = round % 2 === 0 ? bytes.length : Math.floor(bytes.length / 2);
      connection.send(bytes.slice(0, half));
      connection.send(bytes.slice(half));
      const [first, ...more] = await connection.replies(replies);
      sent++;
      const isRight = statuses.includes(first?.status ?? 0) && (statuses !== bad || more.length === 0);
      if (!isRight) wrong.push(`${name}: ${connection.text.slice(0, 300)}`);
      connection.socket.destroy();
    }
    expect(await sessions.state(session)).toEqual({ count: 1 });
  }
  expect(wrong).toEqual([]);
  report("raw HTTP", { requests: sent, cases: casesWith("").length, "MB of memory": memory() });
});
