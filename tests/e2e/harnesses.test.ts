// Claude Code and Codex, as published on npm, play episodes against a scripted model through the proxy and MCP.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root } from "../files.ts";
import { json, play, type Reply } from "../models/server.ts";
import { start } from "./serve-process.ts";

// Claude Code needs a newer Node than the oldest one that Holdfast supports.
const packages = ["@anthropic-ai/claude-code", "@openai/codex", "node@24"];
let folder = "";
/** Why the packages cannot be installed here. */
let missing: string | undefined;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-harnesses-"));
  writeFileSync(join(folder, "package.json"), "{}");
  const options = { cwd: folder, encoding: "utf8", timeout: 240_000 } as const;
  const { status, stderr, error } = spawnSync("npm", ["install", "--no-audit", "--no-fund", ...packages], options);
  // npm may be set to run no scripts of packages. This one only puts Claude Code's program in its place.
  spawnSync("node", ["node_modules/@anthropic-ai/claude-code/install.cjs"], options);
  writeEnvironment();
  if (status !== 0) missing = `npm cannot install ${packages.join(", ")}: ${error?.message ?? stderr.slice(-300)}`;
}, 250_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A counter whose name has a hyphen, which Codex replaces. Its verify needs the tool's own name. */
function writeEnvironment(): void {
  mkdirSync(join(folder, "my-counter/node_modules"), { recursive: true });
  symlinkSync(join(root, "node_modules/zod"), join(folder, "my-counter/node_modules/zod"));
  const text = readFileSync(join(root, "examples/counter/environment.ts"), "utf8")
    .replace('name: "counter"', 'name: "my-counter"')
    .replace(
      /verify: .*/,
      `verify: ({ state, task, response }) =>
        Number(state.count === task.expected_count && JSON.stringify(response).includes('"name":"increment_counter"')),`,
    );
  writeFileSync(join(folder, "my-counter/environment.ts"), text);
}

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };

/** Adds 2, adds 3, then says so. Requests without the environment's tools are side calls. */
const scripted: Reply = (response, asked) => {
  const { messages, tools = [] } = asked.body as {
    messages: { role: string; tool_calls?: object[] }[];
    tools?: { function: { name: string } }[];
  };
  const turn = messages.filter(({ tool_calls: calls }) => calls).length;
  const name = tools.map(({ function: { name } }) => name).find((each) => each.endsWith("increment_counter"));
  const by = [2, 3][turn];
  const call = { id: `call_${turn}`, type: "function", function: { name, arguments: JSON.stringify({ count: by }) } };
  const isCall = name !== undefined && by !== undefined;
  const message = { role: "assistant", content: isCall ? null : "It is 6.", ...(isCall && { tool_calls: [call] }) };
  const prompt = Array.from({ length: 1 + 2 * turn }, (_, at) => at);
  const choice = { message, finish_reason: isCall ? "tool_calls" : "stop", token_ids: [2 * turn + 1] };
  json({ id: `chat-${turn}`, model: "m", choices: [choice], prompt_token_ids: prompt, usage })(response, asked);
};

/** Longer than Linux allows for one argument. */
const longText = " Please.".repeat(17_500);

interface Row {
  reward: number;
  response: { output: { type: string; name?: string; arguments?: string; token_ids?: number[] }[]; usage: object };
  harness: { [count: string]: unknown };
}

for (const [harness, tool] of [
  ["claude-code", "mcp__my-counter__increment_counter"],
  ["codex", "mcp__my_counter__increment_counter"],
] as const) {
  test(
    `${harness} plays an episode; long texts reach the model, and the row's calls and tokens are those of the script`,
    { tags: ["full"], timeout: 120_000 },
    async ({ skip }) => {
      if (missing !== undefined) {
        process.stderr.write(`skipped: ${missing}\n`);
        skip(missing);
      }
      const model = await play(scripted);
      const tasks = join(folder, "tasks.jsonl");
      const params = { input: `Add 2, then 3.${longText}`, instructions: `Be short.${longText}` };
      const task = { responses_create_params: params, initial_count: 1, expected_count: 6 };
      writeFileSync(tasks, `${JSON.stringify(task)}\n`);
      const out = join(folder, `${harness}.jsonl`);
      const env = {
        PATH: `${join(folder, "node_modules/.bin")}${delimiter}${process.env["PATH"] ?? ""}`,
        OPENAI_BASE_URL: `${model.url}/v1`,
        OPENAI_API_KEY: "k",
      };
      const args = ["--harness", harness, "--model", "chat:m", "--tasks", tasks, "--out", out, "--timeout", "90s"];
      const request = ["--request", '{"return_token_ids":true}', "--repeats", "2", "--attempts", "1"];
      const { code, stderr } = await (
        await start(["collect", join(folder, "my-counter"), ...args, ...request], { env })
      ).ended;
      const failures = out.replace(".jsonl", "_failures.jsonl");
      const failed = existsSync(failures) ? readFileSync(failures, "utf8").slice(-1_000) : "";
      expect({ code, stderr, failed }).toEqual({ code: 0, stderr: expect.any(String), failed: "" });
      const rows = readFileSync(out, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Row);
      expect(rows).toHaveLength(2);
      const calls = rows.reduce((sum, row) => sum + Number(row.harness["model_calls"]), 0);
      expect(model.asked).toHaveLength(calls);
      const sent = JSON.stringify(model.asked.at(-1)?.body);
      expect([sent.includes(params.input), sent.includes(params.instructions)]).toEqual([true, true]);
      for (const row of rows) {
        const { model_calls: all, side_calls: side } = row.harness as { model_calls: number; side_calls: number };
        expect(row).toMatchObject({
          reward: 1,
          harness: { name: harness, main_calls: 3, sampled_calls: 3, retried_calls: 0 },
          response: { usage: { input_tokens: 100 * all, output_tokens: 10 * all, total_tokens: 110 * all } },
        });
        expect(all).toBe(3 + side);
        expect(row).not.toHaveProperty("token_chain");
        expect(row.response.output.filter(({ type }) => type !== "reasoning")).toMatchObject([
          { type: "function_call", name: tool, arguments: '{"count":2}', token_ids: [1] },
          { type: "function_call_output" },
          { type: "function_call", name: tool, arguments: '{"count":3}', token_ids: [3] },
          { type: "function_call_output" },
          { type: "message", token_ids: [5] },
        ]);
      }
    },
  );
}
