// A row as it is played: checked, with the tools of the environment and the settings of the command.
import type { AnyEnvironment } from "../../core/environment.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { inputItems, taskOf, type TaskRow } from "../../core/rollout.ts";
import { check, jsonSchemaOf } from "../../core/schema.ts";
import type { CollectFlags } from "./flags.ts";

type RowFlags = Pick<CollectFlags, "temperature">;

/** Gives what makes rows ready. It throws what is wrong with one. */
export function preparing(environment: AnyEnvironment, agent: string, flags: RowFlags) {
  const tools = [...environment.definitions].map(([name, { description, input }]) => ({
    ...{ type: "function", name, description },
    parameters: { type: "object", properties: {}, ...jsonSchemaOf(input) },
  })) as Json;

  return async (row: TaskRow): Promise<TaskRow> => {
    const checked = await check(environment.task, taskOf(row));
    if (!checked.ok) throw wrong(`the task does not fit ${environment.name}: ${checked.message}`);
    const params = Object(row["responses_create_params"]) as TaskRow;
    assertTools(params["tools"], environment);
    return toldRow({ ...row, responses_create_params: { ...params, tools } }, agent, flags);
  };
}

/** A row with the settings of the command. */
export function toldRow(row: TaskRow, agent: string, { temperature }: RowFlags): TaskRow {
  const params = Object(row["responses_create_params"]) as TaskRow;
  const items = inputItems(row);
  if (typeof items === "string") throw wrong(items);
  return {
    ...row,
    agent_ref: row["agent_ref"] ?? { type: "responses_api_agents", name: agent },
    responses_create_params: { ...params, ...(temperature !== undefined && { temperature }) },
  };
}

function assertTools(tools: Json | undefined, { name: environment, definitions }: AnyEnvironment): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    const { name } = Object(tool) as { name?: Json };
    if (typeof name === "string" && definitions.has(name)) continue;
    throw wrong(`the row names a tool ${JSON.stringify(name)} that ${environment} does not have`);
  }
}

const wrong = (message: string): HoldfastError => new HoldfastError("invalid_task", message);
