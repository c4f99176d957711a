// `holdfast collect --harness` with a harness of our own: its rows, its environment, its end, resumes and refusals.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { start, type Ended, type Running } from "../e2e/serve-process.ts";
import { json, play } from "../models/server.ts";

interface Row {
  reward: number;
  stopped?: string;
  session_id: string;
  failure_kind?: string;
  failure_reason?: string;
  token_chain?: string;
  response: {
    model: string;
    output: { type: string; name?: string; call_id?: string }[];
    usage: { total_tokens: number };
  };
  responses_create_params: { input: { role: string }[]; tools: { name: string }[] };
  harness: { [count: string]: unknown };
}

const script = join(import.meta.dirname, "plain-harness.mjs");

function world() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-harness-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string): string => join(folder, name);
  const rows = (file = "out.jsonl"): Row[] =>
    existsSync(at(file))
      ? readFileSync(at(file), "utf8")
          .trim()
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Row)
      : [];
  const begin = (mode: string, args: string[] = [], env: Record<string, string> = {}): Promise<Running> =>
    start(
      [
        "collect",
        "examples/counter",
        "--harness",
        `node ${script} ${mode}`,
        "--out",
        at("out.jsonl"),
        "--limit",
        "2",
        "--attempts",
        "1",
        ...args,
      ],
      { env },
    );
  return {
    at,
    rows,
    failures: () => rows("out_failures.jsonl"),
    begin,
    collect: async (mode: string, args?: string[], env?: Record<string, string>): Promise<Ended> =>
      (await begin(mode, args, env)).ended,
  };
}

test("a command plays; its row has the conversation that its model saw, and counts side calls apart", async () => {
  const { rows, collect, at } = world();
  const { code, stderr } = await collect("title");
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const [row] = rows();
  expect(rows().map(({ reward }) => reward)).toEqual([1, 1]);
  expect(row?.harness).toMatchObject({
    model_calls: 4,
    main_calls: 3,
    side_calls: 1,
    retried_calls: 0,
    sampled_calls: 0,
  });
  expect(row?.responses_create_params.input.map(({ role }) => role)).toEqual(["system", "user"]);
  expect(row?.response.output.map(({ type }) => type)).toEqual([
    "function_call",
    "function_call_output",
    "function_call",
    "function_call_output",
    "message",
  ]);
  expect(row?.response.output[0]?.name).toBe("mcp__counter__get_counter_value");
  const show = await (await start(["show", at("out.jsonl")])).ended;
  expect(show.stdout.replaceAll(/-?\d+/g, "N")).toContain(
    [
      "(count is N)",
      "[side call]: Done.",
      "[system]: You are a harness.",
      "[user]: Add N, then N to the counter, and tell me its value.",
      "[agent] calls mcp__counter__get_counter_value {}",
      '[mcp__counter__get_counter_value]: {"count":N}',
      '[agent] calls mcp__counter__increment_counter {"count":N}',
      '[mcp__counter__increment_counter]: {"success":true}',
      "(count is now N)",
      "[agent]: Done.",
    ].join("\n"),
  );
});

test("retries are told apart, and the row follows the answer that the harness continued with", async () => {
  const { rows, collect } = world();
  expect((await collect("twice")).code).toBe(0);
  const [row] = rows();
  expect(row).toMatchObject({ reward: 1, harness: { model_calls: 6, main_calls: 3, side_calls: 0, retried_calls: 3 } });
  const ids = row?.response.output.flatMap(({ type, call_id }) => (type === "function_call" ? [call_id] : []));
  expect(ids).toEqual(["call_0_0_4", "call_1_0_7"]);
});

