// Stores that fail: calls with ids are retried until they are answered. Nothing is lost, doubled or scored wrongly.
// tests/e2e/store-faults-*.test.ts stops, pauses and fills real servers under load.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, isHoldfastError, tool, type Sessions, type Store } from "holdfast";
import { postgresStore } from "holdfast/stores/postgres";
import { redisStore } from "holdfast/stores/redis";
import { faultProxy, faultyStore } from "holdfast/testing";
import { expect, onTestFailed, onTestFinished, test } from "vitest";
import { z } from "zod";
import { between, chance, pick, randomStream, type Random } from "../../src/core/random.ts";
import { dropSchema } from "../../tools/servers/postgres.mjs";
import { removePrefix } from "../../tools/servers/redis.mjs";
import { everyStore } from "../every-store.ts";
import { shared } from "../shared.ts";
import { attacks, lasting, report } from "./size.ts";

/** How often the external tool has run, by call. */
const effects = new Map<string, number>();
const input = z.object({ by: z.number().int() });

const ledger = defineEnvironment({
  name: "ledger",
  state: z.object({ total: z.number().default(0), seen: z.array(z.number()).default([]) }),
  task: z.object({ goal: z.number().int() }),
  tools: {
    add: tool({
      description: "Add to the total.",
      input,
      run: ({ state }, { by }) => {
        state.total += by;
        state.seen.push(by);
        return { by };
      },
    }),
    gather: tool({
      description: "Add to the total beside other calls.",
      input,
      concurrent: true,
      run: async ({ update }, { by }) => {
        await sleep(1);
        update((draft) => {
          draft.total += by;
          draft.seen.push(by);
        });
        return { by };
      },
    }),
    pay: tool({
      description: "Have an effect outside, then add to the total.",
      input,
      effects: "external",
      timeout: 400,
      run: ({ call = "", update }, { by }) => {
        effects.set(call, (effects.get(call) ?? 0) + 1);
        update((draft) => {
          draft.total += by;
          draft.seen.push(by);
        });
        return { by };
      },
    }),
  },
  verify: ({ state, task }) => Number(state.total === task.goal),
});

type Engine = Sessions<typeof ledger>;

/** Codes after which the same request is to be sent again. */
const passing = new Set(["store_busy", "store_failed", "version_conflict", "call_in_progress"]);

interface Counts {
  calls: number;
  retries: number;
  unknown: number;
}

/** Sends a request until it is answered, each time at a random engine. */
async function answered<T>(random: Random, engines: Engine[], counts: Counts, send: (engine: Engine) => Promise<T>) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      return await send(pick(random, engines) as Engine);
    } catch (thrown) {
      if (!isHoldfastError(thrown) || !passing.has(thrown.code) || Date.now() > deadline) throw thrown;
      counts.retries++;
      // The claim of an external call has to run out.
      await sleep(between(random, 0, thrown.code === "call_in_progress" ? 100 : 5));
    }
  }
}

interface Made {
  tool: string;
  call: string;
  by: number;
  isApplied: boolean;
}

/** Opens sessions, runs random calls of several clients on each, and compares answers, log, state and reward. */
async function attack(engines: Engine[], random: Random, calls: number, counts: Counts): Promise<void> {
  const session = `s${Math.floor(random() * 1e15)}`;
  const made: Made[] = [];
  const [clients, each] = [between(random, 1, 4), calls];
  const plan = Array.from({ length: clients * each }, (_, n) => ({
    tool: pick(random, ["add", "gather", "pay"] as const),
    call: `${session}-${n}`,
    by: n + 1,
    isRepeated: chance(random, 0.2),
  }));
  const goal = plan.reduce((sum, { by }) => sum + by, 0);
  await answered(random, engines, counts, (engine) => engine.open({ session, task: { goal } })).catch(
    (thrown: { code: string }) => {
      // The first try was stored, and its answer was lost.
      if (thrown.code !== "session_exists") throw thrown;
    },
  );
  const run = async (client: number): Promise<void> => {
    for (let n = client; n < plan.length; n += clients) {
      const { tool, call, by, isRepeated } = plan[n] as (typeof plan)[0];
      const send = () => answered(random, engines, counts, (engine) => engine.call(session, tool, { by }, { call }));
      const [first, repeat] = await Promise.all([send(), isRepeated ? send() : undefined]);
      counts.calls++;
      if (first.ok) expect(first.output).toEqual({ by });
      else {
        expect(first).toMatchObject({ error: { code: "outcome_unknown" } });
        expect(tool).toBe("pay");
        counts.unknown++;
      }
      if (repeat) expect(repeat).toMatchObject({ ok: first.ok, version: first.version });
      made.push({ tool, call, by, isApplied: first.ok });
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => run(client)));

  const applied = made.filter(({ isApplied }) => isApplied);
  const total = applied.reduce((sum, { by }) => sum + by, 0);
  // A wrong state would be a wrong reward.
  const { reward } = await answered(random, engines, counts, (engine) => engine.verify(session));
  expect(reward).toBe(Number(total === goal));
  for (const engine of engines) {
    const state = await answered(random, [engine], counts, (one) => one.state(session));
    expect(state.total).toBe(total);
    expect([...state.seen].sort((a, b) => a - b)).toEqual(applied.map(({ by }) => by).sort((a, b) => a - b));
  }
  for (const { tool, call, isApplied } of made) {
    const times = effects.get(call) ?? 0;
    // An unknown outcome is one effect or none.
    if (tool === "pay" && !isApplied) expect(times).toBeLessThanOrEqual(1);
    else expect(times).toBe(Number(tool === "pay"));
    effects.delete(call);
  }
}

