// A server without a token answers only this machine: it refuses foreign host names and pages of other sites.
import { describe, expect, test } from "vitest";
import { assertLocal } from "../../src/server/access.ts";
import { appOf, asked, echo, raw, served } from "./serving.ts";

const isAllowed = (headers: { [name: string]: string }): boolean => {
  try {
    assertLocal({ headers });
    return true;
  } catch (thrown) {
    expect(thrown).toMatchObject({ code: "not_local", status: 403 });
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

  test("with a token, Host and Origin are ignored: a caller without the token is refused", async () => {
    const app = appOf([echo()], { token: "a-token-of-the-server" });
    const headers = { ...evil.headers, origin: "http://evil.example", authorization: "Bearer a-token-of-the-server" };
    expect((await app.handle(asked("/v1/secret", { headers }))).status).toBe(200);
    expect((await app.handle(asked("/v1/secret", evil))).status).toBe(401);
    expect((await app.handle(asked("/view/", evil))).status).toBe(404);
  });

  test("requests that a page of another site can send without a preflight are refused", async () => {
    const { port, url } = await served(appOf([echo()]));
    const post = (headers: { [name: string]: string }): Promise<number> =>
      fetch(`${url}/v1/secret`, { method: "POST", body: "{}", headers }).then(({ status }) => status);
    expect(await post({ "content-type": "text/plain" })).toBe(415);
    expect(await post({ "content-type": "application/x-www-form-urlencoded" })).toBe(415);
    const origin = "origin: http://evil.example\r\n";
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
