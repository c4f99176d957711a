// Leases: one process at a time runs a turn of a conversation, and another one continues a turn whose process is silent.
import { setTimeout as delay } from "node:timers/promises";
import {
  createSessions,
  defineAgent,
  scriptedModel,
  tool,
  type Agent,
  type Conversations,
  type RunOptions,
  type Store,
} from "holdfast";
import { describe, expect } from "vitest";
import { codeOf, finish, gate, logOf, onEveryStore, stepsOf, typesOf } from "./engine.ts";

interface Payer {
  agent: Agent;
  /** The turns that paid. */
  effects: string[];
}

/** Pays in each turn, by an external tool. `before` runs in `beforeTool`, `during` in the tool. */
function payer(hooks: { before?: () => unknown; during?: () => unknown } = {}): Payer {
  const effects: string[] = [];
  const agent = defineAgent({
    name: "payer",
    model: scriptedModel(({ input }) =>
      input.at(-1)?.type === "function_call_output" ? "Paid." : { calls: [{ name: "pay", arguments: {} }] },
    ),
    callbacks: {
      beforeTool: async () => {
        await hooks.before?.();
        return undefined;
      },
    },
    tools: {
      pay: tool({
        description: "Pays.",
        effects: "external",
        run: async ({ agent: by }) => {
          effects.push(by?.invocation ?? "");
          await hooks.during?.();
          return "paid";
        },
      }),
    },
  });
  return { agent, effects };
}

/** A store that can be paused, as if its process stood still. */
function pausable(store: Store): { store: Store; pause(): void; resume(): void } {
  let paused: ReturnType<typeof gate> | undefined;
  const wrapped = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const call = (...given: unknown[]): unknown => Reflect.apply(value, target, given);
      if (!["append", "read", "load", "find"].includes(String(name))) return call;
      return async (...given: unknown[]) => {
        await paused?.opened;
        return call(...given);
      };
    },
  });
  return {
    store: wrapped,
    pause: () => void (paused ??= gate()),
    resume() {
      paused?.open();
      paused = undefined;
    },
  };
}

const began = async (sessions: Conversations, session: string): Promise<number> =>
  (await logOf(sessions, session)).filter(({ type }) => type === "invocation.began").length;

describe("SERIAL: while a process runs a turn", () => {
  onEveryStore("a run of another process is refused before it begins, and the turn ends undisturbed", async (place) => {
    const [inside, done] = [gate(), gate()];
    const { agent, effects } = payer({
      during: async () => {
        inside.open();
        await done.opened;
      },
    });
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open();
    const first = finish(agent, { sessions: one, session, message: "pay 100", call: "m1" });
    await inside.opened;
    const rival = { sessions: two, session, message: "hello", call: "m2" };
    await expect(finish(agent, { ...rival, busy: "refuse" })).rejects.toMatchObject({
      code: "session_busy",
      detail: { lapsesIn: expect.any(Number) as number },
    });
    const { version } = await two.info(session);
    const refused = [
      two.rewind(session, 1),
      two.close(session),
      two.update(session, (state) => void (state["a"] = 1)),
      finish(agent, { sessions: two, session, busy: "refuse" }),
    ].map(codeOf);
    expect(new Set(await Promise.all(refused))).toEqual(new Set(["session_busy"]));
    expect((await two.info(session)).version).toBe(version);
    const waiting = finish(agent, rival);
    done.open();
    expect(await first).toMatchObject({ outcome: "answered", repeated: false });
    expect(await waiting).toMatchObject({ outcome: "answered", repeated: false });
    expect(await began(one, session)).toBe(2);
    expect(new Set(effects).size).toBe(2);
    // A finished turn is a lease that has ended: nothing more was committed for it.
    expect(typesOf(await logOf(one, session)).filter((type) => type.startsWith("turn."))).toEqual([]);
    await two.rewind(session, 1);
    expect(await two.close(session)).toBe(true);
  });

  onEveryStore(
    "of 30 runs on 3 engines each answered one has its effect once, the others began nothing",
    async (place) => {
      const { agent, effects } = payer({ during: () => delay(2) });
      const engines = [place.engine(), await place.replica(), await place.replica()];
      const { session } = await (engines[0] as Conversations).open();
      const results = await Promise.all(
        Array.from({ length: 30 }, async (_, n) => {
          await delay(4 * (n % 10));
          const sessions = engines[n % 3] as Conversations;
          const given: RunOptions = { sessions, session, message: `pay ${n}`, call: `m${n}`, busy: "refuse" };
          return finish(agent, given).catch((thrown: { code: string }) => thrown.code);
        }),
      );
      const answered = results.filter((result) => typeof result === "object");
      expect(answered.length).toBeGreaterThan(0);
      for (const result of results) {
        if (typeof result === "object") expect(result).toMatchObject({ outcome: "answered", repeated: false });
        else expect(result).toBe("session_busy");
      }
      expect(effects.toSorted()).toEqual(answered.map(({ invocation }) => invocation).toSorted());
      expect(await began(engines[1] as Conversations, session)).toBe(answered.length);
    },
  );

  onEveryStore("runs that wait come one after the other, also those of several processes", async (place) => {
    const { agent, effects } = payer();
    const engines = [place.engine(), await place.replica(), await place.replica()];
    const { session } = await (engines[0] as Conversations).open();
    const runs = Array.from({ length: 9 }, (_, n) => {
      const sessions = engines[n % 3] as Conversations;
      return finish(agent, { sessions, session, message: `pay ${n}` });
    });
    for (const { outcome } of await Promise.all(runs)) expect(outcome).toBe("answered");
    expect(new Set(effects).size).toBe(9);
    const steps = await stepsOf(engines[2] as Conversations, session);
    const turns = steps.slice(1).map((event) => ("invocation" in event ? event.invocation : ""));
    // The events of a turn are together.
    expect(turns.filter((turn, at) => turn !== turns[at - 1])).toHaveLength(9);
  });

  onEveryStore("it renews its lease, so that a step may take longer than that", async (place) => {
    const { agent, effects } = payer({ during: () => delay(1_500) });
    const [one, two] = [place.engine("app", { lease: 500 }), await place.replica("app", { lease: 500 })];
    const { session } = await one.open();
    const sent = { session, message: "pay", call: "m1" };
    const first = finish(agent, { sessions: one, ...sent });
    while ((await two.info(session)).turn === undefined) await delay(10);
    const again = await finish(agent, { sessions: two, ...sent });
    expect(again).toMatchObject({ outcome: "answered", repeated: true });
    expect(await first).toMatchObject({ outcome: "answered", repeated: false });
    expect(effects).toHaveLength(1);
    const log = await logOf(two, session);
    expect(typesOf(log)).toContain("turn.renewed");
    // The recorded events are the events that the first run gave.
    expect(again.events).toEqual((await first).events);
    expect(await two.replay(session, { agent })).toMatchObject({ same: true });
  });
});

