// Counter agent: plays the counter environment. Its tools are the environment's, and each conversation is an episode.
import { createSessions, defineAgent, environmentTools, memoryStore, scriptedModel, type Item } from "holdfast";
import counter from "../counter/environment.ts";

/**
 * The episodes, in memory. With sqliteStore({ file: "counter.db" }), they survive the end of the process.
 */
export const episodes = createSessions({ environment: counter, store: memoryStore() });

export default defineAgent({
  name: "counter_agent",
  description: "Adds to a counter, and tells its value.",
  instruction: "Add to the counter what the user asks for, one call for each number, then read it and tell its value.",
  // No key, no network. `--model openai:NAME` uses a real model.
  model: scriptedModel(({ input }) => {
    const asked = input.findLastIndex((item) => item.type === "message" && item["role"] === "user");
    const since = input.slice(asked + 1).filter(({ type }) => type === "function_call_output");
    const numbers = textOf(input[asked]).match(/-?\d+/g) ?? [];
    if (since.length === 0 && numbers.length > 0) {
      return { calls: numbers.map((n) => ({ name: "increment_counter", arguments: { count: Number(n) } })) };
    }
    const value = /"count":(-?\d+)/.exec(String(since.at(-1)?.["output"]))?.[1];
    return value === undefined ? { calls: [{ name: "get_counter_value" }] } : `The counter is at ${value}.`;
  }),
  // The first call opens an episode, seeded with `task` of the conversation's state.
  // A call is applied once, even if the process dies: a resumed run gets the recorded answer.
  toolsets: [environmentTools(episodes)],
  callbacks: {
    async afterAgent({ state }) {
      const episode = state["environment:counter"] as string | undefined;
      if (episode === undefined || !("task" in state)) return;
      state["reward"] = (await episodes.verify(episode)).reward;
    },
  },
});

function textOf(item: Item | undefined): string {
  return typeof item?.["content"] === "string" ? item["content"] : JSON.stringify(item?.["content"] ?? "");
}
