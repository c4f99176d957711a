// Prepares a row for a rollout: checks it, and adds the environment's tools and the command's settings.
import { toolSchema } from "../agent/list-tools.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { labelsField, type TaskRow } from "../core/rollout.ts";
import { findProblems, toolNamesIn } from "./task-sets.ts";
import { playerFields } from "./row-fields.ts";
import { isUrl, type CollectionSettings, type SourceSettings } from "./collection-settings.ts";

/** Settings for rows. Undefined fields are not set. */
type RowFlags = Pick<SourceSettings, "temperature" | "topP" | "maxTokens" | "system" | "request" | "labels">;

/** Returns a function that prepares rows, and throws when a row is invalid. Refuses an environment without `verify`. */
export function preparing(environment: AnyEnvironment, agent: string, flags: RowFlags) {
  if (!environment.verify) throw invalidOption(`${environment.name} has no verify; add one to defineEnvironment`);
  const tools = [...environment.definitions].map(([name, definition]) => toolSchema(name, definition));

  return (row: TaskRow): Promise<TaskRow> => {
    const params = Object(row["responses_create_params"]) as TaskRow;
    const named = new Set(toolNamesIn(row));
    // Uses the environment's descriptions, so a row has to name only its tools.
    const offered = named.size === 0 ? tools : tools.filter(({ name }) => named.has(name));
    const filled = { ...row, responses_create_params: { ...params, tools: offered as unknown as Json } };
    return toldRow(row, filled, { environment, agent, flags });
  };
}

interface Told {
  environment?: AnyEnvironment;
  agent: string;
  flags: RowFlags;
}

/** Adds the command's settings to a filled row, if the given row is valid. */
export async function toldRow(given: TaskRow, filled: TaskRow, { environment, agent, flags }: Told): Promise<TaskRow> {
  const problems = await findProblems(given, environment);
  if (problems.length > 0) throw new HoldfastError("invalid_task", problems.join("; "));
  const params = Object(filled["responses_create_params"]) as TaskRow;
  return {
    ...filled,
    ...(flags.labels && { [labelsField]: flags.labels }),
    agent_ref: filled["agent_ref"] ?? { type: "responses_api_agents", name: agent },
    responses_create_params: { ...params, ...toRequest(flags) },
  };
}

/** Returns the fields of `responses_create_params` that the settings replace. */
function toRequest({ temperature, topP, maxTokens, system, request = {} }: RowFlags): TaskRow {
  const own = { temperature, top_p: topP, max_output_tokens: maxTokens, instructions: system };
  const given = Object.entries(own).filter((entry): entry is [string, number | string] => entry[1] !== undefined);
  return { ...request, ...Object.fromEntries(given) };
}

/** Refuses settings that a harness does not support. */
export function assertHarness(settings: Partial<CollectionSettings>): void {
  const { harness, harnessEnv, maxTotalTokens, maxCost, agent, server, queue, branch } = settings;
  if (harness === undefined) {
    if (maxTotalTokens !== undefined) throw invalidOption("--max-total-tokens needs --harness");
    if (maxCost !== undefined) throw invalidOption("--max-cost needs --harness");
    if (harnessEnv !== undefined) throw invalidOption("--harness-env needs --harness");
    return;
  }
  if (agent !== undefined) throw invalidOption("--harness replaces --agent; remove one of the two options");
  if (server !== undefined) throw invalidOption("--harness plays environments of this process; remove --server");
  if (queue !== undefined) throw invalidOption("--harness runs on this machine, not on workers; remove --queue");
  if (branch !== undefined)
    throw invalidOption("--branch cannot fork a harness, which keeps its own state; remove --branch");
}

/** Refuses fields of `request` that would have no effect. */
export function assertRequest({ request = {}, system, agent }: Partial<CollectionSettings>): void {
  const field = Object.keys(request).find((name) => playerFields.has(name));
  if (field === "instructions") throw invalidOption("`request` cannot set `instructions`; use `system`");
  if (field !== undefined) throw invalidOption(`\`request\` cannot set \`${field}\`: each rollout sets it`);
  if (system === undefined || agent === undefined || isUrl(agent)) return;
  throw invalidOption("--system cannot be combined with --agent, because that agent has its own instruction");
}
