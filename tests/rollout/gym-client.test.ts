// The gym client: answers that never come, never end or are too large.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createGymClient, type GymClientOptions } from "../../src/rollout/gym-client.ts";

async function serverOf(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const { signal } = new AbortController();
const ask = (url: string, timeout?: number, limits: GymClientOptions = {}) =>
  createGymClient(url, { ...limits, timeout }).post({ path: "/add", body: {}, signal });

test("a server that takes the call and never answers fails it after the time limit", async () => {
  const url = await serverOf(() => undefined);
  const message = `the server at ${url} did not answer within 50 ms`;
  await expect(ask(url, 50)).rejects.toMatchObject({ code: "server_failed", message });
});

test.each(["http://ann:secret@localhost:1", "https://secret@localhost:1/lab", "redis://:secret@localhost:1"])(
  "a server URL with a secret is refused, and the message does not show it: %s",
  (url) => {
    let message = "";
    try {
      createGymClient(url);
    } catch (thrown) {
      ({ message } = thrown as Error);
    }
    expect(message).toContain("server");
    expect(message).not.toContain("secret");
  },
);

test("a server that trickles its answer is not waited for longer", async () => {
  const url = await serverOf((_, response) => {
    const timer = setInterval(() => response.write("x"), 10);
    response.on("close", () => clearInterval(timer));
  });
  await expect(ask(url, 200)).rejects.toMatchObject({ message: `the server at ${url} did not answer within 200 ms` });
});

test("a server that stops in the middle of its answer fails the call after the idle time", async () => {
  const url = await serverOf((_, response) => void response.write("x"));
  const message = `the server at ${url} sent nothing for 50 ms in the middle of its answer`;
  await expect(ask(url, undefined, { idle: 50 })).rejects.toMatchObject({ code: "server_failed", message });
});

test("an answer larger than the limit fails the call", async () => {
  const url = await serverOf((_, response) => void response.end("x".repeat(2_000_000)));
  const message = `the server at ${url} sent an answer larger than 1 MB`;
  const largest = 1024 * 1024;
  await expect(ask(url, undefined, { largest })).rejects.toMatchObject({ code: "server_failed", message });
});

test("an endless answer is cut at 64 MB", async () => {
  const part = Buffer.alloc(1024 * 1024, "x");
  let sent = 0;
  const url = await serverOf((_, response) => {
    const write = (): void => {
      while (!response.destroyed && response.write(part)) sent++;
    };
    response.on("drain", write);
    write();
  });
  await expect(ask(url)).rejects.toMatchObject({ message: `the server at ${url} sent an answer larger than 64 MB` });
  expect(sent).toBeLessThan(200);
});

test("a caller that cancels gets the reason of its signal", async () => {
  const url = await serverOf(() => undefined);
  const cancelling = new AbortController();
  const asked = createGymClient(url).post({ path: "/add", body: {}, signal: cancelling.signal });
  cancelling.abort(new Error("enough"));
  await expect(asked).rejects.toThrow("enough");
});
