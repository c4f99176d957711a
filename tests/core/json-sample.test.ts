// sample(): valid values for every kind of schema, and termination for schemas that no value matches.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { sample } from "../../src/core/json-sample.ts";
import type { JsonSchema } from "../../src/core/json-schema.ts";
import { randomStream } from "../../src/core/random.ts";
import { runs } from "../runs.ts";

describe("a sample", () => {
  const { strings, numbers, schema } = schemas();

  const accepts = (schema: z.ZodType, seed: number): void => {
    const json = z.toJSONSchema(schema, { io: "input" }) as JsonSchema;
    const value = sample(json, randomStream(seed, 0));
    const { success, error } = schema.safeParse(value);
    if (!success) throw new Error(`${JSON.stringify(value)} for ${JSON.stringify(json)}: ${error.message}`);
  };

  test.each([
    ["texts", strings],
    ["numbers", numbers],
    ["anything", schema],
  ])("matches schemas of %s", (_, arbitrary) => {
    fc.assert(fc.property(arbitrary, fc.nat(), accepts), { numRuns: runs(300) });
  });

  interface Tree {
    value: number;
    children: Tree[];
  }
  const tree: z.ZodType<Tree> = z.object({ value: z.int(), children: z.lazy(() => z.array(tree)) });
  const list = z.object({
    head: z.string(),
    get tail(): z.ZodNullable<typeof list> {
      return z.nullable(list);
    },
  });
  const many: [string, z.ZodType][] = [
    ["a tree", tree],
    ["a linked list", list],
    ["a tree in an object, twice", z.object({ a: tree, b: tree.optional() })],
    ["any JSON", z.json()],
    ["numbers between bounds that a division rounds", z.number().gt(0).lt(0.001)],
    ["an intersection", z.intersection(z.object({ a: z.int() }), z.object({ b: z.string().min(3) }))],
    [
      "a discriminated union",
      z.discriminatedUnion("t", [z.object({ t: z.literal("a") }), z.object({ t: z.literal("b"), n: z.int() })]),
    ],
    ["exactly one of two", z.xor([z.string(), z.object({ n: z.int() })])],
    ["a record with all of its keys", z.record(z.enum(["a", "b"]), z.int())],
    ["a record with keys of a pattern", z.record(z.string().regex(/^k\d+$/), z.boolean())],
    ["several patterns", z.string().startsWith("ab").endsWith("yz").includes("mid")],
    [
      "a pattern and a length",
      z
        .string()
        .regex(/^[a-f]+$/)
        .min(20)
        .max(30),
    ],
    ["a template", z.templateLiteral(["id-", z.int(), ".", z.enum(["js", "ts"])])],
    ["prices", z.number().multipleOf(0.01).min(0.05).max(0.5)],
    ["a narrow range", z.number().gt(0.1).lt(0.11)],
    ["numbers far from 0", z.int().gt(1e12)],
    ["quarters far from 0", z.number().multipleOf(0.25).lt(-5e13)],
    ["a number between whole ones", z.number().gt(99.95).lt(1e6)],
    ["what nobody may give", z.strictObject({ a: z.never().optional() })],
    ["a key called __proto__", z.object({ ["__proto__"]: z.int(), constructor: z.int() })],
    ["a tuple with a rest", z.tuple([z.string(), z.int()], z.boolean())],
    ["a default", z.object({ a: z.string().min(2).default("xx"), b: z.int().nullable().default(null) })],
  ];
  test.each(many)("matches %s", (_, schema) => {
    for (let seed = 0; seed < runs(60); seed++) accepts(schema, seed);
    expect(schema.safeParse(sample(z.toJSONSchema(schema, { io: "input" }) as JsonSchema)).success).toBe(true);
  });

  test.each<[string, JsonSchema]>([
    ["draft-07 tuples", { items: [{ type: "string" }, { type: "integer" }], additionalItems: false, type: "array" }],
    ["a reference beside other keywords", { $ref: "#/$defs/a~1b", minLength: 3, $defs: { "a/b": { type: "string" } } }],
    ["different items", { type: "array", items: { enum: [1, 2, 3] }, uniqueItems: true, minItems: 3 }],
    ["a number of properties", { type: "object", minProperties: 3, maxProperties: 4 }],
    [
      "patterns of properties",
      {
        type: "object",
        patternProperties: { "^x_[a-z]{2}$": { type: "integer" } },
        additionalProperties: false,
        minProperties: 1,
      },
    ],
    ["required properties that are not described", { required: ["a", "b"] }],
    ["alternatives in common", { anyOf: [{ minimum: 5 }, { minimum: 8 }], type: "integer", allOf: [{ maximum: 9 }] }],
    ["whole numbers by halves", { type: "integer", multipleOf: 1.5, minimum: 1, maximum: 7 }],
    ["true and {}", { type: "object", properties: { a: true, b: {} } as JsonSchema, required: ["a", "b"] }],
  ])("matches a schema with %s", (_, schema) => {
    for (let seed = 0; seed < runs(60); seed++) {
      const value = sample(schema, randomStream(seed, 0));
      expect(z.fromJSONSchema(schema).safeParse(value).success, JSON.stringify(value)).toBe(true);
    }
  });

  const range = (length: number): number[] => Array.from({ length }, (_, n) => n);
  const next = (n: number): JsonSchema => ({ $ref: `#/$defs/d${n + 1}` });
  test.each<[string, JsonSchema]>([
    ["contains itself without end", { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }],
    ["refers to itself", { $ref: "#" }],
    ["refers to what is not there", { $ref: "#/$defs/none" }],
    ["refers in a circle", { $ref: "#/$defs/a", $defs: { a: { allOf: [{ $ref: "#/$defs/a" }] } } }],
    ["takes nothing", { allOf: [{ type: "string" }, { type: "integer" }] }],
    ["has no alternatives", { anyOf: [], enum: [] }],
    ["asks for far too much", { type: "array", minItems: 1e12, items: { type: "string", minLength: 1e12 } }],
    ["has an invalid pattern", { type: "string", pattern: "(" }],
    ["has keywords that are ignored", { type: "integer", not: { minimum: 0 }, if: {}, else: { minimum: 5 } }],
    [
      "nests long lists",
      { type: "array", minItems: 1000, items: { type: "array", minItems: 1000, items: { $ref: "#" } } },
    ],
    [
      "doubles with every reference",
      Object.fromEntries([
        ["$ref", "#/$defs/d0"],
        ["$defs", Object.fromEntries(range(60).map((n) => [`d${n}`, { allOf: [next(n), next(n)] }]))],
      ]) as JsonSchema,
    ],
  ])("terminates for a schema that %s", (_, schema) => {
    expect(sample(schema, randomStream(1, 0))).toBeDefined();
    expect(sample(schema)).toBeDefined();
  });
});

