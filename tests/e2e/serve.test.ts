// `holdfast serve` as its users have it: a real process on a real port, killed and stopped in the middle of episodes.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { createClient, persist, run, startServing } from "./serve-process.ts";

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-serve-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const episodes = 64;
const steps = 12;

/** Plays counter episodes concurrently, each call with its own id, whatever happens to the server. */
async function playEpisodes(url: string, onAnswer: () => void): Promise<{ rewards: unknown[]; counts: unknown[] }> {
  const played = await Promise.all(
    Array.from({ length: episodes }, async (_, episode) => {
      const client = createClient(url);
      const task = { initial_count: episode, expected_count: episode + (steps * (steps + 1)) / 2 };
      await persist(() => client.post("/seed_session", task, "seed"));
      for (let step = 1; step <= steps; step++) {
        const reply = await persist(() => client.post("/increment_counter", { count: step }, `call_${step}`));
        expect(reply).toMatchObject({ status: 200, body: { success: true } });
        onAnswer();
      }
      const { body: value } = await persist(() => client.post("/get_counter_value", {}, "read"));
      const { body: verdict } = await persist(() => client.post("/verify", { ...task, response: { output: [] } }));
      return { reward: verdict["reward"], off: (value["count"] as number) - task.expected_count };
    }),
  );
  return { rewards: played.map(({ reward }) => reward), counts: played.map(({ off }) => off) };
}

const pages = (url: string): string => `viewer at ${url}/view, API at ${url}/docs\n`;
const inMemory =
  "sessions are in memory only and are lost when this process ends; --store sqlite:sessions.db keeps them in a file\n";

const all = <T>(value: T): T[] => Array.from({ length: episodes }, () => value);

test("the README's example: seed, call, verify, with only a cookie", async () => {
  const folder = await newFolder();
  const { url, printed, process, ended } = await startServing([
    "examples/counter",
    "examples/library",
    "examples/weather",
    "--port",
    "0",
    "--store",
    `sqlite:${join(folder, "counter.db")}`,
  ]);
  expect(printed()).toBe(`listening on ${url}\n${pages(url)}`);
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const client = createClient(url);
  expect((await client.post("/seed_session", { initial_count: 3 })).status).toBe(200);
  expect(await client.post("/increment_counter", { count: 2 })).toEqual({ status: 200, body: { success: true } });
  expect((await client.post("/no_such_tool", {})).status).toBe(404);
  expect((await client.post("/increment_counter", { count: "two" })).status).toBe(422);
  expect((await client.post("/get_counter_value", {})).body).toEqual({ count: 5 });
  expect((await client.post("/verify", { initial_count: 3, expected_count: 5 })).body).toMatchObject({ reward: 1 });

  const other = createClient(`${url}/library`);
  await other.post("/seed_session", { today: "2026-03-02", wanted: ["Salt"] });
  expect((await other.post("/search_books", { query: "salt" })).body).toMatchObject({ books: [{ title: "Salt" }] });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);

  process.kill("SIGTERM");
  expect(await ended).toMatchObject({ code: 0, stderr: "" });
  const listed = await run("sessions", "list", "--store", `sqlite:${join(folder, "counter.db")}`, "--json");
  expect(
    listed.stdout
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { environment: string }).environment),
  ).toEqual(["counter", "library"]);
});

test("DURABLE, ONCE: kill -9 in the middle of 64 episodes costs none of them a call or a reward", async () => {
  const folder = await newFolder();
  const store = ["--store", `sqlite:${join(folder, "counter.db")}`, "--log", "none"];
  let serving = await startServing(["examples/counter", "--port", "0", ...store]);
  const { url } = serving;
  const { port } = new URL(url);
  let answers = 0;
  const playing = playEpisodes(url, () => answers++);
  for (const part of [0.2, 0.6]) {
    await until(() => answers > episodes * steps * part);
    serving.process.kill("SIGKILL");
    await serving.ended;
    serving = await startServing(["examples/counter", "--port", port, ...store]);
  }
  expect(await playing).toEqual({ rewards: all(1), counts: all(0) });
});

