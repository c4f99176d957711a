// Agents that run in parallel, and then one agent that sums up. The first agent starts first and ends last.
import { setTimeout as delay } from "node:timers/promises";
import { defineAgent, parallel, sequence, type Agent, type Model } from "holdfast";

function speaker(name: string, pieces: string[], pause: number): Agent {
  const model: Model = {
    name: `the model of ${name}`,
    async respond(_, options) {
      for (const text of pieces) {
        options?.onPiece?.({ type: "text", text });
        await delay(pause);
      }
      const message = { type: "message", role: "assistant", content: pieces.join("") };
      return { output: [message], status: "completed" };
    },
  };
  return defineAgent({ name, model });
}

export const parallelAgents = (): Agent =>
  sequence({
    name: "team",
    agents: [
      parallel({
        name: "both",
        agents: [speaker("slow", ["A1 ", "A2 ", "A3"], 40), speaker("fast", ["B1 ", "B2"], 10)],
      }),
      speaker("last", ["Both ", "spoke."], 1),
    ],
  });

/** The answers in the order of the log. */
export const parallelAnswers = ["B1 B2", "A1 A2 A3", "Both spoke."];
