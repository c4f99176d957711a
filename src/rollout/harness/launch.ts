// How to start a harness for an episode: Claude Code, Codex, or any command. Writes its configuration into a folder.
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { cannotLoad } from "../../core/errors.ts";
import type { HarnessAddress } from "./server.ts";

/** The task that a harness plays. */
export interface HarnessTask {
  /** The environment's name, which is also the name of its MCP server. */
  environment: string;
  address: HarnessAddress;
  prompt: string;
  /** The system prompt of the task, if it has one. */
  instructions: string | undefined;
  tools: readonly string[];
  /** An empty folder for this harness. */
  folder: string;
  maxSteps: number | undefined;
  /** Time limit in milliseconds. */
  timeout: number | undefined;
}

/** A command to start. */
export interface Launch {
  command: string;
  args: string[];
  cwd: string;
  env: { [name: string]: string };
  /** Text for the standard input. Prompts are not arguments, because Linux limits an argument to 128 KiB. */
  input?: string;
  /** True if a shell runs the command. */
  isShell?: true;
}

type Prepare = (task: HarnessTask) => Promise<Launch>;

const builtIn: { [name: string]: Prepare } = { "claude-code": claudeCode, codex };

export const isBuiltIn = (harness: string): boolean => Object.hasOwn(builtIn, harness);

/** Prepares a built-in harness by its name, or any other command. */
export function prepareHarness(harness: string, task: HarnessTask): Promise<Launch> {
  const prepare = isBuiltIn(harness) ? builtIn[harness] : undefined;
  return prepare ? prepare(task) : anyCommand(harness, task);
}

/** Refuses a built-in harness that is not installed. */
export function assertInstalled(harness: string): void {
  const [program, from] =
    harness === "claude-code"
      ? ["claude", "@anthropic-ai/claude-code"]
      : harness === "codex"
        ? ["codex", "@openai/codex"]
        : [];
  if (program === undefined || findProgram(program) !== undefined) return;
  throw cannotLoad(`--harness ${harness} needs the program \`${program}\`; install it with: npm install -g ${from}`);
}

/** Finds a program on the PATH, or among the packages of the working folder. */
function findProgram(name: string): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), join(process.cwd(), "node_modules/.bin")];
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

async function claudeCode(task: HarnessTask): Promise<Launch> {
  const { environment, address, prompt, instructions, tools, folder } = task;
  const file = join(folder, "mcp.json");
  const config = join(folder, ".claude");
  await mkdir(config);
  await writeFile(file, JSON.stringify({ mcpServers: { [environment]: { type: "http", url: address.mcp } } }));
  const args = ["-p", "--output-format", "json", "--model", modelName, "--mcp-config", file, "--strict-mcp-config"];
  if (instructions !== undefined) args.push("--append-system-prompt-file", await writeInstructions(task));
  // Turns off Claude Code's own tools, because they could read the answers of tasks on this machine.
  args.push("--tools", "", "--allowedTools", tools.map((tool) => `mcp__${environment}__${tool}`).join(","));
  return {
    command: findProgram("claude") ?? "claude",
    args,
    input: prompt,
    cwd: folder,
    env: {
      ANTHROPIC_BASE_URL: address.model.replace(/\/v1$/, ""),
      ANTHROPIC_AUTH_TOKEN: address.key,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: modelName,
      ANTHROPIC_DEFAULT_SONNET_MODEL: modelName,
      ANTHROPIC_DEFAULT_OPUS_MODEL: modelName,
      CLAUDE_CODE_SUBAGENT_MODEL: modelName,
      CLAUDE_CONFIG_DIR: config,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      // Offers the environment's tools directly. Otherwise, Claude Code hides them behind its tool search.
      ENABLE_TOOL_SEARCH: "false",
      IS_SANDBOX: "1",
    },
  };
}

/** The name under which harnesses ask for their model. The server ignores it. */
const modelName = "holdfast";

/** Time limit of Codex for an answer or a tool in milliseconds. Holdfast's own limits are usually shorter. */
const aDay = 86_400_000;

