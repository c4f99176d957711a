// The random model: arguments that every schema accepts, answers that can be had again, and chaos that is really wrong.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { JsonSchema } from "../../src/core/json-schema.ts";
import {
  isFunctionCall,
  type FunctionCall,
  type Item,
  type ModelRequest,
  type ToolSchema,
} from "../../src/core/model.ts";
import { randomStream } from "../../src/core/random.ts";
import { randomModel } from "../../src/models/random.ts";
import { fits } from "../../src/models/random/fits.ts";
import { randomValue } from "../../src/models/random/value.ts";
import { runs } from "../runs.ts";
import { runModelCases } from "./cases.ts";

runModelCases("random", () => randomModel({ seed: 1 }));
runModelCases("random, with chaos", () => randomModel({ seed: 1, chaos: 1 }), { keepsToTools: false });

const tool = (name: string, parameters: z.ZodType): ToolSchema => ({
  type: "function",
  name,
  parameters: z.toJSONSchema(parameters, { io: "input" }) as JsonSchema,
});
const add = z.strictObject({ by: z.int().min(1).max(5), note: z.string().optional() });
const tools = [tool("add", add), tool("read", z.strictObject({}))];
const user = (content: string): Item => ({ type: "message", role: "user", content });
const calls = (output: Item[]): FunctionCall[] => output.filter(isFunctionCall);

/** Talks to the model until it says something without calling. */
async function conversation(model: ReturnType<typeof randomModel>, text: string): Promise<Item[][]> {
  const request: ModelRequest = { input: [user(text)], tools };
  const answers: Item[][] = [];
  for (;;) {
    const { output } = await model.respond(request);
    answers.push(output);
    if (calls(output).length === 0) return answers;
    const results = calls(output).map(({ call_id }): Item => ({ type: "function_call_output", call_id, output: "1" }));
    request.input = [...request.input, ...output, ...results];
  }
}

