// The HTTP store against services that fail, lie, stall and hang up: each is recognised, and none is taken for an
// answer.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Commit, Filter, Store } from "../../src/core/store.ts";
import { httpStore } from "../../src/stores/http.ts";
import { hangUp, listen, serveStore } from "./http-server.ts";

afterEach(() => vi.unstubAllEnvs());

type Handle = (request: IncomingMessage, response: ServerResponse, body: string) => void;

/** A service that answers `about` correctly and the rest as told. */
async function serviceOf(handle: Handle): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    asked.push(`${request.method} ${request.url}`);
    if (request.url === "/about") send(response, { format: 1, persistent: true });
    else handle(request, response, body);
  });
  const url = await listen(server);
  onTestFinished(() => hangUp(server));
  return { url, asked };
}

function send(response: ServerResponse, value: unknown, status = 200, headers = {}): void {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
}

async function open(url: string): Promise<Store> {
  const store = await httpStore({ url });
  onTestFinished(() => store.close());
  return store;
}

const commit: Commit = {
  session: "a",
  version: 0,
  entries: [{ body: "1", at: 1, key: "k" }],
  heading: { environment: "shop", opened: 1 },
};

async function rowsOf(store: Store, filter?: Filter): Promise<unknown[]> {
  const rows: unknown[] = [];
  for await (const row of store.list(filter)) rows.push(row);
  return rows;
}

const verbs: Record<string, (store: Store) => Promise<unknown>> = {
  append: (store) => store.append(commit),
  read: (store) => store.read("a", 2, 3),
  load: (store) => store.load("a", 4),
  find: (store) => store.find("a", "k"),
  list: (store) => rowsOf(store, { environment: "shop", open: true }),
  count: (store) => store.count("shop"),
  // Not the session of the append, which it would wait for.
  delete: (store) => store.delete("b"),
};

const codeOf = (run: Promise<unknown>): Promise<string> =>
  run.then(
    (value) => `resolved with ${JSON.stringify(value)}`,
    (error: { code?: string }) => error.code ?? String(error),
  );

const entry = (version: unknown, body: unknown = "1"): unknown => ({ version, body });
const row = { session: "a", version: 1, touched: 1, environment: "shop", opened: 1 };

/** Invalid answers per verb. */
const wrong: Record<string, unknown[]> = {
  every: ["", "ok", "null", "true", "1", "[]", "{}", "<html>Welcome</html>", '{"result":"ok"', '\ufeff"x"', "\u0000"],
  append: [{ result: "OK" }, { result: true }, { result: null }, { result: ["ok"] }, { ok: true }, { answer: "ok" }],
  read: [
    { entries: {} },
    { entries: [entry(1)] },
    { entries: [entry(3), entry(5)] },
    { entries: [entry(3), entry(3)] },
    { entries: [entry(4), entry(3)] },
    { entries: [entry("3")] },
    { entries: [entry(3, { n: 1 })] },
    { entries: [entry(3, null)] },
    { entries: [null] },
    { entries: [3, 4, 5, 6].map((version) => entry(version)) },
  ],
  load: [
    { entries: [entry(2)] },
    { snapshot: entry(2), entries: [entry(4)] },
    { snapshot: entry(5), entries: [] },
    { snapshot: entry(0), entries: [] },
    { snapshot: "2", entries: [] },
    { snapshot: entry(2) },
    { entries: [1, 2, 3, 4, 5].map((version) => entry(version)) },
  ],
  find: [{ entry: entry(0) }, { entry: entry(1.5) }, { entry: entry(1, 1) }, { entry: [] }, { entry: "1" }],
  list: [
    { sessions: {} },
    { sessions: null },
    { sessions: [{ ...row, session: 1 }] },
    { sessions: [{ ...row, version: 0 }] },
    { sessions: [{ ...row, touched: "1" }] },
    { sessions: [{ ...row, opened: null }] },
    { sessions: [{ ...row, parent: "p" }] },
    { sessions: [{ ...row, parent: { session: "p" } }] },
    { sessions: [{ ...row, ended: "closed" }] },
    { sessions: [{ ...row, ended: "toString" }] },
    { sessions: [{ ...row, environment: "chess" }] },
    { sessions: [row], next: 2 },
    { sessions: [], next: "2" },
    { sessions: [row], next: "the same for ever" },
  ],
  count: [{ count: -1 }, { count: 1.5 }, { count: "1" }, { count: null }, 1],
  delete: [{ deleted: 1 }, { deleted: "true" }, { deleted: null }],
};

