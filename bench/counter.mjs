// The environment that most benches call: the smallest possible, so that the engine dominates the measurement.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

/** The handler alone, for the reference without an engine. */
export const add = (/** @type {{ state: { count: number } }} */ { state }, /** @type {{ by: number }} */ { by }) => {
  state.count += by;
  return { count: state.count };
};

export const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ start: z.number().int() }),
  seed: ({ task }) => ({ count: task.start }),
  tools: {
    add: tool({ description: "Add to the counter.", input: z.object({ by: z.number().int() }), run: add }),
  },
});
