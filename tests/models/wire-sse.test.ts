// Parsing server-sent events, and the delay before a retry.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pause, retryAfter } from "../../src/models/wire/retry.ts";
import { parseEvents } from "../../src/models/wire/sse.ts";
import { runs } from "../runs.ts";

async function read(...chunks: (string | Uint8Array)[]): Promise<string[]> {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for (const chunk of chunks) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
  }
  const events: string[] = [];
  for await (const event of parseEvents(bytes())) events.push(event);
  return events;
}

describe("a stream of events", () => {
  test.each([
    ["one line", "data: a\n\n", ["a"]],
    ["no space after the colon", "data:a\n\n", ["a"]],
    ["one space of two", "data:  a\n\n", [" a"]],
    ["lines ended by CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
    ["lines ended by CR", "data: a\r\rdata: b\r\r", ["a", "b"]],
    ["data of many lines", "data: a\ndata: b\ndata\ndata:\n\n", ["a\nb\n\n"]],
    ["comments, names and ids", ": hello\nevent: x\nid: 1\nretry: 5\ndata: a\n\n:\n\n", ["a"]],
    ["no blank line at the end", "data: a\n\ndata: b\n", ["a", "b"]],
    ["no line end at the end", "data: a\n\ndata: b", ["a", "b"]],
    ["a byte order mark", "\uFEFFdata: a\n\n", ["a"]],
    ["nothing", "", []],
    ["nothing but blank lines", "\n\n\r\n", []],
  ])("with %s", async (_, text, data) => {
    expect(await read(text)).toEqual(data);
    expect(await read(...Array.from(Buffer.from(text), (byte) => Uint8Array.of(byte)))).toEqual(data);
  });

  test("gives the same events for every split, even inside a character", async () => {
    const line = fc.string({ unit: "grapheme" }).map((text) => text.replaceAll(/[\r\n]/g, " "));
    const ends = fc.constantFrom("\n", "\r\n", "\r");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(line, { minLength: 1, maxLength: 3 })),
        ends,
        fc.infiniteStream(fc.nat(9)),
        async (events, end, sizes) => {
          const text = events.map((lines) => `${lines.map((line) => `data: ${line}${end}`).join("")}${end}`).join("");
          const bytes = Buffer.from(text);
          const chunks: Uint8Array[] = [];
          for (let at = 0; at < bytes.length;) {
            const size = sizes.next().value ?? 1;
            chunks.push(bytes.subarray(at, at + size));
            at += size;
          }
          expect(await read(...chunks)).toEqual(events.map((lines) => lines.join("\n")));
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test("reads a long line in many chunks in linear time", async () => {
    const chunks = Array.from({ length: 50_000 }, () => "x".repeat(100));
    expect((await read("data: ", ...chunks, "\n\n"))[0]).toHaveLength(5_000_000);
  });
});

describe("the delay before a retry", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");

  test.each([
    [{ "retry-after": "2" }, 2_000],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after": "1.5" }, 1_500],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:07 GMT" }, 7_000],
    [{ "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT" }, 0],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "-1x" }, undefined],
    [{}, undefined],
  ])("%j asks for %s ms", (headers, ms) => expect(retryAfter(headers, now)).toBe(ms));

  test("is the requested one or a little more, and never above its limit", () => {
    expect(pause(1, 2_000, () => 0)).toBe(2_000);
    expect(pause(1, 2_000, () => 1)).toBe(2_500);
    expect(pause(1, 3_600_000, () => 0)).toBe(60_000);
  });

  test("doubles each time, with random jitter", () => {
    expect([1, 2, 3, 4].map((made) => pause(made, undefined, () => 1))).toEqual([500, 1_000, 2_000, 4_000]);
    expect([1, 2, 3, 4].map((made) => pause(made, undefined, () => 0))).toEqual([250, 500, 1_000, 2_000]);
    expect(pause(20, undefined, () => 1)).toBe(60_000);
  });
});
