// The model that plays a solution: its calls and its final message.
import { expect, test } from "vitest";
import { solutionModel } from "../../src/rollout/solution-model.ts";
import { answerText, isFunctionCall, type Item } from "../../src/core/model.ts";

const row = { goal: 3, responses_create_params: { input: "Count to 3." } };
const said: Item = { type: "message", role: "user", content: "Count to 3." };

async function played(solution: Parameters<typeof solutionModel>[0]): Promise<string> {
  const model = solutionModel(solution, row);
  const { output } = await model.respond({ input: [said] });
  const call = output.find(isFunctionCall);
  if (!call) return answerText(output);
  const result: Item = { type: "function_call_output", call_id: call.call_id, output: '{"count":3}' };
  return answerText((await model.respond({ input: [said, ...output, result] })).output);
}

test("the return value of a solution is its last answer, made from the outputs of its calls", async () => {
  const solution = function* ({ goal }: { goal: number }) {
    const [value] = (yield [{ tool: "add", input: { by: goal } }]) as [{ count: number }];
    return `It is ${value.count}.`;
  };
  expect(await played(solution)).toBe("It is 3.");
});

test("a solution that returns nothing, or is a list, ends with a word", async () => {
  expect(await played(() => [{ tool: "add", input: { by: 3 } }])).toBe("Done.");
  expect(await played(() => [])).toBe("Done.");
});
