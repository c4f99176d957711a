// The agent of the crash tests, for the test and for the killed processes. It reports every question and every effect.
import { z } from "zod";

/** `built` is the folder of the compiled source; `report` receives every model question and every tool action. */
export async function crashAgent(built, store, report) {
  const holdfast = await import(`${built}/index.js`);
  const { createSessions, defineAgent, defineEnvironment, environmentTools, scriptedModel, tool } = holdfast;

  const model = (name, answers) =>
    scriptedModel((_, turn) => {
      report("asked", name, turn);
      return answers[turn];
    });
  const call = (name, input = {}) => ({ name, arguments: input });

  const pile = defineEnvironment({
    name: "pile",
    state: z.object({ height: z.number().default(0) }),
    tools: {
      stack: tool({
        description: "",
        input: z.object({ n: z.number() }),
        run: ({ state }, { n }) => ({ height: (state.height += n) }),
      }),
    },
  });
  const episodes = createSessions({ environment: pile, store });

  const mark = (state, id) => (state.marks = { ...state.marks, [id]: (state.marks?.[id] ?? 0) + 1 });
  const tools = {
    note: tool({
      description: "",
      run: ({ state, call: id }) => {
        report("ran", "note", id);
        mark(state, id);
        state["user:notes"] = (state["user:notes"] ?? 0) + 1;
        return "noted";
      },
    }),
    gather: tool({
      description: "",
      concurrent: true,
      run: async ({ update, call: id }) => {
        report("ran", "gather", id);
        await new Promise((resolve) => setImmediate(resolve));
        update((state) => mark(state, id));
        return { gathered: id };
      },
    }),
    send: tool({
      description: "",
      effects: "external",
      run: async ({ update, call: id }) => {
        report("ran", "send", id);
        await new Promise((resolve) => setImmediate(resolve));
        update((state) => mark(state, id));
        return "sent";
      },
    }),
    child: defineAgent({
      name: "child",
      model: model("child", [{ calls: [call("note")] }, "The child is done."]),
      tools: {
        note: tool({
          description: "",
          run: ({ state }) => {
            report("ran", "note", "of-child");
            mark(state, "of-child");
          },
        }),
      },
    }),
  };

  const agent = defineAgent({
    name: "worker",
    model: model("worker", [
      { calls: [call("note"), call("send"), call("gather")] },
      { calls: [call("stack", { n: 2 }), call("stack", { n: 3 })] },
      { calls: [call("send"), call("child", { request: "help" })] },
      { calls: [call("stack", { n: 5 })] },
      "Done.",
    ]),
    tools,
    toolsets: [environmentTools(episodes)],
    outputKey: "said",
    callbacks: {
      beforeAgent: ({ state }) => {
        state.begun = (state.begun ?? 0) + 1;
        state["user:visits"] = (state["user:visits"] ?? 0) + 1;
      },
      beforeModel: ({ state }) => void (state.asked = (state.asked ?? 0) + 1),
      afterAgent: ({ state }) => void (state.ended = (state.ended ?? 0) + 1),
    },
  });
  return { agent, episodes, holdfast };
}
