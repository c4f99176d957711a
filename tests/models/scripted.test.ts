// The scripted model: how it picks the next answer, the shapes of an answer, and how a script ends or fails.
import { describe, expect, test } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import { answerText, isFunctionCall, type Item, type Model, type Piece } from "../../src/core/model.ts";
import { scriptedModel } from "../../src/models/scripted.ts";
import { runModelCases } from "./cases.ts";

const user = (content: string): Item => ({ type: "message", role: "user", content });
const assistant = (content: string): Item => ({ type: "message", role: "assistant", content });
const call = (call_id: string): Item => ({ type: "function_call", call_id, name: "add", arguments: "{}" });
const output = (call_id: string): Item => ({ type: "function_call_output", call_id, output: "1" });
const reasoning: Item = { type: "reasoning", summary: [] };

const textAfter = async (model: Model, ...input: Item[]): Promise<string> =>
  answerText((await model.respond({ input })).output);

runModelCases("a list", () =>
  scriptedModel(["Hello, you two.", { text: "So:", calls: [{ name: "add", arguments: { by: 2 } }] }]),
);
runModelCases("calls first", () =>
  scriptedModel([{ calls: [{ name: "add", arguments: { by: 2 } }, { name: "read" }] }, "Done."]),
);
runModelCases("a function", () => scriptedModel(({ input }) => `I was told: ${JSON.stringify(input[0])}`));

describe("the next answer of a list", () => {
  const model = scriptedModel(["first", "second", "third"]);

  test("is chosen by the number of assistant turns", async () => {
    expect(await textAfter(model, user("a"))).toBe("first");
    expect(await textAfter(model, user("a"), assistant("first"), user("b"))).toBe("second");
    expect(await textAfter(model, user("a"), call("1"), output("1"), assistant("x"), user("c"))).toBe("third");
  });

  test("does not depend on other requests, concurrent or earlier", async () => {
    const both = [user("a"), assistant("first"), user("b")];
    const texts = await Promise.all([
      textAfter(model, user("a")),
      textAfter(model, ...both),
      textAfter(model, user("a")),
    ]);
    expect(texts).toEqual(["first", "second", "first"]);
  });

  test("counts everything the assistant says at once as one turn", async () => {
    const turn = [reasoning, assistant("I will add."), call("1"), call("2")];
    expect(await textAfter(model, user("a"), ...turn, output("1"), output("2"))).toBe("second");
    expect(await textAfter(model, user("a"), ...turn, output("1"), output("2"), user("and"), user("so"))).toBe(
      "second",
    );
  });

  test("counts unknown kinds of items as the assistant's, unless they are outputs", async () => {
    const search: Item = { type: "web_search_call" };
    expect(await textAfter(model, user("a"), search, assistant("x"), user("b"))).toBe("second");
    expect(await textAfter(model, user("a"), search, { type: "computer_call_output" }, assistant("x"))).toBe("third");
  });

  test("does not count system messages", async () => {
    expect(await textAfter(model, { type: "message", role: "system", content: "x" }, user("a"))).toBe("first");
  });

  test("is model_exhausted if there is none, with the number of answers", async () => {
    const short = scriptedModel(["only"]);
    await expect(textAfter(short, user("a"), assistant("only"), user("b"))).rejects.toMatchObject({
      code: "model_exhausted",
      message: expect.stringContaining("has 1 answer, but the model was asked for answer 2"),
    });
    await expect(textAfter(scriptedModel([]), user("a"))).rejects.toMatchObject({ code: "model_exhausted" });
  });
});

