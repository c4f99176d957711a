// A JSON value as the rows of a tree.
import fc from "fast-check";
import { expect, test } from "vitest";
import { escapeKey, type Json } from "../../src/core/json.ts";
import {
  parsedText,
  preview,
  readable,
  readablePath,
  rowsOf,
  type JsonRow,
  type JsonRows,
} from "../../viewer/src/parts/json-rows.ts";
import { runs } from "../runs.ts";

const all = (rows: JsonRows): JsonRow[] => Array.from({ length: rows.length }, (_, index) => rows.at(index));

test("only what is unfolded is walked, and each row knows the way to it", () => {
  const value = { a: [1, { "x/y": 2 }], b: {}, c: "text" };
  const rows = rowsOf(value, { isOpen: (path) => path === "" || path === "/a", named: [] });
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

/** The plain way: everything that is unfolded, from the top. */
function walked(value: Json, path: string, isOpen: (path: string) => boolean): string[] {
  if (typeof value !== "object" || value === null || !isOpen(path)) return [path];
  const inside = Object.entries(value).flatMap(([key, child]) => walked(child, `${path}/${escapeKey(key)}`, isOpen));
  return [path, ...inside];
}

test("the rows are those of walking what is unfolded, and each is found by its path", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), (value, salt) => {
      const isOpen = (path: string): boolean => (path.length * 7 + salt) % 5 > 0;
      const rows = rowsOf(value as Json, { isOpen, named: [] });
      const paths = all(rows).map(({ path }) => path);
      expect(paths).toEqual(walked(value as Json, "", isOpen));
      expect(paths.map((path) => rows.indexOf(path))).toEqual([...paths.keys()]);
    }),
    { numRuns: runs(200) },
  );
});

test("of what is wide only those that are named are unfolded", () => {
  const value = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`k/${at}`, { id: at }])) as Json;
  const rows = rowsOf(value, { isOpen: () => true, named: ["/k~120000", "/k~17", "/gone"] });
  expect(rows.length).toBe(1 + 50_000 + 2);
  expect([rows.at(9).path, rows.at(20_002).path, rows.at(50_002).path]).toEqual(["/k~17/id", "/k~120000", "/k~149999"]);
  expect(rows.indexOf("/k~120000/id")).toBe(20_003);
});

test("a preview is the value itself where that is short, and otherwise about as long as it may be", () => {
  expect(preview({ a: [1, "x", null], "b c": true })).toBe('{"a": [1, "x", null], "b c": true}');
  expect(preview("y".repeat(5_000_000), 40)).toBe(`"${"y".repeat(40)}…"`);
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 10, max: 100 }), (value, room) => {
      // What is begun is ended: brackets of what it is in, and one key.
      expect(preview(value as Json, room).length).toBeLessThan(room * 2 + 600);
    }),
  );
});

test("a path is shown as a person writes it", () => {
  expect(readablePath("/cart/items/3/full name/user:x/a~1b")).toBe('cart.items[3]["full name"].user:x["a/b"]');
  expect(readablePath("")).toBe("the whole state");
});

test("what is longer than a line is read in several, texts in it, too, and a backslash stays what it is", () => {
  const long = "x".repeat(100);
  expect(readable({ text: 'one\ntwo "three"', path: "C:\\new", long })).toBe(
    `{\n  "text": "one\ntwo \\"three\\"",\n  "path": "C:\\\\new",\n  "long": "${long}"\n}`,
  );
  expect([readable('{"a":[1,2]}'), readable("not\nJSON"), readable([])]).toEqual(['{"a": [1, 2]}', "not\nJSON", "[]"]);
});

test("what is nested without end is read as it came, and no deeper than can be", () => {
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  for (const levels of [1_000, 6_000, 90_000]) {
    expect(readable(nested(levels))).toBe(nested(levels));
    expect(readable([JSON.parse(nested(levels)) as Json]).length).toBeLessThan(5_000);
  }
  expect(readable(nested(400)).split("\n")).toHaveLength(799);
});

test("a text is read as JSON only where nothing of it is lost", () => {
  expect(parsedText(' {"a": [1, "x y"]}\n')).toEqual({ a: [1, "x y"] });
  for (const text of ['{"id": 12345678901234567890}', '{"a": 1, "a": 2}', "{bad", "17", "[1.0]"]) {
    expect(parsedText(text)).toBe(text);
  }
});
