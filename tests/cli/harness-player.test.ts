// The player of harnesses, with a server of the test: failures that are not the model's are not scored.
import { createSessions, HoldfastError, memoryStore, scriptedModel } from "holdfast";
import type { ModelRequest, Sessions, Store } from "holdfast";
import { expect, test } from "vitest";
import { createHarnessPlayer } from "../../src/rollout/harness/player.ts";
import { counter } from "../protocols/proxy-client.ts";

const rollout = {
  task: 0,
  repeat: 0,
  attempt: 0,
  random: 1,
  session: "one",
  row: { responses_create_params: { input: "Count." }, goal: 2 },
};

interface Options {
  /** How often a call fails, because the store is busy. */
  busy?: number;
  /** How often the call is sent. */
  calls?: number;
  /** How often the model is asked. */
  asks?: number;
  limits?: { tokens?: number; cost?: number };
  store?: Store;
}

async function play({ busy = 0, calls = 0, asks = 1, limits = {}, store = memoryStore() }: Options) {
  const sessions: Sessions = createSessions({ environment: counter, store });
  const call: Sessions["call"] = (...given) =>
    busy-- > 0 ? Promise.reject(new HoldfastError("store_busy", "it is locked")) : sessions.call(...given);
  const { play: player } = createHarnessPlayer({
    harness: "sleep 0.5",
    episodes: { ...sessions, call },
    store,
    limits,
    modelFor: () => scriptedModel(() => ({ calls: [{ name: "add", arguments: { by: 2 } }] })),
    server: async ({ sessions: served, modelFor }) => ({
      address(session) {
        const { model, limits } = modelFor(session)!;
        const options = { model: model.name, respond: (asked: ModelRequest) => model.respond(asked), limits };
        const ask = () => served.askModel(session, { input: [] }, options).catch(() => undefined);
        void Array.from({ length: asks }).reduce<Promise<unknown>>((before) => before.then(ask), Promise.resolve());
        for (let sent = 0; sent < calls; sent++)
          served.call(session, "add", { by: 2 }, { call: "c1" }).catch(() => undefined);
        return { mcp: "none", model: "none", key: "none" };
      },
      close: () => Promise.resolve(),
    }),
  });
  return player(rollout, new AbortController().signal);
}

test("SCORED: a call that the store failed has no reward, unless a later attempt succeeded", async () => {
  expect(await play({ busy: 1, calls: 1 })).toMatchObject({
    outcome: "failed",
    failure: { kind: "store", reason: "it is locked" },
  });
  expect(await play({ busy: 1, calls: 2 })).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
});

test("SCORED: an episode without an answer of the model has no reward, also at a limit", async () => {
  expect(await play({ limits: { cost: 0 } })).toMatchObject({ outcome: "failed", failure: { kind: "agent" } });
});

test("RESUME: an episode that was played has the limit that stopped it", async () => {
  const store = memoryStore();
  const first = await play({ asks: 2, limits: { tokens: 1 }, store });
  expect(first).toMatchObject({ outcome: "scored", stopped: "tokens" });
  expect(await play({ limits: { tokens: 1 }, store })).toEqual(first);
});
