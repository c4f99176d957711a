// A stateless environment: a price list. Nothing changes in an episode; what was asked is in its log, and is scored.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";

const prices = new Map([
  ["apple", 40],
  ["bread", 310],
  ["cheese", 560],
  ["honey", 720],
  ["milk", 130],
  ["rice", 240],
]);

export default defineEnvironment({
  name: "NAME",
  description: "Tells what things cost.",
  // One row of tasks.jsonl. The prompt and all else that is in a row is for the agent, and is left out here.
  task: z.object({ items: z.array(z.string()).min(1) }),
  tools: {
    get_price: tool({
      description: "What one of an item costs, in cents.",
      input: z.object({ item: z.string().describe("The item, in the singular.") }),
      run: (_, { item }) => {
        const cents = prices.get(item);
        // The model reads this message, so it says what would be right.
        if (cents === undefined) throw refuse(`no price for "${item}"; there are ${[...prices.keys()].join(", ")}`);
        return { item, cents };
      },
    }),
  },
  // 1 if the price of every item of the task was asked for, and of no other.
  verify: async ({ task, events }) => {
    const asked = new Set<string>();
    for (const event of await events()) {
      // A seed starts a new episode: what was asked before is of another one.
      if (event.type === "session.seeded") asked.clear();
      if (event.type === "tool.called" && event.outcome.ok) asked.add((event.input as { item: string }).item);
    }
    return Number(asked.size === task.items.length && task.items.every((item) => asked.has(item)));
  },
});
