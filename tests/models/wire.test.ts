// Behaviour shared by the models with an API: broken servers, retries, timeouts, cancellation, and releasing
// connections.
import { getEventListeners } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { answerText, type Piece } from "../../src/core/model.ts";
import { cut, json, nowhere, play, raw, silent, stream, stuck, type Reply } from "./server.ts";
import { apis, hello, impatient } from "./wire-apis.ts";

const html = raw("<html><body>Welcome to nginx</body></html>", { "content-type": "text/html" });
const type = { "content-type": "application/json" };

describe.each(apis.map((played) => ({ name: played.api.name, ...played })))("$name", (played) => {
  const { api, whole, begun } = played;
  const text = JSON.stringify(whole);

  const broken: [string, Reply, RegExp][] = [
    ["is cut in the middle", cut(text.slice(0, -5), "application/json"), /in the middle of its answer/],
    ["is an HTML page", html, /is the base URL correct.*Welcome to nginx/],
    ["is empty", raw("", type), /an empty body/],
    ["is no object", raw("[1]", type), /not an object/],
    ["is shorter than it says", cut(text, "application/json", text.length + 9), /cut|middle|closed/],
    ["is an object of something else", json({ hello: "world" }), /sent an invalid answer/],
    ["is not HTTP", (response) => response.socket?.end("what?\r\n\r\n"), /could not be reached/],
    ["is a closed connection", (response) => response.socket?.destroy(), /could not be reached/],
    ["is status 500", json({ error: { message: "it broke" } }, 500), /status 500: it broke/],
    ["is status 529", json({ type: "error", error: { type: "overloaded_error", message: "busy" } }, 529), /busy/],
    ["is status 503 without a body", raw("", {}, 503), /status 503: no reason was given/],
    ["is status 408", json({ detail: "too slow" }, 408), /too slow/],
    ["is status 409", json({ error: "locked" }, 409), /locked/],
    ["is status 429", json({ object: "error", message: "slow down", code: 429 }, 429), /slow down/],
  ];

  test.each(broken)("an answer that %s is requested again, and finally model_failed", async (_, reply, message) => {
    const recovering = await play(reply, json(whole));
    const { model, waits } = impatient(api, recovering.url);
    expect(answerText((await model.respond(hello)).output)).toBe("Hi");
    expect(waits).toHaveLength(1);

    const lost = await play(reply);
    await expect(impatient(api, lost.url).model.respond(hello)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(message),
      detail: { attempts: 4 },
    });
    expect(lost.asked).toHaveLength(4);
  });

  test("an answer longer than its content-length does not affect later answers", async () => {
    const long = raw(`${text}${text}`, { ...type, "content-length": String(text.length) });
    const writing: Reply = (response, asked) => {
      // Node refuses to write more than the content-length.
      if (response.socket)
        response.socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}${text}`);
      else long(response, asked);
    };
    const server = await play(writing, json(whole));
    const { model } = impatient(api, server.url);
    expect(answerText((await model.respond(hello)).output)).toBe("Hi");
    expect(answerText((await model.respond(hello)).output)).toBe("Hi");
  });

  test("an unreachable server is model_failed, with the reason", async () => {
    const { model } = impatient(api, nowhere, { attempts: 2 });
    await expect(model.respond(hello)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(/^\w+:m at http:\S+ could not be reached: .*ECONNREFUSED.* \(2 attempts\)$/),
    });
  });

  test("a server that never answers is model_timeout", async () => {
    const server = await play(silent);
    const { model } = impatient(api, server.url, { timeout: 500, attempts: 2 });
    await expect(model.respond(hello)).rejects.toMatchObject({ code: "model_timeout", detail: { attempts: 2 } });
    expect(server.asked).toHaveLength(2);
  });

  test("the connection of a timed-out request is closed", async () => {
    const server = await play(silent);
    const { model } = impatient(api, server.url, { timeout: 50, attempts: 1 });
    await expect(model.respond(hello)).rejects.toMatchObject({ code: "model_timeout" });
    await server.left();
  });

  test("the timeout covers the whole answer", async () => {
    const dripping: Reply = (response) => {
      response.writeHead(200, type);
      const timer = setInterval(() => response.write(" "), 5);
      response.on("close", () => clearInterval(timer));
    };
    const server = await play(dripping);
    const { model } = impatient(api, server.url, { timeout: 60, attempts: 1 });
    await expect(model.respond(hello)).rejects.toMatchObject({ code: "model_timeout" });
    await server.left();
  });

  test("a stream that falls silent is model_timeout, and is not retried", async () => {
    const server = await play(stuck(begun));
    const pieces: Piece[] = [];
    const { model } = impatient(api, server.url, {}, { idle: 50 });
    await expect(model.respond(hello, { onPiece: (piece) => pieces.push(piece) })).rejects.toMatchObject({
      code: "model_timeout",
      message: expect.stringContaining("sent nothing for 50 ms"),
      detail: { attempts: 1 },
    });
    expect(pieces).toEqual([{ type: "text", text: "Hi" }]);
    await server.left();
  });

  test("a stream is complete at its last event, even if the server keeps it open", async () => {
    const server = await play(stuck(played.stream));
    const { output } = await impatient(api, server.url).model.respond(hello, { onPiece: () => undefined });
    expect(answerText(output)).toBe("Hi");
    await server.left();
  });

  test("a whole answer to a streaming request is accepted, and the reverse", async () => {
    const pieces: Piece[] = [];
    const server = await play(json(whole), stream(played.stream), raw(played.stream, { "content-type": "text/plain" }));
    const { model } = impatient(api, server.url);
    const onPiece = (piece: Piece): unknown => pieces.push(piece);
    expect(answerText((await model.respond(hello, { onPiece })).output)).toBe("Hi");
    expect(answerText((await model.respond(hello)).output)).toBe("Hi");
    expect(answerText((await model.respond(hello, { onPiece })).output)).toBe("Hi");
    expect(pieces).toEqual([
      { type: "text", text: "Hi" },
      { type: "text", text: "Hi" },
    ]);
  });

  test("an endless answer is aborted, once", async () => {
    const chunk = Buffer.alloc(1024 * 1024, 32);
    const endless: Reply = (response) => {
      response.writeHead(200, type);
      const more = (): void => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on("drain", more);
      more();
    };
    const server = await play(endless);
    await expect(impatient(api, server.url).model.respond(hello)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringContaining("larger than 64 MB"),
      detail: { attempts: 1 },
    });
    await server.left();
  });

  const refusals: [string, Reply, object, RegExp][] = [
    [
      "a bad request",
      json({ error: { message: "no such field", code: "bad" } }, 400),
      { status: 400, reason: "bad" },
      /no such/,
    ],
    [
      "an unknown model",
      json({ detail: [{ loc: ["body"], msg: "unknown model" }] }, 404),
      { status: 404 },
      /unknown model/,
    ],
    ["a redirection", raw("", { location: "https://x.test/" }, 307), { status: 307 }, /redirect.*baseUrl/],
    [
      "too long a conversation, whatever the status",
      json({ error: { message: "This model's maximum context length is 8192 tokens" } }, 500),
      { status: 500 },
      /maximum context length/,
    ],
    ["no money", json({ error: { message: "Pay.", code: "insufficient_quota" } }, 429), { status: 429 }, /Pay/],
  ];

  test.each(refusals)("%s is model_refused, at once, with the server's reason", async (_, reply, detail, message) => {
    const server = await play(reply);
    await expect(impatient(api, server.url).model.respond(hello)).rejects.toMatchObject({
      code: "model_refused",
      message: expect.stringMatching(message),
      detail: { ...detail, attempts: 1 },
    });
    expect(server.asked).toHaveLength(1);
  });

  test.each([401, 403])("status %i is model_refused, and names the variable to check", async (status) => {
    const server = await play(json({ error: { message: "Wrong key." } }, status));
    process.env[api.keyVariable] = "of-the-environment";
    try {
      await expect(
        impatient(api, server.url, { apiKey: undefined as never }).model.respond(hello),
      ).rejects.toMatchObject({
        code: "model_refused",
        message: expect.stringMatching(new RegExp(`Wrong key\\.; check ${api.keyVariable}$`)),
      });
    } finally {
      delete process.env[api.keyVariable];
    }
  });

  test("Retry-After is honoured", async () => {
    const asking = (headers: Record<string, string>): Reply => json({ error: "busy" }, 429, headers);
    const server = await play(asking({ "retry-after": "2" }), asking({ "retry-after-ms": "3000" }), json(whole));
    const { model, waits } = impatient(api, server.url);
    await model.respond(hello);
    expect(waits[0]).toBeGreaterThanOrEqual(2_000);
    expect(waits[0]).toBeLessThanOrEqual(2_500);
    expect(waits[1]).toBeGreaterThanOrEqual(3_000);
  });

  describe("a request that is cancelled", () => {
    test("before it is sent is never sent", async () => {
      const server = await play(json(whole));
      const reason = new Error("enough");
      const { model } = impatient(api, server.url);
      await expect(model.respond(hello, { signal: AbortSignal.abort(reason) })).rejects.toMatchObject({
        code: "model_cancelled",
        cause: reason,
      });
      expect(server.asked).toHaveLength(0);
    });

    test("before any reply closes its connection at once", async () => {
      const server = await play(silent);
      const controller = new AbortController();
      const answer = impatient(api, server.url).model.respond(hello, { signal: controller.signal });
      await server.next();
      controller.abort();
      await expect(answer).rejects.toMatchObject({ code: "model_cancelled", detail: { attempts: 1 } });
      await server.left();
    });

    test("in the middle of a stream closes its connection at once", async () => {
      const server = await play(stuck(begun));
      const controller = new AbortController();
      const { model } = impatient(api, server.url);
      const onPiece = (): void => controller.abort();
      await expect(model.respond(hello, { signal: controller.signal, onPiece })).rejects.toMatchObject({
        code: "model_cancelled",
      });
      await server.left();
    });

    test("between two attempts stops waiting", async () => {
      const server = await play(json({ error: "busy" }, 503, { "retry-after": "3600" }));
      const controller = new AbortController();
      // The real clock: waiting would take a minute.
      const { model } = impatient(api, server.url, {}, { wait: undefined as never });
      const answer = model.respond(hello, { signal: controller.signal });
      await server.next();
      await nextTurn();
      controller.abort();
      await expect(answer).rejects.toMatchObject({ code: "model_cancelled" });
    });
  });

  test("a signal may be shared by many requests, and no listener stays on it", async () => {
    const server = await play(json({ error: "busy" }, 500), json(whole));
    const { signal } = new AbortController();
    const { model } = impatient(api, server.url);
    const warnings: Error[] = [];
    const note = (warning: Error): unknown => warnings.push(warning);
    process.on("warning", note);
    await Promise.all(Array.from({ length: 50 }, () => model.respond(hello, { signal })));
    await nextTurn();
    process.removeListener("warning", note);
    expect(warnings).toEqual([]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("an error thrown by onPiece is rethrown, and the connection is closed", async () => {
    const server = await play(stuck(begun));
    const error = new Error("a bug of the caller's");
    const onPiece = (): never => {
      throw error;
    };
    await expect(impatient(api, server.url).model.respond(hello, { onPiece })).rejects.toBe(error);
    await server.left();
  });

  test("a request that is not JSON is refused before it is sent", async () => {
    const { model } = impatient(api, "http://127.0.0.1:1");
    await expect(model.respond({ ...hello, seed: 1n })).rejects.toMatchObject({ code: "not_json" });
  });

  test("onPiece requests a stream, whatever the settings say", async () => {
    const server = await play(json(whole));
    const { model } = impatient(api, server.url, { request: { stream: true } });
    await model.respond(hello);
    await model.respond({ ...hello, stream: false }, { onPiece: () => undefined });
    expect(server.asked.map(({ body }) => body["stream"])).toEqual([undefined, true]);
  });

  test("a connection is reused, also after a stream", async () => {
    const server = await play(json(whole), stream(played.stream));
    const { model } = impatient(api, server.url);
    for (let n = 0; n < 10; n++) await model.respond(hello, n % 2 === 0 ? {} : { onPiece: () => undefined });
    expect(server.connections()).toBe(1);
  });
});

test("2,048 requests to one server are open at the same time", async ({ skip }) => {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files: { soft: number | string } } };
  // Both ends of each connection are in this process.
  if (Number(userLimits?.open_files.soft ?? Infinity) < 4500)
    skip("the limit of open files is too low: ulimit -n 4500");
  const { api, whole } = apis[0]!;
  const [most, open] = [2048, [] as (() => void)[]];
  // Answers when all have arrived. With fewer connections, the requests would time out.
  const server = await play((response, asked) => {
    open.push(() => json(whole)(response, asked));
    if (open.length === most) for (const answer of open) answer();
  });
  const { model } = impatient(api, server.url, { timeout: 30_000, attempts: 1 });
  const answers = await Promise.all(Array.from({ length: most }, () => model.respond(hello)));
  expect(answers).toHaveLength(most);
});
