// The recorded model: recording, replaying, and a file shared by concurrent or killed processes.
import { hash } from "node:crypto";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { canonicalText } from "../../src/core/digest.ts";
import { HoldfastError } from "../../src/core/errors.ts";
import { answerText, type Item, type Model, type ModelRequest, type Piece } from "../../src/core/model.ts";
import { recordedModel } from "../../src/models/recorded.ts";
import { scriptedModel } from "../../src/models/scripted.ts";
import { runModelCases } from "./cases.ts";

const folder = await mkdtemp(join(tmpdir(), "holdfast-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
let files = 0;
const newFile = (): string => join(folder, `${files++}.jsonl`);

const user = (content: string): Item => ({ type: "message", role: "user", content });
const asking = (text: string): ModelRequest => ({ input: [user(text)], temperature: 1 });
const textOf = async (model: Model, request: ModelRequest): Promise<string> =>
  answerText((await model.respond(request)).output);

/** Answers with the number of its requests. */
function countingModel(name = "counting"): Model & { asked(): number } {
  let asked = 0;
  return { ...scriptedModel(() => `answer ${asked++}`), name, asked: () => asked };
}

const echo = scriptedModel(({ input }) =>
  JSON.stringify(input).includes("hello") ? { calls: [{ name: "add", arguments: { by: 1 } }] } : JSON.stringify(input),
);
const shared = newFile();
runModelCases("while it records", () => recordedModel({ file: shared, model: echo }));
// The cases run in order, so the file has their answers by now.
runModelCases("once it was recorded", () => recordedModel({ file: shared }));

describe("recording", () => {
  test("asks the model once per request, and replays without it", async () => {
    const file = newFile();
    const model = countingModel();
    const live = recordedModel({ file, model });
    expect(await textOf(live, asking("a"))).toBe("answer 0");
    expect(await textOf(live, asking("b"))).toBe("answer 1");
    const again = recordedModel({ file, model });
    expect(await textOf(again, asking("b"))).toBe("answer 1");
    expect(await textOf(again, asking("c"))).toBe("answer 2");
    expect(model.asked()).toBe(3);
    const replay = recordedModel({ file });
    expect(await Promise.all(["a", "b", "c"].map((text) => textOf(replay, asking(text))))).toEqual(
      [0, 1, 2].map((n) => `answer ${n}`),
    );
  });

  test("writes a line of JSON per answer: digest, model, request and response", async () => {
    const file = newFile();
    const response = await recordedModel({ file, model: countingModel() }).respond(asking("a"));
    const text = await readFile(file, "utf8");
    expect(text.endsWith("}\n")).toBe(true);
    const digest = hash("sha256", canonicalText(asking("a") as never));
    expect(JSON.parse(text)).toEqual({ digest, model: "counting", request: asking("a"), response });
  });

  test("keeps every answer to a repeated request, and replays them in order", async () => {
    const file = newFile();
    const live = recordedModel({ file, model: countingModel() });
    for (let n = 0; n < 3; n++) await live.respond(asking("a"));
    const replay = recordedModel({ file });
    const texts = await Promise.all([1, 2, 3].map(() => textOf(replay, asking("a"))));
    expect(texts).toEqual(["answer 0", "answer 1", "answer 2"]);
    await expect(replay.respond(asking("a"))).rejects.toMatchObject({
      code: "model_exhausted",
      message: expect.stringContaining("has 3 answers to this request, and all of them were used"),
    });
    // With a model, the fourth request is sent and recorded.
    const further = recordedModel({ file, model: countingModel() });
    for (let n = 0; n < 3; n++) expect(await textOf(further, asking("a"))).toBe(`answer ${n}`);
    expect(await textOf(further, asking("a"))).toBe("answer 0");
    expect((await readFile(file, "utf8")).split("\n")).toHaveLength(5);
  });

  test("keeps the answers of models with different names apart", async () => {
    const file = newFile();
    await recordedModel({ file, model: countingModel("one") }).respond(asking("a"));
    const other = countingModel("other");
    await recordedModel({ file, model: other }).respond(asking("a"));
    expect(other.asked()).toBe(1);
    const replay = recordedModel({ file });
    await replay.respond(asking("a"));
    await replay.respond(asking("a"));
  });

  test("does not record failures", async () => {
    const file = newFile();
    let fails = true;
    const model: Model = {
      name: "flaky",
      respond: (request) => (fails ? Promise.reject(new Error("no luck")) : countingModel().respond(request)),
    };
    const live = recordedModel({ file, model });
    await expect(live.respond(asking("a"))).rejects.toMatchObject({
      code: "model_failed",
      message: "the model flaky failed: no luck",
    });
    expect(await readFile(file, "utf8")).toBe("");
    fails = false;
    expect(await textOf(live, asking("a"))).toBe("answer 0");
    const refusing = { name: "x", respond: () => Promise.reject(new HoldfastError("model_refused", "no")) };
    const error = recordedModel({ file, model: refusing }).respond(asking("b"));
    await expect(error).rejects.toMatchObject({ code: "model_refused" });
  });

  test("reports an unwritable file before it asks the model", async () => {
    const model = countingModel();
    const live = recordedModel({ file: join(folder, "none", "x.jsonl"), model });
    await expect(live.respond(asking("a"))).rejects.toMatchObject({ code: "invalid_option" });
    expect(model.asked()).toBe(0);
  });
});

describe("replaying", () => {
  test("ignores the order of keys and undefined properties", async () => {
    const file = newFile();
    await recordedModel({ file, model: echo }).respond({ input: [user("a")], temperature: 1, top_p: 0.5 });
    const same = {
      top_p: 0.5,
      temperature: 1,
      tools: undefined,
      input: [{ content: "a", role: "user", type: "message" }],
    };
    await recordedModel({ file }).respond(same as unknown as ModelRequest);
  });

  test("emits one piece per text", async () => {
    const file = newFile();
    const model = scriptedModel([{ text: "some words", calls: [{ name: "add", arguments: { by: 1 } }] }]);
    await recordedModel({ file, model }).respond(asking("a"));
    const pieces: Piece[] = [];
    await recordedModel({ file }).respond(asking("a"), { onPiece: (piece) => pieces.push(piece) });
    expect(pieces).toEqual([
      { type: "text", text: "some words" },
      { type: "arguments", call_id: "call_0_0", name: "add", text: '{"by":1}' },
    ]);
  });

  test("of an unrecorded request names the digest and the first difference from the nearest request", async () => {
    const file = newFile();
    const live = recordedModel({ file, model: echo });
    const turns = [user("a"), { type: "function_call", call_id: "1", name: "add", arguments: "{}" }];
    const result = (output: string): Item => ({ type: "function_call_output", call_id: "1", output });
    await live.respond({ input: [user("x")] });
    await live.respond({ input: [...turns, result("3")] });
    await live.respond({ input: [user("a")] });
    const request = { input: [...turns, result("4")] };
    await expect(recordedModel({ file }).respond(request)).rejects.toMatchObject({
      code: "model_exhausted",
      message:
        `${file} has no answer to the request ${hash("sha256", canonicalText(request as never))}: ` +
        'the most similar recorded request differs at /input/2/output: recorded "3", requested "4"',
    });
    const warmer = recordedModel({ file }).respond({ input: [user("a")], temperature: 1 });
    await expect(warmer).rejects.toThrow("differs at /temperature: recorded nothing, requested 1");
    const shorter = recordedModel({ file }).respond({ input: [] });
    await expect(shorter).rejects.toThrow('differs at /input/0: recorded {"type":"message"');
  });

  test("reports an empty recording, and a missing one until it exists", async () => {
    const file = newFile();
    const replay = recordedModel({ file });
    await expect(replay.respond(asking("a"))).rejects.toMatchObject({
      code: "invalid_option",
      message: `cannot read the recording ${file}: the file does not exist; pass a model to record one`,
    });
    await writeFile(file, "");
    await expect(replay.respond(asking("a"))).rejects.toThrow("the recording is empty");
    await recordedModel({ file, model: echo }).respond(asking("a"));
    await recordedModel({ file }).respond(asking("a"));
  });
});

describe("the file", () => {
  test("may end in a line that a killed process did not finish: it is skipped, even after more lines follow", async () => {
    const file = newFile();
    await recordedModel({ file, model: echo }).respond(asking("a"));
    const whole = await readFile(file, "utf8");
    await appendFile(file, whole.slice(0, 40));
    await recordedModel({ file }).respond(asking("a"));
    await recordedModel({ file, model: echo }).respond(asking("b"));
    await appendFile(file, Buffer.from('{"digest":"é').subarray(0, 12));
    await recordedModel({ file, model: echo }).respond(asking("c"));
    const replay = recordedModel({ file });
    for (const text of ["a", "b", "c"]) await replay.respond(asking(text));
    await expect(replay.respond(asking("a"))).rejects.toMatchObject({ code: "model_exhausted" });
  });

  test("keeps a complete last line without a line break, as editors leave it", async () => {
    const file = newFile();
    await recordedModel({ file, model: echo }).respond(asking("a"));
    await writeFile(file, (await readFile(file, "utf8")).trimEnd());
    await recordedModel({ file, model: echo }).respond(asking("b"));
    const replay = recordedModel({ file });
    for (const text of ["a", "b"]) await replay.respond(asking(text));
  });

  test.each(["not JSON", "{}", "[]", "null", '{"digest":"x","response":{}}'])(
    "with the line %s is refused",
    async (line) => {
      const file = newFile();
      await recordedModel({ file, model: echo }).respond(asking("a"));
      await appendFile(file, `\n${line}\n`);
      await expect(recordedModel({ file }).respond(asking("a"))).rejects.toMatchObject({
        code: "store_corrupt",
        message: expect.stringContaining(`line 3 of ${file} is not a recorded entry`),
      });
    },
  );

  test("accepts text of any characters and size", async () => {
    const file = newFile();
    const texts = ["\u2028\u2029\r\n\u0018", "\ud800", "x".repeat(3_000_000), "日本".repeat(500_000)];
    const live = recordedModel({
      file,
      model: scriptedModel(({ input }) => (input[0] as { content: string }).content),
    });
    for (const text of texts) await live.respond(asking(text));
    const replay = recordedModel({ file });
    for (const text of texts) expect((await textOf(replay, asking(text))) === text).toBe(true);
  });
});
