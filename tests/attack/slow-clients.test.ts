// Slow and hostile clients of a real server with a small heap. An honest client is served meanwhile.
import { readFileSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { post } from "../e2e/replicas-load.ts";
import { startServing } from "../e2e/serve-process.ts";
import { root } from "../files.ts";
import { attacks, lasting, report } from "./size.ts";

const head = (path: string, length: number, more = ""): string =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${more}content-length: ${length}\r\n\r\n`;
const whole = (path: string, body: string): string => head(path, Buffer.byteLength(body)) + body;
const most = 4_194_304;

const rows = (row: string, bytes: number): string => {
  const count = Math.floor((bytes - 40) / (row.length + 1));
  return `{"verify_responses":[${Array.from({ length: count }, () => row).join(",")}]}`;
};
const deep = `{"a":${"[".repeat(490)}${"]".repeat(490)}}`;

interface Attack {
  name: string;
  /** The first bytes of each client. */
  first: string;
  /** The bytes that follow every 100 ms; empty: none. */
  drip: string;
  /** Whether the client reads replies. */
  reads: boolean;
  /** The share of the clients that take part: heavy requests need fewer. */
  share: number;
}

const seed = "/seed_session";
const kinds: Attack[] = [
  { name: "slow headers", first: "POST / HTTP/1.1\r\nhost: localhost\r\n", drip: "x: y\r\n", reads: true, share: 1 },
  { name: "slow uploads", first: head(seed, most - 1), drip: " ", reads: true, share: 1 },
  { name: "unfinished uploads", first: head(seed, 200_000) + " ".repeat(100_000), drip: "", reads: true, share: 1 },
  { name: "silent connections", first: "", drip: "", reads: true, share: 1 },
  {
    name: "unread replies",
    first: "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50),
    drip: "",
    reads: false,
    share: 0.2,
  },
  {
    name: "deep bodies",
    first: whole(seed, `{"x":[${Array.from({ length: 4_000 }, () => deep).join(",")}]}`),
    drip: "",
    reads: true,
    share: 0.02,
  },
  {
    name: "wide bodies",
    first: whole(seed, `{${Array.from({ length: 300_000 }, (_, n) => `"k${n}":0`).join(",")}}`),
    drip: "",
    reads: true,
    share: 0.02,
  },
  { name: "many rows", first: whole("/aggregate_metrics", rows("{}", most)), drip: "", reads: false, share: 0.02 },
  {
    name: "many wide rows",
    first: whole("/aggregate_metrics", rows('{"reward":1,"a":2,"b":3,"_ng_task_index":1}', most)),
    drip: "",
    reads: true,
    share: 0.02,
  },
];

/** Keeps hostile clients connected in a thread of their own. `stop` returns the number of connections they made. */
function startClients(port: number, count: number, { first, drip, reads, share }: Attack) {
  const made = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { port, count, first, drip, reads, isRepeated: share < 1, made };
  const worker = new Worker(join(root, "tests/attack/hostile-clients.mjs"), { workerData });
  return {
    async stop(): Promise<number> {
      await worker.terminate();
      return made[0] as number;
    },
  };
}

const percentile = (times: number[], share: number): number =>
  times.sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))] as number;

test("an honest client is answered while slow and hostile clients are connected", lasting(110), async () => {
  process.env["NODE_OPTIONS"] = "--max-old-space-size=600";
  const serving = await startServing(["examples/counter", "--port", "0", "--log", "none"]);
  delete process.env["NODE_OPTIONS"];
  const port = Number(new URL(serving.url).port);
  const agent = new Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const opened = await post(agent, `${serving.url}/v1/sessions`, '{"task":{"initial_count":0}}');
  const { session } = (opened as unknown as { body: { session: string } }).body;
  /** The largest memory of the server so far, in megabytes. */
  const memory = (): number =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${serving.process.pid}/status`, "utf8"))?.[1]) / 1024;
  let calls = 0;

  /** Makes honest calls for some time, and returns how long each took. */
  async function honest(ms: number): Promise<number[]> {
    const times: number[] = [];
    for (const end = performance.now() + ms; performance.now() < end; await sleep(2)) {
      const body = `{"tool":"increment_counter","input":{"count":1},"call":"call ${calls}"}`;
      const answer = await post(agent, `${serving.url}/v1/sessions/${session}/call`, body);
      expect(answer).toMatchObject({ status: 200, body: { ok: true } });
      calls++;
      times.push((answer as { ms: number }).ms);
    }
    return times;
  }

  await honest(1_000);
  const counts: Record<string, string> = {};
  let hostile = 0;
  for (const kind of kinds) {
    const before = percentile(await honest(1_000), 0.99);
    const clients = startClients(port, Math.max(4, Math.round(attacks(1_000) * kind.share)), kind);
    const during = percentile(await honest(2_500), 0.99);
    hostile += await clients.stop();
    counts[kind.name] =
      `(${before.toFixed(1)} to ${during.toFixed(1)} ms, ${(during / before).toFixed(1)} times, ${Math.round(memory())} MB)`;
    await sleep(200);
  }
  expect(memory()).toBeLessThan(512);
  report("slow clients", {
    "hostile clients": hostile,
    calls,
    ...counts,
  });
});
