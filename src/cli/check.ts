// holdfast check: tests an environment, a running gym protocol server, or a store.
import type { Command } from "commander";
import type { AnyEnvironment } from "../core/environment.ts";
import { cannotLoad, invalidOption, messageOf } from "../core/errors.ts";
import { summarizeThrown, type Thrown } from "../core/event.ts";
import { isObject, type Json } from "../core/json.ts";
import { sample } from "../core/json-sample.ts";
import type { Solution } from "../testing/environments.ts";
import type { Checked } from "../testing/gym-checks.ts";
import { json } from "./flags.ts";
import { createTally } from "./tally.ts";

interface Flags {
  tool: string[];
  input: Json[];
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

An environment is checked with solution.ts and tasks.jsonl beside it. For a
server, choose calls that show its state with --tool, or --tasks with tools;
Holdfast servers list their tools. A failed check prints the commands that
reproduce it, and the exit code is 1.`;

export function addCheck(program: Command): void {
  const collect = <T>(parse: (text: string) => T) => {
    return (text: string, before: T[]): T[] => [...before, parse(text)];
  };
  program
    .command("check")
    .description(
      "Check an environment, a running server of the gym protocol, or a store for faults that spoil rewards or lose state.",
    )
    .argument("[target]", "a folder, file or package with an environment, or the URL of a server")
    .option("--store <url>", "check this store instead of a target; writes and deletes sessions in it")
    .option("--tool <name>", "a tool to call; may be repeated", collect(String), [])
    .option("--input <json>", "the arguments of a tool, in the order of --tool", collect(json), [])
    .option("--task <json>", "the task to seed with", json)
    .option("--tasks <file>", "a tasks file as JSON lines; the first row gives the task and the tools")
    .option("--token <text>", "bearer token of the server, to ask it for its tools")
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

type OnError = (error: Thrown) => void;

async function check(target: string | undefined, flags: Flags, onError: OnError): Promise<Checked[]> {
  if ((target === undefined) === (flags.store === undefined)) {
    throw invalidOption("name one target to check: an environment, the URL of a server, or --store URL");
  }
  if (target === undefined) {
    const { checkStore } = await import("./check/store.ts");
    return checkStore(flags.store as string);
  }
  const isServer = /^https?:\/\//.test(target);
  return isServer ? checkServer(target.replace(/\/+$/, ""), flags) : checkEnvironment(target, flags, onError);
}

type Row = { [field: string]: Json };
type Schemas = Map<string, { [key: string]: Json }>;

async function checkServer(url: string, flags: Flags): Promise<Checked[]> {
  await assertAnswers(url);
  const { readTasks } = await import("../rollout/load.ts");
  const [row = {}] = flags.tasks === undefined ? [] : readTasks(flags.tasks);
  const task = toRow(flags.task ?? row);
  const { tools = [] } = toRow(task["responses_create_params"] ?? {});
  const schemas: Schemas = new Map(
    (Array.isArray(tools) ? tools : [])
      .map(toRow)
      .map(({ name, parameters }) => [String(name), toRow(parameters ?? {})]),
  );
  const described = await describedAt(url, flags.token);
  const { bestReward } = described;
  if (schemas.size > 0) return checkServed({ url, task, schemas, flags, bestReward });
  const given = flags.task ?? flags.tasks;
  const sampled = given === undefined && described.task ? toRow(sample(described.task)) : task;
  return checkServed({ url, task: sampled, schemas: described.schemas, flags, bestReward });
}

/** Sends one request. Any reply is fine. */
async function assertAnswers(url: string): Promise<void> {
  const { createGymClient, networkFailure } = await import("../testing/gym-checks/client.ts");
  try {
    await createGymClient({ url, name: "a", commands: [] }).get("/");
  } catch (thrown) {
    throw cannotLoad(`nothing answers at ${url}: ${networkFailure(thrown) ?? messageOf(thrown)}`, thrown);
  }
}

interface Described {
  schemas: Schemas;
  task?: Row;
  bestReward?: number;
}

/** Asks a server to describe its environment, which Holdfast's servers do. */
async function describedAt(url: string, token: string | undefined): Promise<Described> {
  try {
    const headers = new Headers();
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const reply = await fetch(`${url}/v1/environment`, { headers, signal: AbortSignal.timeout(10_000) });
    if (!reply.ok) return { schemas: new Map() };
    const { tools = [], task = {}, bestReward } = toRow((await reply.json()) as Json);
    const rows = (Array.isArray(tools) ? tools : []).map(toRow);
    const schemas = new Map(rows.map(({ name, input }) => [String(name), toRow(input ?? {})]));
    return { schemas, task: toRow(task), ...(typeof bestReward === "number" && { bestReward }) };
  } catch {
    return { schemas: new Map() };
  }
}

async function checkEnvironment(target: string, flags: Flags, onError: OnError): Promise<Checked[]> {
  const { load, readTasks } = await import("../rollout/load.ts");
  const { environment, solution, tasks: beside } = await load(target);
  const { toJsonSchema } = await import("../core/schema.ts");
  const { memoryStore } = await import("../stores/memory.ts");
  const { serve } = await import("../server/serve.ts");
  const given = flags.task === undefined ? undefined : [flags.task];
  const found = given ?? (flags.tasks === undefined ? beside : readTasks(flags.tasks));
  const tasks = found.length > 0 ? found : [sample(toJsonSchema(environment.task))];

  const results = await tryCases(environment, tasks, solution, onError);
  const store = memoryStore();
  const serving = await serve({ environments: [environment], store, port: 0, log: { what: "none" } });
  try {
    const schemas: Schemas = new Map(
      [...environment.definitions].map(([name, { input }]) => [name, toJsonSchema(input)]),
    );
    const { bestReward } = environment;
    const served = await checkServed({ url: serving.url, task: toRow(tasks[0]), schemas, flags, solution, bestReward });
    results.push(...served.map((checked) => elsewhere(checked, serving.url, target)));
  } finally {
    await serving.close();
    await store.close();
  }
  return results;
}

/** Adds a command that starts a server, because this check's server is gone when someone reads the commands. */
function elsewhere({ reproduce, ...checked }: Checked, url: string, target: string): Checked {
  if (!reproduce) return checked;
  const commands = reproduce.map((command) => command.replaceAll(url, "http://127.0.0.1:8080"));
  return { ...checked, reproduce: [`npx holdfast serve ${target} --port 8080 &`, ...commands] };
}

async function tryCases(
  environment: AnyEnvironment,
  tasks: Json[],
  solution: Solution | undefined,
  onError: OnError,
): Promise<Checked[]> {
  const { environmentCases, solutionCases } = await import("../testing/environments.ts");
  const { createSessions } = await import("../session/sessions.ts");
  const { memoryStore } = await import("../stores/memory.ts");
  const open = () => createSessions({ environment, store: memoryStore(), onError });
  const results: Checked[] = [];
  const attempt = async (what: string, run: () => Promise<void>): Promise<void> => {
    const why = "Every environment must have this property; see docs/promises.md.";
    await run().then(
      () => results.push({ what, result: "pass", why }),
      (thrown: unknown) => results.push({ what, result: "fail", message: messageOf(thrown), why }),
    );
  };
  for (const { name, run } of environmentCases) await attempt(name, () => run({ open, tasks }));
  for (const { name, run } of solutionCases) {
    if (solution) await attempt(name, () => run({ open, tasks, solution }));
    else
      results.push({ what: name, result: "skipped", message: "there is no solution beside the environment", why: "" });
  }
  return results;
}

interface Served {
  url: string;
  task: Row;
  schemas: Schemas;
  flags: Flags;
  solution?: Solution | undefined;
  bestReward?: number | undefined;
}

async function checkServed({ url, task, schemas, flags, solution, bestReward }: Served): Promise<Checked[]> {
  const { playSolution, runGymChecks } = await import("../testing/gym-checks.ts");
  const named = flags.tool.map((tool, at) => ({ tool, input: flags.input[at] ?? {} }));
  const sampled = [...schemas].map(([tool, schema]) => ({ tool, input: sample(schema) }));
  const tools: Schemas = new Map([...named.map(({ tool }) => [tool, {}] as const), ...schemas]);
  if (tools.size === 0) {
    throw invalidOption(
      `the server at ${url} does not list its tools; name one with --tool, or give --tasks or its --token`,
    );
  }
  try {
    if (named.length > 0) return await runGymChecks({ url, task, calls: named, tools, solution, bestReward });
    const calls = solution ? await playSolution({ url, task }, solution) : sampled;
    const others = sampled.map((call) => [call]);
    return await runGymChecks({ url, task, calls, others, tools, solution, bestReward });
  } catch (thrown) {
    throw cannotLoad(`${url} could not be checked: ${messageOf(thrown)}`, thrown);
  }
}

function toRow(value: Json | undefined): Row {
  if (isObject(value)) return value;
  throw invalidOption(`a task must be a JSON object, not ${JSON.stringify(value)}`);
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
    lines.push("", "errors thrown by your code during the checks, which also send invalid arguments", ...errors);
  return `${lines.join("\n")}\n`;
}
