// The commands of a chat with an agent: what /state, /tools and /help show.
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Toolset } from "holdfast";
import { expect, test } from "vitest";
import { createCommands } from "../../src/cli/run-agent/commands.ts";

test("/state shows the state, /tools the tools of every agent, /help the commands", async () => {
  const remote: Toolset = {
    list: async () => [{ type: "function", name: "search", description: "Search.", parameters: {} }],
    call: async () => null,
  };
  const billing = defineAgent({ name: "billing", model: scriptedModel([]), toolsets: [remote] });
  const agent = defineAgent({
    name: "support",
    model: scriptedModel([]),
    tools: { refund: tool({ description: "Refund an order.", run: () => "done" }) },
    agents: [billing, defineAgent({ name: "sales", model: scriptedModel([]) })],
  });
  const sessions = createSessions({ app: "support", store: memoryStore() });
  const { session } = await sessions.open({ state: { room: 12, "user:name": "Ann" } });
  const commands = createCommands({ agent, sessions, session, stopping: { signal: new AbortController().signal } });
  expect(await commands.get("state")?.()).toBe('{\n  "room": 12,\n  "user:name": "Ann"\n}');
  expect(await commands.get("tools")?.()).toBe(
    "support\n  refund  Refund an order.\nbilling\n  search  Search.\nsales has no tools",
  );
  expect(await commands.get("help")?.()).toContain("/state");
});
