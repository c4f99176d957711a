// Clients that could block the server: one never reads its reply, one sends a header that is slow to parse.
import { connect } from "node:net";
import { defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, test } from "vitest";
import { serve } from "../../src/server/serve.ts";

const environment = defineEnvironment({
  name: "big",
  tools: { give: tool({ description: "Gives much.", run: () => "x".repeat(16_000_000) }) },
});

const request = (path: string, type: string): string =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: 2\r\n\r\n{}`;

test("a client that does not read its replies is finally dropped, and does not block closing", async () => {
  const limits = { maxInflight: 3, requestTimeout: 2_000 };
  const serving = await serve({ environments: [environment], store: memoryStore(), port: 0, limits });
  const port = Number(new URL(serving.url).port);
  const sockets = [1, 2, 3].map(() => {
    const socket = connect(port, "127.0.0.1").pause();
    socket.on("error", () => undefined);
    socket.write(request("/give", "application/json"));
    return socket;
  });
  const answers = async (): Promise<number> => (await fetch(`${serving.url}/`)).status;
  while ((await answers()) !== 503) await new Promise((resolve) => setTimeout(resolve, 5));
  while ((await answers()) !== 200) await new Promise((resolve) => setTimeout(resolve, 50));
  for (const socket of sockets) socket.destroy();
  await serving.close();
});

test("an overlong content type is refused without parsing it", async () => {
  const serving = await serve({ environments: [environment], store: memoryStore(), port: 0 });
  const socket = connect(Number(new URL(serving.url).port), "127.0.0.1");
  socket.write(request("/give", `application/json${" ".repeat(10_000)}x`));
  const reply = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(String(data))));
  expect(reply).toMatch(/^HTTP\/1.1 415 /);
  expect(reply).toMatch(/set-cookie: holdfast_big=/i);
  socket.destroy();
  await serving.close();
});
