// `sessions --store` takes HTTP stores as well as servers, and shows no token.
import { createSessions, defineEnvironment } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { run } from "../e2e/serve-process.ts";
import { openSource } from "../../src/rollout/session-source.ts";
import { httpStore } from "../../src/stores/http.ts";
import { serveStore } from "../stores/http-server.ts";

test.each(["SECRET-991", undefined])("lists and shows the sessions of an HTTP store (token: %s)", async (token) => {
  const { url, dispose } = await serveStore(token === undefined ? {} : { token });
  onTestFinished(dispose);
  const from = token === undefined ? url : url.replace("//", `//${token}@`);
  const store = await httpStore({ url: from });
  const sessions = createSessions({ environment: defineEnvironment({ name: "bare", tools: {} }), store });
  const { session } = await sessions.open();
  const source = await openSource(from, {});
  const listed: string[] = [];
  for await (const row of source.list({})) listed.push(row.session);
  expect(listed).toEqual([session]);
  expect(await (await source.verbs(session)).info(session)).toMatchObject({ session });
  await source.stop();
  await sessions.stop();
  await store.close();
});

test("TOKEN: a failure does not show the token in the URL", async () => {
  const { url, dispose } = await serveStore({ token: "right" });
  onTestFinished(dispose);
  const wrong = url.replace("//", "//SECRET-991@");
  const closed = "http://SECRET-991:x@127.0.0.1:1/x";
  for (const from of [wrong, closed]) {
    const failure = await openSource(from, {}).then(
      async (source) => {
        for await (const _ of source.list({})) return undefined;
        return undefined;
      },
      (thrown: Error) => thrown,
    );
    expect(failure?.message).toMatch(/127\.0\.0\.1/);
    expect(`${failure?.stack} ${String(failure?.cause)}`).not.toContain("SECRET-991");
  }
});

test("an unreachable store gets no heading", async () => {
  const { code, stdout } = await run("sessions", "list", "--store", "http://127.0.0.1:1");
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
});
