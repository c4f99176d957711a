// A stateful environment: a thermostat. The state of an episode is one temperature, and it holds from call to call.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";

const [coldest, warmest] = [10, 30];
const degrees = z.int().min(1).max(5).describe("By how many degrees, at most 5 at a time.");

export default defineEnvironment({
  name: "NAME",
  description: "A thermostat that a model turns up and down.",
  // The state that an episode keeps from call to call. An unseeded session has the defaults.
  state: z.object({ celsius: z.int().default(20) }),
  // One row of tasks.jsonl. The prompt and all else that is in a row is for the agent, and is left out here.
  task: z.object({ start: z.int().min(coldest).max(warmest), goal: z.int().min(coldest).max(warmest) }),
  seed: ({ task }) => ({ celsius: task.start }),
  tools: {
    read: tool({ description: "The temperature that is set.", run: ({ state }) => ({ celsius: state.celsius }) }),
    turn_up: tool({
      description: "Make it warmer.",
      input: z.object({ degrees }),
      // `state` is a draft: assign to it. The model reads the returned value.
      run: ({ state }, { degrees }) => {
        // The model reads this message, so it says what would be right. Nothing has changed.
        if (state.celsius + degrees > warmest) throw refuse(`it goes up to ${warmest}, and is at ${state.celsius}`);
        state.celsius += degrees;
        return { celsius: state.celsius };
      },
    }),
    turn_down: tool({
      description: "Make it colder.",
      input: z.object({ degrees }),
      run: ({ state }, { degrees }) => {
        if (state.celsius - degrees < coldest) throw refuse(`it goes down to ${coldest}, and is at ${state.celsius}`);
        state.celsius -= degrees;
        return { celsius: state.celsius };
      },
    }),
  },
  // Cannot write. Besides the reward, numbers that you want to see in the metrics.
  verify: ({ state, task }) => ({
    reward: Number(state.celsius === task.goal),
    degrees_off: Math.abs(state.celsius - task.goal),
  }),
});
