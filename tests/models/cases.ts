// The cases that every model passes: one per statement of core/model.ts.
import assert from "node:assert/strict";
import { describe, test } from "vitest";
import { isHoldfastError } from "../../src/core/errors.ts";
import { copyJson, type Json } from "../../src/core/json.ts";
import {
  answerText,
  isFunctionCall,
  type Item,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type Piece,
} from "../../src/core/model.ts";

export interface ModelCase {
  /** A sentence about behaviour. */
  name: string;
  /** Runs only for models that declare this. */
  needs?: "keepsToTools";
  run(model: () => Model | Promise<Model>): Promise<void>;
}

const tools: ModelRequest["tools"] = [
  {
    type: "function",
    name: "add",
    description: "Adds to the counter.",
    parameters: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
  },
  { type: "function", name: "read", description: "Reads the counter.", parameters: { type: "object", properties: {} } },
];

const said = (text: string): Item => ({ type: "message", role: "user", content: text });
const asking = (text: string): ModelRequest => ({ instructions: "Be brief.", input: [said(text)], tools });

/** Returns an answer and all the pieces that came before it. */
async function streamed(model: Model, request: ModelRequest): Promise<{ response: ModelResponse; pieces: Piece[] }> {
  const pieces: Piece[] = [];
  const response = await model.respond(request, { onPiece: (piece) => pieces.push(piece) });
  return { response, pieces };
}

function checkPieces({ response, pieces }: { response: ModelResponse; pieces: Piece[] }): void {
  const said = pieces.filter(({ type }) => type === "text").map(({ text }) => text);
  assert.equal(said.join(""), answerText(response.output), "the pieces of text are not the text of the answer");
  const calls = response.output.filter(isFunctionCall);
  for (const id of new Set(calls.map(({ call_id }) => call_id))) {
    const texts = pieces.map((piece) => (piece.type === "arguments" && piece.call_id === id ? piece.text : ""));
    const whole = calls.filter(({ call_id }) => call_id === id).map(({ arguments: args }) => args);
    assert.equal(texts.join(""), whole.join(""), `the pieces of ${id} are not its arguments`);
  }
}

/** The content of an answer without the ids that a server generates. */
const contentOf = ({ output }: ModelResponse): unknown =>
  output.map((item) => (isFunctionCall(item) ? [item.name, item.arguments] : [item.type, answerText([item])]));

/** Settles like the promise, or fails on a timeout. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("it did not settle within 5 s")), 5_000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const isCancelled = (error: unknown): boolean => isHoldfastError(error) && error.code === "model_cancelled";

function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

const modelCases: readonly ModelCase[] = [
  {
    name: "a model has a name",
    async run(open) {
      const { name } = await open();
      assert.ok(typeof name === "string" && name.trim() !== "", "its name is empty");
    },
  },
  {
    name: "an answer is JSON: items with a type, and a status",
    async run(open) {
      const response = await (await open()).respond(asking("hello"));
      assert.deepEqual(copyJson(response, "the answer"), response as unknown as Json);
      assert.ok(Array.isArray(response.output), "its output is not a list");
      for (const item of response.output) assert.equal(typeof item.type, "string", "an item has no type");
      assert.ok(["completed", "incomplete"].includes(response.status), `its status is ${response.status}`);
    },
  },
  {
    name: "usage, if present, is counted in non-negative whole numbers",
    async run(open) {
      const { usage } = await (await open()).respond(asking("hello"));
      if (!usage) return;
      const { input_tokens, output_tokens, total_tokens } = usage;
      for (const count of [input_tokens, output_tokens, total_tokens]) {
        assert.ok(Number.isInteger(count) && count >= 0, `usage has ${count}`);
      }
    },
  },
  {
    name: "a request is not modified",
    async run(open) {
      const request = asking("hello");
      const before = structuredClone(request);
      await streamed(await open(), frozen(request));
      assert.deepEqual(request, before);
    },
  },
  {
    name: "the pieces join to the answer",
    async run(open) {
      const model = await open();
      for (const text of ["hello", "add 2", "how are you?"]) checkPieces(await streamed(model, asking(text)));
    },
  },
  {
    name: "an answer is the same streamed and whole",
    async run(open) {
      const whole = await (await open()).respond(asking("hello"));
      const { response } = await streamed(await open(), asking("hello"));
      assert.deepEqual(contentOf(response), contentOf(whole));
    },
  },
  {
    name: "an answer can be sent back, with the outputs of its calls",
    async run(open) {
      const model = await open();
      const request = asking("add 2");
      const { output } = await model.respond(request);
      const results = output
        .filter(isFunctionCall)
        .map(({ call_id }): Item => ({ type: "function_call_output", call_id, output: '{"count":2}' }));
      const input = [...request.input, ...output, ...(results.length > 0 ? results : [said("go on")])];
      assert.ok(Array.isArray((await model.respond({ ...request, input })).output));
    },
  },
  {
    name: "only offered tools are called",
    needs: "keepsToTools",
    async run(open) {
      const model = await open();
      for (const text of ["hello", "add 2", "read it"]) {
        const { output } = await model.respond(asking(text));
        for (const { name } of output.filter(isFunctionCall)) {
          assert.ok(["add", "read"].includes(name), `it called ${name}`);
        }
      }
    },
  },
  {
    name: "a request that is cancelled before it is sent rejects with model_cancelled",
    async run(open) {
      const model = await open();
      const signal = AbortSignal.abort();
      await assert.rejects(inTime(model.respond(asking("hello"), { signal })), isCancelled);
      await assert.rejects(inTime(model.respond(asking("hello"), { signal, onPiece: () => {} })), isCancelled);
      assert.ok(await model.respond(asking("hello")), "it does not answer any more");
    },
  },
  {
    name: "a request that is cancelled while it runs settles with model_cancelled or with the answer",
    async run(open) {
      const model = await open();
      const controller = new AbortController();
      const answer = inTime(model.respond(asking("hello"), { signal: controller.signal }));
      controller.abort();
      await answer.catch((error: unknown) => assert.ok(isCancelled(error), `it rejected with ${String(error)}`));
    },
  },
  {
    name: "20 concurrent requests get the same answers as one by one",
    async run(open) {
      const model = await open();
      const requests = Array.from({ length: 20 }, (_, n) => asking(`say ${n}`));
      const together = await Promise.all(requests.map((request) => streamed(model, request)));
      together.forEach(checkPieces);
      const alone = await open();
      for (const [n, request] of requests.entries()) {
        const response = await alone.respond(request);
        assert.deepEqual(contentOf(together[n]?.response as ModelResponse), contentOf(response), `request ${n}`);
      }
    },
  },
];

/**
 * Runs the cases on a model. `open` returns a model whose answers depend on the request only.
 * It answers every case, for at least two turns. `keepsToTools: false` skips the case that only offered tools are
 * called.
 */
export function runModelCases(
  name: string,
  open: () => Model | Promise<Model>,
  { keepsToTools = true }: { keepsToTools?: boolean } = {},
): void {
  describe(name, () => {
    for (const { name, needs, run } of modelCases) {
      if (needs === undefined || keepsToTools) test(name, () => run(open));
    }
  });
}
