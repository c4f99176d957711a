// A server without a token answers only this machine: it refuses foreign host names and pages of other sites.
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { createAccess } from "../../src/server/access.ts";
import { appOf, asked, echo, raw, served } from "./serving.ts";

const isAllowed = (headers: { [name: string]: string }): boolean => {
  try {
    createAccess({}).authorize({ headers }, true);
    return true;
  } catch (thrown) {
    expect(thrown).toMatchObject({
      code: headers["origin"] === undefined ? "not_local" : "foreign_origin",
      status: 403,
    });
    return false;
  }
};

test.each<[string | undefined, boolean]>([
  ["localhost", true],
  ["localhost:8080", true],
  ["LOCALHOST:8080", true],
  ["app.localhost:8080", true],
  ["127.0.0.1:8080", true],
  ["127.8.9.1", true],
  ["192.168.1.7:8080", true],
  ["[::1]:8080", true],
  ["[::1]", true],
  ["[fe80::1]:80", true],
  [undefined, false],
  ["", false],
  ["evil.example", false],
  ["evil.example:8080", false],
  ["127.0.0.1.evil.example", false],
  ["localhost.evil.example", false],
  ["notlocalhost", false],
  ["localhost:8080.evil.example", false],
  ["evil.example#localhost", false],
  ["evil.example:80@localhost", false],
  ["localhost, evil.example", false],
  ["::1", false],
  ["[::1", false],
  ["[evil.example]", false],
  ["0x7f.1", false],
  ["2130706433", false],
  ["localhost:", false],
  ["127.0.0.1:http", false],
])("the Host %s is answered: %s", (host, wanted) => {
  expect(isAllowed(host === undefined ? {} : { host })).toBe(wanted);
});

test.each<[string, boolean]>([
  ["mcp-session-id,mcp-protocol-version,mcp-method,mcp-name,x-nemo-gym-session-token,holdfast-tools", true],
  ["authorization,content-type,openai-organization,x-stainless-arch,x-stainless-retry-count", true],
  ["a2a-version, x-session-id, x-api-key, anthropic-version", true],
  ["", false],
  ["x-a\r\nset-cookie: a=b", false],
  ["x a", false],
  ["x-a,,x-b", false],
  ["x".repeat(2_001), false],
])("a page on the list may send every header that has a valid name, case %#", (asked, wanted) => {
  const origin = "https://app.example";
  const { corsHeaders } = createAccess({ origins: [origin] });
  const headers = { origin, "access-control-request-headers": asked };
  const cors = corsHeaders({ headers });
  expect(cors?.["access-control-allow-headers"]).toBe(wanted ? asked : undefined);
  expect(cors?.["access-control-expose-headers"]?.split(", ")).toContain("mcp-session-id");
  expect(corsHeaders({ headers: { ...headers, origin: "https://evil.example" } })).toBeUndefined();
});

const here = "127.0.0.1:8080";

test.each<[string, string, boolean]>([
  [here, `http://${here}`, true],
  [here, `https://${here}`, true],
  ["Localhost:8080", "http://localhost:8080", true],
  ["[::1]:8080", "http://[::1]:8080", true],
  [here, "null", false],
  [here, "", false],
  [here, "http://evil.example", false],
  [here, "http://127.0.0.1:9090", false],
  [here, "http://127.0.0.1", false],
  [here, "http://localhost:8080", false],
  [here, `http://${here}.evil.example`, false],
  [here, `http://evil.example@${here}`, false],
  [here, `http://${here}/`, false],
  [here, `http://${here}, http://evil.example`, false],
  [here, `file://${here}`, false],
  ["evil.example", "http://evil.example", false],
])("as %s, the Origin %s is answered: %s", (host, origin, wanted) => {
  expect(isAllowed({ host, origin })).toBe(wanted);
});

test("a token that is not a user's is checked once", () => {
  const checked: string[] = [];
  const userOf = (given: string): string | undefined => (checked.push(given), given === "ann's" ? "ann" : undefined);
  const { authorize } = createAccess({ token: "a-token-of-the-server", userOf });
  const ask = (given: string) => authorize({ headers: { authorization: `Bearer ${given}` } }, false);
  expect(["another", "another", "ann's", "another", "ann's"].map(ask)).toEqual([
    undefined,
    undefined,
    "ann",
    undefined,
    "ann",
  ]);
  expect(checked).toEqual(["another", "ann's", "ann's"]);
});

