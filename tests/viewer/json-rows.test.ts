// A JSON value as the rows of a tree.
import fc from "fast-check";
import { expect, test } from "vitest";
import { escapeKey, type Json } from "../../src/core/json.ts";
import {
  parseJsonText,
  preview,
  formatForReading,
  readablePath,
  createJsonRows,
  type JsonRow,
  type JsonRows,
} from "../../viewer/src/parts/json-rows.ts";
import { runs } from "../runs.ts";

const all = (rows: JsonRows): JsonRow[] => Array.from({ length: rows.length }, (_, index) => rows.at(index));

test("only unfolded values are walked, and each row has its path", () => {
  const value = { a: [1, { "x/y": 2 }], b: {}, c: "text" };
  const rows = createJsonRows(value, { isOpen: (path) => path === "" || path === "/a", named: [] });
  expect(all(rows).map(({ path, size, isOpen, depth }) => [path, size, isOpen, depth])).toEqual([
    ["", 3, true, 0],
    ["/a", 2, true, 1],
    ["/a/0", undefined, false, 2],
    ["/a/1", 1, false, 2],
    ["/b", 0, false, 1],
    ["/c", undefined, false, 1],
  ]);
  expect([rows.indexOf("/c"), rows.indexOf("/a/1"), rows.indexOf("/a/1/x~1y"), rows.indexOf("/z")]).toEqual([
    5,
    3,
    undefined,
    undefined,
  ]);
});

/** The reference: walks every unfolded value from the top. */
function walked(value: Json, path: string, isOpen: (path: string) => boolean): string[] {
  if (typeof value !== "object" || value === null || !isOpen(path)) return [path];
  const inside = Object.entries(value).flatMap(([key, child]) => walked(child, `${path}/${escapeKey(key)}`, isOpen));
  return [path, ...inside];
}

test("the rows equal a walk over the unfolded values, and each is found by its path", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), (value, salt) => {
      const isOpen = (path: string): boolean => (path.length * 7 + salt) % 5 > 0;
      const rows = createJsonRows(value as Json, { isOpen, named: [] });
      const paths = all(rows).map(({ path }) => path);
      expect(paths).toEqual(walked(value as Json, "", isOpen));
      expect(paths.map((path) => rows.indexOf(path))).toEqual([...paths.keys()]);
    }),
    { numRuns: runs(200) },
  );
});

test("in a wide container only named paths are unfolded", () => {
  const value = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`k/${at}`, { id: at }])) as Json;
  const rows = createJsonRows(value, { isOpen: () => true, named: ["/k~120000", "/k~17", "/gone"] });
  expect(rows.length).toBe(1 + 50_000 + 2);
  expect([rows.at(9).path, rows.at(20_002).path, rows.at(50_002).path]).toEqual(["/k~17/id", "/k~120000", "/k~149999"]);
  expect(rows.indexOf("/k~120000/id")).toBe(20_003);
});

test("a preview is the whole value if it is short, and otherwise about as long as the limit", () => {
  expect(preview({ a: [1, "x", null], "b c": true })).toBe('{"a": [1, "x", null], "b c": true}');
  expect(preview("y".repeat(5_000_000), 40)).toBe(`"${"y".repeat(40)}…"`);
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 10, max: 100 }), (value, room) => {
      // Open brackets and one key are always completed.
      expect(preview(value as Json, room).length).toBeLessThan(room * 2 + 600);
    }),
  );
});

test("a path is shown in JavaScript notation", () => {
  expect(readablePath("/cart/items/3/full name/user:x/a~1b")).toBe('cart.items[3]["full name"].user:x["a/b"]');
  expect(readablePath("")).toBe("the whole state");
});

test("a value longer than a line is split into several, with real line breaks in strings and backslashes kept", () => {
  const long = "x".repeat(100);
  expect(formatForReading({ text: 'one\ntwo "three"', path: "C:\\new", long })).toBe(
    `{\n  "text": "one\ntwo \\"three\\"",\n  "path": "C:\\\\new",\n  "long": "${long}"\n}`,
  );
  expect([formatForReading('{"a":[1,2]}'), formatForReading("not\nJSON"), formatForReading([])]).toEqual([
    '{"a": [1, 2]}',
    "not\nJSON",
    "[]",
  ]);
});

test("a deeply nested value stays text, and is shown down to the depth limit", () => {
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  for (const levels of [1_000, 6_000, 90_000]) {
    expect(formatForReading(nested(levels))).toBe(nested(levels));
    expect(formatForReading([JSON.parse(nested(levels)) as Json]).length).toBeLessThan(5_000);
  }
  expect(formatForReading(nested(400)).split("\n")).toHaveLength(799);
});

test("a string is parsed as JSON only if nothing is lost", () => {
  expect(parseJsonText(' {"a": [1, "x y"]}\n')).toEqual({ a: [1, "x y"] });
  for (const text of ['{"id": 12345678901234567890}', '{"a": 1, "a": 2}', "{bad", "17", "[1.0]"]) {
    expect(parseJsonText(text)).toBe(text);
  }
});