test("a plain sample has defaults, first choices and required properties", () => {
  const schema = z.object({
    name: z.string().min(6),
    count: z.int().min(3),
    size: z.number(),
    kind: z.enum(["a", "b"]),
    either: z.union([z.boolean(), z.string()]),
    limit: z.int().optional(),
    tags: z.array(z.string()).min(1),
    by: z.string().default("you"),
    code: z.string().regex(/^[A-Z]{2}-\d+$/),
  });
  const plain = {
    name: "textxx",
    count: 3,
    size: 1,
    kind: "a",
    either: false,
    tags: ["text"],
    code: "AA-0",
  };
  expect(sample(z.toJSONSchema(schema, { io: "input" }) as JsonSchema)).toEqual(plain);
  expect(sample(z.toJSONSchema(schema) as JsonSchema)).toEqual({ ...plain, by: "you" });
});

/** Schemas of many kinds, as authors of tools write them. */
function schemas(): Record<"strings" | "numbers" | "schema", fc.Arbitrary<z.ZodType>> {
  const bounds = (most: number): fc.Arbitrary<[number, number]> =>
    fc.tuple(fc.nat(most), fc.nat(most)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)]);
  const strings: fc.Arbitrary<z.ZodType> = fc.oneof(
    bounds(40).map(([least, most]) => z.string().min(least).max(most)),
    fc.nat(30).map((length) => z.string().length(length)),
    fc.constantFrom<z.ZodType>(
      z.email(),
      z.uuid(),
      z.uuidv7(),
      z.url(),
      z.iso.date(),
      z.iso.time(),
      z.iso.datetime(),
      z.iso.duration(),
      z.ipv4(),
      z.ipv6(),
      z.cidrv4(),
      z.cidrv6(),
      z.base64(),
      z.base64url(),
      z.nanoid(),
      z.cuid(),
      z.cuid2(),
      z.ulid(),
      z.xid(),
      z.ksuid(),
      z.e164(),
      z.emoji(),
      z.jwt(),
      z.hostname(),
      z.hex(),
      z.mac(),
      z.guid(),
      z.string().lowercase(),
      z.string().uppercase(),
      z.string().trim().min(1),
      z.string().regex(/^#[0-9a-f]{6}$/i),
      z.string().regex(/^(north|south)-(\d{2,4}|[^a-z\s])\w*\.?$/),
      z.string().regex(/[A-Z]{3}-\d+/),
    ),
  );
  const numbers: fc.Arbitrary<z.ZodType> = fc.oneof(
    fc.constantFrom<z.ZodType>(z.number(), z.int(), z.int32(), z.uint32(), z.float32(), z.number().positive()),
    fc.constantFrom<z.ZodType>(z.number().nonpositive(), z.int().negative(), z.number().min(-5).max(-5)),
    fc.tuple(fc.integer(), fc.nat(1000)).map(([least, more]) =>
      z
        .int()
        .min(least)
        .max(least + more),
    ),
    fc.tuple(fc.integer(), fc.integer({ min: 2, max: 50 })).map(([least, more]) =>
      z
        .int()
        .gt(least)
        .lt(least + more),
    ),
    fc
      .tuple(fc.double({ min: -1e6, max: 1e6, noNaN: true }), fc.double({ min: 0.001, max: 1e3, noNaN: true }))
      .map(([least, more]) =>
        z
          .number()
          .gt(least)
          .lt(least + more),
      ),
    fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer()).map(([step, least]) => z.int().multipleOf(step).min(least)),
    fc.constantFrom(0.1, 0.25, 0.01, 0.5).map((step) => z.number().multipleOf(step)),
  );
  const name = fc.constantFrom("a", "b", "c", "name", "__proto__", "a/b", "a~b", "");
  const { schema } = fc.letrec<{ schema: z.ZodType }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.oneof(
        strings,
        numbers,
        fc.constantFrom<z.ZodType>(z.boolean(), z.null(), z.any(), z.literal([1, "a", null]), z.enum(["x", "y"])),
      ),
      tie("schema").map((one) => one.nullable()),
      fc.tuple(tie("schema"), bounds(4)).map(([one, [least, most]]) => z.array(one).min(least).max(most)),
      fc
        .array(tie("schema"), { minLength: 1, maxLength: 3 })
        .map(([first, ...rest]) => z.tuple([first as z.ZodType, ...rest])),
      fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((all) => z.union(all)),
      tie("schema").map((one) => z.record(z.string(), one)),
      fc
        .dictionary(name, fc.tuple(tie("schema"), fc.boolean()), { maxKeys: 4 })
        .map((fields) =>
          z.strictObject(
            Object.fromEntries(
              Object.entries(fields).map(([key, [one, optional]]) => [key, optional ? one.optional() : one]),
            ),
          ),
        ),
    ),
  }));
  return { strings, numbers, schema };
}
