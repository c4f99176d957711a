// The viewer's page under /view: only its own files, with headers that allow only its own script.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { viewerFiles } from "../../src/server/viewer.ts";
import { appOf, asked, echo, raw, served } from "./serving.ts";

const secret = "what is not for the page";

/** A folder with a page, beside a secret. */
function pageFolder(): string {
  const parent = mkdtempSync(join(tmpdir(), "holdfast-viewer-"));
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
  const folder = join(parent, "viewer");
  mkdirSync(join(folder, "deep"), { recursive: true });
  const files = { "index.html": "<p>page", "app.js": "run()", "app.css": "p{}", "icon.svg": "<svg/>" };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const others = ["../secret.js", ".hidden.js", "deep/secret.js", "secret.txt", "secret.constructor", "secret"];
  for (const name of others) writeFileSync(join(folder, name), secret);
  return folder;
}

const appIn = (folder: string) => appOf([viewerFiles(folder), echo()]);

test.each([
  ["/view/", "<p>page", "text/html; charset=utf-8"],
  ["/view/index.html", "<p>page", "text/html; charset=utf-8"],
  ["/view/app.js", "run()", "text/javascript; charset=utf-8"],
  ["/view/app.css", "p{}", "text/css; charset=utf-8"],
  ["/view/icon.svg", "<svg/>", "image/svg+xml"],
])("%s is a file of the page", async (path, text, type) => {
  const { status, headers = {}, ...reply } = await appIn(pageFolder()).handle(asked(path));
  expect({ status, text: reply.text, type: headers["content-type"] }).toEqual({ status: 200, text, type });
  expect(headers).toMatchObject({ "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" });
  const policy = headers["content-security-policy"] ?? "";
  expect(policy.split("; ")).toEqual(expect.arrayContaining(["default-src 'none'", "script-src 'self'"]));
  expect(policy).not.toMatch(/unsafe|\*|https?:/);
});

test("/view redirects to /view/, so that the page finds its files", async () => {
  expect(await appIn(pageFolder()).handle(asked("/view"))).toMatchObject({
    status: 302,
    headers: { location: "/view/" },
  });
});

test.each(["POST", "PUT", "DELETE", "HEAD"])("%s is not for the page", async (method) => {
  const { status } = await appIn(pageFolder()).handle(asked("/view/app.js", { method }));
  expect([404, 405]).toContain(status);
});

test("a page that was not built is 404, with the command to build it", async () => {
  const reply = await appIn(join(pageFolder(), "nowhere")).handle(asked("/view/"));
  expect(reply).toMatchObject({ status: 404, body: { error: { message: expect.stringContaining("npm run build") } } });
});

const ways = [
  "/view/../secret.js",
  "/view/..%2fsecret.js",
  "/view/%2e%2e/secret.js",
  "/view/..\\secret.js",
  "/view/..%5csecret.js",
  "/view//../secret.js",
  "/view/deep/secret.js",
  "/view/deep%2fsecret.js",
  "/view/./app.js",
  "/view/.hidden.js",
  "/view/secret.txt",
  "/view/secret",
  "/view/secret.constructor",
  "/view/deep",
  "/view/deep/",
  "/view/..",
  "/view/app.js%00",
  "/view/%252e%252e/secret.js",
  "/view/app.js/",
  "/view/app.js/../../secret.js",
  "/View/app.js",
  "/view/C:secret.js",
];

test.each(ways)("%s is not a file of the page", async (path) => {
  const reply = await appIn(pageFolder()).handle(asked(path));
  expect(reply.status).toBe(404);
  expect(JSON.stringify(reply)).not.toContain(secret);
});

test("no path leads out of the folder, also not over the wire", async () => {
  const folder = pageFolder();
  const app = appIn(folder);
  const { port } = await served(app);
  const part = fc.constantFrom(
    "..",
    ".",
    "%2e%2e",
    "%2E.",
    "/",
    "%2f",
    "\\",
    "%5c",
    "secret.js",
    "deep",
    "%00",
    "viewer",
    "a",
  );
  await fc.assert(
    fc.asyncProperty(fc.array(part, { maxLength: 8 }), async (parts) => {
      const path = `/view/${parts.join("")}`;
      const reply = await app.handle(asked(path));
      expect(JSON.stringify(reply)).not.toContain(secret);
    }),
  );
  const connection = raw(port);
  connection.send(ways.map((way) => `GET ${way} HTTP/1.1\r\nhost: localhost\r\n\r\n`).join(""));
  const replies = await connection.replies(ways.length);
  expect(replies.map(({ status }) => status)).toEqual(ways.map(() => 404));
  expect(connection.text).not.toContain(secret);
});
