// Runs a saved session again, in memory, and reports the first difference.
import { replaySession } from "../../agent/replay.ts";
import type { Agent } from "../../core/agent.ts";
import type { SavedConversation } from "../../core/sessions.ts";
import { createSessions } from "../../session/sessions.ts";
import { memoryStore } from "../../stores/memory.ts";

export async function compare(agent: Agent, saved: SavedConversation, json: boolean): Promise<void> {
  const store = memoryStore();
  const sessions = createSessions({ app: saved.app, store });
  try {
    const result = await replaySession(agent, saved, sessions);
    if (!result.same) process.exitCode = 1;
    const inWords = result.same ? `${result.events} events, all the same` : result.message;
    process.stdout.write(`${json ? JSON.stringify(result) : inWords}\n`);
  } finally {
    await sessions.stop();
    await store.close();
  }
}