describe("of a server", () => {
  const evil = { headers: { host: "evil.example" } };
  const guarded = ["/v1/secret", "/%76%31/secret", "//v1/secret", "/V1/secret", "/two/v1/secret", "/metrics", "/view/"];
  const mounts = ["", "/two"].map((prefix) => ({ prefix, protocols: [echo()] }));

  test.each(guarded)("%s is for this machine only", async (path) => {
    const app = appOf([], { mounts });
    const reply = await app.handle(asked(path, evil));
    expect(reply).toMatchObject({ status: 403, body: { error: { code: "not_local" } } });
    expect((reply.body as { error: { message: string } }).error.message).toMatch(/127\.0\.0\.1.*--token/);
    expect((await app.handle(asked(path, { headers: { origin: "http://evil.example" } }))).status).toBe(403);
    expect((await app.handle(asked(path))).status).not.toBe(403);
  });

  test("other paths answer every caller, since other programs use the names they know", async () => {
    const app = appOf([echo()]);
    for (const path of ["/echo", "/healthz", "/readyz"]) expect((await app.handle(asked(path, evil))).status).toBe(200);
    // A tool may have that name.
    expect((await app.handle(asked("/view", { ...evil, method: "POST" }))).status).toBe(404);
  });

  test.each(["http://evil.example", "null"])("a page of %s calls no tool, by whatever name", async (origin) => {
    const app = appOf([echo()]);
    const call = (headers: { [name: string]: string }): Promise<{ status: number }> =>
      app.handle(asked("/echo", { method: "POST", headers }));
    expect((await call({ host: here, origin })).status).toBe(403);
    expect((await call({ host: "evil.example", origin })).status).toBe(403);
    expect((await call({ host: here, origin: `http://${here}` })).status).toBe(200);
  });

  test("a page of a public host calls a tool with the server's token, and only from its own site", async () => {
    const [host, token] = ["holdfast.example", "a-token-of-the-server"];
    const app = appOf([echo()], { token });
    const call = async (origin: string, given: string): Promise<number> => {
      const headers = { host, origin, authorization: `Bearer ${given}` };
      return (await app.handle(asked("/echo", { method: "POST", headers }))).status;
    };
    expect(await call(`https://${host}`, token)).toBe(200);
    expect(await call(`https://${host}`, "another-token")).toBe(403);
    expect(await call("https://evil.example", token)).toBe(403);
  });

  test("the table of docs/rest.md is right", async () => {
    const page = await readFile("docs/rest.md", "utf8");
    const rows = [...page.matchAll(/^\| (no token|token) \| (.+) \| (\S+) \| (.+) \| (yes|no) \| (\d+) ?(\S*) \|$/gm)];
    expect(rows.length).toBeGreaterThan(25);
    const token = "a-token-of-the-server";
    for (const [row, server, where, host = "", from = "", sends, status, code] of rows) {
      const app = appOf([echo()], {
        origins: ["https://app.example"],
        ...(server === "token" && { token }),
      });
      const path = where === "`/v1`" ? "/v1/secret" : where === "a tool" ? "/echo" : (where ?? "").replaceAll("`", "");
      const headers = {
        host,
        ...(from !== "none" && { origin: from.replace(" (allowed)", "") }),
        ...(sends === "yes" && { authorization: `Bearer ${token}` }),
      };
      const method = where === "a tool" ? "POST" : "GET";
      const { status: got, body } = await app.handle(asked(path, { method, headers }));
      expect([got, (body as { error?: { code: string } } | undefined)?.error?.code ?? ""], row).toEqual([
        Number(status),
        code,
      ]);
    }
  });

  test("a page on the list may ask before it sends, and may read the replies", async () => {
    const app = appOf([echo()], { origins: ["https://app.example"] });
    const from = (origin: string, method: string) =>
      app.handle(asked("/echo", { method, headers: { host: here, origin } }));
    const asking = await from("https://app.example", "OPTIONS");
    expect(asking).toMatchObject({ status: 204, headers: { "access-control-allow-origin": "https://app.example" } });
    expect((await from("https://app.example", "POST")).headers).toMatchObject({
      "access-control-allow-origin": "https://app.example",
      vary: "Origin, Access-Control-Request-Headers",
    });
    expect(await from("https://evil.example", "OPTIONS")).toMatchObject({ status: 405 });
    expect((await from("https://evil.example", "POST")).headers).not.toHaveProperty("access-control-allow-origin");
  });

  test.each(["app.example", "https://app.example/", "*", ""])("refuses %s as an origin to allow", (origin) => {
    expect(() => appOf([echo()], { origins: [origin] })).toThrow(/is not a valid origin; use a scheme and a host/);
  });

  test("requests that a page of another site can send without a preflight are refused", async () => {
    const { port, url } = await served(appOf([echo()]));
    const post = (headers: { [name: string]: string }): Promise<number> =>
      fetch(`${url}/v1/secret`, { method: "POST", body: "{}", headers }).then(({ status }) => status);
    expect(await post({ "content-type": "text/plain" })).toBe(415);
    expect(await post({ "content-type": "application/x-www-form-urlencoded" })).toBe(415);
    const origin = "origin: http://evil.example\r\ncontent-type: application/json\r\n";
    const untyped = raw(port);
    const fetched = `POST /echo HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nsec-fetch-site: cross-site\r\ncontent-length: 2\r\n\r\n{}`;
    untyped.send(fetched);
    expect((await untyped.replies(1))[0]?.status).toBe(415);
    const bare = raw(port);
    bare.send(`POST /v1/secret HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${origin}content-length: 2\r\n\r\n{}`);
    const rebound = raw(port);
    rebound.send("GET /v1/secret HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    const old = raw(port);
    old.send("GET /v1/secret HTTP/1.0\r\n\r\n");
    for (const connection of [bare, rebound, old]) expect((await connection.replies(1))[0]?.status).toBe(403);
    const own = raw(port);
    own.send(`GET /v1/secret HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\norigin: http://127.0.0.1:${port}\r\n\r\n`);
    expect((await own.replies(1))[0]?.status).toBe(200);
  });
});