test.each(Object.keys(verbs))("an invalid answer to %s is store_failed, and names the service", async (verb) => {
  let answer: unknown;
  const { url } = await serviceOf((_, response) => send(response, answer));
  const store = await open(url);
  for (answer of [...(wrong["every"] as unknown[]), ...(wrong[verb] as unknown[])]) {
    const outcome = (verbs[verb] as (store: Store) => Promise<unknown>)(store);
    await expect(outcome, JSON.stringify(answer)).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining(`the HTTP store ${url} sent an invalid answer to ${verb}: `) as string,
    });
  }
});

test("a valid answer is accepted, without unknown fields", async () => {
  const answers: Record<string, unknown> = {
    append: { result: "conflict", more: 1 },
    read: { entries: [{ version: 3, body: "3", at: 9, more: 1 }] },
    load: { snapshot: null, entries: [{ version: 1, body: "1", at: 9, key: "k" }] },
    find: { entry: { version: 1, body: '{"at":5}', key: null } },
    list: { sessions: [{ ...row, parent: null, ended: null, __proto__: { x: 1 }, more: 1 }], next: null },
    count: { count: 3 },
    delete: { deleted: false },
  };
  const { url } = await serviceOf(({ url = "" }, response) => send(response, answers[url.slice(1)]));
  const store = await open(url);
  expect(await verbs["append"]!(store)).toBe("conflict");
  expect(await verbs["read"]!(store)).toEqual([{ version: 3, body: "3", at: 9 }]);
  const entries = [{ version: 1, body: "1", at: 9, key: "k" }];
  expect(await verbs["load"]!(store)).toEqual({ version: 1, mark: "@9", entries });
  expect(await verbs["find"]!(store)).toEqual({ version: 1, body: '{"at":5}', at: 5 });
  expect(await verbs["list"]!(store)).toEqual([row]);
  expect(await verbs["count"]!(store)).toBe(3);
  expect(await verbs["delete"]!(store)).toBe(false);
});

const ourError = (code: string): string => JSON.stringify({ error: { code, message: "as it says", detail: {} } });
const refusals: [number, string, string, RegExp][] = [
  [401, "", "store_failed", /HOLDFAST_STORE_TOKEN/],
  [403, ourError("unauthorized"), "store_failed", /HOLDFAST_STORE_TOKEN/],
  [301, "", "store_failed", /redirects the request \(301\), to https:\/\/elsewhere\.example\/append; use the URL/],
  [307, "", "store_failed", /redirects the request \(307\)/],
  [304, "", "store_failed", /304/],
  [201, '{"result":"ok"}', "store_failed", /answered append with 201/],
  [204, "", "store_failed", /answered append with 204/],
  [400, ourError("invalid_json"), "store_failed", /answered append with 400: as it says/],
  [404, "<html>", "store_failed", /check that the URL and its path belong to a Holdfast store/],
  [404, ourError("session_not_found"), "store_failed", /404: as it says/],
  [413, "", "store_failed", /refused the request because it is too large/],
  [500, "<h1>oops</h1>", "store_failed", /answered append with 500$/],
  [500, ourError("store_corrupt"), "store_corrupt", /answered store_corrupt: as it says/],
  [500, ourError("store_newer"), "store_newer", /as it says/],
  [507, "", "store_full", /no space left/],
  [507, ourError("store_full"), "store_full", /as it says/],
  [503, ourError("store_failed"), "store_failed", /as it says/],
  [503, ourError("store_closed"), "store_busy", /busy or unavailable \(503\): as it says/],
  [503, ourError("store_busy"), "store_busy", /as it says/],
  [503, ourError("version_conflict"), "store_busy", /as it says/],
  [429, "slow down", "store_busy", /429/],
  [502, "<html>", "store_busy", /502/],
  [504, '{"error":"x"}', "store_busy", /504/],
];