/** Attacks until enough faults were injected. */
async function attackUntil(part: string, stores: Store[], faults: { injected(): number; most: number; seed: number }) {
  const engines = stores.map((store) => createSessions({ environment: ledger, store }));
  onTestFinished(async () => void (await Promise.all(engines.map((engine) => engine.stop()))));
  onTestFailed(() => console.log(`seed ${faults.seed}`));
  const random = randomStream(faults.seed, 1);
  const counts: Counts = { calls: 0, retries: 0, unknown: 0 };
  while (faults.injected() < faults.most) {
    await Promise.all(Array.from({ length: 4 }, () => attack(engines, random, 6, counts)));
  }
  report(part, { faults: faults.injected(), ...counts });
}

const seed = Math.floor(Math.random() * 1e9);

for (const kind of everyStore.filter(({ name }) => !/power|http/.test(name))) {
  test(`ONCE, SCORED: a store with faults loses and doubles nothing, on ${kind.name}`, lasting(60), async () => {
    const place = await kind.open();
    const stores = [place.store, await place.second()].map((store, at) => {
      return faultyStore(store, { seed: seed + at, rate: 0.25, delay: 10 });
    });
    onTestFinished(async () => {
      await Promise.all(stores.map((store) => store.heal()));
      await place.dispose();
    });
    const injected = (): number => stores.reduce((sum, store) => sum + store.injected, 0);
    await attackUntil(`faulty ${kind.name}`, stores, { injected, most: attacks(1_800), seed });
  });
}

const networks = [
  {
    name: "Redis",
    open: async (url: string, name: string) => redisStore({ url: `${url}?prefix=${name}` }),
    remove: async (name: string) => removePrefix([Number(new URL(await shared("redis")).port)], name),
    url: () => shared("redis"),
  },
  {
    name: "Postgres",
    open: async (url: string, name: string) => postgresStore({ url: `${url}?schema=${name}&connections=4` }),
    remove: async (name: string) => dropSchema(await shared("postgres"), name),
    url: () => shared("postgres"),
  },
];

for (const { name, open, remove, url } of networks) {
  test(`ONCE, SCORED: a network with faults loses and doubles nothing, on ${name}`, lasting(60), async () => {
    const prefix = `attack${Math.floor(Math.random() * 1e12)}`;
    const to = await url();
    // A silent connection costs a time limit of seconds, so it is rare.
    const proxies = await Promise.all(
      [0, 1].map((at) =>
        faultProxy({ to, seed: seed + at, rate: 0.03, faults: ["delayed", "split", "cutBefore", "cutAfter"] }),
      ),
    );
    const stores = await Promise.all(proxies.map((proxy) => open(proxy.url, prefix)));
    const plain = await open(to, prefix);
    const harm = setInterval(() => {
      const proxy = proxies[Math.floor(Math.random() * 2)] as (typeof proxies)[0];
      if (Math.random() < 0.5) return proxy.cut();
      proxy.pause();
      setTimeout(() => proxy.resume(), 200);
    }, 500);
    onTestFinished(async () => {
      clearInterval(harm);
      for (const proxy of proxies) proxy.heal();
      await Promise.all([...stores, plain].map((store) => store.close()));
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await remove(prefix);
    });
    const injected = (): number => proxies.reduce((sum, proxy) => sum + proxy.injected, 0);
    await attackUntil(`network of ${name}`, [...stores, plain], { injected, most: attacks(1_500), seed });
  });
}
