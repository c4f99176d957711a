// Counter: the smallest stateful environment. The state of an episode is one number.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

export default defineEnvironment({
  name: "counter",
  description: "A counter that a model adds to and reads.",
  // The state that an episode keeps from call to call. An unseeded session has the defaults.
  state: z.object({ count: z.number().int().default(0) }),
  // The task fields of a row in tasks.jsonl. The schema omits the prompt and the other fields for the agent.
  task: z.object({ initial_count: z.number().int().default(0), expected_count: z.number().int().optional() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    increment_counter: tool({
      description: "Add to the counter.",
      input: z.object({ count: z.number().int().describe("How much to add.") }),
      // `state` is a draft: assign to it. The model reads the returned value.
      run: ({ state }, { count }) => {
        state.count += count;
        return { success: true };
      },
    }),
    get_counter_value: tool({ description: "Read the counter.", run: ({ state }) => ({ count: state.count }) }),
  },
  // Verify cannot write. A task that expects nothing cannot be won.
  verify: ({ state, task }) => Number(state.count === task.expected_count),
});
