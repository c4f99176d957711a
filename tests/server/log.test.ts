// The request log: failures and slow requests by default, everything on request, and never a secret.
import { expect, test } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import { createLog, type Log, type LogOptions } from "../../src/server/log.ts";
import { appOf, asked, echo } from "./serving.ts";

function logged(options: LogOptions = {}): { log: Log; lines: () => Record<string, unknown>[] } {
  const lines: string[] = [];
  const log = createLog({ ...options, destination: { write: (line) => void lines.push(line) } });
  return { log, lines: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

const entry = { method: "POST", path: "/add", status: 200, ms: 5 };

test("by default failures and slow requests are logged", () => {
  const { log, lines } = logged();
  log.request(entry);
  log.request({ ...entry, status: 422 });
  log.request({ ...entry, status: 503, session: "s", call: "c", rollout: "r" });
  log.request({ ...entry, ms: 1_500 });
  expect(lines()).toMatchObject([
    { msg: "request failed", level: 50, status: 503, session: "s", call: "c", rollout: "r" },
    { msg: "slow request", level: 40, status: 200, ms: 1_500 },
  ]);
});

test("a flood of rejected requests logs one line per second", () => {
  const { log, lines } = logged();
  const thrown = new HoldfastError("too_busy", "too many");
  for (let at = 0; at < 1_000; at++) log.request({ ...entry, status: 503, thrown });
  log.request({ ...entry, status: 503 });
  expect(lines().length).toBeLessThan(10);
  expect(lines().at(-1)).not.toHaveProperty("error");
});

test("the token in the path of an MCP client is not logged", async () => {
  const { log, lines } = logged({ what: "all" });
  const app = appOf([echo()], { log });
  const prefixes = ["/s", "/counter/s", "/counter%2Fs", "/%73", "/.well-known/oauth-authorization-server/counter/s"];
  for (const prefix of prefixes) {
    for (const rest of ["", "/", "/mcp", "/mcp/", "/sse", "/message", "%2Fmcp"]) {
      await app.handle(asked(`${prefix}/bWNw.BqQQ${rest}`));
    }
  }
  await app.handle(asked("/s%2FbWNw.BqQQ"));
  log.error("no reply to /s/bWNw.BqQQ/mcp", new Error('there is no tool "s/bWNw.BqQQ"'));
  expect(lines()).toHaveLength(37);
  expect(lines()[2]).toMatchObject({ path: "/s/…/mcp", error: { message: "no route matches GET /s/…/mcp" } });
  expect(JSON.stringify(lines())).not.toContain("BqQQ");
});

test("the token in the path of a harness's model is not logged", async () => {
  const { log, lines } = logged({ what: "all" });
  const app = appOf([echo()], { log });
  const signed = `bWNw.${"BqQQ".repeat(11).slice(1)}`;
  const folders = ["/m/bWNw.BqQQ", "/counter/ng-rollout/bWNw.BqQQ"].flatMap((folder) => [
    `${folder}/v1`,
    `${folder}/training-token-capture/v1`,
  ]);
  for (const folder of [...folders, `/ng-rollout/${signed}`]) {
    for (const rest of ["", "/", "/models", "/chat/completions"]) await app.handle(asked(folder + rest));
  }
  await app.handle(asked("/ng-rollout/r.7/seed_session"));
  expect(lines()).toHaveLength(21);
  expect(lines().map(({ rollout }) => rollout)).toEqual([...Array.from({ length: 20 }), "r.7"]);
  expect(JSON.stringify(lines())).not.toContain("BqQQ");
});

test("logs everything or nothing on request", () => {
  const all = logged({ what: "all" });
  all.log.request(entry);
  expect(all.lines()).toMatchObject([{ msg: "request", path: "/add", status: 200 }]);
  const none = logged({ what: "none" });
  none.log.request({ ...entry, status: 500 });
  none.log.error("something");
  expect(none.lines()).toEqual([]);
});

test("an error is logged with its code and the stack of its cause", () => {
  const { log, lines } = logged();
  const thrown = new HoldfastError("store_failed", "no", { cause: new Error("disk") });
  log.request({ ...entry, status: 503, thrown });
  log.error("elsewhere", new Error("boom"));
  const stack = expect.stringContaining("log.test.ts");
  expect(lines()).toMatchObject([
    { error: { code: "store_failed", message: "no", cause: { message: "disk", stack } } },
    { msg: "elsewhere", error: { message: "boom", stack } },
  ]);
});

test("a request is logged with its ids, and never with its cookies, tokens or query", async () => {
  const { log, lines } = logged({ what: "all" });
  const app = appOf([echo()], { log, token: "secret-token" });
  const headers = {
    cookie: "secret-cookie",
    authorization: "Bearer secret-token",
    "idempotency-key": "call_1",
  };
  const query = new URLSearchParams("secret-query=1");
  for (const path of ["/echo", "/ng-rollout/r.7/x", "/v1/secret", "/closed", "/bug"]) {
    await app.handle(asked(path, { headers, query, body: { secret: "secret-body" } }));
  }
  expect(lines().map(({ path, call, rollout, session }) => [path, call, rollout, session])).toEqual([
    ["/echo", "call_1", undefined, undefined],
    ["/ng-rollout/r.7/x", "call_1", "r.7", undefined],
    ["/v1/secret", "call_1", undefined, undefined],
    ["/closed", "call_1", undefined, "abc"],
    ["/bug", "call_1", undefined, undefined],
  ]);
  expect(JSON.stringify(lines())).not.toMatch(/secret-/);
});

test("long values are truncated", () => {
  const { log, lines } = logged({ what: "all" });
  log.request({ ...entry, path: `/${"x".repeat(10_000)}` });
  expect(String(lines()[0]?.["path"]).length).toBeLessThan(600);
});

test("an error of an author's code is logged once per place with its stack, then by its count", () => {
  const { log, lines } = logged();
  const error = { error: "TypeError: x", place: "roll (environment.ts:12)", stack: "TypeError: x\n    at run" };
  for (let at = 0; at < 150; at++) log.thrown(error, "s1");
  log.thrown({ ...error, place: "verify (environment.ts:20)" }, "s1");
  expect(lines()).toMatchObject([
    { msg: "error thrown by your code", ...error, times: 1, session: "s1" },
    { place: error.place, times: 10 },
    { place: error.place, times: 100 },
    { place: "verify (environment.ts:20)", times: 1 },
  ]);
  expect(lines()[1]).not.toHaveProperty("stack");
  const none = logged({ what: "none" });
  none.log.thrown(error, "s1");
  expect(none.lines()).toEqual([]);
});
