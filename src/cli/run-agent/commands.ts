// A chat's commands: /state, /tools and /help.
import { ownTools, toolsetTools } from "../../agent/list-tools.ts";
import type { Agent } from "../../core/agent.ts";
import type { Conversations } from "../../core/sessions.ts";

export interface CommandsOptions {
  agent: Agent;
  sessions: Conversations;
  session: string;
  stopping: { signal: AbortSignal };
}

const help = `/state  show the state of the session
/tools  list the tools of the agents
/help   show this list
exit    leave the chat`;

/** Returns the commands by name, without the slash. */
export function createCommands(options: CommandsOptions): Map<string, () => string | Promise<string>> {
  const { agent, sessions, session, stopping } = options;
  return new Map<string, () => string | Promise<string>>([
    ["state", async () => JSON.stringify(await sessions.state(session), null, 2)],
    ["tools", () => toolsText(agent, stopping.signal)],
    ["help", () => help],
  ]);
}

async function toolsText(root: Agent, signal: AbortSignal): Promise<string> {
  const lines: string[] = [];
  for (const agent of agentsIn(root)) {
    const tools = [...ownTools(agent), ...(await toolsetTools(agent, signal))];
    const about = tools.map(({ name, description = "" }) => `  ${name}  ${description}`.trimEnd());
    lines.push(`${agent.name}${tools.length === 0 ? " has no tools" : ""}`, ...about);
  }
  return lines.join("\n");
}

const agentsIn = (agent: Agent): Agent[] => [agent, ...agent.agents.flatMap(agentsIn)];
