// How many requests per CPU-second a model over HTTP makes, beside a bare undici client that sends the same bodies.
//
// The bare client sends the same bytes and headers over one connection for each request in flight. It reads
// and parses the answer. It makes no body of a conversation, and knows no limit for the whole answer, no signal and no
// second attempt.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { chatModel } from "holdfast/models/chat";
import { openaiModel } from "holdfast/models/openai";
import { Pool } from "undici";
import { collect, quantile, shuffled } from "./measure.mjs";
import { judged } from "./table.mjs";

/** @typedef {import("./table.mjs").Row} Row */
/** @typedef {"ready" | "bare" | "ours"} Way */
/** @typedef {{ path: string, headers: Record<string, string>, body: string }} Sent */

const names = /** @type {const} */ (["chat", "openai"]);
const open = { chat: chatModel, openai: openaiModel };

/** @param {import("./table.mjs").Options} options @returns {Promise<Row[]>} */
export async function modelRows({ quick, progress }) {
  const size = quick ? { requests: 2_000, rounds: 7, warmup: 4 } : { requests: 4_000, rounds: 15, warmup: 5 };
  const server = await started();
  /** @type {Row[]} */
  const rows = [];
  try {
    for (const name of names) {
      const model = open[name]({ model: "Qwen/Qwen3-8B", baseUrl: `${server.url}/v1`, apiKey: "sk-of-the-bench" });
      await model.respond(request);
      // What our model has sent, to the byte.
      const sent = await server.seen();
      const content = JSON.parse(sent.body);
      for (const inFlight of [64, 256]) {
        const pool = new Pool(server.url, { connections: inFlight });
        const ways = {
          ready: () => bareRequest(pool, sent, sent.body),
          bare: () => bareRequest(pool, sent, JSON.stringify(content)),
          // With a signal, as agents give one.
          ours: (/** @type {AbortSignal} */ signal) => model.respond(request, { signal }),
        };
        await ways.bare();
        assert.deepEqual(await server.seen(), sent);
        const costs = await measured(ways, { ...size, inFlight, progress: () => progress(`${name}, ${inFlight}`) });
        await pool.destroy();
        rows.push(...rowsOf(`${name}, ${inFlight} in flight`, costs));
      }
    }
  } finally {
    server.end();
  }
  return rows;
}

/** The least that a client can do with an answer: read it, and parse it. @param {Pool} pool @param {Sent} sent @param {string} body */
async function bareRequest(pool, { path, headers }, body) {
  const answer = await pool.request({ method: "POST", path, headers, body });
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
  return answer.body.json();
}

/**
 * Microseconds of CPU for a request, of each round; in turns, after rounds that do not count.
 *
 * @param {Record<Way, (signal: AbortSignal) => Promise<unknown>>} ways
 * @param {{ requests: number, rounds: number, warmup: number, inFlight: number, progress: () => void }} size
 */
async function measured(ways, { requests, rounds, warmup, inFlight, progress }) {
  /** @type {Record<Way, number[]>} */
  const costs = { ready: [], bare: [], ours: [] };
  for (let round = -warmup; round < rounds; round++) {
    progress();
    for (const name of shuffled(/** @type {Way[]} */ (Object.keys(ways)))) {
      collect(false);
      let left = requests;
      const before = process.cpuUsage();
      const inTurn = async () => {
        const { signal } = new AbortController();
        while (left-- > 0) await ways[name](signal);
      };
      await Promise.all(Array.from({ length: inFlight }, inTurn));
      const { user, system } = process.cpuUsage(before);
      if (round >= 0) costs[name].push((user + system) / requests);
    }
  }
  return costs;
}

/** @param {string} what @param {Record<Way, number[]>} costs @returns {Row[]} */
function rowsOf(what, costs) {
  const rate = (/** @type {number[]} */ samples) => ({
    value: 1e6 / quantile(samples, 0.5),
    unit: "requests/CPU-s",
    low: 1e6 / quantile(samples, 0.75),
    high: 1e6 / quantile(samples, 0.25),
  });
  // Of single rounds: all are in the same mood of the machine then.
  const oursTo = (/** @type {number[]} */ samples) =>
    quantile(
      samples.map((cost, round) => cost / (costs.ours[round] ?? Number.NaN)),
      0.5,
    );
  const row = { what: `a model over HTTP: ${what}`, ...rate(costs.ours), ratio: oursTo(costs.bare), to: "bare undici" };
  return [
    judged(row, { atLeast: 0.7 }),
    { what: "bare undici, the same bodies", ...rate(costs.bare) },
    {
      what: "bare undici, the same as ready text",
      ...rate(costs.ready),
      ratio: oursTo(costs.ready),
      to: "(ours to it)",
    },
  ];
}

