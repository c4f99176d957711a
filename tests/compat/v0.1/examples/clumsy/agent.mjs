// Plays the counter. Where the task is to add 12 its model fails, until MENDED is set.
import { defineAgent, scriptedModel } from "holdfast";

export default defineAgent({
  name: "clumsy",
  model: scriptedModel(({ input }) => {
    const said = JSON.stringify(input[0].content);
    if (said.includes("12") && !process.env.MENDED) throw new Error("no GPU");
    const results = input.filter(({ type }) => type === "function_call_output").length;
    const numbers = (said.match(/-?\d+/g) ?? []).map(Number);
    if (results > 0) return "Done.";
    return { calls: numbers.map((count) => ({ name: "increment_counter", arguments: { count } })) };
  }),
});
