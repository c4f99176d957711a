// The environment and the agents of the fixtures, defined with whichever version is given: the one that wrote them, or this one.
import type * as Holdfast from "holdfast";
import type { Agent, AgentContext, ModelRequest, Sessions } from "holdfast";
import { z } from "zod";

export interface DefineOptions {
  /** Called for every external effect. */
  effect(call: string): void | Promise<void>;
  /** Defines tools that add one too much, for replays that must find it. */
  isChanged?: boolean;
}

export type Definitions = ReturnType<typeof define>;

export function define(holdfast: typeof Holdfast, options: DefineOptions) {
  return { ledger: defineLedger(holdfast, options), agents: defineAgents(holdfast, options) };
}

/** An environment with a tool of each kind. Every call leaves a mark under its id. */
function defineLedger({ defineEnvironment, tool }: typeof Holdfast, { effect, isChanged }: DefineOptions) {
  const amount = z.object({ n: z.number() });
  const state = z.object({
    total: z.number().default(0),
    marks: z.record(z.string(), z.number()).default({}),
    luck: z.number().default(0),
    note: z.string().default(""),
    at: z.number().default(0),
  });
  type State = z.infer<typeof state>;
  const mark = (state: State, call: string | undefined, n: number): void => {
    state.total += n;
    state.marks[call ?? "none"] = (state.marks[call ?? "none"] ?? 0) + 1;
  };
  return defineEnvironment({
    name: "ledger",
    state,
    task: z.object({ start: z.number(), goal: z.number() }),
    seed: ({ task, random }) => ({ total: task.start, luck: random() }),
    tools: {
      add: tool({
        description: "Adds.",
        input: amount,
        run: ({ state, call, random, log }, { n }) => {
          mark(state, call, isChanged ? n + 1 : n);
          state.luck = random();
          log(`added ${n}`);
          return { total: state.total };
        },
      }),
      look: tool({ description: "Reads.", run: ({ state }) => ({ total: state.total }) }),
      write: tool({
        description: "Keeps a text.",
        input: z.object({ text: z.string() }),
        run: ({ state }, { text }) => void (state.note = text),
      }),
      stamp: tool({ description: "Keeps the time.", run: ({ state, now }) => (state.at = now()) }),
      fail: tool({
        description: "Fails.",
        run: ({ state }) => {
          state.total = -1;
          throw new Error("the pencil broke");
        },
      }),
      gather: tool({
        description: "Adds later.",
        input: amount,
        concurrent: true,
        run: async ({ update, call }, { n }) => {
          await new Promise((resolve) => setImmediate(resolve));
          update((state) => mark(state, call, n));
          return { gathered: n };
        },
      }),
      send: tool({
        description: "Sends.",
        input: amount,
        effects: "external",
        timeout: 100,
        run: async ({ update, call }, { n }) => {
          await effect(`ledger ${call}`);
          update((state) => mark(state, call, n));
          return { sent: n };
        },
      }),
    },
    verify: async ({ state, task, response, events }) => {
      const calls = (await events()).filter(({ type }) => type === "tool.called").length;
      return { reward: Number(state.total === task.goal), total: state.total, calls, answer: response ?? null };
    },
  });
}

/** The root agents, by app. */
function defineAgents(holdfast: typeof Holdfast, options: DefineOptions) {
  const office = defineClerk(holdfast, options);
  const crew = defineCrew(holdfast);
  return {
    office,
    crew,
    /** Plays the ledger. Its episodes are in `episodes`. */
    desk: (episodes: Sessions): Agent => defineDesk(holdfast, episodes),
  };
}

/** The input of a model: the newest message of the user, and the number of results since. */
function asked({ input }: ModelRequest): { said: string; results: number } {
  const at = input.findLastIndex((item) => item.type === "message" && item["role"] === "user");
  const results = input.slice(at + 1).filter(({ type }) => type === "function_call_output").length;
  return { said: String(input[at]?.["content"]), results };
}

const hasResult = ({ input }: ModelRequest): boolean => input.at(-1)?.type === "function_call_output";

const call = (name: string, input: Record<string, string | number | boolean> = {}) => ({ name, arguments: input });

