// How soon the viewer shows the first row of a run, and how smoothly its table scrolls, with 1,000 to 100,000 rollouts.
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { ensureBinaries, findBinary } from "../tools/binaries.mjs";
import { quantile } from "./measure.mjs";
import { judged } from "./table.mjs";

/** @typedef {import("./table.mjs").Row} Row */
/** @typedef {import("playwright-core").Browser} Browser */

const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const row = ".grid-row[data-index]";
const frames = 120;

const notes = [
  "From the start of the navigation, in a new tab each time, until a row of the table is in the page: the server has just been",
  "started and reads the file as it is asked. The bare page is a server's that has one row ready, and puts it into a list.",
  "Then the table is scrolled by 2,000 pixels in each of 120 frames, by far faster than a hand would; an idle page has a frame",
  "every 16.7 ms. Without a graphics card the browser draws on the processors that everything else is measured on.",
].join("\n");

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  ensureBinaries();
  const rounds = quick ? 3 : 9;
  const sizes = quick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
  const folder = await mkdtemp(join(tmpdir(), "holdfast-bench-"));
  const bare = await startBare();
  const browser = await chromium.launch({
    executablePath: findBinary("chromium"),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
  });
  /** @type {Row[]} */
  const rows = [];
  try {
    for (const size of sizes) {
      const name = size.toLocaleString("en");
      progress(`${name} rollouts`);
      const file = join(folder, `run-${size}.jsonl`);
      await writeRun(file, size);
      /** @type {{ bare: number[], first: number[], all: number[], frames: number[] }} */
      const seen = { bare: [], first: [], all: [], frames: [] };
      for (let round = 0; round < rounds; round++) {
        seen.bare.push((await firstRow(browser, bare.url, "li")).first);
        const viewer = await startViewer(file);
        const { first, all, scrolled } = await firstRow(browser, `${viewer.url}/view/#at=runs/0`, row, size);
        await viewer.stop();
        seen.first.push(first);
        seen.all.push(all);
        seen.frames.push(...scrolled);
      }
      const reference = quantile(seen.bare, 0.5);
      const firstSeen = figure(`${name} rollouts, first row`, seen.first);
      const bar = size === 10_000 ? { atMost: 1_000 } : undefined;
      rows.push(judged(firstSeen, bar));
      rows.push({ ...firstSeen, what: "  beside a bare page", ratio: firstSeen.value / reference, to: "a bare page" });
      rows.push(figure("  all rows", seen.all));
      rows.push(judged(figure("  a frame while it scrolls, median", seen.frames), { atMost: 34 }));
      rows.push({ what: "  95th percentile", value: quantile(seen.frames, 0.95), unit: "ms" });
    }
  } finally {
    await browser.close();
    await bare.stop();
    await rm(folder, { recursive: true, force: true });
  }
  return { rows, notes: [notes] };
}

/** @param {string} what @param {number[]} values @returns {Row} */
function figure(what, values) {
  const [low, value, high] = [0.25, 0.5, 0.75].map((part) => quantile(values, part));
  return { what, value: value ?? 0, unit: "ms", low: low ?? 0, high: high ?? 0 };
}

/**
 * Opens a page in a new tab and measures, in the page, when the first row was there, and when all were; then scrolls.
 *
 * @param {Browser} browser @param {string} url @param {string} selector @param {number} [size]
 */
async function firstRow(browser, url, selector, size) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  try {
    const page = await context.newPage();
    await page.addInitScript((wanted) => {
      const seen = /** @type {any} */ (globalThis);
      const look = () => {
        if (document.querySelector(wanted)) seen.firstRow ??= performance.now();
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    }, selector);
    await page.goto(url);
    await page.waitForFunction(() => "firstRow" in globalThis);
    const first = await page.evaluate(() => /** @type {number} */ (/** @type {any} */ (globalThis).firstRow));
    if (size === undefined) return { first, all: first, scrolled: [] };
    await page.waitForFunction(
      (count) => document.querySelector("[aria-rowcount]")?.getAttribute("aria-rowcount") === String(count + 1),
      size,
    );
    const all = await page.evaluate(() => performance.now());
    await page.waitForTimeout(500);
    const scrolled = await page.evaluate(async (count) => {
      const list = document.querySelector(".virtual");
      if (!list) throw new Error("there is no list");
      /** @type {number[]} */
      const times = [];
      let last = await new Promise(requestAnimationFrame);
      for (let frame = 0; frame < count; frame++) {
        list.scrollTop = (list.scrollTop + 2_000) % Math.max(1, list.scrollHeight - list.clientHeight);
        const now = await new Promise(requestAnimationFrame);
        times.push(now - last);
        last = now;
      }
      return times;
    }, frames);
    return { first, all, scrolled };
  } finally {
    await context.close();
  }
}

/** A run as `collect` writes it, of about a kilobyte a row. @param {string} file @param {number} size */
async function writeRun(file, size) {
  const out = createWriteStream(file);
  const repeats = 20;
  for (let at = 0; at < size; at++) {
    const call = { type: "function_call", call_id: "c1", name: "increment_counter", arguments: '{"count":2}' };
    const answer = { type: "function_call_output", call_id: "c1", output: '{"success":true}' };
    const text = { type: "output_text", text: `The counter is at ${at}. ${"And so on. ".repeat(30)}` };
    const said = { type: "message", role: "assistant", content: [text] };
    const input = [{ role: "user", content: `Bring the counter to ${at}.` }];
    const written = out.write(
      `${JSON.stringify({
        _ng_task_index: Math.floor(at / repeats),
        _ng_rollout_index: at % repeats,
        session_id: `session-${at}`,
        responses_create_params: { input },
        reward: (at * 7919) % 11 < 6 ? 1 : 0,
        seconds: (at % 97) / 10,
        response: { output: [call, answer, said], usage: { total_tokens: 100 + (at % 400) } },
      })}\n`,
    );
    if (!written) await new Promise((resolve) => out.once("drain", resolve));
  }
  out.end();
  await finished(out);
}

/** @param {string} file @returns {Promise<{ url: string, stop: () => Promise<void> }>} */
function startViewer(file) {
  const child = spawn(process.execPath, [main, "view", file, "--no-open"], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return new Promise((resolve, reject) => {
    void ended.then((code) => reject(new Error(`holdfast view ended with ${code}`)));
    let printed = "";
    child.stdout.on("data", (chunk) => {
      printed += String(chunk);
      const [, url] = /(http:\/\/[^/\s]+)/.exec(printed) ?? [];
      if (url !== undefined) resolve({ url, stop });
    });
  });
}

/** @returns {Promise<{ url: string, stop: () => Promise<void> }>} */
function startBare() {
  const page = `<!doctype html><title>bare</title><ul></ul><script>
    fetch("row").then((r) => r.json()).then(({ text }) => {
      document.querySelector("ul").append(Object.assign(document.createElement("li"), { textContent: text }));
    });
  </script>`;
  const server = createServer(({ url }, response) => {
    response.setHeader("content-type", url === "/row" ? "application/json" : "text/html");
    response.end(url === "/row" ? '{"text":"a row"}' : page);
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      const stop = () => new Promise((done) => server.close(() => done(undefined)).closeAllConnections());
      resolve({ url: `http://127.0.0.1:${port}/`, stop });
    });
  });
}