test.each(refusals)("a refusal with %i %s is %s", async (status, text, code, message) => {
  const headers = { location: "https://user:secret@elsewhere.example/append?secret" };
  const { url, asked } = await serviceOf((_, response) => send(response, text, status, headers));
  const store = await open(url);
  const error = (await store.append(commit).catch((thrown: unknown) => thrown)) as { code: string; message: string };
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string });
  expect(error.message).not.toContain("secret");
  expect(asked).toEqual(["GET /about", "POST /append"]);
});

test("session_not_found is valid only for a cursor of a list", async () => {
  const { url } = await serviceOf((_, response) => send(response, ourError("session_not_found"), 404));
  const store = await open(url);
  expect(await codeOf(rowsOf(store, { after: "x" }))).toBe("session_not_found");
  expect(await codeOf(store.read("x", 0))).toBe("store_failed");
});

test("the text of a service cannot break the line it is printed in", async () => {
  const message = `one\ntwo\u001b[31m three ${"x".repeat(5000)}`;
  const { url } = await serviceOf((_, response) => send(response, { error: { code: "store_failed", message } }, 503));
  const store = await open(url);
  const error = (await store.append(commit).catch((thrown: unknown) => thrown)) as Error;
  expect(error.message).toMatch(/one two \[31m three x+…$/);
  expect(error.message.length).toBeLessThan(400);
});

describe("retries", () => {
  test.each(Object.keys(verbs))("%s, if the connection is cut before the answer", async (verb) => {
    let cuts = 0;
    const answers: Record<string, unknown> = {
      read: { entries: [] },
      load: { entries: [] },
      find: { entry: null },
      list: { sessions: [] },
      count: { count: 0 },
    };
    const { url, asked } = await serviceOf(({ socket }, response) => {
      if (cuts++ === 0) socket.destroy();
      else send(response, answers[verb] ?? { result: "ok", deleted: true });
    });
    const outcome = await codeOf((verbs[verb] as (store: Store) => Promise<unknown>)(await open(url)));
    // A write may have been applied, so it is not repeated.
    const isWrite = verb === "append" || verb === "delete";
    expect(asked.length - 1).toBe(isWrite ? 1 : 2);
    expect(outcome).toMatch(isWrite ? /^store_busy$/ : /^resolved/);
  });

  test("an answer that is cut in the middle is invalid, even if it could be parsed", async () => {
    let isFirst = true;
    const { url, asked } = await serviceOf(({ socket }, response) => {
      response.writeHead(200, { "content-length": "500" });
      response.write('{"result":"ok","entries":[]}', () => socket.destroy());
      isFirst = false;
    });
    const store = await open(url);
    expect(await codeOf(store.append(commit))).toBe("store_busy");
    expect(asked).toEqual(["GET /about", "POST /append"]);
    expect(isFirst).toBe(false);
  });

  test("a read that is answered with 503 at first", async () => {
    let times = 0;
    const { url } = await serviceOf((_, response) =>
      times++ < 3 ? send(response, "", 503) : send(response, { count: times }),
    );
    expect(await (await open(url)).count("shop")).toBe(4);
  });
});

describe("a slow service", { tags: ["full"] }, () => {
  test("makes every verb settle as store_busy, and the connections are closed", async () => {
    const sockets = new Set<Socket>();
    const { url, asked } = await serviceOf(({ socket }) => void sockets.add(socket));
    const store = await open(url);
    const began = performance.now();
    const outcomes = await Promise.all(Object.values(verbs).map((verb) => codeOf(verb(store))));
    expect(outcomes).toEqual(outcomes.map(() => "store_busy"));
    expect(performance.now() - began).toBeLessThan(6000);
    expect(performance.now() - began).toBeGreaterThan(4500);
    expect(asked.length).toBe(8);
    await vi.waitFor(() => expect([...sockets].filter(({ destroyed }) => !destroyed)).toEqual([]));
  });

  test("that sends a little now and then gains nothing by it, nor does one that only sends 100", async () => {
    const { url } = await serviceOf(({ url = "" }, response) => {
      if (url === "/count") return void setInterval(() => response.writeContinue(), 100).unref();
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 100).unref();
      response.on("close", () => clearInterval(timer));
    });
    const store = await open(url);
    const began = performance.now();
    expect(await Promise.all([codeOf(store.read("a", 0)), codeOf(store.count("shop"))])).toEqual([
      "store_busy",
      "store_busy",
    ]);
    expect(performance.now() - began).toBeLessThan(6000);
  });

  test("with hundreds of requests: waiting requests are rejected too, and are not sent later", async () => {
    const { url, asked } = await serviceOf(() => undefined);
    const store = await open(url);
    const appends = Array.from({ length: 300 }, (_, at) => codeOf(store.append({ ...commit, session: `s${at}` })));
    expect(new Set(await Promise.all(appends))).toEqual(new Set(["store_busy"]));
    // A few get a connection at the moment the first ones are given up.
    const sent = asked.length;
    expect(sent).toBeLessThan(100);
    await store.close();
    expect(asked.length).toBe(sent);
  });
});