/** An agent with a tool of each kind, every callback, an agent as a tool and one to transfer to. */
function defineClerk(holdfast: typeof Holdfast, { effect, isChanged }: DefineOptions): Agent {
  const { answerText, defineAgent, scriptedModel, tool } = holdfast;
  const answers: Record<string, ReturnType<typeof call>[]> = {
    note: [call("note")],
    draw: [call("draw")],
    gather: [call("gather"), call("gather")],
    send: [call("send")],
    mixed: [call("note"), call("send"), call("gather")],
    fail: [call("fail"), call("fail", { mend: true }), call("nothing"), call("note", { wrong: 1 })],
    blocked: [call("blocked")],
    ask: [call("helper", { request: "help" })],
    specialist: [call("transfer_to_agent", { agent: "specialist" })],
  };
  const model = scriptedModel((request) => {
    const { said, results } = asked(request);
    if (/break|mend/.test(said)) throw new Error(`no GPU to ${said}`);
    if (said === "silence") return { output: [] };
    const calls = answers[said];
    return calls && results === 0 ? { calls } : `Done: ${said}.`;
  });
  const count = ({ state }: Pick<AgentContext, "state">, key: string): void => {
    state[key] = ((state[key] as number | undefined) ?? 0) + 1;
  };
  return defineAgent({
    name: "clerk",
    instruction: "You work for {user:name?} on {topic?}.",
    model,
    outputKey: "said",
    limits: { empty: 2, steps: 4 },
    tools: {
      note: tool({
        description: "Notes.",
        input: z.strictObject({}),
        run: (context) => {
          count(context, "notes");
          count(context, "user:notes");
          if (isChanged) count(context, "notes");
          return { notes: Number(context.state["notes"]) };
        },
      }),
      draw: tool({
        description: "Draws a number.",
        run: ({ state, random, now }) => {
          Object.assign(state, { luck: [random(), now()], "app:drawn": true });
          return { drawn: true };
        },
      }),
      gather: tool({
        description: "Gathers.",
        concurrent: true,
        run: async ({ update, call: id }) => {
          await new Promise((resolve) => setImmediate(resolve));
          update((state) => void (state[`gathered ${id}`] = true));
          return { gathered: id ?? "" };
        },
      }),
      send: tool({
        description: "Sends.",
        effects: "external",
        run: async ({ update, call: id }) => {
          await effect(`office ${id}`);
          update((state) => void (state[`sent ${id}`] = true));
          return "sent";
        },
      }),
      fail: tool({
        description: "Fails.",
        input: z.object({ mend: z.boolean().optional() }),
        run: ({ state }) => {
          state["notes"] = -1;
          throw new Error("the pencil broke");
        },
      }),
      blocked: tool({ description: "Never runs.", run: () => "ran" }),
      helper: defineAgent({
        name: "helper",
        model: scriptedModel((request) => (asked(request).results === 0 ? { calls: [call("help")] } : "Helped.")),
        tools: { help: tool({ description: "Helps.", run: (context) => count(context, "helped") }) },
      }),
    },
    agents: [
      defineAgent({
        name: "specialist",
        model: scriptedModel((request) =>
          asked(request).said === "clerk"
            ? { calls: [call("transfer_to_agent", { agent: "clerk" })] }
            : `The specialist: ${asked(request).said}.`,
        ),
      }),
    ],
    callbacks: {
      beforeAgent(context) {
        count(context, "begun");
        count(context, "user:visits");
        return context.state["temp:canned"] === undefined ? undefined : "A canned answer.";
      },
      beforeModel(context) {
        count(context, "asked");
        return context.state["temp:skip"] === undefined ? undefined : "The model was skipped.";
      },
      afterModel(context, { output }) {
        count(context, "answered");
        return answerText(output) === "Done: note." ? "Noted." : undefined;
      },
      beforeTool({ state }, { tool: name, call: id }) {
        state[`before ${id}`] = name;
        return name === "blocked" ? { refused: true } : undefined;
      },
      afterTool({ state }, { tool: name, call: id, output }) {
        state[`after ${id}`] = name;
        return name === "gather" ? { ...Object(output), checked: true } : undefined;
      },
      onModelError: (_, error) => (error.message.includes("mend") ? "Mended." : undefined),
      onToolError: (_, error, { input }) =>
        "mend" in Object(input) ? { mended: error.message.includes("pencil") } : undefined,
      afterAgent(context) {
        count(context, "ended");
        context.state["app:used"] = true;
        return context.state["topic"] === "farewell" ? "Goodbye." : undefined;
      },
    },
  });
}

/** A sequence of two parallel agents and a loop that a tool ends. */
function defineCrew({ defineAgent, loop, parallel, scriptedModel, sequence, tool }: typeof Holdfast): Agent {
  const writer = (name: string) =>
    defineAgent({
      name,
      model: scriptedModel((request) =>
        hasResult(request) ? `${name} is done.` : { calls: [call("write", { by: name })] },
      ),
      tools: {
        write: tool({
          description: "Writes.",
          input: z.object({ by: z.string() }),
          run: ({ state }, { by }) => void (state[`written ${by}`] = Number(state[`written ${by}`] ?? 0) + 1),
        }),
      },
    });
  const stepper = defineAgent({
    name: "stepper",
    model: scriptedModel((request) => (hasResult(request) ? "One step." : { calls: [call("step")] })),
    tools: {
      step: tool({
        description: "Steps.",
        run: ({ state, agent }) => {
          state["steps"] = Number(state["steps"] ?? 0) + 1;
          if (Number(state["steps"]) % 2 === 0) agent?.escalate();
          return { steps: Number(state["steps"]) };
        },
      }),
    },
  });
  return sequence({
    name: "crew",
    agents: [
      parallel({ name: "pair", agents: [writer("left"), writer("right")] }),
      loop({ name: "rounds", times: 3, agents: [stepper] }),
    ],
    callbacks: { beforeAgent: ({ state }) => void (state["shifts"] = Number(state["shifts"] ?? 0) + 1) },
  });
}

/** Calls the ledger as often as it is told to. */
function defineDesk({ defineAgent, environmentTools, scriptedModel }: typeof Holdfast, episodes: Sessions): Agent {
  return defineAgent({
    name: "desk",
    model: scriptedModel((request) => {
      const { said, results } = asked(request);
      const amounts = said.match(/\d+/g) ?? [];
      return results === 0 ? { calls: amounts.map((n) => call("add", { n: Number(n) })) } : "Added.";
    }),
    toolsets: [environmentTools(episodes)],
  });
}
