// Finds the agents that an agent can transfer to: its children, its parent and its siblings.
import type { Agent, ModelAgent } from "../core/agent.ts";
import { HoldfastError } from "../core/errors.ts";
import type { ToolSchema } from "../core/model.ts";

/** The tool with which a model transfers the conversation. */
export const transferTool = "transfer_to_agent";

export type Family = ReturnType<typeof createFamily>;

/** Collects an agent and all agents below it. Names must be unique, because a log identifies agents by name. */
export function createFamily(root: Agent) {
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
    all: (): Agent[] => [...members.values()],
    find: (name: string): Agent | undefined => members.get(name),
    /** Returns the agents that an agent can transfer to. */
    targets(agent: ModelAgent): Agent[] {
      const parent = parents.get(agent.name);
      // The order inside a sequence, a loop or a parallel is fixed, so those agents cannot transfer to each other.
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
