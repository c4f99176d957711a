// readCut(): finds the author's code that was running when a rollout was cut short.
import type { NumberedEvent } from "../../core/event.ts";
import { isFunctionCall } from "../../core/model.ts";
import type { Rollout } from "../../core/rollout.ts";
import type { Conversations } from "../../core/sessions.ts";

/** Returns undefined while the rollout waited for the model, or if nothing is known. */
export async function readCut(sessions: Conversations, { session }: Rollout): Promise<string | undefined> {
  if (!(await sessions.peek(session))) return "its seed";
  let last: NumberedEvent | undefined;
  for await (const event of sessions.events(session)) if (steps.has(event.type)) last = event;
  if (last?.type === "agent.ended") return last.last ? "its verify" : undefined;
  if (last?.type !== "model.answered") return undefined;
  const names = new Set((last.items ?? []).filter(isFunctionCall).map(({ name }) => name));
  return names.size > 0 ? `the tool ${[...names].join(", ")}` : undefined;
}

const steps = new Set(["model.answered", "tools.answered", "agent.ended"]);