describe("ONCE: a turn whose process is silent for its lease", () => {
  onEveryStore("is continued by a repeat of its call id elsewhere, and no effect is doubled", async (place) => {
    const inside = gate();
    const held = gate();
    const { agent, effects } = payer({
      during: async () => {
        inside.open();
        await held.opened;
      },
    });
    const dead = pausable(await place.storage.second());
    const one = createSessions({ app: "app", store: dead.store, lease: 300 });
    const two = place.engine("app", { lease: 300 });
    const { session } = await one.open();
    const sent = { session, message: "pay", call: "m1" };
    const first = codeOf(finish(agent, { sessions: one, ...sent }));
    await inside.opened;
    dead.pause();
    const start = performance.now();
    const again = await finish(agent, { sessions: two, ...sent, busy: "refuse" });
    expect(performance.now() - start).toBeGreaterThan(250);
    expect(again).toMatchObject({ outcome: "answered", repeated: false });
    const failed = again.events.flatMap((event) => (event.type === "tools.answered" ? (event.failed ?? []) : []));
    expect(failed).toMatchObject([{ code: "outcome_unknown" }]);
    // The first process wakes, and finds out with its next commit.
    dead.resume();
    held.open();
    expect(await first).toBe("turn_lost");
    expect(effects).toHaveLength(1);
    const log = await logOf(two, session);
    expect(log.filter(({ type }) => type === "turn.taken")).toMatchObject([{ from: expect.any(String) as string }]);
    expect(await finish(agent, { sessions: one, ...sent })).toMatchObject({ outcome: "answered", repeated: true });
    expect(await two.replay(session, { agent })).toMatchObject({ same: true });
    await one.stop();
  });

  onEveryStore("begins no effect afterwards", async (place) => {
    const [inside, held] = [gate(), gate()];
    const { agent, effects } = payer({
      before: async () => {
        inside.open();
        await held.opened;
      },
    });
    const stalled = pausable(await place.storage.second());
    const one = createSessions({ app: "app", store: stalled.store, lease: 300 });
    const two = place.engine("app", { lease: 300 });
    const { session } = await one.open();
    const first = codeOf(finish(agent, { sessions: one, session, message: "pay", call: "m1" }));
    await inside.opened;
    stalled.pause();
    const { agent: other } = payer();
    expect(await finish(other, { sessions: two, session, message: "hello" })).toMatchObject({ outcome: "answered" });
    stalled.resume();
    held.open();
    expect(await first).toBe("turn_lost");
    expect(effects).toEqual([]);
    await one.stop();
  });

  // The timer renews once before the effect does.
  for (const [late, count] of [["tools.started", 1] as const, ["turn.renewed", 2] as const]) {
    onEveryStore(`begins no effect after a late answer to its ${late}`, async (place) => {
      const { agent, effects } = payer();
      const slow = await place.storage.second();
      const append: Store["append"] = async (...commits) => {
        const result = await slow.append(...commits);
        const isLate = ["tools.started", late].some((type) => commits[0].entries[0].body.includes(`"${type}"`));
        if (isLate) await delay(900);
        return result;
      };
      const store = new Proxy(slow, {
        get: (target, name) => (name === "append" ? append : (Reflect.get(target, name) as unknown)),
      });
      const one = createSessions({ app: "app", store, lease: 300 });
      const two = place.engine("app", { lease: 300 });
      const { session } = await one.open();
      const first = codeOf(finish(agent, { sessions: one, session, message: "pay", call: "m1" }));
      const seen = async (): Promise<number> =>
        typesOf(await logOf(two, session)).filter((type) => type === late).length;
      while ((await seen()) < count) await delay(10);
      const { agent: other } = payer();
      expect(await finish(other, { sessions: two, session, message: "hello" })).toMatchObject({ outcome: "answered" });
      expect(await first).toBe("turn_lost");
      expect(effects).toEqual([]);
      await one.stop();
    });
  }

  onEveryStore("holds the turn after all if nobody took it", async (place) => {
    const [inside, held] = [gate(), gate()];
    const { agent, effects } = payer({
      before: async () => {
        inside.open();
        await held.opened;
      },
    });
    const stalled = pausable(await place.storage.second());
    const one = createSessions({ app: "app", store: stalled.store, lease: 100 });
    const { session } = await one.open();
    const first = finish(agent, { sessions: one, session, message: "pay", call: "m1" });
    await inside.opened;
    stalled.pause();
    await delay(200);
    stalled.resume();
    held.open();
    expect(await first).toMatchObject({ outcome: "answered" });
    expect(effects).toHaveLength(1);
    await one.stop();
  });
});