test("a harness gets two addresses and its limits, and no key or home folder of the user", async () => {
  const { at, collect } = world();
  const env = { OPENAI_API_KEY: "sk-secret", ANTHROPIC_API_KEY: "sk-ant-secret", MY_OWN: "mine", OTHER: "other" };
  const args = ["--max-steps", "7", "--timeout", "50s", "--harness-env", "MY_OWN", "--system", "Be short."];
  expect((await collect(`reads ${at("env.txt")}`, args, env)).code).toBe(0);
  const [first, second] = readFileSync(at("env.txt"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { env: Record<string, string>; files: string[] });
  const { HOLDFAST_MODEL_KEY: key, ...given } = first!.env;
  expect(given).toMatchObject({
    HOLDFAST_ENVIRONMENT: "counter",
    HOLDFAST_TOOLS: "increment_counter,get_counter_value",
    HOLDFAST_MAX_STEPS: "7",
    HOLDFAST_TIMEOUT_SECONDS: "50",
    HOLDFAST_INSTRUCTIONS: "Be short.",
    HOLDFAST_PROMPT: expect.stringContaining("counter"),
    OPENAI_API_KEY: key,
    ANTHROPIC_API_KEY: key,
    MY_OWN: "mine",
  });
  expect(given["HOLDFAST_MCP_URL"]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/counter\/s\/[^/]+\/mcp$/);
  expect(given["HOLDFAST_MODEL_URL"]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/counter\/m\/[^/]+\/v1$/);
  expect(JSON.stringify(first)).not.toMatch(/secret|other/);
  expect(given["HOME"]).toBe(given["HOLDFAST_FOLDER"]);
  expect(first!.files).toEqual(["instructions.txt", "prompt.txt"]);
  expect(second!.env["HOLDFAST_FOLDER"]).not.toBe(given["HOLDFAST_FOLDER"]);
  expect(existsSync(given["HOLDFAST_FOLDER"] as string)).toBe(false);
});

test("SCORED: a harness that fails has no reward", async () => {
  const crashed = world();
  expect((await crashed.collect("crash")).code).toBe(1);
  expect(crashed.rows()).toEqual([]);
  expect(crashed.failures()[0]).toMatchObject({
    failure_kind: "agent",
    failure_reason: expect.stringMatching(/exit code 3; its output ends with: it broke/),
    harness: { model_calls: 1 },
  });
});

test("SCORED: a harness that hangs is killed at its time limit, and has no reward", async () => {
  const hung = world();
  expect((await hung.collect(`hang ${hung.at("pids.txt")}`, ["--timeout", "1s"])).code).toBe(1);
  expect(hung.failures()[0]).toMatchObject({ failure_kind: "timeout" });
  for (const pid of readFileSync(hung.at("pids.txt"), "utf8").trim().split("\n"))
    expect(isRunning(Number(pid))).toBe(false);
});

test("a harness that ends leaves no process behind", async () => {
  const left = world();
  expect((await left.collect(`child ${left.at("pids.txt")}`)).code).toBe(0);
  for (const pid of readFileSync(left.at("pids.txt"), "utf8").trim().split("\n"))
    expect(isRunning(Number(pid))).toBe(false);
});

test("SCORED: a harness that loses its model has no reward", async () => {
  const model = await play(json({ error: { message: "no such model", type: "invalid_request_error" } }, 404));
  const lost = world();
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: "k" };
  expect((await lost.collect("plain", ["--model", "chat:m", "--keep-going"], env)).code).toBe(1);
  expect(lost.failures()[0]).toMatchObject({
    failure_kind: "model",
    failure_reason: expect.stringContaining("no such model"),
  });
});

test("a harness that continues after a request that was too long is scored", async () => {
  const done = { message: { role: "assistant", content: "Done." }, finish_reason: "stop" };
  const tooLong = { message: "maximum context length is 8", type: "BadRequestError", code: 400 };
  const model = await play(json({ error: tooLong }, 400), json({ choices: [done] }));
  const { rows, failures, collect } = world();
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: "k" };
  await collect("recover", ["--model", "chat:m", "--limit", "1"], env);
  expect(failures()).toEqual([]);
  expect(rows()[0]).toMatchObject({ reward: 0, harness: { model_calls: 1 } });
});

test("SCORED: a harness that never asks its model has no reward", async () => {
  const { rows, failures, collect } = world();
  expect((await collect("silent")).code).toBe(1);
  expect(rows()).toEqual([]);
  expect(failures()[0]).toMatchObject({
    failure_kind: "agent",
    failure_reason: "the harness ended without asking its model",
  });
});

test.each([
  ["100 answers if no limit is given", [], { stopped: "steps", harness: { model_calls: 100 } }],
  ["a number of answers", ["--max-steps", "2"], { stopped: "steps", harness: { model_calls: 2 } }],
  ["a number of tokens", ["--max-total-tokens", "25"], { stopped: "tokens", harness: { model_calls: 3 } }],
  ["a cost", ["--max-cost", "0.35"], { stopped: "cost", harness: { model_calls: 4 } }],
])("a harness without tool calls is stopped after %s, and its episode is scored", async (_, args, row) => {
  const choice = { message: { role: "assistant", content: "Go on." }, finish_reason: "stop" };
  const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10, cost: 0.1 };
  const model = await play(json({ choices: [choice], usage }));
  const { rows, collect } = world();
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: "k" };
  await collect("text", ["--model", "chat:m", "--limit", "1", ...args], env);
  expect(rows()[0]).toMatchObject({ reward: 0, ...row });
});

test("a limit of answers stops the harness, and the episode is scored as it is", async () => {
  const { rows, collect } = world();
  expect((await collect("plain", ["--max-steps", "2"])).code).toBe(0);
  expect(rows()[0]).toMatchObject({ reward: 1, stopped: "steps", harness: { model_calls: 2 } });
  expect(rows()[0]?.response.output.map(({ type }) => type)).toEqual([
    "function_call",
    "function_call_output",
    "function_call",
    "function_call_output",
  ]);
});

