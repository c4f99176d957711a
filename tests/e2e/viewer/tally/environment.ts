// A counter with arbitrary notes, which a viewer must show as text, however long or hostile.
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

export default defineEnvironment({
  name: "tally",
  description: "A counter with notes.",
  state: z.object({ count: z.number().int().default(0), notes: z.array(z.string()).default([]) }),
  task: z.object({ start: z.number().int(), goal: z.number().int(), plan: z.string() }),
  seed: ({ task }) => ({ count: task.start, notes: [] }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int().describe("How much to add.") }),
      run: ({ state }, { by }) => {
        state.count += by;
        return { count: state.count };
      },
    }),
    note: tool({
      description: "Write a note, and read it back.",
      input: z.object({ text: z.string().describe("What to write."), times: z.number().int().default(1) }),
      run: ({ state }, { text, times }) => {
        state.notes.push(text);
        return { text: text.repeat(times) };
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});
