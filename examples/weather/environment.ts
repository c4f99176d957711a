// Weather: a stateless environment with one tool. The score comes from the calls in the log.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";

const forecasts = new Map([
  ["Athens", { sky: "clear", celsius: 27 }],
  ["Bergen", { sky: "rain", celsius: 9 }],
  ["Cairo", { sky: "clear", celsius: 33 }],
  ["Dakar", { sky: "haze", celsius: 29 }],
  ["Edinburgh", { sky: "clouds", celsius: 12 }],
  ["Lima", { sky: "fog", celsius: 18 }],
  ["Nairobi", { sky: "clouds", celsius: 22 }],
  ["Oslo", { sky: "snow", celsius: -2 }],
  ["Perth", { sky: "clear", celsius: 24 }],
  ["Quito", { sky: "rain", celsius: 15 }],
]);

export default defineEnvironment({
  name: "weather",
  description: "Tells the weather in a city.",
  // The task fields of a row in tasks.jsonl. The schema omits the prompt and the other fields for the agent.
  task: z.object({ cities: z.array(z.string()).min(1) }),
  tools: {
    get_weather: tool({
      description: "The weather in a city, today.",
      input: z.object({ city: z.string().describe("The name of the city, in English.") }),
      run: (_, { city }) => {
        const forecast = forecasts.get(city);
        // The model reads this message, so it names the valid input.
        if (!forecast) throw refuse(`no forecast for "${city}"; there is one for ${[...forecasts.keys()].join(", ")}`);
        return { city, ...forecast };
      },
    }),
  },
  // 1 if the agent asked for the weather in every city of the task, and in no other.
  verify: async ({ task, events, response }) => {
    const asked = new Set<string>();
    for (const event of await events()) {
      // A seed starts a new episode: earlier calls belong to another one.
      if (event.type === "session.seeded") asked.clear();
      if (event.type === "tool.called" && event.outcome.ok) asked.add((event.input as { city: string }).city);
    }
    for (const city of citiesIn(response)) if (forecasts.has(city)) asked.add(city);
    return Number(asked.size === task.cities.length && task.cities.every((city) => asked.has(city)));
  },
});

/** The cities of the calls in an agent's response. An old rollout that is scored again has a response, but no log. */
function citiesIn(response: unknown): string[] {
  const calls = z.object({ output: z.array(z.object({ type: z.string(), arguments: z.string().optional() })) });
  const { output } = calls.safeParse(response).data ?? { output: [] };
  return output.flatMap(({ type, arguments: text = "{}" }) => {
    const city = type === "function_call" ? /"city"\s*:\s*"([^"]*)"/.exec(text)?.[1] : undefined;
    return city ?? [];
  });
}
