// Lists an agent's tools for people: its own tools and the tools in its toolsets.
import { agentSchema, type Agent, type ReadonlyAgentContext } from "../core/agent.ts";
import type { ToolDefinition } from "../core/environment.ts";
import type { ToolSchema } from "../core/model.ts";
import { toJsonSchema } from "../core/schema.ts";
import { orAborted } from "./callbacks.ts";

export function toolSchema(name: string, { description, input }: ToolDefinition): ToolSchema {
  const parameters = { type: "object", properties: {}, ...toJsonSchema(input) };
  return { type: "function", name, description, parameters };
}

export function ownTools(agent: Agent): ToolSchema[] {
  const tools = agent.kind === "model" ? [...agent.tools] : [];
  return tools.map(([name, made]) => ("run" in made ? toolSchema(name, made) : agentSchema(name, made)));
}

/** Returns the schemas in toolsets, as a new conversation would see them. Omits a toolset that cannot be reached. */
export async function toolsetTools(agent: Agent, signal: AbortSignal): Promise<ToolSchema[]> {
  const context: ReadonlyAgentContext = {
    state: {},
    agent: agent.name,
    session: "",
    user: "user",
    invocation: "",
    signal,
    stored: async () => ({}),
  };
  const toolsets = agent.kind === "model" ? agent.toolsets : [];
  const listed = await Promise.allSettled(toolsets.map(async (toolset) => orAborted(signal, toolset.list(context))));
  return listed.flatMap((one) => (one.status === "rejected" ? [] : one.value));
}
