// Tools that the client runs: their checks, and the results that the client sends for a turn that waits.
import type { Agent } from "../core/agent.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { EventOf, NumberedEvent } from "../core/event.ts";
import { copyJson, isObject, type Json } from "../core/json.ts";
import {
  faultInItems,
  type Content,
  type FunctionCall,
  type FunctionCallOutput,
  type ToolSchema,
} from "../core/model.ts";
import { transferTool, type Family } from "./transfer.ts";

/** The client's result for a call that the turn waits for. */
export interface ClientResult {
  call_id: string;
  output: string | Content[];
}

/** Thrown to end a run that waits for the client's results. */
export class Waiting {
  readonly event: EventOf<"tools.answered">;
  constructor(event: EventOf<"tools.answered">) {
    this.event = event;
  }
}

const most = 128;

/** Checks and copies a client's tools. Throws `invalid_option` with the position of an invalid tool. */
export function checkedTools(tools: unknown, what = "clientTools"): ToolSchema[] {
  if (!Array.isArray(tools)) throw invalidOption(`\`${what}\` must be a list of tools`);
  if (tools.length > most) throw invalidOption(`\`${what}\` has ${tools.length} tools; at most ${most} are supported`);
  const names = new Set<string>();
  return tools.map((tool: unknown, at) => {
    const place = `${what}[${at}]`;
    const { type, name, description, parameters, strict } = Object(tool) as { [field: string]: unknown };
    if (type !== "function") throw invalidOption(`\`${place}.type\` must be "function"; other tools are not supported`);
    if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
      throw invalidOption(`\`${place}.name\` must be 1 to 64 letters, digits, "-" and "_"`);
    }
    if (names.has(name)) throw invalidOption(`\`${what}\` has two tools with the name ${name}`);
    names.add(name);
    if (!isObject(parameters) || (parameters["type"] !== "object" && parameters["type"] !== undefined)) {
      throw invalidOption(`\`${place}.parameters\` must be a JSON Schema of the type "object"`);
    }
    const schema: ToolSchema = {
      type,
      name,
      parameters: { type: "object", ...(copyJson(parameters, `${place}.parameters`) as { [keyword: string]: Json }) },
    };
    if (typeof description === "string") schema.description = description;
    if (typeof strict === "boolean") schema.strict = strict;
    return schema;
  });
}

/** Refuses a client's tool if an agent has a tool with the same name. Toolsets are checked later, when listed. */
export function assertNoCollision(tools: readonly ToolSchema[], family: Family): void {
  for (const { name } of tools) {
    const owner = family.all().find((agent) => namesIn(agent).includes(name));
    if (owner) throw collision(name, owner.name);
  }
}

export const collision = (tool: string, agent: string): Error =>
  invalidOption(`the client's tool ${tool} has the same name as a tool of the agent ${agent}; rename it`);

function namesIn(agent: Agent): string[] {
  if (agent.kind !== "model") return [];
  return [...agent.tools.keys(), ...agent.clientTools.map(({ name }) => name), transferTool];
}

const partTypes: ReadonlySet<string> = new Set(["input_text", "output_text", "input_image", "input_file"]);

/** Returns the results as items. Results in a log may have parts of any type, because older versions accepted them. */
export function toResultItems(results: readonly ClientResult[], isFromLog: boolean): FunctionCallOutput[] {
  if (!Array.isArray(results) || results.length === 0) throw invalidOption("`results` must be a list of results");
  const items = results.map((result: ClientResult | null) => ({
    type: "function_call_output" as const,
    call_id: result?.call_id as string,
    output: result?.output as string,
  }));
  const fault = faultInItems(items);
  if (fault) throw invalidOption(`\`results\` must contain results of calls: ${fault}`);
  const parts = items.flatMap(({ output }: { output: string | Content[] }) => (Array.isArray(output) ? output : []));
  const odd = isFromLog ? undefined : parts.find(({ type }) => !partTypes.has(type));
  if (odd) {
    const type = String(JSON.stringify(odd.type)).slice(0, 100);
    const message = `a result has a part of the type ${type}; the types are ${[...partTypes].join(", ")}`;
    throw new HoldfastError("invalid_input", message);
  }
  return copyJson(items, "results", "drop") as unknown as FunctionCallOutput[];
}

/** Returns the client's tools in a turn, from the newest request that set them. */
export function clientToolsIn(steps: readonly NumberedEvent[]): ToolSchema[] {
  const newest = steps.findLast((event) => "tools" in event && event.tools !== undefined);
  return (newest as { tools?: ToolSchema[] } | undefined)?.tools ?? [];
}

/** Returns the client's results for the calls that were open at `version`, by call id; undefined if they are missing. */
export function findResults(
  steps: readonly NumberedEvent[],
  version: number,
): ReadonlyMap<string, FunctionCallOutput["output"]> | undefined {
  const answered = steps.find((event) => event.type === "client.answered" && event.version > version);
  if (answered?.type !== "client.answered") return undefined;
  const outputs = answered.items.filter(({ type }) => type === "function_call_output") as FunctionCallOutput[];
  return new Map(outputs.map(({ call_id, output }) => [call_id, output]));
}

/** Returns the calls that a turn waits for after these events. */
export function openCalls(events: readonly NumberedEvent[]): FunctionCall[] {
  const from = events.findLastIndex(({ type }) => type === "client.answered") + 1;
  return events.slice(from).flatMap((event) => (event.type === "tools.answered" ? (event.waiting ?? []) : []));
}
