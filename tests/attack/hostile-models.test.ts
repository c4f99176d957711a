// Hostile models, on a store with faults: every rollout ends with the reward that its calls earned. Endless streams and
// silent servers are in tests/models/wire*.test.ts, and 700 calls of an agent's own tools in tests/agent/one-engine.test.ts.
import { createSessions, defineAgent, defineEnvironment, memoryStore, scriptedModel, tool, type Model } from "holdfast";
import { faultyStore } from "holdfast/testing";
import { expect, onTestFailed, test } from "vitest";
import { z } from "zod";
import { between, pick, randomStream, type Random } from "../../src/core/random.ts";
import type { Played } from "../../src/core/rollout.ts";
import { createPlayer } from "../../src/rollout/play/player.ts";
import { attacks, lasting, report } from "./size.ts";

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ height: z.number().default(0) }),
  task: z.object({ goal: z.number() }),
  tools: {
    stack: tool({
      description: "Stack.",
      input: z.strictObject({ n: z.number().int() }),
      run: ({ state }, { n }) => ({ height: (state.height += n) }),
    }),
  },
  verify: ({ state, task }) => Number(state.height === task.goal),
});

const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;

/** Calls that must change nothing. */
const useless: { name: string; arguments: string }[] = [
  { name: "stack", arguments: "" },
  { name: "stack", arguments: "{" },
  { name: "stack", arguments: "null" },
  { name: "stack", arguments: nested(100_000) },
  { name: "stack", arguments: `{"n":${nested(600)}}` },
  { name: "stack", arguments: '{"n":1e999}' },
  { name: "stack", arguments: '{"n":1,"__proto__":{"n":2},"x":3}' },
  { name: "stack", arguments: `{"n":"${"x".repeat(100_000)}"}` },
  { name: "stack", arguments: '{"n":"\\ud800"}' },
  { name: "__proto__", arguments: "{}" },
  { name: "constructor", arguments: "{}" },
  { name: "verify", arguments: "{}" },
  { name: "", arguments: "{}" },
  { name: "x".repeat(10_000), arguments: "{}" },
];

/** A model's answers, the sum that they stack, and the number of their calls. */
function hostileAnswers(random: Random): { answers: unknown[]; goal: number; calls: number } {
  let [goal, calls] = [0, 0];
  const answers = Array.from({ length: between(random, 1, 3) }, () => {
    const count = pick(random, [1, 5, 70, 700]);
    const made = Array.from({ length: count }, () => {
      calls++;
      if (random() < 0.3) return pick(random, useless);
      const n = between(random, 1, 9);
      goal += n;
      return { name: "stack", arguments: { n } };
    });
    return { calls: made };
  });
  return { answers: [...answers, "Done."], goal, calls };
}

/** Codes of failures that no model may read. */
const ours = /"(session_crowded|session_busy|store_\w+|internal|too_busy|engine_stopped|version_conflict)"/;

test(
  "SCORED: rollouts of hostile models on a store with faults get the reward that they earned",
  lasting(90),
  async () => {
    const seed = Math.floor(Math.random() * 1e9);
    onTestFailed(() => console.log(`seed ${seed}`));
    const random = randomStream(seed, 0);
    const counts = { rollouts: 0, calls: 0, faults: 0, "failed attempts": 0 };
    for (; counts.rollouts < attacks(300); counts.rollouts++) {
      const { answers, goal, calls } = hostileAnswers(random);
      counts.calls += calls;
      const store = faultyStore(memoryStore(), { seed: seed + counts.rollouts, rate: 0.3 / calls, delay: 3 });
      const model: Model = scriptedModel(answers as never);
      const row = { goal, responses_create_params: { input: "Stack." }, _ng_task_index: 0 };
      let played: Played | undefined;
      for (let attempt = 0; played?.outcome !== "scored" && attempt < 50; attempt++) {
        const sessions = createSessions({ app: "rollouts", store });
        const episodes = createSessions({ environment: pile, store });
        const play = createPlayer({ sessions, episodes, agentFor: () => defineAgent({ name: "player", model }) });
        // Every second attempt resumes the one before.
        const session = `rollout-0-0-${Math.floor(attempt / 2)}`;
        const rollout = { row, task: 0, repeat: 0, attempt, session, random: 1 };
        played = await play(rollout, new AbortController().signal);
        await Promise.all([sessions.stop(), episodes.stop()]);
        if (played.outcome === "failed") {
          counts["failed attempts"]++;
          expect(played.failure).toMatchObject({
            kind: "store",
            reason: expect.stringMatching(/injected a fault/),
          });
          expect(played.fields).not.toHaveProperty("reward");
        }
      }
      counts.faults += store.injected;
      expect(played).toMatchObject({ fields: { reward: 1 } });
      expect(JSON.stringify(played?.fields["response"])).not.toMatch(ours);
      await store.close();
    }
    report("hostile models", counts);
  },
);
