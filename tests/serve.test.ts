// serve(): which environments it takes, and what its parts do only together: every gym reply has the cookie of its environment.
import { defineEnvironment, memoryStore, tool } from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { serve, type ServeOptions } from "../src/serve.ts";

const named = (name: string) =>
  defineEnvironment({
    name,
    tools: { ping: tool({ description: "Ping.", run: () => "pong" }) },
    verify: () => 1,
  });

async function served(names: string[], options: Partial<ServeOptions> = {}): Promise<string> {
  const store = memoryStore();
  const environments = names.map(named);
  const { url, close } = await serve({ environments, store, port: 0, log: { what: "none" }, ...options });
  onTestFinished(async () => {
    await close();
    await store.close();
  });
  return url;
}

test.each(["", "short", "two words", "é".repeat(10)])(
  "the token %j would guard nothing, and is refused",
  async (token) => {
    const refused = expect(served(["one"], { token })).rejects;
    await refused.toMatchObject({ code: "invalid_option", message: expect.stringContaining("token") as unknown });
  },
);

describe("environments", () => {
  test.each([
    [[], "there is no environment to serve"],
    [["one", "two", "one"], "two environments are called one"],
    // Their cookies would have the same name.
    [["a-b", "a_b"], "two environments are called a_b"],
    ...["v1", "ng-rollout", "metrics", "healthz", "readyz", "docs"].map((name): [string[], string] => [
      ["one", name],
      `an environment called ${name} cannot be served`,
    ]),
  ])("%j are refused", async (names, message) => {
    const refused = expect(served(names)).rejects;
    await refused.toMatchObject({ code: "invalid_option", message: expect.stringContaining(message) as unknown });
  });

  test("one that has the name of a path of the first one is refused", async () => {
    for (const name of ["verify", "seed_session", "ping"]) {
      await expect(served(["one", name])).rejects.toMatchObject({ code: "invalid_option" });
    }
  });

  test("two are served under their names, with a cookie each, and the first one also at the root", async () => {
    const url = await served(["one", "two-three"]);
    const cookieAt = async (path: string): Promise<unknown> =>
      (await fetch(url + path, { method: "POST" })).headers.get("set-cookie")?.split("=")[0];
    const paths = ["/ping", "/one/ping", "/two-three/ping", "/two/ping"];
    expect(await Promise.all(paths.map(cookieAt))).toEqual([
      ...["holdfast_one", "holdfast_one", "holdfast_two_three", "holdfast_one"],
    ]);
  });
});

describe("a client that keeps only the cookies of the last reply keeps its session", () => {
  const token = "a-token-of-the-server";

  test.each([
    ["401", "GET", "/v1/sessions", 401],
    ["401 below its name", "GET", "/one/v1/sessions", 401],
    ["401 of /metrics", "GET", "/metrics", 401],
    ["405", "OPTIONS", "/ping", 405],
    ["405 with a body", "PROPFIND", "/seed_session", 405],
    ["405 of /v1", "PUT", "/v1/sessions", 405],
    ["405 of /healthz", "POST", "/healthz", 405],
    ["404", "GET", "/nowhere", 404],
  ])("through a %s", async (_, method, path, status) => {
    const url = await served(["one", "two"], { token });
    const headers = (cookie: string, path = ""): Record<string, string> => ({
      cookie,
      ...(status !== 401 && path.startsWith("/v1") && { authorization: `Bearer ${token}` }),
    });
    const cookieOf = (response: Response): string => response.headers.get("set-cookie")?.split(";", 1)[0] ?? "";
    const seeded = await fetch(`${url}/seed_session`, { method: "POST" });
    const { session_id: session } = (await seeded.json()) as { session_id: string };
    const refused = await fetch(url + path, { method, headers: headers(cookieOf(seeded), path) });
    expect(refused.status).toBe(status);
    const verified = await fetch(`${url}/verify`, { method: "POST", headers: headers(cookieOf(refused)) });
    expect(await verified.json()).toMatchObject({ session_id: session, episode: 1 });
  });
});
