// The app without a port: routing, errors, probes, the bearer token.
import { memoryStore } from "holdfast";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { createLog } from "../../src/server/log.ts";
import { appOf, asked, echo } from "./serving.ts";

const named = (name: string): Protocol => ({
  name,
  handle: async ({ path }) => (path === "/missing" ? undefined : { status: 200, body: { name, path } }),
});

describe("routing", () => {
  test("the first protocol with a reply wins", async () => {
    const none: Protocol = { name: "none", handle: async () => undefined };
    expect(await appOf([none, named("a"), named("b")]).handle(asked("/x"))).toMatchObject({ body: { name: "a" } });
  });

  test("an environment is served under its name, and the first one also at the root", async () => {
    const mounts = [
      { prefix: "", protocols: [named("one")] },
      { prefix: "/one", protocols: [named("one")] },
      { prefix: "/two", protocols: [named("two")] },
    ];
    const app = appOf([], { mounts });
    const of = async (path: string): Promise<unknown> => (await app.handle(asked(path))).body;
    expect(await of("/verify")).toEqual({ name: "one", path: "/verify" });
    expect(await of("/one/verify")).toEqual({ name: "one", path: "/verify" });
    expect(await of("/two/verify")).toEqual({ name: "two", path: "/verify" });
    expect(await of("/two")).toEqual({ name: "two", path: "/" });
    expect(await of("/twofold")).toEqual({ name: "one", path: "/twofold" });
    expect(await of("/two/missing")).toEqual({ name: "one", path: "/two/missing" });
  });

  test("an unknown path is 404, in the shape of every error, with the protocol's additions", async () => {
    const reply = await appOf([echo()]).handle(asked("/nowhere", { headers: { cookie: "c" } }));
    expect(reply).toMatchObject({ status: 404, headers: { "set-cookie": "kept=c" } });
    expect(reply.body).toEqual({
      error: { code: "not_found", message: "no route matches GET /nowhere", detail: {} },
    });
  });

  test.each(["HEAD", "OPTIONS", "TRACE", "PROPFIND"])("%s is 405 and lists the allowed methods", async (method) => {
    const reply = await appOf([named("a")]).handle(asked("/x", { method }));
    expect(reply).toMatchObject({ status: 405, headers: { allow: "GET, POST, PUT, PATCH, DELETE" } });
    expect(await appOf([]).handle(asked("/healthz", { method }))).toMatchObject({
      status: 405,
      headers: { allow: "GET" },
    });
  });
});

describe("errors", () => {
  test("a thrown HoldfastError becomes its status and shape, with its protocol's additions", async () => {
    const reply = await appOf([echo()]).handle(asked("/closed"));
    expect(reply).toMatchObject({ status: 410, headers: { "set-cookie": "kept=new" } });
    expect(reply.body).toEqual({
      error: { code: "session_closed", message: "it is closed", detail: { session: "abc" } },
    });
  });

  test("any other error is 500, reveals nothing, and is logged", async () => {
    const lines: string[] = [];
    const app = appOf([echo()], { log: createLog({ destination: { write: (line) => void lines.push(line) } }) });
    const reply = await app.handle(asked("/bug"));
    expect(reply).toMatchObject({ status: 500, body: { error: { code: "internal" } } });
    expect(JSON.stringify(reply)).not.toContain("42");
    expect(lines.join("")).toContain("the secret is 42");
  });

  test("a decorate that throws loses only its own additions", async () => {
    const faulty: Protocol = {
      ...named("a"),
      decorate: () => {
        throw new Error("no");
      },
    };
    expect(await appOf([faulty]).handle(asked("/missing"))).toMatchObject({ status: 404 });
  });
});

describe("probes", () => {
  test("healthz is ok while the server answers; readyz fails while it stops or its store fails", async () => {
    const store = memoryStore();
    const app = appOf([], { store });
    expect(await app.handle(asked("/healthz"))).toMatchObject({ status: 200 });
    expect(await app.handle(asked("/readyz"))).toMatchObject({ status: 200 });
    await store.close();
    expect(await app.handle(asked("/readyz"))).toMatchObject({
      status: 503,
      body: { error: { code: "store_closed" } },
    });
    expect(await app.handle(asked("/healthz"))).toMatchObject({ status: 200 });

    const stopping = appOf([]);
    stopping.stop();
    expect(await stopping.handle(asked("/readyz"))).toMatchObject({
      status: 503,
      headers: { "retry-after": "1" },
      body: { error: { code: "server_stopping" } },
    });
  });

  test("a store that throws an unknown error counts as failed", async () => {
    const store = { ...memoryStore(), read: () => Promise.reject(new Error("no disk")) };
    expect(await appOf([], { store }).handle(asked("/readyz"))).toMatchObject({
      status: 503,
      body: { error: { code: "store_failed" } },
    });
  });
});

describe("the bearer token", () => {
  const token = "a-token-of-the-server";
  const paths = ["/v1", "/v1/secret", "/%76%31/secret", "//v1/secret", "/V1/secret", "/two/v1/secret", "/metrics"];

  test.each(paths)("%s requires it", async (path) => {
    const protocols = [echo()];
    const mounts = ["", "/two"].map((prefix) => ({ prefix, protocols }));
    const app = appOf([], { mounts, token });
    for (const authorization of [undefined, "", token, "Bearer", `Bearer ${token}x`, `Basic ${token}`, "Bearer é"]) {
      const reply = await app.handle(asked(path, { headers: { authorization } }));
      expect(reply).toMatchObject({ status: 401, headers: { "www-authenticate": "Bearer" } });
    }
    const reply = await app.handle(asked(path, { headers: { authorization: `Bearer ${token}` } }));
    expect([200, 404]).toContain(reply.status);
  });

  test("other paths do not, and without a token none does", async () => {
    expect(await appOf([echo()], { token }).handle(asked("/echo"))).toMatchObject({ status: 200 });
    expect(await appOf([echo()], { token }).handle(asked("/healthz"))).toMatchObject({ status: 200 });
    expect(await appOf([echo()]).handle(asked("/v1/secret"))).toMatchObject({ status: 200 });
  });
});

test("a refusal by the host carries the additions of its path's protocol", () => {
  const reply = appOf([echo()]).refuse(asked("/echo"), new HoldfastError("too_busy", "busy"));
  expect(reply).toMatchObject({ status: 503, headers: { "retry-after": "1", "set-cookie": "kept=new" } });
});