async function codex({ environment, address, prompt, instructions, folder, timeout }: HarnessTask): Promise<Launch> {
  const home = join(folder, ".codex");
  await mkdir(home);
  const text = (value: string): string => JSON.stringify(value);
  const seconds = Math.ceil((timeout ?? aDay) / 1000);
  const lines = [
    `model = ${text(modelName)}`,
    'model_provider = "holdfast"',
    ...(instructions === undefined ? [] : [`developer_instructions = ${text(instructions)}`]),
    'approval_policy = "never"',
    'sandbox_mode = "read-only"',
    "",
    "[model_providers.holdfast]",
    'name = "Holdfast"',
    `base_url = ${text(address.model)}`,
    'env_key = "HOLDFAST_MODEL_KEY"',
    'wire_api = "responses"',
    // Codex does not count the proxy's keep-alive lines, so its own limit of 5 minutes would cut a long answer.
    `stream_idle_timeout_ms = ${seconds * 1000}`,
    // Holdfast's model client has already sent a failed request several times.
    "stream_max_retries = 1",
    "",
    // Turns off the shell, because it could read the answers of tasks on this machine.
    "[features]",
    "shell_tool = false",
    "",
    `[mcp_servers.${text(environment)}]`,
    `url = ${text(address.mcp)}`,
    "required = true",
    'default_tools_approval_mode = "approve"',
    `tool_timeout_sec = ${seconds}`,
  ];
  await writeFile(join(home, "config.toml"), `${lines.join("\n")}\n`);
  return {
    command: findProgram("codex") ?? "codex",
    args: ["exec", "--json", "--skip-git-repo-check", "-"],
    input: prompt,
    cwd: folder,
    env: { CODEX_HOME: home },
  };
}

/** Runs a command in the collector's working folder, so that its relative paths work. */
async function anyCommand(command: string, { address }: HarnessTask): Promise<Launch> {
  const { model, key } = address;
  return {
    command,
    args: [],
    cwd: process.cwd(),
    isShell: true,
    // The variables that the official clients of the model APIs read.
    env: {
      OPENAI_BASE_URL: model,
      OPENAI_API_KEY: key,
      ANTHROPIC_BASE_URL: model.replace(/\/v1$/, ""),
      ANTHROPIC_API_KEY: key,
    },
  };
}

/** Writes the task's system prompt into its folder. Returns the path of the file. */
async function writeInstructions({ folder, instructions = "" }: HarnessTask): Promise<string> {
  const file = join(folder, "instructions.txt");
  await writeFile(file, instructions);
  return file;
}

/** Maximum length of an environment variable that every system accepts. */
const longestVariable = 32_768;

/** Returns the variables that every harness gets. docs/harnesses.md lists them. */
export async function describeTask(task: HarnessTask): Promise<{ [name: string]: string }> {
  const { environment, address, prompt, instructions, tools, folder, maxSteps, timeout } = task;
  const file = join(folder, "prompt.txt");
  await writeFile(file, prompt);
  return {
    HOLDFAST_ENVIRONMENT: environment,
    HOLDFAST_MCP_URL: address.mcp,
    HOLDFAST_MODEL_URL: address.model,
    HOLDFAST_MODEL_KEY: address.key,
    HOLDFAST_TOOLS: tools.join(","),
    HOLDFAST_FOLDER: folder,
    HOLDFAST_PROMPT_FILE: file,
    ...(Buffer.byteLength(prompt) <= longestVariable && { HOLDFAST_PROMPT: prompt }),
    ...(instructions !== undefined && { HOLDFAST_INSTRUCTIONS_FILE: await writeInstructions(task) }),
    ...(instructions !== undefined &&
      Buffer.byteLength(instructions) <= longestVariable && { HOLDFAST_INSTRUCTIONS: instructions }),
    ...(maxSteps !== undefined && { HOLDFAST_MAX_STEPS: String(maxSteps) }),
    ...(timeout !== undefined && { HOLDFAST_TIMEOUT_SECONDS: String(timeout / 1000) }),
  };
}
