// Who can hand over to whom: an agent to those below it, to the one above it, and to those beside it.
import type { Agent, ModelAgent } from "../core/agent.ts";
import { HoldfastError } from "../core/errors.ts";
import type { ToolSchema } from "../core/model.ts";

/** The tool by which a model hands over. */
export const transferTool = "transfer_to_agent";

export interface Family {
  find(name: string): Agent | undefined;
  /** Those that an agent can hand over to. */
  targets(agent: ModelAgent): Agent[];
}

/** Every agent below an agent, itself included. Names must be different, or a log could not tell who said what. */
export function familyOf(root: Agent): Family {
  const parents = new Map<string, Agent | undefined>();
  const members = new Map<string, Agent>();
  const add = (agent: Agent, parent: Agent | undefined): void => {
    if (members.has(agent.name)) {
      throw new HoldfastError("invalid_agent", `two agents of ${root.name} are called ${agent.name}`);
    }
    members.set(agent.name, agent);
    parents.set(agent.name, parent);
    for (const child of agent.agents) add(child, agent);
  };
  add(root, undefined);
  return {
    find: (name) => members.get(name),
    targets(agent) {
      const parent = parents.get(agent.name);
      // Inside a sequence, a loop or side by side the order is fixed.
      const above =
        parent?.kind === "model" ? [parent, ...parent.agents.filter(({ name }) => name !== agent.name)] : [];
      return [...agent.agents, ...above];
    },
  };
}

export function transferSchema(targets: Agent[]): ToolSchema {
  const about = targets.map(({ name, description }) => `${name}: ${description || "no description"}`).join("\n");
  return {
    type: "function",
    name: transferTool,
    description: `Hands the conversation over to another agent that can answer better.\n${about}`,
    parameters: {
      type: "object",
      properties: { agent: { type: "string", enum: targets.map(({ name }) => name) } },
      required: ["agent"],
      additionalProperties: false,
    },
  };
}
