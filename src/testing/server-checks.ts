// checkServer(): finds out what a gym server offers, and runs the gym checks on it.
import { cannotLoad, invalidOption, messageOf } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";
import { sample } from "../core/json-sample.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import type { Call, Solution } from "./environments.ts";
import { playSolution, runGymChecks, type Checked } from "./gym-checks.ts";
import { createGymClient, networkFailure } from "./gym-checks/client.ts";

type Row = { [field: string]: Json };
type Schemas = Map<string, Row>;

export interface ServerToCheck {
  url: string;
  /** A task or a row of a data set. Default: a sample from the task schema that the server describes. */
  task: Json | undefined;
  /** Calls that show the state. Default: one call to every known tool. */
  calls: Call[];
  /** The bearer token that the server requires to describe its environment. */
  token: string | undefined;
}

export async function checkServer({ url, task: given, calls, token }: ServerToCheck): Promise<Checked[]> {
  await assertAnswers(url);
  const task = toRow(given ?? {});
  const schemas = toSchemas(toRow(task["responses_create_params"] ?? {})["tools"], "parameters");
  const described = await describedAt(url, token);
  const { bestReward } = described;
  if (schemas.size > 0) return checkServed({ url, task, schemas, calls, bestReward });
  const sampled = given === undefined && described.task ? toRow(sample(described.task)) : task;
  return checkServed({ url, task: sampled, schemas: described.schemas, calls, bestReward });
}

/** Sends one request. Any reply means that a server is running. */
async function assertAnswers(url: string): Promise<void> {
  try {
    await createGymClient({ url, name: "a", commands: [] }).get("/");
  } catch (thrown) {
    throw cannotLoad(
      `no server answers at ${hideSecrets(url)}: ${networkFailure(thrown) ?? messageOf(thrown)}`,
      thrown,
    );
  }
}

/** Asks a server to describe its environment. Only Holdfast's servers do. */
async function describedAt(
  url: string,
  token: string | undefined,
): Promise<{ schemas: Schemas; task?: Row; bestReward?: number }> {
  try {
    const headers = new Headers();
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const reply = await fetch(`${url}/v1/environment`, { headers, signal: AbortSignal.timeout(10_000) });
    if (!reply.ok) return { schemas: new Map() };
    const { tools, task = {}, bestReward } = toRow((await reply.json()) as Json);
    const schemas = toSchemas(tools, "input");
    return { schemas, task: toRow(task), ...(typeof bestReward === "number" && { bestReward }) };
  } catch {
    return { schemas: new Map() };
  }
}

export interface Served {
  url: string;
  task: Json | undefined;
  schemas: Schemas;
  calls: Call[];
  solution?: Solution | undefined;
  /** Whether the solution is known to fail. Then only its calls are used, because an earlier check has reported it. */
  isUnsolved?: boolean;
  bestReward?: number | undefined;
}

export async function checkServed(served: Served): Promise<Checked[]> {
  const { url, schemas, calls: named, solution: given, isUnsolved = false, bestReward } = served;
  const solution = isUnsolved ? undefined : given;
  const task = toRow(served.task);
  const sampled = [...schemas].map(([tool, schema]) => ({ tool, input: sample(schema) }));
  const tools: Schemas = new Map([...named.map(({ tool }) => [tool, {}] as const), ...schemas]);
  if (tools.size === 0) {
    throw invalidOption(
      `the server at ${hideSecrets(url)} does not list its tools; name one with --tool, or pass --tasks or the server's --token`,
    );
  }
  const unknown = named.find(({ tool }) => schemas.size > 0 && !schemas.has(tool));
  if (unknown) {
    throw invalidOption(`there is no tool "${unknown.tool}"; the tools are: ${[...schemas.keys()].join(", ")}`);
  }
  try {
    if (named.length > 0) return await runGymChecks({ url, task, calls: named, tools, solution, bestReward });
    const calls = given ? await playSolution({ url, task }, given) : sampled;
    const others = sampled.map((call) => [call]);
    return await runGymChecks({ url, task, calls, others, tools, solution, bestReward });
  } catch (thrown) {
    throw cannotLoad(`cannot check ${hideSecrets(url)}: ${messageOf(thrown)}`, thrown);
  }
}

const toSchemas = (tools: Json | undefined, field: string): Schemas =>
  new Map(
    (Array.isArray(tools) ? tools : []).map(toRow).map((tool) => [String(tool["name"]), toRow(tool[field] ?? {})]),
  );

function toRow(value: Json | undefined): Row {
  if (isObject(value)) return value;
  throw invalidOption(`a task must be a JSON object, not ${JSON.stringify(value)}`);
}
