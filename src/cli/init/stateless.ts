// The stateless kind: tools that only answer. What was asked is in the log, and that is what is scored.
import type { Kind } from "./kind.ts";

const environment = `// A stateless environment: a price list. Nothing changes in an episode; what was asked is in its log, and is scored.
import { defineEnvironment, tool } from "holdfast";
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
        if (cents === undefined) throw new Error(\`no price for "\${item}"; there are \${[...prices.keys()].join(", ")}\`);
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
`;

const solution = `// The calls that win an episode: one for each item, all at once. What it returns is what the agent says in the end.
export default function* solution({ items }: { items: string[] }) {
  const found = (yield items.map((item) => ({ tool: "get_price", input: { item } }))) as { cents: number }[];
  return \`Together they cost \${found.reduce((sum, { cents }) => sum + cents, 0)} cents.\`;
}
`;

const generate = `// Prints tasks.jsonl, the same rows every time: \`npm run tasks\` writes it.
const tasks = [
  ["apple"],
  ["honey"],
  ["milk"],
  ["rice"],
  ["bread", "cheese"],
  ["apple", "milk"],
  ["honey", "bread"],
  ["rice", "apple"],
  ["apple", "bread", "cheese"],
  ["milk", "honey", "rice"],
  ["cheese", "rice", "bread", "milk"],
  ["apple", "bread", "cheese", "honey", "milk", "rice"],
];
for (const items of tasks) {
  const content = \`What do these cost together: \${items.join(", ")}?\`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }] }, items }));
}
`;

export const stateless: Kind = {
  parts: [
    "a tool `get_price`, and a `verify` that reads the log of the episode, because there is no state to look at. If your tools are",
    "to change something, give it a `state` and a `seed`.",
  ].join("\n"),
  environment,
  solution,
  generate,
};