describe("a turn that was released", () => {
  onEveryStore("is continued elsewhere at once: cancelled, failed, or stopped with its engine", async (place) => {
    const two = await place.replica();
    for (const how of ["cancelled", "failed", "stopped"] as const) {
      const one = place.engine();
      const inside = gate();
      let isFirst = true;
      const agent = defineAgent({
        name: "talker",
        model: scriptedModel(() => "Hello."),
        callbacks: {
          beforeModel: async ({ signal }) => {
            if (!isFirst) return;
            isFirst = false;
            inside.open();
            if (how === "failed") throw new Error("no");
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          },
        },
      });
      const { session } = await one.open();
      const stopping = new AbortController();
      const first = codeOf(
        finish(agent, { sessions: one, session, message: "hi", call: "m1", signal: stopping.signal }),
      );
      await inside.opened;
      if (how === "cancelled") stopping.abort();
      if (how === "stopped") await one.stop({ within: 1 });
      expect(await first).toBe({ cancelled: "run_cancelled", failed: "nothing", stopped: "engine_stopped" }[how]);
      const start = performance.now();
      expect(await finish(agent, { sessions: two, session, message: "hi", call: "m1" })).toMatchObject({
        outcome: "answered",
      });
      expect(performance.now() - start).toBeLessThan(5_000);
      // A failure is the release: it needs no event of its own.
      const leases = (await logOf(two, session)).filter(({ type }) => type.startsWith("turn."));
      if (how === "failed") expect(typesOf(leases)).toEqual(["turn.taken"]);
      else expect(leases).toMatchObject([{ type: "turn.released", reason: how }, { type: "turn.taken" }]);
    }
  });

  onEveryStore("belongs to nobody in a fork and in a restored copy", async (place) => {
    const [inside, done] = [gate(), gate()];
    const { agent } = payer({
      during: async () => {
        inside.open();
        await done.opened;
      },
    });
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open();
    const first = finish(agent, { sessions: one, session, message: "pay" });
    await inside.opened;
    const copies = [await two.fork(session), await two.restore(await two.save(session))];
    for (const copy of copies) {
      const again = await finish(agent, { sessions: two, session: copy.session, busy: "refuse" });
      expect(again.outcome).toBe("answered");
    }
    done.open();
    expect((await first).outcome).toBe("answered");
  });
});
