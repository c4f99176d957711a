// WebSockets on the host: limits, order, slow and silent clients, pages of other sites, and the end of the server.
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import type { Channel, Message, Protocol } from "../../src/core/protocol.ts";
import { appOf, echo, post, raw, served, until } from "./serving.ts";

const opened: WebSocket[] = [];
afterEach(() => {
  for (const socket of opened.splice(0)) socket.terminate();
});

interface Client {
  socket: WebSocket;
  replies: string[];
  /** The close code; undefined while it is open. */
  code?: number;
  /** The HTTP status of a refused connection. */
  status?: number;
}

async function dial(
  url: string,
  options: { headers?: { [name: string]: string }; autoPong?: boolean } = {},
): Promise<Client> {
  const socket = new WebSocket(url.replace("http", "ws"), options);
  opened.push(socket);
  const client: Client = { socket, replies: [] };
  socket.on("message", (data: Buffer) => client.replies.push(data.toString()));
  socket.on("close", (code) => (client.code = code));
  socket.on("unexpected-response", (_, response) => {
    client.status = response.statusCode ?? 0;
    response.resume();
  });
  socket.on("error", () => undefined);
  await until(() => socket.readyState === WebSocket.OPEN || client.code !== undefined || client.status !== undefined);
  return client;
}

/** Answers with what it got; waits, fails and ends on request. */
function talking() {
  const seen: unknown[] = [];
  const waiting: (() => void)[] = [];
  const channel: Channel = async function* (messages) {
    for await (const { body, fault } of messages) {
      seen.push(body);
      if (body === "end") return;
      if (body === "fail") throw new Error("the secret is 42");
      if (body === "wait") await new Promise<void>((resolve) => waiting.push(resolve));
      yield body === "large" ? "x".repeat(8_000_000) : JSON.stringify(fault ? { fault: fault.code } : { body });
    }
  };
  const protocol: Protocol = {
    name: "talking",
    handle: () => undefined,
    connect: ({ path }) => (path === "/talk" ? channel : undefined),
  };
  return { protocol, seen, waiting };
}

test("messages are answered in order, also when many are sent at once", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]));
  const { socket, replies } = await dial(`${url}/talk`);
  for (let at = 0; at < 200; at++) socket.send(String(at));
  await until(() => replies.length === 200);
  expect(replies).toEqual(Array.from({ length: 200 }, (_, body) => JSON.stringify({ body })));
});

test("an idle connection keeps no message in memory", async () => {
  const messages: Message[] = [];
  const keeping: Channel = async function* (all) {
    for await (const message of all) {
      messages.push(message);
      yield JSON.stringify(message.body);
    }
  };
  const { url } = await served(appOf([{ name: "keeping", handle: () => undefined, connect: () => keeping }]));
  const { socket, replies } = await dial(`${url}/talk`);
  socket.send('"large"');
  await until(() => replies.length === 1);
  expect([replies, messages]).toEqual([['"large"'], [{ body: undefined }]]);
});

test("replies that clients do not read share one budget of memory; the largest one that waits is cut", async () => {
  const answering: Channel = async function* (messages) {
    for await (const { body } of messages) yield "x".repeat(Number(body));
  };
  const { url } = await served(appOf([{ name: "answering", handle: () => undefined, connect: () => answering }]), {
    unread: 30_000_000,
  });
  const [small, large] = [await dial(`${url}/talk`), await dial(`${url}/talk`)];
  const closed = once(large.socket, "close");
  for (const { socket } of [small, large]) socket.pause();
  small.socket.send("8000000");
  large.socket.send("40000000");
  await sleep(3_500);
  for (const { socket } of [small, large]) socket.resume();
  await closed;
  await until(() => small.replies.length === 1);
});

test("a message that is not JSON, or too deep, is passed on as a fault; the connection stays open", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]), { depth: 5 });
  const { socket, replies } = await dial(`${url}/talk`);
  for (const text of ["{bad", "[[[[[[1]]]]]]", "1"]) socket.send(text);
  await until(() => replies.length === 3);
  expect(replies.map((reply) => JSON.parse(reply) as object)).toEqual([
    { fault: "invalid_json" },
    { fault: "invalid_json" },
    { body: 1 },
  ]);
});

test("a frame that is too large or not text closes its connection and no other", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]), { body: 1_000 });
  const [large, binary, other] = [await dial(`${url}/talk`), await dial(`${url}/talk`), await dial(`${url}/talk`)];
  large.socket.send(JSON.stringify("x".repeat(1_000)));
  binary.socket.send(Buffer.from("1"));
  await until(() => large.code !== undefined && binary.code !== undefined);
  expect([large.code, binary.code]).toEqual([1009, 1003]);
  other.socket.send("1");
  await until(() => other.replies.length === 1);
});

