// The real server with all that it counts and checks, and the counter of the README behind it.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";
import { serve } from "../dist/server/serve.js";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ initial_count: z.number().int(), expected_count: z.number().int() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    increment_counter: tool({
      description: "Add to the counter.",
      input: z.object({ count: z.number().int() }),
      run: ({ state }, { count }) => {
        state.count += count;
        return { success: true };
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.expected_count),
});

/** @param {import("holdfast").Store} store */
export const served = (store) => serve({ environments: [counter], store, port: 0 });
