// What collecting costs: many episodes at once beside the latencies of their model alone, CPU per step, and models over HTTP.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createSessions, defineAgent, defineEnvironment, tool } from "holdfast";
import { z } from "zod";
import { createPlayer } from "../dist/rollout/play/player.js";
import { collect } from "../dist/rollout/collect.js";
import { fileOutput } from "../dist/rollout/output.js";
import { forgetIn } from "../dist/rollout/forget.js";
import { quantile } from "./measure.mjs";
import { modelRows } from "./model-http.mjs";
import { withStore } from "./open-store.mjs";
import { judged } from "./table.mjs";

/** @typedef {import("./open-store.mjs").StoreName} StoreName */
/** @typedef {import("./table.mjs").Row} Row */

const calls = 5;

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ goal: z.number().int() }),
  seed: () => ({ count: 0 }),
  tools: {
    add: tool({
      description: "Add one.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => {
        state.count += by;
        return { count: state.count };
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});

/** Calls the tool so many times, then answers; each answer takes that long. @param {number} latency */
function player(latency) {
  /** @type {import("holdfast").Model["respond"]} */
  const respond = async ({ input }) => {
    const made = input.filter(({ type }) => type === "function_call").length;
    if (latency > 0) await delay(latency);
    const call = { type: "function_call", call_id: `call_${made}`, name: "add", arguments: '{"by":1}' };
    const text = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }] };
    return { status: "completed", output: [/** @type {import("holdfast").Item} */ (made < calls ? call : text)] };
  };
  return defineAgent({ name: "agent", model: { name: "bench", respond } });
}

/** Collects so many episodes, all at once or so many. What the first `warm` of them cost does not count. */
async function collected(
  /** @type {import("holdfast").Store} */ store,
  { episodes = 1, latency = 0, concurrency = 1, warm = 0 },
) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-rollout-"));
  const engine = createSessions({ environment: counter, store });
  const sessions = createSessions({ app: "bench", store, cache: { sessions: concurrency } });
  const agent = player(latency);
  async function* tasks() {
    for (let line = 1; line <= episodes; line++) {
      const row = { goal: calls, _ng_task_index: line - 1, responses_create_params: { input: "Count." } };
      yield { line, row, text: String(line) };
    }
  }
  let peak = 0;
  const watching = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 50);
  let cpu = process.cpuUsage();
  let scored = 0;
  const began = performance.now();
  const result = await collect({
    tasks: tasks(),
    prepare: (row) => row,
    output: fileOutput(join(folder, "rows.jsonl")),
    run: "bench",
    seed: 0,
    play: createPlayer({ sessions, episodes: engine, agentFor: () => agent }),
    repeats: 1,
    concurrency,
    attempts: 1,
    forget: forgetIn(store),
    onRow() {
      if (++scored === warm) cpu = process.cpuUsage();
    },
  });
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  clearInterval(watching);
  await rm(folder, { recursive: true });
  if (result.scored !== episodes) throw new Error(`${result.scored} of ${episodes} were scored`);
  return { seconds, cpu: user + system, peak };
}

/** The handler's work alone, for as many steps: what cannot be saved. @param {number} steps */
function bareLoop(steps) {
  const began = process.cpuUsage();
  let state = { count: 0 };
  let log = "";
  for (let step = 0; step < steps; step++) {
    const { by } = JSON.parse('{"by":1}');
    state = { count: state.count + by };
    log = JSON.stringify({
      type: "tool.called",
      input: { by },
      output: state,
      delta: [{ op: "replace", value: state }],
    });
  }
  if (log === "") throw new Error("nothing was done");
  const { user, system } = process.cpuUsage(began);
  return (user + system) / steps;
}

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  /** @type {Row[]} */
  const rows = [];
  const many = quick ? 300 : 1_000;
  progress(`${many} at once`);
  // Every answer takes a second: the calls', and the one that ends it.
  const ideal = calls + 1;
  await withStore("memory", async (store) => {
    const { seconds } = await collected(store, { episodes: many, latency: 1_000, concurrency: many });
    const row = { what: `${many} episodes at once, of 6 answers of 1 s`, value: seconds, unit: "s" };
    rows.push(judged({ ...row, ratio: seconds / ideal, to: "the latencies alone" }, { atMost: 1.3 }));
  });
  if (!quick) {
    progress("5,000 at once");
    await withStore("memory", async (store) => {
      const { peak } = await collected(store, { episodes: 5_000, latency: 1_000, concurrency: 5_000 });
      rows.push(judged({ what: "5,000 at once, peak memory", value: peak / 2 ** 20, unit: "MB" }, { atMost: 1_024 }));
    });
  }
  const bare = bareLoop(200_000);
  const bars = { memory: 250, "SQLite process": 400 };
  const names = /** @type {("memory" | "SQLite process")[]} */ (["memory", "SQLite process"]);
  /** @type {Record<string, number[]>} */
  const costs = { memory: [], "SQLite process": [] };
  // In turn. The first episodes of a collection do not count: they pay for the compiler, which is busy for seconds with
  // code that runs for hours.
  const [warm, counted] = [1_000, 2_000];
  for (let round = 0; round < (quick ? 3 : 5); round++) {
    for (const name of names) {
      progress(`steps, ${name}`);
      const size = { episodes: warm + counted, concurrency: 32, warm };
      const { cpu } = await withStore(name, (store) => collected(store, size));
      costs[name]?.push(cpu / (counted * (calls + 1)));
    }
  }
  for (const name of names) {
    const [value, low, high] = [0.5, 0.25, 0.75].map((share) => quantile(costs[name] ?? [], share));
    const row = { what: `CPU per step, ${name}`, value: value ?? Number.NaN, unit: "µs", low, high };
    rows.push(judged(/** @type {Row} */ (row), { atMost: bars[name] }));
    rows.push({ what: "the same, to the bare handler's work", value: (value ?? Number.NaN) / bare, unit: "x" });
  }
  rows.push(...(await modelRows({ quick, progress })));
  return {
    rows,
    notes: [
      `A step is an answer of a model, with its call, result and commits; an episode has ${calls} calls and an answer, and all that opening, scoring and writing it costs is divided among them. The first ${warm.toLocaleString("en")} episodes of a collection do not count.`,
      "Over HTTP, a request is a conversation of 6 KB. The bare client makes the same text of it, sends it, and reads and parses the answer; the row without a bar says what is left of that where it has the text ready.",
    ],
  };
}
