// Long texts are rendered in pieces.
import fc from "fast-check";
import { expect, test } from "vitest";
import { firstLines, splitText } from "../../viewer/src/parts/text-chunks.ts";
import { runs } from "../runs.ts";

/** Whether the text contains no half of a surrogate pair. */
const isWhole = (text: string): boolean => Buffer.from(text).toString() === text;

test("the pieces join to the text, and none is too long or splits a character", () => {
  const line = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.nat(20_000).map((length) => "😀".repeat(length)),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 3 }), (lines) => {
      const text = lines.join("\n");
      const chunks = splitText(text);
      expect(chunks.join("")).toBe(text);
      for (const chunk of chunks) {
        expect(chunk.length).toBeLessThanOrEqual(16_384);
        expect(chunk.length).toBeGreaterThan(0);
      }
      if (isWhole(text)) expect(chunks.every(isWhole)).toBe(true);
    }),
    { numRuns: runs(20) },
  );
});

test("shows the first lines of a long text, the beginning of a long line, and all of a short text", () => {
  const lines = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
  expect(firstLines(lines, 3)).toBe("line 0\nline 1\nline 2\n");
  expect(firstLines("x".repeat(2_000_000), 3)).toBe("x".repeat(300));
  expect(firstLines("one\ntwo\nthree\nfour", 3)).toBe("one\ntwo\nthree\nfour");
});
