// What a rollout request costs: short episodes handed out per second over HTTP, beside a collection of the same episodes,
// and 2,048 episodes in flight.
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { fork } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { collectRollouts } from "holdfast/rollout";
import { serve } from "holdfast/serve";
import { loadEnvironment } from "../dist/rollout/load.js";
import { quantile } from "./measure.mjs";
import { withStore } from "./open-store.mjs";
import { judged } from "./table.mjs";

/** @typedef {import("./table.mjs").Row} Row */

const target = fileURLToPath(new URL("../examples/counter", import.meta.url));
/** Connections to one model server. */
const connections = 900;

/** Reads a stream to its end, and counts its rows. @param {string} url @param {object} body */
async function streamed(url, body) {
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`${url}/v1/rollouts`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok || !reply.body) throw new Error(await reply.text());
  let [rows, text] = [0, ""];
  const decoder = new TextDecoder();
  for await (const chunk of reply.body) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith('{"type":"row"') && JSON.parse(line).row.reward === 1) rows++;
  }
  return rows;
}

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  /** @type {Row[]} */
  const rows = [];
  const environment = await loadEnvironment(target);
  const repeats = quick ? 20 : 50;
  const episodes = 60 * repeats;
  for (const name of /** @type {const} */ (["memory", "SQLite process"])) {
    /** @type {{ served: number[], collected: number[] }} */
    const rates = { served: [], collected: [] };
    // The first round does not count: it pays for the compiler.
    for (let round = -1; round < (quick ? 3 : 5); round++) {
      progress(`handed out, ${name}`);
      await withStore(name, async (store) => {
        const targets = new Map([["counter", target]]);
        const rollouts = { places: 64 };
        const server = await serve({ environments: [environment], store, port: 0, rollouts, targets });
        try {
          const began = performance.now();
          const scored = await streamed(server.url, { repeats, model: { name: "scripted" } });
          if (scored !== episodes) throw new Error(`${scored} of ${episodes} were handed out`);
          if (round >= 0) rates.served.push((1000 * episodes) / (performance.now() - began));
        } finally {
          await server.close();
        }
      });
      const folder = await mkdtemp(join(tmpdir(), "holdfast-requests-"));
      const began = performance.now();
      const store = name === "memory" ? "memory:" : `sqlite:${join(folder, "rows.db")}`;
      const out = join(folder, "rows.jsonl");
      await collectRollouts({ environment: target, model: "scripted", repeats, concurrency: 64, out, store });
      if (round >= 0) rates.collected.push((1000 * episodes) / (performance.now() - began));
      await rm(folder, { recursive: true });
    }
    const [value, low, high] = [0.5, 0.25, 0.75].map((share) => quantile(rates.served, share));
    const ratio = quantile(
      rates.served.map((rate, round) => rate / (rates.collected[round] ?? Number.NaN)),
      0.5,
    );
    const row = {
      what: `short episodes handed out, ${name}`,
      value: value ?? Number.NaN,
      unit: "episodes/s",
      low,
      high,
    };
    rows.push(judged(/** @type {Row} */ (row), { atLeast: 300 }));
    rows.push({ what: "the same, to a collection", value: ratio, unit: "x" });
  }
  progress("a model server without work");
  const batches = await started("batches");
  await withStore("memory", async (store) => {
    const targets = new Map([["counter", target]]);
    const server = await serve({ environments: [environment], store, port: 0, rollouts: { places: 512 }, targets });
    /** @type {number[]} */
    const shares = [];
    for (let round = -1; round < (quick ? 3 : 7); round++) {
      const before = await idleOf(batches.url);
      const began = performance.now();
      await streamed(server.url, { limit: 32, repeats: 32, model: { url: `${batches.url}/v1`, name: "batches" } });
      const share = ((await idleOf(batches.url)) - before) / (performance.now() - began);
      if (round >= 0) shares.push(100 * share);
    }
    const [value, low, high] = [0.5, 0.25, 0.75].map((part) => quantile(shares, part));
    const row = { what: "a model server has no request", value: value ?? Number.NaN, unit: "% of the time", low, high };
    rows.push(judged(row, { atMost: 10 }));
    await server.close();
  });
  batches.end();
  progress("2,048 in flight");
  const model = await started("slow");
  await withStore("memory", async (store) => {
    const many = 2_048;
    const targets = new Map([["counter", target]]);
    const server = await serve({ environments: [environment], store, port: 0, rollouts: { places: many }, targets });
    try {
      let [seconds, peak] = [0, 0];
      const watching = setInterval(
        () => void store.count("counter").then((open) => (peak = Math.max(peak, open))),
        100,
      );
      for (let round = 0; round < 2; round++) {
        const began = performance.now();
        await streamed(server.url, { limit: 32, repeats: many / 32, model: { url: `${model.url}/v1`, name: "slow" } });
        seconds = (performance.now() - began) / 1000;
      }
      clearInterval(watching);
      if (peak !== many) throw new Error(`only ${peak} episodes were in flight`);
      // Each episode has two answers of a second, and the model has so many connections.
      const ideal = Math.ceil((2 * many) / connections);
      const row = { what: "2,048 episodes in flight, of 2 answers of 1 s", value: seconds, unit: "s" };
      rows.push(judged({ ...row, ratio: seconds / ideal, to: `${connections} connections alone` }, { atMost: 1.5 }));
    } finally {
      await server.close();
      model.end();
    }
  });
  return {
    rows,
    notes: [
      "A short episode is one of counter, played by its solution: two calls and an answer. The client is in the same process as the server.",
      "The model server that may have no request answers up to 256 requests together, in 5 ms and 0.4 ms for each. 512 of 1,024 episodes of two answers run at once.",
    ],
  };
}