test("opens no more than 64 connections, for any number of callers", async () => {
  let [open64, most] = [0, 0];
  const { url } = await serviceOf((_, response) => {
    most = Math.max(most, ++open64);
    setImmediate(() => {
      open64--;
      send(response, { count: 1 });
    });
  });
  const store = await open(url);
  await Promise.all(Array.from({ length: 1000 }, () => store.count("shop")));
  expect(most).toBeGreaterThan(8);
  expect(most).toBeLessThanOrEqual(64);
});

test("an answer that is too large or not UTF-8 is refused", { tags: ["full"] }, async () => {
  const megabyte = Buffer.alloc(1024 * 1024, " ");
  const { url } = await serviceOf(({ url = "" }, response) => {
    if (url === "/find") {
      return void response.end(
        Buffer.concat([Buffer.from('{"entry":{"version":1,"body":"'), Buffer.from([0xff, 0x22, 0x7d, 0x7d])]),
      );
    }
    let sent = 0;
    const more = (): void => {
      while (sent++ < 300) if (!response.write(megabyte)) return void response.once("drain", more);
      response.end();
    };
    more();
  });
  const store = await open(url);
  await expect(store.append(commit)).rejects.toThrow("sent an answer larger than 256 MB");
  await expect(store.find("a", "k")).rejects.toThrow("answered with invalid UTF-8");
});

describe("opening", () => {
  const opening = async (about: unknown, status = 200): Promise<string> => {
    const server = createServer((_, response) => send(response, about, status));
    const url = await listen(server);
    onTestFinished(() => hangUp(server));
    return codeOf(httpStore({ url }));
  };

  test.each<[unknown, string]>([
    [{ format: 2, persistent: true }, "store_newer"],
    [{ format: 7 }, "store_newer"],
    [{ format: "1", persistent: true }, "store_failed"],
    [{ format: 1, persistent: "yes" }, "store_failed"],
    [{ format: 0, persistent: true }, "store_failed"],
    [{ status: "ok" }, "store_failed"],
    ["<html>", "store_failed"],
  ])("asks for the description first: %j is %s", async (about, code) => {
    expect(await opening(about)).toBe(code);
  });

  test("a service that says it is not persistent is not", async () => {
    const server = createServer((_, response) => send(response, { format: 1, persistent: false }));
    const url = await listen(server);
    onTestFinished(() => hangUp(server));
    expect((await open(url)).persistent).toBe(false);
  });

  test(
    "at an address without a listener, or with an unknown name, is store_busy in time, with a short message",
    { tags: ["full"] },
    async () => {
      const began = performance.now();
      const refused = await httpStore({ url: "http://localhost:1" }).catch((thrown: unknown) => thrown);
      expect(refused).toMatchObject({
        code: "store_busy",
        message: expect.stringMatching(
          /^the HTTP store http:\/\/localhost:\d+ cannot be reached: .*ECONNREFUSED/,
        ) as string,
      });
      expect(performance.now() - began).toBeLessThan(6000);
    },
  );

  test.each([
    ["", "must be a service URL"],
    ["example.com", "must be a service URL"],
    ["ftp://example.com", "must be a service URL"],
    ["http://example.com/?a=1", "must not contain ? or #"],
    ["https://me:hidden@example.com/x", "https://TOKEN@example.com/x"],
    ["https://hid%ZZden@example.com", "percent-encoded"],
    ["https://hid%0Aden@example.com", "must be plain ASCII text"],
  ])("the URL %j is refused with invalid_option, and its secrets are not shown", async (url, message) => {
    const error = (await httpStore({ url }).catch((thrown: unknown) => thrown)) as { code: string; message: string };
    expect(error).toMatchObject({ code: "invalid_option", message: expect.stringContaining(message) as string });
    expect(error.message).not.toContain("hid");
  });
});

