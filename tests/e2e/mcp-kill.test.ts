// MCP over a real port: the server is killed between and during calls, the client is replaced, and no call runs twice.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { connectFirst, connectSecond } from "../protocols/sdk-clients.mjs";
import { persist, startServing } from "./serve-process.ts";

const clients = [
  ["of the first line", (url: URL) => connectFirst(url, {})],
  ["of the second line, stateless", (url: URL) => connectSecond(url, { era: "modern" })],
] as const;

test.each(clients)("a bound client %s survives kills of the server", async (_, connect) => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-mcp-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const args = ["examples/counter", "--store", `sqlite:${join(folder, "sessions.db")}`];
  let serving = await startServing([...args, "--port", "0"]);
  const { port, origin } = new URL(serving.url);
  const restart = async (): Promise<void> => {
    serving.process.kill("SIGKILL");
    await serving.ended;
    serving = await startServing([...args, "--port", port]);
  };
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ initial_count: 3, expected_count: 43 });
  const seeded = await fetch(`${origin}/seed_session`, { method: "POST", headers, body });
  const cookie = seeded.headers.get("set-cookie")?.split(";")[0] ?? "";
  const { mcp } = (await seeded.json()) as { mcp: { bound_url_path: string } };
  const url = new URL(mcp.bound_url_path, origin);

  const first = await connect(url);
  const call = (id: string) => ({ name: "increment_counter", arguments: { count: 1 }, _meta: { callId: id } });
  const answer = await first.callTool(call("c0"));
  await restart();
  expect((await first.callTool(call("c0"))).content).toEqual(answer.content);
  await first.close();

  const second = await connect(url);
  let answered = 0;
  const playing = Promise.all(
    Array.from({ length: 39 }, async (_, at) => {
      await persist(() =>
        second.callTool(call(`c${at + 1}`)).then(
          () => ({ status: 200, body: {} }),
          (thrown: Error) => ({ status: 503, body: { message: thrown.message } }),
        ),
      );
      answered++;
    }),
  );
  await restart();
  await playing;
  expect(answered).toBe(39);
  const value = await second.callTool({ name: "get_counter_value", arguments: {} });
  expect(value).toMatchObject({ structuredContent: { count: 43 } });
  await second.close();
  const verify = { method: "POST", headers: { ...headers, cookie }, body: '{"response":{"output":[]}}' };
  expect(await (await fetch(`${origin}/verify`, verify)).json()).toMatchObject({ reward: 1 });

  const large = await fetch(url, { method: "POST", headers, body: JSON.stringify({ large: "x".repeat(10_000_000) }) });
  expect({ status: large.status, body: await large.json() }).toMatchObject({
    status: 413,
    body: { jsonrpc: "2.0", error: { code: -32600, data: { code: "body_too_large" } } },
  });
});
