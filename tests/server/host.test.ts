// The host on a port, with misbehaving connections.
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { IncomingMessage } from "node:http";
import { HostRequest } from "../../src/server/request.ts";
import { describe, expect, test } from "vitest";
import type { Protocol, Reply } from "../../src/core/protocol.ts";
import { listen } from "../../src/server/host.ts";
import { limitsWith } from "../../src/server/limits.ts";
import { serveFetch } from "../../src/server/web.ts";
import { appOf, echo, post, raw, served, until } from "./serving.ts";

const codeOf = (body: string): string => (JSON.parse(body) as { error: { code: string } }).error.code;

const json = { method: "POST", headers: { "content-type": "application/json" } };

describe("bodies", () => {
  const sent = async (text: string | Buffer): Promise<{ status: number; head: string; body: string }> => {
    const { port } = await served(appOf([echo()]), { body: 1_000, depth: 20 });
    const connection = raw(port);
    connection.send(text);
    const [reply] = await connection.replies(1);
    if (!reply) throw new Error("no reply");
    return reply;
  };

  test.each([
    ["", "content-type: application/json\r\n", undefined],
    ["{}", "", {}],
    ['{"a":[1,"é"]}', "content-type: application/json; charset=utf-8\r\n", { a: [1, "é"] }],
    ["[1]", 'content-type: Application/JSON ; charset="UTF-8"\r\n', [1]],
    ["null", "content-type: application/vnd.api+json\r\n", null],
    [
      '{"a":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\"[["}',
      "content-encoding: identity\r\n",
      { a: '[[[[[[[[[[[[[[[[[[[[[[[[[[[[["[[' },
    ],
  ])("%s with %j is accepted", async (body, headers, expected) => {
    const reply = await sent(post("/echo", body, headers));
    expect(reply.status).toBe(200);
    expect((JSON.parse(Buffer.from(reply.body, "latin1").toString()) as { body: unknown }).body).toEqual(expected);
  });

  test.each([
    ["{", "", 400, "invalid_json"],
    ["nonsense", "", 400, "invalid_json"],
    [" ", "", 400, "invalid_json"],
    [`${"[".repeat(25)}${"]".repeat(25)}`, "", 400, "invalid_json"],
    ["a=b", "content-type: application/x-www-form-urlencoded\r\n", 415, "unsupported_media_type"],
    ["{}", "content-type: text/plain\r\n", 415, "unsupported_media_type"],
    ["{}", "content-type: application/json; charset=latin1\r\n", 415, "unsupported_media_type"],
    ["{}", "content-type: application/jsonp\r\n", 415, "unsupported_media_type"],
    ["{}", "content-encoding: gzip\r\n", 415, "unsupported_media_type"],
    [`"${"x".repeat(999)}"`, "", 413, "body_too_large"],
  ])("%s with %j is refused, with the session's cookie", async (body, headers, status, code) => {
    const reply = await sent(post("/echo", body, `${headers}cookie: c\r\n`));
    expect(reply).toMatchObject({ status, head: expect.stringContaining("set-cookie: kept=c") });
    expect(codeOf(reply.body)).toBe(code);
  });

  test("a body that is not UTF-8 is refused", async () => {
    const body = Buffer.from([0x22, 0xc3, 0x28, 0x22]);
    const head = Buffer.from(`POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n`);
    const reply = await sent(Buffer.concat([head, body]));
    expect(reply.status).toBe(400);
    expect(codeOf(reply.body)).toBe("invalid_json");
  });

  test("chunks are accepted and counted", async () => {
    const head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    expect((await sent(`${head}2\r\n{"\r\n5\r\na":1}\r\n0\r\n\r\n`)).body).toContain('"body":{"a":1}');
    expect((await sent(`${head}${`100\r\n${"x".repeat(256)}\r\n`.repeat(5)}0\r\n\r\n`)).status).toBe(413);
  });

  test("a connection serves the next request after a body that came in many small pieces", async () => {
    const { port } = await served(appOf([echo()]));
    for (const pieces of [17, 18, 24]) {
      const connection = raw(port);
      const [head = "", body = ""] = post("/echo", `"${"x".repeat(pieces - 2)}"`).split(/(?<=\r\n\r\n)/);
      connection.send(head);
      for (const byte of body) {
        await sleep(5);
        connection.send(byte);
      }
      await connection.replies(1);
      connection.send(post("/echo", "{}"));
      const replies = await connection.replies(2);
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
    }
  });

  test("invalid chunks are refused with the cookie, and the connection ends", async () => {
    const { port } = await served(appOf([echo()]));
    const connection = raw(port);
    connection.send("POST /echo HTTP/1.1\r\nhost: x\r\ncookie: c\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n");
    await sleep(20);
    connection.send("zzz\r\n");
    const [reply] = await connection.replies(1);
    expect(reply).toMatchObject({ status: 400, head: expect.stringContaining("set-cookie: kept=c") });
    await until(() => connection.closed);
  });

  test("after a body that was too large the connection accepts the next request", async () => {
    const { port } = await served(appOf([echo()]), { body: 1_000 });
    const connection = raw(port);
    const chunked = `POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n`;
    connection.send(post("/echo", "x".repeat(3_000_000)));
    expect(await connection.replies(1)).toMatchObject([{ status: 413 }]);
    connection.send(post("/echo", '"next"'));
    connection.send(`${chunked}${`10000\r\n${"x".repeat(65_536)}\r\n`.repeat(20)}0\r\n\r\n`);
    connection.send(post("/echo", '"last"'));
    const replies = await connection.replies(4);
    expect(replies.map(({ status }) => status)).toEqual([413, 200, 413, 200]);
    expect(replies[3]?.body).toContain('"body":"last"');
  });

  test("a missing body is refused after the timeout, with the cookie", async () => {
    const app = appOf([echo()]);
    const { port } = await served(app, { requestTimeout: 400 });
    const connection = raw(port);
    connection.send("POST /echo HTTP/1.1\r\nhost: x\r\ncookie: c\r\ncontent-length: 10\r\n\r\n{");
    const [reply] = await connection.replies(1);
    expect(reply).toMatchObject({ status: 408, head: expect.stringContaining("set-cookie: kept=c") });
    await until(() => connection.closed && app.metrics.inflight === 0);
  });

  test("missing headers are refused after the timeout", async () => {
    const { port } = await served(appOf([echo()]), { requestTimeout: 100 });
    const connection = raw(port);
    connection.send("POST /echo HTTP/1.1\r\nhost");
    expect(await connection.replies(1)).toMatchObject([{ status: 408 }]);
    await until(() => connection.closed);
  });
});

