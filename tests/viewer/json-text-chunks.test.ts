// Long texts are shown in pieces.
import fc from "fast-check";
import { expect, test } from "vitest";
import { beginningOf, chunksOf } from "../../viewer/src/parts/text-chunks.ts";
import { runs } from "../runs.ts";

/** Whether it has no half of a character. */
const isWhole = (text: string): boolean => Buffer.from(text).toString() === text;

test("the pieces of a text are the text, and none is long or ends within a character", () => {
  const line = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.nat(20_000).map((length) => "😀".repeat(length)),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 3 }), (lines) => {
      const text = lines.join("\n");
      const chunks = chunksOf(text);
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

test("of a long text the first lines are shown, of a long line its beginning, and a short text whole", () => {
  const lines = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
  expect(beginningOf(lines, 3)).toBe("line 0\nline 1\nline 2\n");
  expect(beginningOf("x".repeat(2_000_000), 3)).toBe("x".repeat(300));
  expect(beginningOf("one\ntwo\nthree\nfour", 3)).toBe("one\ntwo\nthree\nfour");
});
