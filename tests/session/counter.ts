// The environments that the tests of the engine use.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

export const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0), notes: z.array(z.string()).default([]) }),
  task: z.object({ start: z.number().int(), goal: z.number().int() }),
  seed: ({ task }) => ({ count: task.start }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => {
        state.count += by;
        return { count: state.count };
      },
    }),
    read: tool({ description: "Read the counter.", run: ({ state }) => ({ count: state.count }) }),
    note: tool({
      description: "Write a note, slowly, with an await between reading and writing.",
      input: z.object({ text: z.string() }),
      run: async ({ state }, { text }) => {
        const before = [...state.notes];
        await sleep(1);
        state.notes = [...before, text];
      },
    }),
    roll: tool({
      description: "Set the counter to a random number.",
      run: ({ state, random, now }) => {
        state.count = Math.floor(random() * 1e9);
        return { rolled: state.count, at: now() };
      },
    }),
    spoil: tool({
      description: "Change the state, then fail.",
      run: ({ state }) => {
        state.count = -1;
        throw new Error("spoiled on purpose");
      },
    }),
    hang: tool({
      description: "Never return.",
      timeout: 30,
      run: ({ state }) => {
        state.count = -1;
        return new Promise<never>(() => undefined);
      },
    }),
    keep: tool({
      description: "Keep something that is not JSON.",
      run: ({ state }) => {
        (state as { when?: unknown }).when = { at: new Date() };
      },
    }),
    gather: tool({
      description: "Takes a while and does not hold the session.",
      input: z.object({ by: z.number().int(), ms: z.number().default(1) }),
      concurrent: true,
      run: async ({ state, update, random }, { by, ms }) => {
        const seen = state.count;
        await sleep(ms);
        update((draft) => {
          draft.count += by;
        });
        return { seen, later: state.count, number: random() };
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});
