// An agent that adds 1 in each turn, and then takes its time to say so. Asked to locate, it also calls a tool of the client.
import { setTimeout as delay } from "node:timers/promises";
import { defineAgent, scriptedModel, tool } from "holdfast";

export default defineAgent({
  name: "slow",
  model: scriptedModel(async ({ input }) => {
    const last = input.at(-1);
    if (last?.["content"] === "locate") return { calls: [{ name: "add" }, { name: "locate" }, { name: "locate" }] };
    if (last?.type === "message") return { calls: [{ name: "add", arguments: {} }] };
    await delay(Number(process.env["SLOW_MS"] ?? 0));
    const outputs = input.flatMap((item) => (item.type === "function_call_output" ? [String(item["output"])] : []));
    const isLocating = input.findLast(({ type }) => type === "message")?.["content"] === "locate";
    return isLocating ? `Got ${outputs.slice(-3).join(", ")}.` : "Added one.";
  }),
  tools: {
    add: tool({ description: "Adds 1.", run: ({ state }) => (state["count"] = (state["count"] ?? 0) + 1) }),
  },
});