test("refuses other paths, pages of other sites, too many connections, and users' tokens", async () => {
  const { protocol } = talking();
  const host = await served(appOf([protocol, echo()]), { sockets: 1 });
  expect((await dial(`${host.url}/none`)).status).toBe(404);
  expect((await dial(`${host.url}/talk`, { headers: { origin: "http://evil.example" } })).status).toBe(403);
  const first = await dial(`${host.url}/talk`);
  expect((await dial(`${host.url}/talk`)).status).toBe(503);
  first.socket.close();
  await until(() => first.code !== undefined);
  await until(() => first.socket.readyState === WebSocket.CLOSED);
  expect((await dial(`${host.url}/talk`, { headers: { origin: host.url } })).status).toBeUndefined();
  const ofUser = await served(appOf([protocol], { userOf: () => "ann" }));
  expect((await dial(`${ofUser.url}/talk`, { headers: { authorization: "Bearer ann" } })).status).toBe(403);
  // A path of another protocol is still served over HTTP.
  expect((await fetch(`${host.url}/echo`)).status).toBe(200);
});

test("a refused client that keeps its connection open loses it, and does not block closing", async () => {
  const host = await served(appOf([echo()]));
  const upgrade = "GET /none HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
  const [idle, malformed, unread] = [raw(host.port), raw(host.port), raw(host.port)];
  idle.send(upgrade);
  malformed.send("not HTTP\r\n\r\n");
  unread.socket.pause();
  unread.send(post("/large", "{}") + upgrade);
  expect([(await idle.replies(1))[0]?.status, (await malformed.replies(1))[0]?.status]).toEqual([404, 400]);
  await host.close();
});

test("a channel that ends closes with 1000, one that fails with 1011 and without its message", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]));
  const [ended, failed] = [await dial(`${url}/talk`), await dial(`${url}/talk`)];
  ended.socket.send('"end"');
  failed.socket.send('"fail"');
  await until(() => ended.code !== undefined && failed.code !== undefined);
  expect([ended.code, failed.code]).toEqual([1000, 1011]);
  expect(failed.replies).toEqual([]);
});

test("a stopping server finishes the message in progress, and then closes with 1001", async () => {
  const { protocol, waiting, seen } = talking();
  const host = await served(appOf([protocol]));
  const [busy, idle] = [await dial(`${host.url}/talk`), await dial(`${host.url}/talk`)];
  busy.socket.send('"wait"');
  busy.socket.send('"later"');
  await until(() => waiting.length === 1);
  const closed = host.close();
  await until(() => idle.code !== undefined);
  expect([idle.code, busy.code]).toEqual([1001, undefined]);
  waiting[0]!();
  await closed;
  await until(() => busy.code !== undefined);
  expect(busy.code).toBe(1001);
  expect(busy.replies).toEqual([JSON.stringify({ body: "wait" })]);
  expect(seen).toEqual(["wait"]);
});

test("a second close does not wait for a message that hangs", async () => {
  const { protocol, waiting } = talking();
  const host = await served(appOf([protocol]));
  const { socket } = await dial(`${host.url}/talk`);
  socket.send('"wait"');
  await until(() => waiting.length === 1);
  void host.close();
  await host.close();
});

test("a client that does not read its replies loses its connection", async () => {
  const { protocol } = talking();
  const app = appOf([protocol]);
  const { url } = await served(app, { requestTimeout: 400 });
  const { socket } = await dial(`${url}/talk`);
  socket.pause();
  for (let at = 0; at < 4; at++) socket.send('"large"');
  await until(() => app.metrics.streams === 1);
  await until(() => app.metrics.streams === 0);
});

test("a client that answers no pings loses its connection; one that does keeps it", async () => {
  const { protocol } = talking();
  const app = appOf([protocol]);
  const { url } = await served(app, { heartbeat: 100 });
  const silent = await dial(`${url}/talk`, { autoPong: false });
  const quiet = await dial(`${url}/talk`);
  await until(() => silent.code !== undefined);
  expect(silent.code).toBe(1006);
  await sleep(300);
  quiet.socket.send("1");
  await until(() => quiet.replies.length === 1);
});