describe("an answer", () => {
  test("may be parallel calls with unique, repeatable ids", async () => {
    const model = scriptedModel(["x", { calls: [{ name: "add", arguments: { by: 2 } }, { name: "read" }] }]);
    const request = { input: [user("a"), assistant("x"), user("b")] };
    const calls = (await model.respond(request)).output.filter(isFunctionCall);
    expect(calls).toMatchObject([
      { call_id: "call_1_0", name: "add", arguments: '{"by":2}' },
      { call_id: "call_1_1", name: "read", arguments: "{}" },
    ]);
    expect((await model.respond(request)).output).toEqual(calls);
  });

  test("may contain text before its calls", async () => {
    const { output } = await scriptedModel([{ text: "Look:", calls: [{ name: "read" }] }]).respond({ input: [] });
    expect(output.map(({ type }) => type)).toEqual(["message", "function_call"]);
    expect(new Set(output.map(({ id }) => id)).size).toBe(2);
  });

  test("may have arguments that are not JSON", async () => {
    const { output } = await scriptedModel([{ calls: [{ name: "add", arguments: "{by:" }] }]).respond({ input: [] });
    expect(output).toMatchObject([{ arguments: "{by:" }]);
  });

  test("may be a response object, and is a copy of it", async () => {
    const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
    const answer = { output: [reasoning, assistant("x")], usage, status: "incomplete" as const, id: "resp_1" };
    const model = scriptedModel([answer]);
    const first = await model.respond({ input: [] });
    expect(first).toEqual({ ...answer, model: "scripted" });
    first.output.length = 0;
    expect((await model.respond({ input: [] })).output).toHaveLength(2);
  });

  test("is refused if it is not JSON or has an invalid shape", async () => {
    const bad = { output: [{ type: "message", at: new Date() }] };
    await expect(scriptedModel([bad]).respond({ input: [] })).rejects.toMatchObject({ code: "not_json" });
    await expect(scriptedModel([3 as unknown as string]).respond({ input: [] })).rejects.toMatchObject({
      code: "model_failed",
      message: "answer 0 of the script must be a string, { calls } or { output }",
    });
  });

  test("has a usage of one token per four characters", async () => {
    const { usage } = await scriptedModel(["12345"]).respond({ instructions: "1234", input: [user("1234")] });
    expect(usage).toEqual({ input_tokens: 2, output_tokens: 2, total_tokens: 4 });
  });

  test("is streamed word by word", async () => {
    const pieces: Piece[] = [];
    await scriptedModel(["Two  words\n"]).respond({ input: [] }, { onPiece: (piece) => pieces.push(piece) });
    expect(pieces.map(({ text }) => text)).toEqual(["Two  ", "words\n"]);
  });
});

describe("a function", () => {
  test("receives the request and the number of turns", async () => {
    const model = scriptedModel(async (request, turn) => `${turn} of ${request.input.length}`);
    expect(await textAfter(model, user("a"), assistant("x"), user("b"))).toBe("1 of 3");
  });

  test("that returns nothing has no answer", async () => {
    const answers = ["a"];
    const model = scriptedModel((_, turn) => answers[turn]);
    await expect(textAfter(model, user("a"), assistant("a"), user("b"))).rejects.toMatchObject({
      code: "model_exhausted",
    });
  });

  test("that throws is model_failed, unless it sets another code", async () => {
    const failing = (error: Error): Model =>
      scriptedModel(async () => {
        throw error;
      });
    await expect(textAfter(failing(new Error("no luck")))).rejects.toMatchObject({
      code: "model_failed",
      message: "the script failed: no luck",
    });
    const timeout = new HoldfastError("model_timeout", "too late");
    await expect(textAfter(failing(timeout))).rejects.toBe(timeout);
  });

  test("that never answers can be cancelled, also between pieces", async () => {
    const controller = new AbortController();
    const waiting = scriptedModel(() => new Promise(() => {})).respond({ input: [] }, controller);
    controller.abort(new Error("enough"));
    await expect(waiting).rejects.toMatchObject({ code: "model_cancelled", cause: new Error("enough") });

    const second = new AbortController();
    const heard: string[] = [];
    const onPiece = ({ text }: Piece): void => {
      heard.push(text);
      second.abort();
    };
    const speaking = scriptedModel(["one two"]).respond({ input: [] }, { signal: second.signal, onPiece });
    await expect(speaking).rejects.toMatchObject({ code: "model_cancelled" });
    expect(heard).toEqual(["one "]);
  });
});
