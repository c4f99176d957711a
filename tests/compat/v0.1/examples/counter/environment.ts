// Counter: the smallest stateful environment. The state of an episode is one number, and it holds.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

export default defineEnvironment({
  name: "counter",
  description: "A counter that a model adds to and reads.",
  // What an episode keeps from call to call. The default is what a session has that was never seeded.
  state: z.object({ count: z.number().int().default(0) }),
  // One row of tasks.jsonl. The prompt and all else that is in a row is for the agent, and is left out here.
  task: z.object({ initial_count: z.number().int().default(0), expected_count: z.number().int().optional() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    increment_counter: tool({
      description: "Add to the counter.",
      input: z.object({ count: z.number().int().describe("How much to add.") }),
      // `state` is a draft: assign to it. What is returned is what the model reads.
      run: ({ state }, { count }) => {
        state.count += count;
        return { success: true };
      },
    }),
    get_counter_value: tool({ description: "Read the counter.", run: ({ state }) => ({ count: state.count }) }),
  },
  // Cannot write. A task that expects nothing cannot be won.
  verify: ({ state, task }) => Number(state.count === task.expected_count),
});