test("a client that disconnects in the middle of a frame or a message leaves nothing behind", async () => {
  const { protocol, waiting } = talking();
  const app = appOf([protocol]);
  const { url, port } = await served(app);
  const { socket } = await dial(`${url}/talk`);
  socket.send('"wait"');
  await until(() => waiting.length === 1);
  socket.terminate();
  const bare = connect(port, "127.0.0.1");
  const handshake = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13";
  bare.write(`GET /talk HTTP/1.1\r\nHost: localhost\r\n${handshake}\r\nSec-WebSocket-Key: ${"A".repeat(22)}==\r\n\r\n`);
  await until(() => app.metrics.streams === 2 || waiting.length === 1);
  await sleep(50);
  // The first two bytes of a frame with a longer payload.
  bare.write(Buffer.from([0x81, 0xfe, 0x10]));
  await sleep(50);
  bare.destroy();
  waiting[0]!();
  await until(() => app.metrics.streams === 0);
});

test("a request that offers HTTP/2 is served over HTTP/1.1, with its body", async () => {
  const { port } = await served(appOf([echo()]));
  const client = raw(port);
  const head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n";
  const offer =
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
  client.send(`${head}${offer}{"a":`);
  await sleep(20);
  client.send("1}");
  const [reply] = await client.replies(1);
  expect(reply?.status).toBe(200);
  expect(JSON.parse(reply!.body)).toMatchObject({ method: "POST", body: { a: 1 } });
});

test("a message that does not end closes its connection, and an idle client that answers pings stays", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]), { requestTimeout: 400, heartbeat: 100 });
  const idle = await dial(`${url}/talk`);
  const slow = await dial(`${url}/talk`);
  const pinging = setInterval(() => slow.socket.readyState === WebSocket.OPEN && slow.socket.ping("x"), 50);
  slow.socket.send('"a', { fin: false });
  await until(() => slow.code !== undefined);
  clearInterval(pinging);
  expect(idle.code).toBeUndefined();
  idle.socket.send('"still here"');
  await until(() => idle.replies.length === 1);
});

test("unfinished messages of all connections together are limited", async () => {
  const { protocol } = talking();
  const { url } = await served(appOf([protocol]), { uploads: 100_000, requestTimeout: 2_000, heartbeat: 100 });
  const clients = await Promise.all([1, 2, 3].map(() => dial(`${url}/talk`)));
  const idle = await dial(`${url}/talk`);
  for (const { socket } of clients) socket.send(`"${"a".repeat(60_000)}`, { fin: false });
  await until(() => clients.filter(({ code }) => code !== undefined).length >= 2);
  expect(clients.some(({ code }) => code === undefined)).toBe(true);
  expect(idle.code).toBeUndefined();
});

test("a message takes a place among the requests in progress, and gives it back", async () => {
  const { protocol, waiting } = talking();
  const app = appOf([protocol, echo()]);
  const { url } = await served(app, { maxInflight: 2 });
  const clients = await Promise.all([dial(`${url}/talk`), dial(`${url}/talk`), dial(`${url}/talk`)]);
  const [first, second, third] = clients as [Client, Client, Client];
  first.socket.send('"wait"');
  second.socket.send('"wait"');
  await until(() => waiting.length === 2);
  expect(app.metrics.inflight).toBe(2);
  third.socket.send("1");
  await until(() => third.replies.length === 1);
  expect(third.replies).toEqual(['{"fault":"too_busy"}']);
  expect((await fetch(`${url}/echo`)).status).toBe(503);
  // A client that leaves keeps its place until its message is done.
  first.socket.terminate();
  for (const go of waiting) go();
  await until(() => app.metrics.inflight === 0);
  third.socket.send("2");
  await until(() => third.replies.length === 2);
  expect(third.replies[1]).toBe('{"body":2}');
});

test("messages that wait on all connections together are limited", async () => {
  const { protocol, waiting } = talking();
  const { url } = await served(appOf([protocol]), { uploads: 10_000 });
  const { socket, replies } = await dial(`${url}/talk`);
  socket.send('"wait"');
  await until(() => waiting.length === 1);
  for (let at = 0; at < 3; at++) socket.send(JSON.stringify("x".repeat(4_000)));
  await new Promise((resolve) => socket.ping(resolve));
  await sleep(50);
  waiting[0]!();
  await until(() => replies.length === 4);
  expect(replies.map((reply) => (JSON.parse(reply) as { fault?: string }).fault)).toEqual([
    undefined,
    undefined,
    undefined,
    "too_busy",
  ]);
  for (let at = 0; at < 3; at++) {
    socket.send(JSON.stringify("x".repeat(4_000)));
    await until(() => replies.length === 5 + at);
  }
  expect(replies.at(-1)).toContain("xxx");
});