test("DURABLE, ONCE: with one of two workers killed, the episodes continue, and the worker restarts", async () => {
  const folder = await newFolder();
  const store = ["--store", `sqlite:${join(folder, "counter.db")}`, "--log", "none"];
  const serving = await startServing(["examples/counter", "--port", "0", "--workers", "2", ...store]);
  const workers = await childrenOf(serving.process.pid as number);
  expect(workers.length).toBe(2);
  let answers = 0;
  const playing = playEpisodes(serving.url, () => answers++);
  await until(() => answers > (episodes * steps) / 3);
  process.kill(workers[0] as number, "SIGKILL");
  expect(await playing).toEqual({ rewards: all(1), counts: all(0) });
  let now: number[] = [];
  await until(async () => (now = await childrenOf(serving.process.pid as number)).length === 2);
  expect(now).toContain(workers[1]);
  expect(now).not.toContain(workers[0]);
  // Any worker reports the metrics of all of them.
  const counted = async (): Promise<string> => (await fetch(`${serving.url}/metrics`)).text();
  expect(await counted()).toContain(`holdfast_sessions_open{environment="counter"} `);
  const before = requestsIn(await counted());
  for (let asked = 0; asked < 10; asked++) await fetch(`${serving.url}/`, { headers: { connection: "close" } });
  expect(requestsIn(await counted())).toBeGreaterThanOrEqual(before + 10);
  serving.process.kill("SIGTERM");
  const { code, stdout, stderr } = await serving.ended;
  expect({ code, stdout }).toEqual({ code: 0, stdout: `listening on ${serving.url}\n${pages(serving.url)}` });
  expect(stderr).toBe(`worker ${workers[0]} ended (SIGKILL) and was restarted\n`);
});

test("DURABLE: when its database is removed, the server is not ready and answers nothing it cannot keep", async () => {
  const file = join(await newFolder(), "counter.db");
  const store = ["--store", `sqlite:${file}`, "--log", "none"];
  const serving = await startServing(["examples/counter", "--port", "0", "--workers", "2", ...store]);
  const post = (): Promise<Response> =>
    fetch(`${serving.url}/seed_session`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ initial_count: 1, expected_count: 1 }),
    });
  expect((await post()).status).toBe(200);
  await rm(file);
  await until(async () => (await fetch(`${serving.url}/readyz`)).status === 503);
  const ready = await fetch(`${serving.url}/readyz`);
  expect(await ready.json()).toMatchObject({
    error: { code: "store_failed", message: expect.stringContaining(`${file} was removed or renamed`) as string },
  });
  const refused = await post();
  expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: "store_failed" } }]);
  const [worker] = await childrenOf(serving.process.pid as number);
  process.kill(worker as number, "SIGBUS");
  await until(async () => !(await childrenOf(serving.process.pid as number)).includes(worker as number));
  serving.process.kill("SIGTERM");
  expect((await serving.ended).stderr).toContain(`worker ${worker} ended (SIGBUS: a file in use was truncated`);
});

test("DURABLE: a server that the system ends because a file of its store was truncated says why", async () => {
  const file = join(await newFolder(), "counter.db");
  const serving = await startServing(["examples/counter", "--port", "0", "--store", `sqlite:${file}`, "--log", "none"]);
  const seed = async (): Promise<void> => {
    for (;;)
      await fetch(`${serving.url}/seed_session`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
  };
  const clients = [seed(), seed()].map((client) => client.catch(() => undefined));
  while (serving.process.signalCode === null) {
    await truncate(`${file}-shm`, 0);
    await sleep(5);
  }
  await Promise.all(clients);
  expect(serving.process.signalCode).toBe("SIGBUS");
  expect((await serving.ended).stderr).toBe(
    `the operating system ended holdfast serve (SIGBUS): ${file}-shm was truncated while in use. No answered call is lost. Restart the server.\n`,
  );
});

test("on a public address, /v1 and /metrics require the printed token, and the gym protocol does not", async () => {
  const serving = await startServing(["examples/counter", "--port", "0", "--host", "0.0.0.0"]);
  const tokenOf = (printed: string): string | undefined => /^bearer token ([\w-]{32,})$/m.exec(printed)?.[1];
  await until(() => tokenOf(serving.printed()) !== undefined);
  const token = tokenOf(serving.printed());
  expect(serving.printed()).toBe(
    `listening on ${serving.url}\nbearer token ${token}\n${pages(serving.url)}${inMemory}`,
  );
  const url = serving.url.replace("0.0.0.0", "127.0.0.1");
  const statusOf = async (path: string, authorization?: string): Promise<number> =>
    (await fetch(url + path, { headers: { ...(authorization !== undefined && { authorization }) } })).status;
  for (const path of ["/v1/environment", "/v1/sessions", "/counter/v1/sessions", "/metrics"]) {
    const statuses = [undefined, "Bearer", `Bearer ${token}x`, `Bearer ${token}`].map((sent) => statusOf(path, sent));
    expect([path, ...(await Promise.all(statuses))]).toEqual([path, 401, 401, 401, 200]);
  }
  expect(await statusOf("/healthz")).toBe(200);
  expect((await createClient(url).post("/seed_session", { initial_count: 3 })).status).toBe(200);
});

test("the user's own token is required on any address, and is not printed", async () => {
  for (const host of ["0.0.0.0", "127.0.0.1"]) {
    const serving = await startServing(["examples/counter", "--port", "0", "--host", host, "--token", "my-own-token"]);
    const url = `http://127.0.0.1:${new URL(serving.url).port}/v1/sessions`;
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { authorization: "Bearer my-own-token" } })).status).toBe(200);
    serving.process.kill("SIGTERM");
    expect(await serving.ended).toEqual({
      code: 0,
      stdout: `listening on ${serving.url}\n${pages(serving.url)}${inMemory}`,
      stderr: "",
    });
  }
});

