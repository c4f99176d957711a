// Prints tasks.jsonl. From the root: npx jiti examples/weather/generate.ts
import { z } from "zod";
import environment from "./environment.ts";

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema(input as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const tasks = [
  ["Oslo"],
  ["Cairo"],
  ["Lima"],
  ["Perth", "Quito"],
  ["Athens", "Dakar"],
  ["Bergen", "Edinburgh", "Nairobi"],
  ["Athens", "Cairo", "Dakar", "Lima", "Quito"],
];
for (const cities of tasks) {
  const content = `What is the weather like in ${new Intl.ListFormat("en").format(cities)}?`;
  console.log(JSON.stringify({ responses_create_params: { input: [{ role: "user", content }], tools }, cities }));
}
