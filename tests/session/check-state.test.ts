// A call that makes the state invalid for its schema is refused: nothing is stored, and the author learns where.
import { createSessions, defineEnvironment, memoryStore, tool, type AnyEnvironment, type Thrown } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { onEveryStore } from "./engine.ts";

const add = { input: z.object({ by: z.number() }), description: "Add." };

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ sum: z.int(), secret: z.string().optional() }),
  task: z.object({}),
  seed: () => ({ sum: 1 }),
  tools: {
    add: tool({ ...add, run: ({ state }, { by }) => (state.sum += by) }),
    later: tool({ ...add, concurrent: true, run: ({ update }, { by }) => update("sum", (sum) => sum + by) }),
    send: tool({ ...add, effects: "external", run: ({ update }, { by }) => update("sum", (sum) => sum + by) }),
    hide: tool({ description: "Hide.", run: ({ state }) => void Object.assign(state, { secret: 7 }) }),
  },
  verify: ({ state }) => state.sum,
});

describe.each(["add", "later", "send"] as const)("%s", (name) => {
  onEveryStore(
    "ATOMIC, ONCE: a refused call changes nothing, and a repeat gets the same answer",
    async ({ engine }) => {
      const sessions = engine(counter);
      const { session, version } = await sessions.open({ task: {} });
      const refused = await sessions.call(session, name, { by: 0.5 }, { call: "c1" });
      expect(refused).toMatchObject({ ok: false, error: { code: "state_invalid" }, repeated: false });
      expect(await sessions.state(session)).toEqual({ sum: 1 });
      expect(await sessions.call(session, name, { by: 0.5 }, { call: "c1" })).toEqual({ ...refused, repeated: true });
      const events = [];
      for await (const event of sessions.events(session, { after: version })) events.push(event);
      const { thrown, delta } = events.at(-1) as { thrown?: Thrown; delta?: unknown };
      expect(thrown).toEqual({ error: expect.stringMatching(/^state_invalid: sum: .*int/) as string, place: name });
      expect(delta).toBeUndefined();
      expect(await sessions.call(session, name, { by: 2 })).toMatchObject({ ok: true });
      expect(await sessions.state(session)).toEqual({ sum: 3 });
      expect(await sessions.replay(session)).toMatchObject({ same: true });
    },
  );
});

test("the model does not read which key is invalid, and is told of an effect that has happened", async () => {
  const sessions = createSessions({ environment: counter, store: memoryStore() });
  const { session } = await sessions.open({ task: {} });
  const hidden = await sessions.call(session, "hide");
  expect(!hidden.ok && hidden.error).toEqual({
    code: "state_invalid",
    message: "hide failed: it left an invalid state; nothing was changed",
  });
  const sent = await sessions.call(session, "send", { by: 0.5 });
  expect(!sent.ok && sent.error.message).toMatch(/^send has run, but .* do not repeat it for the same effect$/);
});

async function stateAfter(environment: AnyEnvironment): Promise<unknown> {
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open({ task: {} });
  const answer = await sessions.call(session, "set", { to: 0.5 });
  return answer.ok ? sessions.state(session) : answer.error.code;
}

const setting = (state: z.ZodType<{ sum: unknown }>, more: { checkState?: boolean; sum?: unknown } = {}) => {
  const { sum = 1, ...options } = more;
  return defineEnvironment({
    name: "set",
    state,
    task: z.object({}),
    seed: () => ({ sum }) as never,
    tools: {
      set: tool({
        description: "Set.",
        input: z.object({ to: z.number() }),
        run: ({ state: now }, { to }) => void (now.sum = to),
      }),
    },
    ...options,
  });
};

test("the stored state is what the tool wrote: defaults and transforms of the schema do not change it", async () => {
  const defaults = z.object({ sum: z.number() }).catchall(z.never());
  expect(await stateAfter(setting(defaults))).toEqual({ sum: 0.5 });
  // Its output is not valid input: such a schema cannot check a stored state.
  const transforming = z.object({ sum: z.string().transform(Number) });
  expect(await stateAfter(setting(transforming, { sum: "1" }))).toEqual({ sum: 0.5 });
});

test("GROWTH: a state of more than 64 KB is not checked, unless checkState: true asks for it", async () => {
  let checks = 0;
  const state = z.object({ sum: z.number(), text: z.string().default("x".repeat(100_000)) }).refine(() => ++checks > 0);
  expect(await stateAfter(setting(state))).toMatchObject({ sum: 0.5 });
  const before = checks;
  await stateAfter(setting(state, { checkState: true }));
  expect([before, checks - before]).toEqual([1, 2]);
});

test("checkState: false stores any state, and an asynchronous schema is awaited", async () => {
  expect(await stateAfter(setting(z.object({ sum: z.int() }), { checkState: false }))).toEqual({ sum: 0.5 });
  expect(await stateAfter(setting(z.object({ sum: z.int() })))).toBe("state_invalid");
  const slow = z.object({ sum: z.number().refine(async (sum) => Number.isInteger(sum)) });
  expect(await stateAfter(setting(slow))).toBe("state_invalid");
});