test("the row says when the tokens of an answer are missing, or differ from its log-probabilities", async () => {
  const answer = (fields: object) =>
    json({
      choices: [{ message: { role: "assistant", content: "Done." }, finish_reason: "stop", ...fields }],
      prompt_token_ids: [1],
    });
  const logprobs = (token: string) => ({ content: [{ token, logprob: -0.1 }] });
  const model = await play(
    answer({ token_ids: [5], logprobs: logprobs("token_id:5") }),
    answer({ token_ids: [5], logprobs: logprobs("token_id:6") }),
    answer({ logprobs: logprobs("token_id:5") }),
    answer({ logprobs: logprobs("Done") }),
  );
  const { rows, collect } = world();
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: "k" };
  const request = { logprobs: true, return_token_ids: true };
  const args = ["--model", "chat:m", "--concurrency", "1", "--repeats", "2", "--request", JSON.stringify(request)];
  await collect("plain", args, env);
  expect(rows().map(({ token_chain, harness }) => [token_chain, harness["sampled_calls"]])).toEqual([
    [undefined, 1],
    ["broken", 1],
    [undefined, 1],
    [undefined, 0],
  ]);
  expect(model.asked[0]?.body).toMatchObject({ model: "m", ...request });
  expect(model.asked[0]?.body).not.toHaveProperty("temperature");
});

test("RESUME: a collection killed during an episode plays it again in a new session, and keeps the finished ones", async () => {
  const { at, rows, begin, collect } = world();
  writeFileSync(
    at("slow.sh"),
    `#!/bin/sh\nnode ${script} fixed || exit 1\n[ -f ${at("go")} ] || { touch ${at("waits")}; sleep 60; }\n`,
    { mode: 0o755 },
  );
  const harness = ["--harness", at("slow.sh"), "--concurrency", "1"];
  const running = await begin("", harness);
  for (let turn = 0; !existsSync(at("waits")) && turn < 400; turn++) await sleep(50);
  running.process.kill("SIGKILL");
  await running.ended;
  expect(rows()).toEqual([]);
  writeFileSync(at("go"), "");
  const { code, stderr } = await collect("", [...harness, "--resume"]);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(rows().map(({ reward, harness: { model_calls } }) => [reward, model_calls])).toEqual([
    [1, 3],
    [1, 3],
  ]);
  expect((await collect("", [...harness, "--resume"])).stdout).toContain("2 of 2");
  expect(rows()).toHaveLength(2);
}, 60_000);

test("Ctrl-C stops the harness with its whole group, and its episode stays open for --resume", async () => {
  const { at, rows, failures, begin } = world();
  const running = await begin(`hang ${at("pids.txt")}`);
  for (let turn = 0; !existsSync(at("pids.txt")) && turn < 400; turn++) await sleep(50);
  running.process.kill("SIGINT");
  expect((await running.ended).code).toBe(130);
  for (const pid of readFileSync(at("pids.txt"), "utf8").trim().split("\n")) expect(isRunning(Number(pid))).toBe(false);
  expect([...rows(), ...failures()]).toEqual([]);
});

test("a killed collection leaves neither a process nor the folder of a harness behind", async () => {
  const { at, begin } = world();
  const hanging = `${script} hang ${at("pids.txt")}`;
  const harness = ["--harness", `echo $HOLDFAST_FOLDER >> ${at("folders.txt")}; node ${hanging}`];
  const running = await begin("", harness);
  const readLines = (name: string) => (existsSync(at(name)) ? readFileSync(at(name), "utf8").trim().split("\n") : []);
  await expect.poll(() => readLines("pids.txt"), { timeout: 30_000 }).toHaveLength(2);
  running.process.kill("SIGKILL");
  await running.ended;
  const pids = readLines("pids.txt").map(Number);
  await expect.poll(() => pids.some(isRunning), { timeout: 30_000 }).toBe(false);
  await expect.poll(() => readLines("folders.txt").some(existsSync), { timeout: 30_000 }).toBe(false);
}, 60_000);

test.each([
  ["a second Ctrl-C", "SIGINT"],
  ["a terminal that closes", "SIGHUP"],
] as const)("%s leaves no process of a harness behind", async (_, name) => {
  const { at, begin } = world();
  const running = await begin(`hang ${at("pids.txt")}`);
  for (let turn = 0; !existsSync(at("pids.txt")) && turn < 400; turn++) await sleep(50);
  running.process.kill(name);
  if (name === "SIGINT") {
    await sleep(200);
    running.process.kill(name);
  }
  await running.ended;
  await sleep(100);
  for (const pid of readFileSync(at("pids.txt"), "utf8").trim().split("\n")) expect(isRunning(Number(pid))).toBe(false);
});

test.each([
  [["--queue", "redis://127.0.0.1:1"], "remove --queue"],
  [["--max-cost", "0"], "Use a number above 0"],
  [["--max-cost", "-1"], "Use a number above 0"],
  [["--branch", "2@1"], "--branch cannot fork a harness"],
  [["--agent", "examples/counter"], "remove one of the two options"],
  [["--server", "http://127.0.0.1:1"], "remove --server"],
  [["--harness", "codex"], "needs the program `codex`"],
])("refuses %s", async (args, message) => {
  const { collect } = world();
  const { code, stderr } = await collect("plain", args, { PATH: "/nonexistent" });
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
});

function isRunning(pid: number): boolean {
  try {
    // A process that has ended but was not collected by its parent still has a state.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