describe("arguments", () => {
  const { strings, numbers, schema } = schemas();

  const accepts = (schema: z.ZodType, seed: number): void => {
    const json = z.toJSONSchema(schema, { io: "input" }) as JsonSchema;
    const value = randomValue(json, randomStream(seed, 0));
    const { success, error } = schema.safeParse(value);
    if (!success) throw new Error(`${JSON.stringify(value)} for ${JSON.stringify(json)}: ${error.message}`);
    expect(fits(value, json, json)).toBe(true);
  };

  test.each([
    ["texts", strings],
    ["numbers", numbers],
    ["anything", schema],
  ])("fit schemas of %s", (_, arbitrary) => {
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
    ["a number between whole ones", z.number().gt(99.95).lt(1e6)],
    ["what nobody may give", z.strictObject({ a: z.never().optional() })],
    ["a key called __proto__", z.object({ ["__proto__"]: z.int(), constructor: z.int() })],
    ["a tuple with a rest", z.tuple([z.string(), z.int()], z.boolean())],
    ["a default", z.object({ a: z.string().min(2).default("xx"), b: z.int().nullable().default(null) })],
  ];
  test.each(many)("fit %s", (_, schema) => {
    for (let seed = 0; seed < runs(60); seed++) accepts(schema, seed);
  });

  test.each<[string, JsonSchema]>([
    ["draft-07 tuples", { items: [{ type: "string" }, { type: "integer" }], additionalItems: false, type: "array" }],
    ["a reference beside other keywords", { $ref: "#/$defs/a~1b", minLength: 3, $defs: { "a/b": { type: "string" } } }],
    ["not", { type: "integer", minimum: 0, maximum: 3, not: { enum: [0, 1, 2] } }],
    [
      "if and else",
      {
        type: "object",
        properties: { a: { type: "boolean" }, b: { type: "integer" } },
        required: ["a"],
        if: { properties: { a: { const: false } } },
        else: { required: ["b"] },
      },
    ],
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
  ])("fit a schema with %s", (_, schema) => {
    for (let seed = 0; seed < runs(60); seed++) {
      const value = randomValue(schema, randomStream(seed, 0));
      expect(fits(value, schema, schema), JSON.stringify(value)).toBe(true);
    }
  });

  test.each<[string, JsonSchema]>([
    ["contains itself without end", { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }],
    ["refers to itself", { $ref: "#" }],
    ["refers to what is not there", { $ref: "#/$defs/none" }],
    ["refers in a circle", { $ref: "#/$defs/a", $defs: { a: { allOf: [{ $ref: "#/$defs/a" }] } } }],
    ["takes nothing", { allOf: [{ type: "string" }, { type: "integer" }] }],
    ["has no alternatives", { anyOf: [], enum: [] }],
    ["asks for far too much", { type: "array", minItems: 1e12, items: { type: "string", minLength: 1e12 } }],
    ["has a pattern that is none", { type: "string", pattern: "(" }],
  ])("come to an end for a schema that %s", (_, schema) => {
    expect(randomValue(schema, randomStream(1, 0))).toBeDefined();
  });
});

describe("an answer", () => {
  test("is the same for the same seed and request, whatever was asked before", async () => {
    const request: ModelRequest = { input: [user("a")], tools };
    const first = await randomModel({ seed: 5 }).respond(request);
    const used = randomModel({ seed: 5 });
    await Promise.all(["b", "c"].map((text) => used.respond({ ...request, input: [user(text)] })));
    expect(await used.respond({ tools, input: [{ content: "a", role: "user", type: "message" }] })).toEqual(first);
  });

  test("is another for another seed, input or field", async () => {
    const texts = await Promise.all(
      Array.from({ length: 10 }, async (_, n) => [
        JSON.stringify(await randomModel({ seed: n }).respond({ input: [user("a")], tools })),
        JSON.stringify(await randomModel().respond({ input: [user(`a${n}`)], tools })),
        JSON.stringify(await randomModel().respond({ input: [user("a")], tools, metadata: { repeat: String(n) } })),
      ]),
    );
    // Seed 0 of the first row is the default of the others.
    expect(new Set(texts.flat()).size).toBe(30);
  });

  test("has arguments that fit, ids of their own, and ends in a text", async () => {
    for (let seed = 0; seed < 30; seed++) {
      const answers = await conversation(randomModel({ seed, steps: 4 }), "go");
      expect(answers.length).toBeLessThanOrEqual(4);
      const all = calls(answers.flat());
      expect(new Set(all.map(({ call_id }) => call_id)).size).toBe(all.length);
      for (const { name, arguments: args } of all) if (name === "add") add.parse(JSON.parse(args));
      expect(answers.at(-1)).toMatchObject([{ type: "message", role: "assistant" }]);
    }
  });

  test("takes its steps anew after what the user says", async () => {
    const told: Item[] = [user("a"), { type: "message", role: "assistant", content: "x" }];
    const counts = await Promise.all(
      Array.from({ length: 20 }, async (_, seed) => {
        const { output } = await randomModel({ seed, steps: 2 }).respond({ input: [...told, user("b")], tools });
        return calls(output).length;
      }),
    );
    expect(Math.max(...counts)).toBeGreaterThan(0);
  });

  test("keeps to tool_choice and parallel_tool_calls", async () => {
    const choosing = async (fields: Partial<ModelRequest>): Promise<FunctionCall[][]> =>
      Promise.all(
        Array.from({ length: 30 }, async (_, seed) =>
          calls((await randomModel({ seed }).respond({ input: [user("a")], tools, ...fields })).output),
        ),
      );
    expect((await choosing({ tool_choice: "none" })).flat()).toEqual([]);
    expect((await choosing({ tool_choice: "required" })).every(({ length }) => length > 0)).toBe(true);
    const named = await choosing({ tool_choice: { type: "function", name: "read" } });
    expect(new Set(named.flat().map(({ name }) => name))).toEqual(new Set(["read"]));
    expect((await choosing({})).some(({ length }) => length > 1)).toBe(true);
    expect((await choosing({ parallel_tool_calls: false })).every(({ length }) => length <= 1)).toBe(true);
  });
});

describe("chaos", () => {
  test("does everything that a model should not, and ends all the same", async () => {
    const outputs: Item[][] = [];
    for (let seed = 0; seed < 300; seed++) {
      const answers = await conversation(randomModel({ seed, chaos: 0.8 }), "go");
      expect(answers.length).toBeLessThanOrEqual(8);
      outputs.push(...answers);
    }
    const all = calls(outputs.flat());
    const args = all.filter(({ name }) => name === "add").map((call) => call.arguments);
    const parsed = args.map((text) => {
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return undefined;
      }
    });
    expect(outputs.some(({ length }) => length === 0)).toBe(true);
    expect(all.map(({ name }) => name)).toEqual(expect.arrayContaining(["no_such_tool", "seed_session", "verify"]));
    expect(
      outputs.some((output) => new Set(calls(output).map(({ call_id }) => call_id)).size < calls(output).length),
    ).toBe(true);
    expect(parsed).toContain(undefined);
    expect(parsed.some((one) => one && !add.safeParse(one.value).success)).toBe(true);
    expect(parsed.some((one) => one && add.safeParse(one.value).success)).toBe(true);
    for (const part of ["__proto__", "1e400", "[".repeat(600)])
      expect(args.some((text) => text.includes(part))).toBe(true);
  });

  test("can be had again", async () => {
    const model = (): ReturnType<typeof randomModel> => randomModel({ seed: 3, chaos: 1 });
    expect(await conversation(model(), "go")).toEqual(await conversation(model(), "go"));
  });
});

test.each([{ seed: 0.5 }, { chaos: 2 }, { chaos: NaN }, { steps: 0 }])("the options %o are refused", (options) => {
  expect(() => randomModel(options)).toThrow(expect.objectContaining({ code: "invalid_option" }));
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
