// The agents of a collection: what their models see of a rollout.
import { expect, test } from "vitest";
import type { Model } from "../../src/core/model.ts";
import type { Rollout } from "../../src/core/rollout.ts";
import { createAgents } from "../../src/rollout/agents.ts";

test("the random model plays every attempt of a rollout alike, and repeats differently", async () => {
  const { of } = await createAgents(undefined, {
    agent: undefined,
    model: "random",
    seed: 1,
    maxSteps: undefined,
  } as never);
  const answer = async (repeat: number, attempt: number): Promise<string> => {
    const agent = of({ task: 0, repeat, attempt, row: {} } as unknown as Rollout) as { model: Model };
    const input = [{ type: "message", role: "user", content: "go" } as const];
    const tools = Array.from(
      { length: 50 },
      (_, n) => ({ type: "function", name: `tool_${n}`, parameters: {} }) as const,
    );
    const { output } = await agent.model.respond({ model: "", input, tools } as never, {});
    return JSON.stringify(output);
  };
  expect(await answer(0, 1)).toBe(await answer(0, 0));
  expect(await answer(0, 2)).toBe(await answer(0, 0));
  expect(await answer(1, 0)).not.toBe(await answer(0, 0));
});
