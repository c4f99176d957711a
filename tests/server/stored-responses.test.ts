// Streams of stored responses on one connection of a real server, read as exact bytes.
import { defineAgent, memoryStore, scriptedModel, tool } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../src/server/serve.ts";
import { gate } from "../agent/engine.ts";
import { post, raw, until, type Raw } from "./serving.ts";

const work = gate();
const clerk = defineAgent({
  name: "clerk",
  model: scriptedModel(({ input }) => {
    const last = input.at(-1);
    if (last?.["content"] === "fail") throw new Error("the model is gone");
    if (last?.["content"] === "work") return { text: "One moment.", calls: [{ name: "work" }] };
    return last?.["content"] === "locate" ? { calls: [{ name: "locate" }] } : "That is all.";
  }),
  tools: { work: tool({ description: "Works.", run: () => work.opened.then(() => "done") }) },
});

/** Reads the next reply, which must have the framing of HTTP/1.1. Returns its body. */
function createReader(connection: Raw): () => Promise<string> {
  let read = 0;
  const line = async (): Promise<string> => {
    await until(() => connection.text.indexOf("\r\n", read) >= 0 || connection.closed);
    const end = connection.text.indexOf("\r\n", read);
    if (end < 0) throw new Error("the connection was closed");
    const found = connection.text.slice(read, end);
    read = end + 2;
    return found;
  };
  const take = async (length: number): Promise<string> => {
    await until(() => connection.text.length >= read + length || connection.closed);
    read += length;
    return connection.text.slice(read - length, read);
  };
  return async () => {
    expect(await line()).toMatch(/^HTTP\/1\.1 [245]\d\d /);
    let length: number | undefined;
    for (let header = await line(); header !== ""; header = await line()) {
      const found = /^content-length: (\d+)$/i.exec(header);
      if (found) length = Number(found[1]);
    }
    if (length !== undefined) return take(length);
    let body = "";
    for (;;) {
      const size = await line();
      expect(size).toMatch(/^[\da-f]+$/);
      body += await take(Number.parseInt(size, 16));
      expect(await line()).toBe("");
      if (size === "0") return body;
    }
  };
}

test("the stream of a stored response is whole, and the next request on its connection is answered", async () => {
  const store = memoryStore();
  const { url, close } = await serve({ environments: [], agents: [clerk], store, port: 0, log: { what: "none" } });
  onTestFinished(async () => {
    await close();
    await store.close();
  });
  const connection = raw(Number(new URL(url).port));
  const next = createReader(connection);
  const get = (path: string): void => connection.send(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
  const tools = [{ type: "function", name: "locate", parameters: { type: "object", properties: {} } }];

  for (const [input, last] of [
    ["hello", "completed"],
    ["fail", "failed"],
    ["locate", "completed"],
    ["work", "completed"],
  ] as const) {
    let id: string | undefined;
    const body = JSON.stringify({ model: "clerk", input, tools, stream: true });
    const create = post("/v1/responses", body).replace("host: x", "host: 127.0.0.1");
    if (input === "work") {
      const running = raw(Number(new URL(url).port));
      running.send(create);
      await until(() => running.text.includes("output_item.done"));
      [, id = ""] = /"id":"(resp_[^"]+)"/.exec(running.text) ?? [];
    } else {
      connection.send(create);
      [, id = ""] = /"id":"(resp_[^"]+)"/.exec(await next()) ?? [];
    }
    const before = connection.text.length;
    get(`/v1/responses/${id}?stream=true`);
    if (input === "work") {
      await until(() => connection.text.includes("output_item.done", before));
      work.open();
    }
    const whole = await next();
    expect(whole).toMatch(/^event: response\.created\n/);
    const numbers = [...whole.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
    expect(numbers[0]).toBe(0);
    for (const after of numbers) {
      get(`/v1/responses/${id}?stream=true&starting_after=${after}`);
      const rest = await next();
      expect(rest).toBe(whole.slice(whole.indexOf("\n\n", whole.indexOf(`"sequence_number":${after},`)) + 2));
    }
    expect(whole).toContain(`event: response.${last}\n`);
    get("/healthz");
    expect(JSON.parse(await next())).toEqual({ status: "ok" });
  }
  expect(connection.closed).toBe(false);
});