test("the limits in docs/operations.md are the defaults", async () => {
  const page = await readFile("docs/operations.md", "utf8");
  const rows = [...page.matchAll(/^\| `(\w+)` \| ([\d,]+) /gm)].map(([, name, value = ""]) => [
    name,
    Number(value.replaceAll(",", "")),
  ]);
  expect(Object.fromEntries(rows)).toMatchObject({ ...limitsWith() });
});

describe("bodies that take long", () => {
  const started = (port: number, length: number, sent: string): ReturnType<typeof raw> => {
    const connection = raw(port);
    const head = `POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}`;
    connection.send(`${head}\r\n\r\n${sent}`);
    return connection;
  };

  test("take no place from complete requests", async () => {
    const app = appOf([echo()]);
    const { port, url } = await served(app, { maxInflight: 2 });
    const slow = Array.from({ length: 10 }, () => started(port, 100, "{"));
    await until(() => app.metrics.arriving === 10);
    expect((await fetch(`${url}/echo`)).status).toBe(200);
    expect(app.metrics.inflight).toBe(0);
    for (const { socket } of slow) socket.destroy();
  });

  test("share one budget of memory, and the request that goes beyond it is refused", async () => {
    const { port, url } = await served(appOf([echo()]), { uploads: 100_000 });
    const first = started(port, 90_001, " ".repeat(90_000));
    await sleep(50);
    const second = started(port, 90_001, " ".repeat(90_000));
    expect((await second.replies(1))[0]).toMatchObject({ status: 503 });
    first.send("1");
    expect((await first.replies(1))[0]).toMatchObject({ status: 200 });
    const whole = await fetch(`${url}/echo`, { ...json, body: " ".repeat(90_000) + "1" });
    expect(whole.status).toBe(200);
  });

  test("are cut when they arrive too slowly", async () => {
    const { port } = await served(appOf([echo()]), { uploadRate: 1_000_000 });
    const slow = started(port, 1_000_000, "[");
    expect((await slow.replies(1))[0]).toMatchObject({ status: 408 });
  });

  test.each([
    ["objects", `[${"{},".repeat(120_000)}{}]`],
    ["keys", `{${Array.from({ length: 120_000 }, (_, at) => `"k${at}":1`).join()}}`],
    ["lists in lists", `[${`${"[".repeat(400)}${"]".repeat(400)},`.repeat(300)}1]`],
  ])("with too many %s are refused before they are parsed", async (_, body) => {
    const { url } = await served(appOf([echo()]));
    const response = await fetch(`${url}/echo`, { ...json, body });
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining("100000 objects, lists and keys"),
    ]);
  });

  test("with too many keys in one object are refused, and as many in small objects are not", async () => {
    const { url } = await served(appOf([echo()]));
    const ask = (body: string): Promise<Response> => fetch(`${url}/echo`, { ...json, body });
    const keys = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join()}}`;
    expect((await ask(keys(21_000))).status).toBe(400);
    expect((await ask(keys(20_000))).status).toBe(200);
    expect((await ask(`[${Array.from({ length: 900 }, () => keys(100)).join()}]`)).status).toBe(200);
  });

  test("with too many numbers are refused, and the ids of a hundred thousand tokens are not", async () => {
    const { url } = await served(appOf([echo()]));
    const ask = (count: number): Promise<Response> =>
      fetch(`${url}/echo`, { ...json, body: JSON.stringify(Array.from({ length: count }, (_, at) => at % 10)) });
    expect((await ask(600_000)).status).toBe(400);
    expect((await ask(200_000)).status).toBe(200);
  });

  test("in many small pieces are read together, and none is lost", async () => {
    const { port } = await served(appOf([echo()]), { requestTimeout: 4_000 });
    const text = JSON.stringify("0123456789".repeat(10));
    const connection = started(port, text.length, "");
    for (const piece of text) {
      connection.send(piece);
      await sleep(2);
    }
    const [reply] = await connection.replies(1);
    expect(reply?.body).toContain(`"body":${text}`);
  });

  test("wait for each other and not for small ones", async () => {
    const { url } = await served(appOf([echo()]));
    const body = `[${"0,".repeat(400_000)}0]`;
    const order: string[] = [];
    const large = Array.from({ length: 8 }, async () => {
      const response = await fetch(`${url}/echo`, { ...json, body });
      expect(response.status).toBe(200);
      order.push("large");
      await response.arrayBuffer();
    });
    await sleep(20);
    expect((await fetch(`${url}/echo`, { ...json, body: "1" })).status).toBe(200);
    order.push("small");
    await Promise.all(large);
    expect(order.indexOf("small")).toBeLessThan(4);
  });

  test("show in /readyz only when all places are taken", async () => {
    const protocol = echo();
    const { port, url } = await served(appOf([protocol]), { maxInflight: 1 });
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    raw(port).send(post("/wait", "{}"));
    await until(() => protocol.waiting.length === 1);
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    protocol.waiting[0]?.();
  });
});

describe("requests", () => {
  test("pipelined requests are answered in their order", async () => {
    const protocol = echo();
    const { port } = await served(appOf([protocol]));
    const connection = raw(port);
    connection.send(post("/wait", "{}") + post("/echo", "1") + post("/nowhere", "2") + post("/echo", "3"));
    await until(() => protocol.waiting.length === 1);
    await sleep(20);
    expect(connection.text).toBe("");
    protocol.waiting[0]?.();
    const replies = await connection.replies(4);
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 404, 200]);
    expect(replies[3]?.body).toContain('"body":3');
  });

  test("pipelined requests take a place one after the other, and too many of them end their connection", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port, url } = await served(app, { maxInflight: 2, pipelined: 10 });
    const connection = raw(port);
    connection.send(post("/wait", "{}") + post("/echo", "1").repeat(10));
    await until(() => protocol.waiting.length === 1);
    expect((await fetch(`${url}/echo`)).status).toBe(200);
    protocol.waiting[0]?.();
    expect(await connection.replies(11)).toHaveLength(11);
    connection.send(post("/wait", "{}") + post("/echo", "1").repeat(11));
    await until(() => connection.closed);
    expect(await connection.replies(11)).toHaveLength(11);
    await until(() => app.metrics.inflight === 0);
  });

  test("10,000 bytes of headers are accepted; more than the limit is refused", async () => {
    const { port } = await served(appOf([echo()]));
    const long = raw(port);
    long.send(`GET /echo HTTP/1.1\r\nhost: x\r\nx-long: ${"y".repeat(10_000)}\r\n\r\n`);
    expect(await long.replies(1)).toMatchObject([{ status: 200 }]);
    const longer = raw(port);
    longer.send(`GET /echo HTTP/1.1\r\nhost: x\r\nx-long: ${"y".repeat(40_000)}\r\n\r\n`);
    const [reply] = await longer.replies(1);
    expect(reply?.status).toBe(431);
    expect(codeOf(reply?.body ?? "")).toBe("headers_too_large");
  });

  test.each([
    ["GET /echo?a=%C3%A9&b=%20 HTTP/1.1\r\nhost: x\r\n\r\n", 200],
    ["GET http://elsewhere/echo HTTP/1.1\r\nhost: x\r\n\r\n", 200],
    ["GET /echo HTTP/1.1\r\nhost: x\r\ncookie: a\r\ncookie: b\r\nset-cookie: c\r\n__proto__: d\r\n\r\n", 200],
    ["GET /echo HTTP/1.0\r\n\r\n", 200],
    ["GET /%zz HTTP/1.1\r\nhost: x\r\n\r\n", 400],
    ["GET /%ff HTTP/1.1\r\nhost: x\r\n\r\n", 400],
    ["GET /echo?a=% HTTP/1.1\r\nhost: x\r\n\r\n", 400],
    ["OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", 400],
    ["OPTIONS /echo HTTP/1.1\r\nhost: x\r\n\r\n", 405],
    ["BREW /echo HTTP/1.1\r\nhost: x\r\n\r\n", 400],
    ["GET /echo HTTP/1.1\r\n\r\n", 400],
    ["POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", 400],
    ["POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", 400],
    ["POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400],
    ["\u0016\u0003\u0001 not HTTP at all\r\n\r\n", 400],
    ["POST /echo HTTP/1.1\r\nhost: x\r\n\r\n", 200],
    ["POST /circle HTTP/1.1\r\nhost: x\r\n\r\n", 500],
    ["POST /split HTTP/1.1\r\nhost: x\r\n\r\n", 500],
  ])("%j is %i, and the server continues", async (text, status) => {
    const { port, url } = await served(appOf([echo()]));
    const connection = raw(port);
    connection.send(text);
    expect(await connection.replies(1)).toMatchObject([{ status }]);
    expect((await fetch(`${url}/echo`)).status).toBe(200);
  });

  test("HEAD gets the head of the reply to GET", async () => {
    const { url } = await served(appOf([echo()]));
    const [got, head] = await Promise.all([fetch(`${url}/echo`), fetch(`${url}/echo`, { method: "HEAD" })]);
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(got.headers.get("content-length"));
  });

  test("two Host headers are refused", async () => {
    const { port } = await served(appOf([echo()]));
    const connection = raw(port);
    connection.send("GET /echo HTTP/1.1\r\nhost: localhost\r\nHost: evil.example\r\n\r\n");
    expect((await connection.replies(1))[0]).toMatchObject({ status: 400 });
  });

  test("idle connections outlive the keep-alive of clients", async () => {
    const { url } = await served(appOf([echo()]));
    expect((await fetch(`${url}/echo`)).headers.get("keep-alive")).toBe("timeout=72");
  });
});

describe("disconnecting clients", () => {
  test("abort the signal, and the protocol is told once", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port } = await served(app);
    const connection = raw(port);
    connection.send(post("/wait", "{}"));
    await until(() => protocol.signals.length === 1);
    expect(app.metrics.inflight).toBe(1);
    connection.socket.destroy();
    await until(() => protocol.signals[0]?.aborted === true && protocol.lost === 1 && app.metrics.inflight === 0);
    protocol.waiting[0]?.();
    await sleep(20);
    expect(protocol.lost).toBe(1);
  });

  test("are reported even to a late listener", async () => {
    const request = new HostRequest({ method: "POST", url: "/x", headers: {} } as IncomingMessage);
    request.leave();
    let told = 0;
    request.gone = () => told++;
    request.leave();
    expect([told, request.signal.aborted]).toEqual([1, true]);
  });

  test("that half-close count as gone, and leave nothing behind", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port, url } = await served(app);
    const connection = raw(port);
    connection.send(post("/wait", "{}"));
    await until(() => protocol.signals.length === 1);
    connection.socket.end();
    await until(() => protocol.signals[0]?.aborted === true);
    protocol.waiting[0]?.();
    await until(() => protocol.lost === 1 && app.metrics.inflight === 0);
    expect((await fetch(`${url}/echo`)).status).toBe(200);
  });

  test("in the middle of a body or a reply leave nothing behind", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port } = await served(app);
    const writing = raw(port);
    writing.send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{");
    await until(() => app.metrics.arriving === 1);
    writing.socket.destroy();
    await until(() => app.metrics.arriving === 0);

    const reading = raw(port);
    reading.socket.pause();
    reading.send(post("/large", "{}"));
    await until(() => app.metrics.inflight === 1);
    await sleep(50);
    reading.socket.destroy();
    await until(() => protocol.lost === 1 && app.metrics.inflight === 0);
  });

  test("with pipelined requests leave nothing behind", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port } = await served(app);
    const connection = raw(port);
    connection.send(
      post("/wait", "{}") + post("/wait", "{}") + post("/echo", "{}") + post("/echo", "{} ").slice(0, -1),
    );
    const { metrics } = app;
    await until(() => metrics.inflight === 1 && metrics.arriving === 1 && protocol.waiting.length === 1);
    connection.socket.destroy();
    await until(() => protocol.signals.every(({ aborted }) => aborted));
    protocol.waiting[0]?.();
    await until(() => metrics.inflight + metrics.arriving === 0 && protocol.lost === 1);
    expect(protocol.waiting.length).toBe(1);
  });

  test("do not lose a delivered reply", async () => {
    const protocol = echo();
    const { port } = await served(appOf([protocol]));
    const connection = raw(port);
    connection.send(post("/wait", "{}"));
    await until(() => protocol.waiting.length === 1);
    protocol.waiting[0]?.();
    await connection.replies(1);
    connection.socket.destroy();
    await sleep(20);
    expect([protocol.lost, protocol.signals[0]?.aborted]).toEqual([0, false]);
  });
});

test("replies that clients do not read share one budget of memory; the largest one that waits is cut", async () => {
  const page: Protocol = {
    name: "page",
    handle: ({ path }) =>
      Promise.resolve({ status: 200, text: "x".repeat(path === "/small" ? 8_000_000 : 40_000_000) }),
  };
  const { port } = await served(appOf([page]), { requestTimeout: 12_000, unread: 50_000_000 });
  const asked = (path: string): ReturnType<typeof raw> => {
    const connection = raw(port);
    connection.socket.pause();
    connection.send(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    return connection;
  };
  const [small, first] = [asked("/small"), asked("/")];
  await sleep(1_100);
  const second = asked("/");
  await sleep(2_500);
  for (const { socket } of [small, first, second]) socket.resume();
  await until(() => first.closed);
  for (const kept of [small, second]) expect(await kept.replies(1)).toMatchObject([{ status: 200 }]);
});

test("requests above max_inflight are told to retry, with their cookie; probes are not", async () => {
  const protocol = echo();
  const { url } = await served(appOf([protocol]), { maxInflight: 2 });
  const waiting = [1, 2].map(() => fetch(`${url}/wait`, { method: "POST" }));
  await until(() => protocol.waiting.length === 2);
  const refused = await fetch(`${url}/echo`, { method: "POST", body: "{}", headers: { cookie: "c" } });
  expect(refused.status).toBe(503);
  expect([refused.headers.get("retry-after"), refused.headers.get("set-cookie")]).toEqual(["1", "kept=c"]);
  expect(await refused.json()).toMatchObject({ error: { code: "too_busy" } });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  for (const go of protocol.waiting) go();
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await fetch(`${url}/echo`)).status).toBe(200);
});

describe("streams", () => {
  /** Streams until told to stop, and counts its requests. */
  const streaming = (event: string): Protocol & { given: number; ended: boolean } => {
    const protocol = {
      name: "stream",
      given: 0,
      ended: false,
      handle: async ({ signal }: { signal: AbortSignal }): Promise<Reply> => ({
        status: 200,
        stream: (async function* () {
          try {
            for (; protocol.given < 100_000 && !signal.aborted; protocol.given++) {
              yield event;
              if (event.length < 100) await sleep(5, undefined, { signal }).catch(() => undefined);
            }
          } finally {
            protocol.ended = true;
          }
        })(),
      }),
    };
    return protocol;
  };

  const failing = (): Protocol => ({
    name: "failing",
    handle: async () => ({
      status: 200,
      stream: (async function* () {
        yield "[1]\n";
        await sleep(5);
        yield "[2]\n";
        throw new Error("the disk is gone");
      })(),
    }),
  });

  test.each(["keep-alive", "close"])(
    "that fail are cut off after their last event, so that a part is not mistaken for the whole: %s",
    async (kept) => {
      const { port } = await served(appOf([failing()]));
      const connection = raw(port);
      connection.send(`GET /rows HTTP/1.1\r\nhost: x\r\nconnection: ${kept}\r\n\r\n`);
      await until(() => connection.closed);
      expect(connection.text).toMatch(/^HTTP\/1\.1 200 [^]*\[1\]\n[^]*\[2\]\n/);
      // The end of a chunked body.
      expect(connection.text).not.toMatch(/\r\n0\r\n\r\n$/);
    },
  );

  const sparse: Protocol = {
    name: "sparse",
    handle: async () => ({ status: 200, stream: ReadableStream.from(["", "data: 1\n\n", "", "data: 2\n\n", ""]) }),
  };

  test.each(["keep-alive", "close"])("leave out empty events, which would end a chunked body: %s", async (kept) => {
    const { port } = await served(appOf([sparse]));
    const connection = raw(port);
    connection.send(`GET /events HTTP/1.1\r\nhost: x\r\nconnection: ${kept}\r\n\r\n`);
    await until(() => connection.text.endsWith("0\r\n\r\n"));
    expect(connection.text.split("\r\n\r\n9\r\n")[1]).toBe("data: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  });

  test("leave out empty events for a reader of a web Response too", async () => {
    const { body } = await serveFetch(appOf([sparse]), limitsWith()).answer(new Request("http://x/events"), "/events");
    const events: string[] = [];
    for await (const chunk of body!) events.push(new TextDecoder().decode(chunk));
    expect(events).toEqual(["data: 1\n\n", "data: 2\n\n"]);
  });

  test("send events as they come, with comments between, and end when the client goes", async () => {
    const protocol = streaming("data: 1\n\n");
    const app = appOf([protocol]);
    const { port } = await served(app, { heartbeat: 20 });
    const connection = raw(port);
    connection.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
    await until(() => connection.text.includes(": still here") && connection.text.includes("data: 1"));
    expect(connection.text).toMatch(/content-type: text\/event-stream/i);
    expect([app.metrics.inflight, app.metrics.streams]).toEqual([0, 1]);
    connection.socket.destroy();
    await until(() => protocol.ended && app.metrics.streams === 0);
    expect(app.metrics.inflight).toBe(0);
  });

  test("wait for a client that does not read", async () => {
    const protocol = streaming(`data: ${"x".repeat(100_000)}\n\n`);
    const { port } = await served(appOf([protocol]));
    const connection = raw(port);
    connection.socket.pause();
    connection.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
    let given = 0;
    while (given === 0 || given !== protocol.given) {
      ({ given } = protocol);
      expect(given).toBeLessThan(1_000);
      await sleep(100);
    }
    connection.socket.destroy();
    await until(() => protocol.ended);
  });

  test("of a client that does not read are finally cut, and do not block closing", async () => {
    for (const isClosing of [false, true]) {
      const protocol = streaming(`data: ${"x".repeat(100_000)}\n\n`);
      const app = appOf([protocol]);
      const host = await listen(app, { port: 0, limits: { requestTimeout: 200 } });
      const connection = raw(Number(new URL(host.url).port));
      connection.socket.pause();
      connection.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
      await until(() => app.metrics.streams === 1);
      if (!isClosing) await until(() => app.metrics.streams === 0);
      await host.close();
      await until(() => app.metrics.streams === 0);
      connection.socket.destroy();
    }
  });

  test("above the limit are refused, and told that they have no reader", async () => {
    const signals: AbortSignal[] = [];
    const protocol = streaming("data: 1\n\n");
    const watched: Protocol = {
      name: "watched",
      handle: (request) => {
        signals.push(request.signal);
        return protocol.handle(request);
      },
    };
    const app = appOf([watched]);
    const { port } = await served(app, { maxInflight: 1 });
    const [first, second] = [raw(port), raw(port)];
    first.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
    await until(() => app.metrics.streams === 1);
    second.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
    expect(await second.replies(1)).toMatchObject([{ status: 503 }]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });

  test("end when the server closes", async () => {
    const protocol = streaming("data: 1\n\n");
    const host = await listen(appOf([protocol]), { port: 0 });
    const connection = raw(Number(new URL(host.url).port));
    connection.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
    await until(() => connection.text.includes("data: 1"));
    await host.close();
    await until(() => protocol.ended && connection.closed);
    expect(connection.text).toMatch(/0\r\n\r\n$/);
  });
});

describe("closing", () => {
  test("finishes requests in flight, refuses new ones, and then ends", async () => {
    const protocol = echo();
    const app = appOf([protocol]);
    const { port, url, close } = await served(app);
    const busy = raw(port);
    const kept = raw(port);
    kept.send(post("/echo", "1"));
    await kept.replies(1);
    busy.send(post("/wait", "{}"));
    await until(() => protocol.waiting.length === 1);

    let closed = false;
    const closing = close().then(() => (closed = true));
    await expect(fetch(`${url}/echo`)).rejects.toThrow();
    kept.send(post("/echo", "2", "cookie: c\r\n"));
    const [, refused] = await kept.replies(2);
    expect(refused).toMatchObject({ status: 503, head: expect.stringMatching(/connection: close/i) });
    expect(refused?.head).toContain("set-cookie: kept=c");
    expect(codeOf(refused?.body ?? "")).toBe("server_stopping");
    await until(() => kept.closed);
    kept.socket.destroy();
    expect(closed).toBe(false);

    protocol.waiting[0]?.();
    expect(await busy.replies(1)).toMatchObject([{ status: 200, body: '{"waited":true}' }]);
    await until(() => busy.closed);
    await closing;
    expect([protocol.lost, app.metrics.inflight]).toEqual([0, 0]);
  });

  test("sends the whole stream of a run, even if its request had no reply yet", async () => {
    const go: (() => void)[] = [];
    const waits = (): Promise<void> => new Promise((resolve) => go.push(resolve));
    const running: Protocol = {
      name: "running",
      async handle() {
        await waits();
        const stream = (async function* () {
          yield "first";
          await waits();
          yield "last";
        })();
        return { status: 200, stream, isRun: true };
      },
    };
    const { port, close } = await served(appOf([running]));
    const connection = raw(port);
    connection.send(post("/run", "{}"));
    await until(() => go.length === 1);
    const closing = close();
    go[0]?.();
    await until(() => go.length === 2);
    go[1]?.();
    await closing;
    await until(() => connection.closed);
    expect(connection.text).toMatch(/first[^]*last\r\n0\r\n\r\n$/);
  });

  test("still delivers a reply that a slow client has not read yet", async () => {
    const app = appOf([echo()]);
    const { port, close } = await served(app);
    const connection = raw(port);
    connection.socket.pause();
    connection.send(post("/large", "{}"));
    await until(() => app.metrics.inflight === 1);
    await sleep(100);
    const closing = close();
    await sleep(20);
    connection.socket.resume();
    expect((await connection.replies(1))[0]?.body).toHaveLength(20_000_000);
    await closing;
  });

  test("ends at once on a second close, and aborts requests in flight", async () => {
    const protocol = echo();
    const { port, close } = await served(appOf([protocol]));
    const connection = raw(port);
    connection.send(post("/wait", "{}"));
    await until(() => protocol.waiting.length === 1);
    const first = close();
    await Promise.all([close(), first]);
    await until(() => connection.closed);
    expect(protocol.signals[0]?.aborted).toBe(true);
  });

  test("is not delayed by idle connections", async () => {
    const { port, close } = await served(appOf([echo()]));
    const [idle, silent, half] = [raw(port), raw(port), raw(port)];
    idle.send(post("/echo", "1"));
    half.send("POST /echo HTT");
    await idle.replies(1);
    await until(() => !silent.socket.connecting);
    await close();
  });
});

test("a port in use is an error, and so are limits out of range", async () => {
  const { port } = await served(appOf([]));
  await expect(listen(appOf([]), { port })).rejects.toThrow("EADDRINUSE");
  for (const body of [0, -1, 1.5, Number.NaN]) {
    await expect(listen(appOf([]), { port: 0, limits: { body } })).rejects.toMatchObject({ code: "invalid_option" });
  }
});