const slow = `
import { writeFileSync } from "node:fs";
import { defineEnvironment, tool } from "holdfast";
export default defineEnvironment({
  name: "slow",
  tools: {
    wait: tool({ description: "Wait.", run: async (_, { ms }) => { writeFileSync("begun", ""); await new Promise((done) => setTimeout(done, ms)); return { ms }; } }),
  },
});
`;

for (const workers of ["1", "2"]) {
  test(`SIGTERM finishes the calls in flight and exits 0 (workers: ${workers})`, async () => {
    const folder = await newFolder();
    await writeFile(join(folder, "environment.mjs"), slow);
    const flags = ["--port", "0", "--workers", workers, "--store", "sqlite:slow.db"];
    const serving = await startServing([".", ...flags], { cwd: folder });
    const client = createClient(serving.url);
    await client.post("/seed_session", {});
    const call = client.post("/wait", { ms: 1000 });
    await until(() => existsSync(join(folder, "begun")));
    serving.process.kill("SIGTERM");
    // Refused by the port, or on a connection that is still open.
    const late = () => createClient(serving.url).post("/wait", { ms: 1 });
    await until(async () => (await late().catch(() => ({ status: 503 }))).status === 503);
    expect(await call).toEqual({ status: 200, body: { ms: 1000 } });
    expect((await serving.ended).code).toBe(0);
  });

  test(`a second signal exits at once, and not with 0 (workers: ${workers})`, async () => {
    const folder = await newFolder();
    await writeFile(join(folder, "environment.mjs"), slow);
    const flags = ["--port", "0", "--workers", workers, "--store", "sqlite:slow.db"];
    const serving = await startServing([".", ...flags], { cwd: folder });
    const client = createClient(serving.url);
    await client.post("/seed_session", {});
    const call = client.post("/wait", { ms: 30_000 }).catch((thrown: unknown) => thrown);
    await until(() => existsSync(join(folder, "begun")));
    const began = Date.now();
    serving.process.kill("SIGINT");
    await until(() =>
      createClient(serving.url)
        .post("/wait", {})
        .then(
          ({ status }) => status === 503,
          () => true,
        ),
    );
    serving.process.kill("SIGINT");
    expect((await serving.ended).code).toBeGreaterThan(0);
    expect(Date.now() - began).toBeLessThan(5000);
    expect(await call).toBeInstanceOf(TypeError);
  });
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`it did not come to be that ${String(isSo)}`);
    await sleep(1);
  }
}

/** The child processes of a process. */
async function childrenOf(parent: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,ppid="]);
  const rows = stdout
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  return rows.flatMap(([pid, ppid]) => (ppid === parent && pid !== undefined ? [pid] : []));
}

function requestsIn(metrics: string): number {
  return Number(/^holdfast_requests_total\{status="200"\} (\d+)$/m.exec(metrics)?.[1]);
}
