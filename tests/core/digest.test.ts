// The digest of a JSON value: equal for equal values, different for all others.
import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalText } from "../../src/core/digest.ts";
import { equalJson, type Json } from "../../src/core/json.ts";
import { runs } from "../runs.ts";

const digest = (value: Json): string => hash("sha256", canonicalText(value));

test("is SHA-256 of the JSON text with sorted keys and no white space", () => {
  // printf '%s' '{"a":[1,null,"é"],"b":{"c":true,"d":0.5}}' | sha256sum
  const value = { b: { d: 0.5, c: true }, a: [1, null, "é"] };
  expect(digest(value)).toBe("9b52e134758b52eaa6ad35859186effcf2768deda446edfc8febabfeefe81e73");
});

test("is the same exactly for equal values", () => {
  const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
  const reversed = (value: Json): Json => {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(reversed);
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, one]) => [key, reversed(one)]),
    );
  };
  fc.assert(
    fc.property(json, json, (a, b) => {
      expect(digest(reversed(a))).toBe(digest(a));
      expect(digest(a) === digest(b)).toBe(equalJson(a, b));
    }),
    { numRuns: runs(200) },
  );
});
