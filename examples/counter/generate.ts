// Prints tasks.jsonl: 60 tasks, the same ones every time. From the root: npx jiti examples/counter/generate.ts
// With a number and a seed it prints others, for training: npx jiti examples/counter/generate.ts 480 2 > tasks_train.jsonl
import { z } from "zod";
import environment from "./environment.ts";

/** Whole numbers below a limit, from a seed (mulberry32). */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) % limit;
  };
}

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema((input ?? z.object({})) as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const [count = 60, seed = 1] = process.argv.slice(2).map(Number);
const below = numbers(seed);
for (let row = 0; row < count; row++) {
  const initial_count = below(100) - 20;
  const steps = Array.from({ length: 1 + below(4) }, () => below(20) - 5);
  const total = steps.reduce((sum, step) => sum + step, 0);
  // A task that is won by doing nothing teaches nothing.
  if (total === 0) steps.push(1);
  const content = `Add ${steps.join(", then ")} to the counter, and tell me its value.`;
  const expected_count = initial_count + (total || 1);
  const input = [{ role: "user", content }];
  // The environment fills in the tools of a row that has none.
  const responses_create_params = count === 60 ? { input, tools } : { input };
  console.log(JSON.stringify({ responses_create_params, initial_count, expected_count }));
}