/** A conversation in its fifth turn, with five tools: 6 KB. @type {import("holdfast").ModelRequest} */
const request = {
  instructions: `You help the customers of a shop. ${"Look at the order before you change it, and follow the policy. ".repeat(15)}`,
  input: [
    { type: "message", role: "user", content: "My jacket is too small. I want the next size, and I have moved since." },
    ...Array.from({ length: 4 }, (_, turn) => [
      { type: "function_call", call_id: `call_${turn}`, name: "get_order", arguments: `{"order_id":"W${turn}"}` },
      {
        type: "function_call_output",
        call_id: `call_${turn}`,
        output: JSON.stringify({ order_id: `W${turn}`, status: "delivered", lines: Array(4).fill(orderLine()) }),
      },
    ]).flat(),
  ],
  tools: ["get_order", "exchange_item", "change_address", "refund", "close_case"].map((name) => ({
    type: "function",
    name,
    description: `Does what its name says: ${name}. It wants to be confirmed before it changes anything.`,
    parameters: {
      type: "object",
      properties: {
        order_id: { type: "string", description: "As it stands in the customer's mail." },
        confirm: { type: "boolean", description: "Whether it is done, and not only shown." },
      },
      required: ["order_id"],
    },
  })),
  temperature: 1,
};

function orderLine() {
  return { item_id: "jacket-44", name: "Rain jacket", size: "M", colour: "blue", price: 89.5, quantity: 1 };
}

const usage = { total_tokens: 1_642 };
const call = { name: "exchange_item", arguments: '{"order_id":"W3","item_id":"jacket-44","size":"L","confirm":true}' };
const said = "I see that your jacket was delivered. I exchange it for the next size now.";

/** What the server answers: a text and a call. */
const answers = {
  "/v1/chat/completions": {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_780_000_000,
    model: "Qwen/Qwen3-8B",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: said,
          refusal: null,
          tool_calls: [{ id: "call_next", type: "function", function: call }],
        },
        logprobs: null,
        finish_reason: "tool_calls",
      },
    ],
    usage: { prompt_tokens: 1_600, completion_tokens: 42, ...usage, prompt_tokens_details: { cached_tokens: 1_024 } },
  },
  "/v1/responses": {
    id: "resp_1",
    object: "response",
    created_at: 1_780_000_000,
    status: "completed",
    error: null,
    incomplete_details: null,
    model: "Qwen/Qwen3-8B",
    output: [
      {
        type: "message",
        id: "msg_1",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: said, annotations: [] }],
      },
      { type: "function_call", id: "fc_1", status: "completed", call_id: "call_next", ...call },
    ],
    parallel_tool_calls: true,
    tool_choice: "auto",
    // Servers repeat what they were asked with.
    tools: request.tools,
    temperature: 1,
    usage: { input_tokens: 1_600, output_tokens: 42, ...usage, input_tokens_details: { cached_tokens: 1_024 } },
  },
};

/** The server in a process of its own, so that what it uses does not count. */
async function started() {
  const child = fork(fileURLToPath(import.meta.url), ["serve"]);
  /** @returns {Promise<{ port: number } & Sent>} */
  const told = () =>
    new Promise((resolve, reject) => {
      const ended = (/** @type {number | null} */ code) => reject(new Error(`the server ended with ${code}`));
      child.once("exit", ended);
      child.once("message", (message) => {
        child.off("exit", ended);
        resolve(/** @type {{ port: number } & Sent} */ (message));
      });
    });
  const { port } = await told();
  return {
    url: `http://127.0.0.1:${port}`,
    /** The last request that it was sent. @returns {Promise<Sent>} */
    seen: () => {
      const answer = told();
      child.send("seen");
      return answer;
    },
    end: () => child.disconnect(),
  };
}

/** What the child does: answers at once, and says what it was sent last when it is asked. */
function serve() {
  const texts = new Map(Object.entries(answers).map(([path, answer]) => [path, Buffer.from(JSON.stringify(answer))]));
  /** @type {Sent | undefined} */
  let seen;
  const server = createServer((asked, response) => {
    const path = asked.url ?? "";
    /** @type {Buffer[]} */
    const chunks = [];
    asked.on("data", (chunk) => chunks.push(chunk));
    asked.on("end", () => {
      const { host: _, connection: __, "content-length": ___, ...headers } = asked.headers;
      seen = { path, headers: /** @type {Record<string, string>} */ (headers), body: String(Buffer.concat(chunks)) };
      const text = texts.get(path) ?? "";
      response.writeHead(200, { "content-type": "application/json", "content-length": text.length });
      response.end(text);
    });
  });
  process.on("message", () => process.send?.(seen));
  process.once("disconnect", () => process.exit());
  server.listen(0, "127.0.0.1", () => {
    process.send?.({ port: /** @type {import("node:net").AddressInfo} */ (server.address()).port });
  });
}

if (process.send && process.argv[2] === "serve") serve();
