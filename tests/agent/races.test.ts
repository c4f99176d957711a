// Turns, rewinds, updates and forks race in two engines whose store fails now and then. Whatever order comes out, no
// effect happens twice and the conversation and its forks replay as recorded.
import { setTimeout as delay } from "node:timers/promises";
import {
  createSessions,
  defineAgent,
  isHoldfastError,
  memoryStore,
  parallel,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type Conversations,
} from "holdfast";
import { faultyStore } from "holdfast/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { runs } from "../runs.ts";
import { finish } from "./engine.ts";

/** A pause of random length, because the order in which things happen is what this tests. */
const shortly = (most: number): Promise<void> => delay(Math.random() * most);

function payers(effects: Map<string, number>): Agent {
  const count = (n = 0): number => n + 1;
  const payer = (name: string): Agent =>
    defineAgent({
      name,
      model: scriptedModel(async ({ input }) => {
        await shortly(4);
        if (input.at(-1)?.type === "function_call_output") return `${name} paid.`;
        const id = `${name} ${Math.random()}`;
        return { calls: [{ name: "count" }, { name: "aside" }, { name: "pay", arguments: { id } }] };
      }),
      tools: {
        count: tool({ description: "Counts.", run: ({ update }) => update("n", count) }),
        aside: tool({
          description: "Counts slowly.",
          concurrent: true,
          run: async ({ update }) => {
            await shortly(2);
            update("n" as never, count as never);
          },
        }),
        pay: tool({
          description: "Pays.",
          effects: "external",
          input: z.object({ id: z.string() }),
          run: (_, { id }) => void effects.set(id, (effects.get(id) ?? 0) + 1),
        }),
      },
    });
  const atOnce = parallel({ name: "at_once", agents: ["a", "b", "c"].map(payer) });
  return sequence({ name: "all", agents: [atOnce, payer("d")] });
}

test("ONCE, REPLAY: turns, rewinds, updates and forks that race do nothing twice and replay as recorded", async () => {
  const expected = ["session_busy", "call_conflict", "call_undone", "turn_lost", "store_failed", "store_busy"];
  let worked = 0;
  for (let round = 0; round < runs(12); round++) {
    const effects = new Map<string, number>();
    const agent = payers(effects);
    const store = memoryStore();
    const calm = createSessions({ app: "app", agent, store, lease: 120 });
    const faulty = [1, 2].map((seed) => faultyStore(store, { seed: round + seed, rate: 0.05 * (round % 2), delay: 3 }));
    const engines = faulty.map((store) => createSessions({ app: "app", agent, store, lease: 120 }));
    const { session } = await calm.open();
    const act = async (index: number): Promise<void> => {
      await shortly(60);
      const sessions = engines[index % 2] as Conversations;
      const { version } = await calm.info(session);
      const to = 1 + Math.floor(Math.random() * version);
      const kind = index % 5;
      // Every message is sent under one id by two engines.
      if (kind < 2) {
        const { events } = await finish(agent, { sessions, session, message: "pay", call: `m${index >> 1}` });
        const versions = events.flatMap((event) => ("version" in event ? [event.version] : []));
        expect(new Set(versions).size).toBe(versions.length);
      }
      if (kind === 2) await sessions.rewind(session, to);
      if (kind === 3) await sessions.update(session, (state) => void (state["u"] = (state["u"] ?? 0) + 1));
      else
        expect(await calm.replay((await sessions.fork(session, { version: to })).session)).toMatchObject({
          same: true,
        });
      worked++;
    };
    const acts = await Promise.allSettled(Array.from({ length: 14 }, (_, index) => act(index)));
    for (const ended of acts) {
      if (ended.status === "fulfilled") continue;
      if (!isHoldfastError(ended.reason)) throw ended.reason;
      expect(expected).toContain(ended.reason.code);
    }
    for (const store of faulty) await store.heal();
    if ((await calm.info(session)).turn) await finish(agent, { sessions: calm, session, busy: "wait" });
    expect(await calm.replay(session), `round ${round}`).toMatchObject({ same: true });
    expect([...effects.values()].filter((times) => times > 1)).toEqual([]);
    await Promise.all([calm, ...engines].map((sessions) => sessions.stop()));
  }
  expect(worked).toBeGreaterThan(runs(12));
});
