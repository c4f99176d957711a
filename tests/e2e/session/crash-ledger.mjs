// The environment of the crash tests, for the test and for the killed processes: each call leaves its mark once.
import { z } from "zod";

const input = z.object({ n: z.number() });

/** `built` is the folder of the compiled source, `effect` the external effect of `send`. */
export async function ledger(built, effect) {
  const { defineEnvironment, tool } = await import(`${built}/index.js`);
  const mark = (state, call, n) => {
    state.total += n;
    state.marks[call] = (state.marks[call] ?? 0) + 1;
  };
  return defineEnvironment({
    name: "ledger",
    state: z.object({ total: z.number().default(0), marks: z.record(z.string(), z.number()).default({}) }),
    tools: {
      add: tool({ description: "", input, run: ({ state, call }, { n }) => mark(state, call, n) }),
      gather: tool({
        description: "",
        input,
        concurrent: true,
        run: async ({ update, call }, { n }) => {
          await new Promise((resolve) => setImmediate(resolve));
          update((state) => mark(state, call, n));
        },
      }),
      send: tool({
        description: "",
        input,
        effects: "external",
        timeout: 100,
        run: ({ update, call, session }, { n }) => {
          effect(`${session} ${call}`);
          update((state) => mark(state, call, n));
        },
      }),
    },
  });
}
