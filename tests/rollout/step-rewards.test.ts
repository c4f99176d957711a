// The rewards at every version of a forked episode: each version is judged once.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Play, Rollout, TaskRow } from "../../src/core/rollout.ts";
import { withStepRewards } from "../../src/rollout/play/step-rewards.ts";

/** Forks an episode of 10 calls, 8 times. Each continuation has one call. `judged` lists the states that were judged. */
async function forked() {
  const judged: number[] = [];
  const environment = defineEnvironment({
    name: "count",
    state: z.object({ n: z.number() }),
    seed: () => ({ n: 0 }),
    tools: { add: tool({ description: "Add.", run: ({ state }) => (state.n += 1) }) },
    verify: ({ state }) => (judged.push(state.n), state.n),
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  onTestFinished(() => sessions.stop());
  const { session: parent } = await sessions.open({ task: {} });
  const add = (session: string) => sessions.call(session, "add", {});
  for (let n = 0; n < 10; n++) await add(parent);
  const { version } = await sessions.info(parent);
  const forks: string[] = [];
  for (let way = 0; way < 8; way++) {
    const { session } = await sessions.fork(parent, { version });
    await add(session);
    forks.push(session);
  }
  const scored: Play = async ({ session }) => ({ outcome: "scored", fields: {}, session });
  const play = withStepRewards(sessions, scored);
  const playFork = (session: string, signal = new AbortController().signal) => play({ session } as Rollout, signal);
  return { judged, parent, forks, add, playFork };
}

/** The states after each of the 10 shared calls, and the state after a continuation's own call. */
const states = Array.from({ length: 12 }, (_, n) => n);

test("the calls before a fork are judged once for all continuations", async () => {
  const { judged, forks, playFork } = await forked();
  const played = await Promise.all(forks.map((session) => playFork(session)));
  played.push(await playFork(forks[0]!));
  for (const { fields } of played) {
    expect((fields["step_rewards"] as TaskRow[]).map(({ reward }) => reward)).toEqual(states);
  }
  expect(judged.filter((n) => n < 10)).toEqual(states.slice(0, 10));
});

test("a call of the parent after the fork is not in a continuation's step rewards", async () => {
  const { parent, forks, add, playFork } = await forked();
  await add(parent);
  const { fields } = await playFork(forks[0]!);
  expect((fields["step_rewards"] as TaskRow[]).map(({ reward }) => reward)).toEqual(states);
});

test("a cancelled continuation does not cancel the others that wait for the same calls to be judged", async () => {
  const { forks, playFork } = await forked();
  const stopping = new AbortController();
  const [cancelled, other] = [playFork(forks[0]!, stopping.signal), playFork(forks[1]!)];
  stopping.abort();
  expect(await cancelled).toMatchObject({ outcome: "failed" });
  expect(await other).toMatchObject({ outcome: "scored" });
});
