// Random histories of several processes on one conversation: rivals, repeats, crashes and stalls, by a clock of the test's own.
import fc from "fast-check";
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent, type Store } from "holdfast";
import { afterEach, expect, test, vi } from "vitest";
import type { Event, NumberedEvent } from "../../src/core/event.ts";
import { runs } from "../runs.ts";
import { finish, gate, logOf } from "./engine.ts";

// Waits of the engine follow the test's clock, too.
vi.mock("node:timers/promises", () => ({
  setTimeout: (ms: number) => new Promise((resolve) => globalThis.setTimeout(resolve, ms)),
  setImmediate: () => new Promise((resolve) => globalThis.setImmediate(resolve)),
}));

afterEach(() => void vi.useRealTimers());

const lease = 900;

type Action =
  | { kind: "send"; process: number; call: number; busy: "wait" | "refuse" }
  | { kind: "stall"; process: number }
  | { kind: "wake"; process: number }
  | { kind: "crash"; process: number }
  | { kind: "pass"; ms: number };

const process = fc.nat(2);
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("send" as const),
      process,
      call: fc.nat(5),
      busy: fc.constantFrom("wait", "refuse"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("stall", "wake", "wake", "crash"), process }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.constantFrom(10, 100, 400, 1_000, 3_000) }),
  },
) as fc.Arbitrary<Action>;

const program = fc.record({
  actions: fc.array(action, { minLength: 4, maxLength: 25 }),
  /** Milliseconds that the model, the callback before the tool, and the tool take. */
  slow: fc.record({
    model: fc.constantFrom(0, 50, 2_000),
    before: fc.constantFrom(0, 50, 2_000),
    tool: fc.constantFrom(0, 50, 2_000),
  }),
});

/** The events that were stored, in order, known at once. */
type Stored = Event[];

/** One process: an engine whose store can stand still, or never answer again. */
function startProcess(store: Store, session: string | undefined, stored: Stored, agent: Agent) {
  let still: ReturnType<typeof gate> | undefined;
  const wrapped = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return async (...given: [{ session: string; entries: { body: string }[] }]) => {
        await still?.opened;
        const result: unknown = await Reflect.apply(value, target, given);
        if (name === "append" && result === "ok" && given[0].session === session) {
          for (const { body } of given[0].entries) stored.push(JSON.parse(body) as Event);
        }
        return result;
      };
    },
  });
  const sessions = createSessions({ app: "app", store: wrapped, lease });
  return {
    send: (call: string, busy: "wait" | "refuse") =>
      finish(agent, { sessions, session: session as string, message: call, call, busy }),
    stall: () => void (still ??= gate()),
    wake() {
      still?.open();
      still = undefined;
    },
  };
}

async function runHistory({ actions, slow }: { actions: Action[]; slow: Record<"model" | "before" | "tool", number> }) {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"],
  });
  const rest = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
  const pass = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 50) {
      await vi.advanceTimersByTimeAsync(50);
      // The store and the agents work in turns of the event loop.
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const store = memoryStore();
  const first = createSessions({ app: "app", store });
  const { session } = await first.open();
  const stored: Stored = [];
  /** The turns that paid. */
  const effects: string[] = [];
  /** What others had done to a turn when it paid. */
  const late: string[] = [];
  const agent = defineAgent({
    name: "payer",
    model: scriptedModel(async ({ input }) => {
      await rest(slow.model);
      return input.at(-1)?.type === "function_call_output" ? "Paid." : { calls: [{ name: "pay" }] };
    }),
    callbacks: {
      beforeTool: async () => {
        await rest(slow.before);
        return undefined;
      },
    },
    tools: {
      pay: tool({
        description: "Pays.",
        effects: "external",
        run: async ({ agent: by }) => {
          const { invocation } = by as { invocation: string };
          effects.push(invocation);
          const since = stored.slice(stored.findLastIndex(({ type }) => type === "tools.started"));
          if (since.some((event) => !("invocation" in event) || event.invocation !== invocation)) late.push("replaced");
          late.push(...since.slice(1).flatMap(({ type }) => (type === "turn.renewed" ? [] : [type])));
          await rest(slow.tool);
          return "paid";
        },
      }),
    },
  });
  const start = () => startProcess(store, session, stored, agent);
  const processes = [start(), start(), start()];
  const at = (n: number) => processes[n] as ReturnType<typeof start>;
  const sent: { call: string; ended?: string }[] = [];
  let isStalled = false;
  for (const next of actions) {
    if (next.kind === "pass") await pass(next.ms);
    else if (next.kind === "stall") {
      isStalled = true;
      at(next.process).stall();
    } else if (next.kind === "wake") at(next.process).wake();
    else if (next.kind === "crash") {
      // It never wakes.
      at(next.process).stall();
      processes[next.process] = start();
    } else {
      const one: (typeof sent)[number] = { call: `m${next.call}` };
      sent.push(one);
      void at(next.process)
        .send(one.call, next.busy)
        .then(
          ({ outcome }) => (one.ended = outcome),
          (thrown: { code?: string }) => (one.ended = thrown.code ?? String(thrown)),
        );
      await pass(10);
    }
  }
  for (const one of processes) one.wake();
  await pass(120_000);

  expect(late).toEqual([]);
  const log = await logOf(first, session);
  for (const { call, ended } of sent) {
    const codes = ["answered", "abandoned", "session_busy", ...(isStalled ? ["turn_lost"] : []), undefined];
    expect(codes, call).toContain(ended);
  }
  const began = log.filter((event) => event.type === "invocation.began");
  expect(new Set(began.map(({ call }) => call)).size).toBe(began.length);
  expect(new Set(effects).size).toBe(effects.length);
  for (const { invocation } of began) checkTurn(log, invocation, effects);
  // A request that was refused began nothing.
  for (const call of new Set(sent.map((one) => one.call))) {
    const ends = sent.filter((one) => one.call === call).map(({ ended }) => ended);
    if (ends.every((ended) => ended === "session_busy")) expect(began.some((event) => event.call === call)).toBe(false);
    if (ends.includes("answered")) expect(began.some((event) => event.call === call)).toBe(true);
  }
  // Every turn can be sent again, and gets its outcome. It is as good as over: nobody waits for a lease.
  for (const { call } of began) {
    let outcome: string | undefined;
    void start()
      .send(call as string, "wait")
      .then((result) => (outcome = result.outcome));
    await pass(20_000);
    expect(["answered", "abandoned"]).toContain(outcome);
  }
  expect(new Set(effects).size).toBe(effects.length);
}

/** Checks the steps of one turn: they are together, and the result says what happened. */
function checkTurn(log: NumberedEvent[], invocation: string, effects: string[]): void {
  const steps = log.filter((event) => "invocation" in event && event.invocation === invocation);
  const [first, last] = [steps[0], steps.at(-1)] as [NumberedEvent, NumberedEvent];
  expect(last.version - first.version).toBe(steps.length - 1);
  const answered = steps.filter((event) => event.type === "tools.answered");
  expect(answered.length).toBeLessThanOrEqual(1);
  const paid = effects.filter((effect) => effect === invocation).length;
  for (const { failed } of answered) {
    if (failed) expect(failed).toMatchObject([{ code: "outcome_unknown" }]);
    else expect(paid).toBe(1);
  }
}

test(
  "SERIAL, ONCE: in any history of rivals, repeats, crashes and stalls no effect happens twice, or after its turn was taken",
  async () => {
    await fc.assert(fc.asyncProperty(program, runHistory), { numRuns: runs(100) });
  },
  runs(120_000),
);