/** A model server in a process of its own. @param {"slow" | "batches"} kind @returns {Promise<{ url: string, end(): void }>} */
function started(kind) {
  const child = fork(fileURLToPath(import.meta.url), ["model", kind]);
  return new Promise((resolve) => {
    child.once("message", (port) => resolve({ url: `http://127.0.0.1:${port}`, end: () => void child.kill() }));
  });
}

/** Milliseconds that the model server has spent without a request. @param {string} url */
const idleOf = async (url) => Number(await (await fetch(`${url}/idle`)).text());

/** Answers: a call first, then a text. @param {string} request */
function answerTo(request) {
  const isFirst = !request.includes('"role":"tool"');
  const call = { id: "c", type: "function", function: { name: "get_counter_value", arguments: "{}" } };
  const message = isFirst
    ? { role: "assistant", content: null, tool_calls: [call] }
    : { role: "assistant", content: "x" };
  return JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] });
}

/** Answers requests in batches, as a policy server does, and counts the time without any. */
function createBatches() {
  /** @type {(() => void)[]} */
  const waiting = [];
  let [idle, since, isIdle] = [0, performance.now(), true];
  const work = () => {
    const batch = waiting.splice(0, 256);
    if (isIdle) idle += performance.now() - since;
    since = performance.now();
    isIdle = batch.length === 0;
    if (isIdle) return;
    setTimeout(
      () => {
        for (const answer of batch) answer();
        setImmediate(work);
      },
      5 + 0.4 * batch.length,
    );
  };
  return {
    idle: () => idle + (isIdle ? performance.now() - since : 0),
    ask(/** @type {() => void} */ answer) {
      if (waiting.push(answer) === 1 && isIdle) setImmediate(work);
    },
  };
}

if (process.argv[2] === "model" && process.send) {
  const batches = createBatches();
  const server = createServer((incoming, response) => {
    if (incoming.url === "/idle") return void response.end(String(batches.idle()));
    let text = "";
    incoming.on("data", (chunk) => (text += String(chunk)));
    incoming.on("end", () => {
      const answer = () => void response.setHeader("content-type", "application/json").end(answerTo(text));
      if (process.argv[3] === "batches") batches.ask(answer);
      else setTimeout(answer, 1_000);
    });
  });
  server.listen({ port: 0, host: "127.0.0.1", backlog: 4_096 }, () => {
    process.send?.(/** @type {import("node:net").AddressInfo} */ (server.address()).port);
  });
}
