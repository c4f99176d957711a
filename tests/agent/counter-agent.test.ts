// examples/counter-agent plays the counter environment, and wins.
import { createSessions, memoryStore } from "holdfast";
import { expect, test } from "vitest";
import agent, { episodes } from "../../examples/counter-agent/agent.ts";
import input from "../../examples/counter-agent/input.json" with { type: "json" };
import { finish } from "./engine.ts";

test("the counter agent earns 1 with the queries of its input, in one episode", async () => {
  const sessions = createSessions({ app: "counter", store: memoryStore() });
  const { session } = await sessions.open({ state: input.state });
  const rewards: unknown[] = [];
  for (const message of input.queries) {
    await finish(agent, { sessions, session, message });
    const { reward } = await sessions.state(session);
    rewards.push(reward);
  }
  expect(rewards).toEqual([0, 1]);
  const { "environment:counter": episode } = await sessions.state(session);
  expect(await episodes.verify(episode as string)).toMatchObject({ reward: 1, reseeds: 0 });
  expect(await episodes.replay(episode as string)).toMatchObject({ same: true });
  const { version } = await sessions.info(session);
  expect(await sessions.replay(session, { agent })).toEqual({ same: true, events: version });
});
