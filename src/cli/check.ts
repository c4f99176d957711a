// holdfast check: tests an environment, a running gym protocol server, or a store.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { invalidOption, isHoldfastError, messageOf } from "../core/errors.ts";
import { summarizeThrown, type Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { sample } from "../core/json-sample.ts";
import { toJsonSchema } from "../core/schema.ts";
import { load, locate } from "../rollout/load.ts";
import { readTasks } from "../rollout/tasks.ts";
import { serve } from "../server/serve.ts";
import { memoryStore } from "../stores/memory.ts";
import { openStore } from "../stores/open.ts";
import { runEnvironmentChecks } from "../testing/environment-checks.ts";
import { solutionCases, type Call } from "../testing/environments.ts";
import type { Checked } from "../testing/gym-checks.ts";
import { checkServed, checkServer } from "../testing/server-checks.ts";
import { checkPrefix, runStoreChecks } from "../testing/store-checks.ts";
import { createCounterLine } from "./counter-line.ts";
import { json } from "./flags.ts";
import { createTally } from "./tally.ts";

interface Flags {
  tool?: string[];
  input?: Json[];
  task?: Json;
  tasks?: string;
  token?: string;
  store?: string;
  json?: boolean;
}

const example = `
Examples:
  $ npx holdfast check .
  $ npx holdfast check http://127.0.0.1:8080 --tasks tasks.jsonl
  $ npx holdfast check --store https://example.com/store
  $ npx holdfast check http://127.0.0.1:8080 --task '{"initial_count":3}' \\
      --tool increment_counter --input '{"count":2}' \\
      --tool get_counter_value --input '{}'

An environment is checked with the solution.ts and tasks.jsonl next to it. A
Holdfast server lists its own tools. For other servers, name tools with --tool
whose results show the state, or pass a tasks file whose first row lists tools.
If a check fails, the command prints the requests that reproduce the failure,
and the exit code is 1.`;

export function add(program: Command): void {
  const collect = <T>(parse: (text: string) => T) => {
    return (text: string, before: T[] = []): T[] => [...before, parse(text)];
  };
  program
    .command("check")
    .description(
      "Check an environment, a running gym protocol server, or a store for bugs that corrupt rewards or lose state.",
    )
    .argument("[target]", "an environment (folder, file or package), or a server URL")
    .option("--store <url>", "check this store instead of a target; the check writes and deletes sessions in it")
    .option("--tool <name>", "a tool to call (repeatable)", collect(String))
    .option("--input <json>", "tool arguments as JSON, in the same order as the --tool options", collect(json))
    .option("--task <json>", "the task for the seed request", json)
    .option(
      "--tasks <file>",
      "a tasks file in JSON Lines format; the check uses the task and the tools of its first row",
    )
    .option("--token <text>", "the server's bearer token, used to list its tools")
    .option("--json", "print the results as JSON")
    .addHelpText("after", example)
    .action(run);
}

async function run(target: string | undefined, flags: Flags): Promise<void> {
  const errors = createTally();
  const results = await check(target, flags, (error) => void errors.add(summarizeThrown(error)));
  process.stdout.write(flags.json ? `${JSON.stringify({ results }, null, 2)}\n` : inWords(results, errors.lines()));
  if (results.some(({ result }) => result === "fail")) process.exitCode = 1;
}

async function check(target: string | undefined, flags: Flags, onError: OnError): Promise<Checked[]> {
  const { store, token, tool = [], input = [] } = flags;
  if (input.length > tool.length) throw invalidOption("each --input needs a --tool, in the same order");
  if (target === undefined && store !== undefined) return checkStore(store);
  if (target === undefined || store !== undefined) {
    throw invalidOption("name one target to check: an environment, a server URL, or --store URL");
  }
  const read = flags.tasks === undefined ? undefined : await readTasks(flags.tasks);
  const tasks = flags.task === undefined ? read : [flags.task];
  const calls = tool.map((name, at) => ({ tool: name, input: input[at] ?? {} }));
  if (!/^https?:\/\//.test(target)) return checkEnvironment(target, { tasks, calls, onError });
  return checkServer({ url: target.replace(/\/+$/, ""), task: tasks?.[0], calls, token });
}

async function checkStore(url: string): Promise<Checked[]> {
  process.stderr.write(
    `This check writes sessions whose names start with ${checkPrefix}, and deletes them again. It changes nothing else, but\n` +
      "it lists all sessions many times: use an empty store or a test store.\n",
  );
  const line = createCounterLine("checks run");
  return runStoreChecks(() => openStore(url), line.add).finally(line.end);
}

type OnError = (error: Thrown) => void;

interface Chosen {
  tasks: Json[] | undefined;
  calls: Call[];
  onError: OnError;
}

async function checkEnvironment(target: string, { tasks: chosen, calls, onError }: Chosen): Promise<Checked[]> {
  const { environment, solution } = await load(target);
  const beside = join(dirname(await locate(target, "environment")), "tasks.jsonl");
  const tasks = chosen ?? (existsSync(beside) ? await readTasks(beside) : [sample(toJsonSchema(environment.task))]);
  const results = await runEnvironmentChecks({ environment, tasks, solution, onError });
  const cases = new Set(solutionCases.map(({ name }) => name));
  const isUnsolved = results.some(({ what, result }) => result === "fail" && cases.has(what));
  const store = memoryStore();
  const { url, close } = await serve({ environments: [environment], store, port: 0, log: { what: "none" } });
  try {
    const schemas = new Map([...environment.definitions].map(([name, { input }]) => [name, toJsonSchema(input)]));
    const { bestReward } = environment;
    const served = await checkServed({ url, task: tasks[0], schemas, calls, solution, isUnsolved, bestReward });
    results.push(...served.map((checked) => elsewhere(checked, url, target)));
  } catch (thrown) {
    // An environment that cannot be seeded cannot be checked over HTTP. A check above says more about the reason.
    const isLoad = isHoldfastError(thrown) && thrown.code === "cannot_load";
    if (!isLoad || !results.some(({ result }) => result === "fail")) throw thrown;
    results.push({ what: "the checks over HTTP", result: "skipped", message: messageOf(thrown), why: "" });
  } finally {
    await close();
    await store.close();
  }
  return results;
}

/**
 * Adds a command that starts a server to the steps that reproduce a failure, because the check stops its own server.
 */
function elsewhere({ reproduce, ...checked }: Checked, url: string, target: string): Checked {
  if (!reproduce) return checked;
  const commands = reproduce.map((command) => command.replaceAll(url, "http://127.0.0.1:8080"));
  return { ...checked, reproduce: [`npx holdfast serve ${target} --port 8080 &`, ...commands] };
}

function inWords(results: Checked[], errors: string[]): string {
  const lines = results.map(({ what, result, message }) => {
    const line = `${result.padEnd(8)} ${what}`;
    return result === "skipped" ? `${line} (${message})` : line;
  });
  const failed = results.filter(({ result }) => result === "fail");
  for (const { what, message = "", why, reproduce = [] } of failed) {
    lines.push("", `FAILED: ${what}`, `  ${message.trimEnd().replaceAll("\n", "\n  ")}`, `  Why it matters: ${why}`);
    if (reproduce.length > 0) lines.push("  To reproduce it:", ...reproduce.map((command) => `    ${command}`));
  }
  const count = (wanted: Checked["result"]): number => results.filter(({ result }) => result === wanted).length;
  lines.push("", `${count("pass")} passed, ${failed.length} failed, ${count("skipped")} skipped`);
  if (errors.length > 0)
    lines.push("", "errors thrown by your code (some checks send invalid arguments on purpose)", ...errors);
  return `${lines.join("\n")}\n`;
}
