// An agent that keeps a shopping list. The list is the state of a conversation, and holds from turn to turn.
import { defineAgent, refuse, scriptedModel, tool } from "holdfast";
import { z } from "zod";
import { script } from "./script.ts";

/** The most items on a list. */
const most = 5;

export default defineAgent({
  name: "NAME",
  description: "Keeps a shopping list.",
  // {items?} is the key `items` of the state. With "?" it may be missing.
  instruction: "Keep the user's shopping list with the tools. The list is {items?}. Answer in one sentence.",
  // Answers by rules and needs no key. openaiModel, chatModel and anthropicModel ask a real model.
  model: scriptedModel(script),
  tools: {
    add_item: tool({
      description: "Put an item on the list.",
      input: z.object({ item: z.string().min(1), count: z.int().min(1).default(1) }),
      // `state` is a draft: assign to it. The model reads the returned value.
      run: ({ state }, { item, count }) => {
        state["items"] = { ...state["items"], [item]: (state["items"]?.[item] ?? 0) + count };
        return { item, count: state["items"][item] };
      },
    }),
    remove_item: tool({
      description: "Take an item off the list.",
      input: z.object({ item: z.string() }),
      run: ({ state }, { item }) => {
        // The model reads this message, so it says what would be right. Nothing has changed.
        const items = Object.keys(state["items"] ?? {});
        const listed = items.length === 0 ? "is empty" : `has: ${items.join(", ")}`;
        if (!items.includes(item)) throw refuse(`"${item}" is not on the list, which ${listed}`);
        delete state["items"][item];
        return { removed: item };
      },
    }),
  },
  callbacks: {
    // All conversations of a user share `user:` state.
    beforeAgent: ({ update }) => update("user:turns", (turns = 0) => turns + 1),
    // A returned value is the tool's result, and the tool does not run.
    beforeTool({ state }, { tool }) {
      const isFull = tool === "add_item" && Object.keys(state["items"] ?? {}).length >= most;
      return isFull ? { refused: `the list is full: it has ${most} items; remove one first` } : undefined;
    },
  },
});
