// The environment that most benches call: the smallest there is, so that what is measured is the engine.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

/** The handler by itself, for the reference that has no engine around it. */
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