describe("the token", () => {
  test("comes from the environment, or from the URL, which wins", async () => {
    const { url, dispose } = await serveStore({ token: "let-me/in" });
    onTestFinished(dispose);
    await expect(httpStore({ url })).rejects.toThrow(
      /refused the token, or requires one \(401\); set HOLDFAST_STORE_TOKEN/,
    );
    vi.stubEnv("HOLDFAST_STORE_TOKEN", "let-me/in");
    expect(await (await open(url)).count("shop")).toBe(0);
    vi.stubEnv("HOLDFAST_STORE_TOKEN", "another");
    expect(await codeOf(httpStore({ url }))).toBe("store_failed");
    expect(await (await open(url.replace("//", "//let-me%2Fin@"))).count("shop")).toBe(0);
  });

  test("is in no message", async () => {
    const { url } = await serviceOf(({ socket }) => void socket.destroy());
    const store = await open(url.replace("//", "//topsecret@"));
    const error = (await store.append(commit).catch((thrown: unknown) => thrown)) as Error;
    expect(`${error.message} ${JSON.stringify(error)} ${String(error.cause)}`).not.toContain("topsecret");
  });
});

test("a path in the URL stays in front of the verbs, with or without a slash at its end", async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    send(response, { format: 1, persistent: true, count: 1 });
  });
  const url = await listen(server);
  onTestFinished(() => hangUp(server));
  for (const end of ["/a/b", "/a/b/", ""]) await (await open(url + end)).count("shop");
  expect(asked).toEqual(["/a/b/about", "/a/b/count", "/a/b/about", "/a/b/count", "/about", "/count"]);
});

test("numbers that JSON cannot write are not sent: no limit is omitted, the end of time is a number, NaN is refused", async () => {
  const bodies: unknown[] = [];
  const { url } = await serviceOf(({ url = "" }, response, body) => {
    bodies.push({ [url]: JSON.parse(body) as unknown });
    send(response, url === "/list" ? { sessions: [] } : { entries: [] });
  });
  const store = await open(url);
  await store.read("a", -5, Infinity);
  await store.read("a", 0, 0);
  await store.load("a", Infinity);
  await rowsOf(store, { idleBefore: Infinity, openedBefore: -Infinity });
  expect(bodies).toEqual([
    { "/read": { session: "a", after: 0 } },
    { "/read": { session: "a", after: 0, limit: 1 } },
    { "/load": { session: "a" } },
    { "/list": { idleBefore: Number.MAX_SAFE_INTEGER, openedBefore: Number.MIN_SAFE_INTEGER, limit: 16 } },
  ]);
  const nan = { ...commit, entries: [{ body: "1", at: Number.NaN }] } as Commit;
  expect(await codeOf(store.append(nan))).toBe("invalid_option");
  expect(bodies.length).toBe(4);
});
