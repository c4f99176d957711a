// The random model: valid arguments, repeatable answers, and invalid ones with chaos.
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
import { randomModel } from "../../src/models/random.ts";
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

/** Continues the conversation until the model answers without a call. */
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

describe("an answer", () => {
  test("is the same for the same seed and request, independent of earlier requests", async () => {
    const request: ModelRequest = { input: [user("a")], tools };
    const first = await randomModel({ seed: 5 }).respond(request);
    const used = randomModel({ seed: 5 });
    await Promise.all(["b", "c"].map((text) => used.respond({ ...request, input: [user(text)] })));
    expect(await used.respond({ tools, input: [{ content: "a", role: "user", type: "message" }] })).toEqual(first);
  });

  test("differs for another seed, input or field", async () => {
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

  test("has valid arguments and unique ids, and ends in a text", async () => {
    for (let seed = 0; seed < 30; seed++) {
      const answers = await conversation(randomModel({ seed, steps: 4 }), "go");
      expect(answers.length).toBeLessThanOrEqual(4);
      const all = calls(answers.flat());
      expect(new Set(all.map(({ call_id }) => call_id)).size).toBe(all.length);
      for (const { name, arguments: args } of all) if (name === "add") add.parse(JSON.parse(args));
      expect(answers.at(-1)).toMatchObject([{ type: "message", role: "assistant" }]);
    }
  });

  test("restarts its steps after a user message", async () => {
    const told: Item[] = [user("a"), { type: "message", role: "assistant", content: "x" }];
    const counts = await Promise.all(
      Array.from({ length: 20 }, async (_, seed) => {
        const { output } = await randomModel({ seed, steps: 2 }).respond({ input: [...told, user("b")], tools });
        return calls(output).length;
      }),
    );
    expect(Math.max(...counts)).toBeGreaterThan(0);
  });

  test("respects tool_choice and parallel_tool_calls", async () => {
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
  test("does everything a model should not do, and still ends", async () => {
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

  test("is repeatable", async () => {
    const model = (): ReturnType<typeof randomModel> => randomModel({ seed: 3, chaos: 1 });
    expect(await conversation(model(), "go")).toEqual(await conversation(model(), "go"));
  });
});

test.each([{ seed: 0.5 }, { chaos: 2 }, { chaos: NaN }, { steps: 0 }])("the options %o are refused", (options) => {
  expect(() => randomModel(options)).toThrow(expect.objectContaining({ code: "invalid_option" }));
});
