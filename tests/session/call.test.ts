// Calls of tools that change only state: their changes, their failures, and how they are stopped.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, HoldfastError, isHoldfastError, tool, type Answer, type NumberedEvent } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { everyStore } from "../every-store.ts";
import { counter } from "./counter.ts";
import { onEveryStore, open } from "./engine.ts";

const task = { start: 3, goal: 6 };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const failed = (answer: Answer<unknown>): string => (answer.ok ? "ok" : answer.error.code);

onEveryStore("a call returns the tool's output, and the next call sees its changes", async (place) => {
  const sessions = place.engine(counter);
  const { session, version } = await sessions.open({ task });
  expect(version).toBe(2);
  expect(await sessions.call(session, "add", { by: 2 })).toEqual({
    ok: true,
    output: { count: 5 },
    session,
    version: 3,
    repeated: false,
    unseeded: false,
  });
  expect(await sessions.call(session, "read")).toMatchObject({ ok: true, output: { count: 5 }, version: 4 });
  expect(await sessions.state(session)).toEqual({ count: 5, notes: [] });
});

onEveryStore(
  "ATOMIC: a call that fails in any way changes nothing, is in the log, and the session continues",
  async (place) => {
    const sessions = place.engine(counter);
    const { session } = await sessions.open({ task });
    const wrong = sessions as { call(session: string, tool: string, input?: unknown): Promise<Answer<unknown>> };
    expect(failed(await wrong.call(session, "spoil"))).toBe("tool_failed");
    expect(failed(await wrong.call(session, "hang"))).toBe("tool_timeout");
    expect(failed(await wrong.call(session, "keep"))).toBe("not_json");
    expect(failed(await wrong.call(session, "add", { by: "two" }))).toBe("invalid_input");
    expect(failed(await wrong.call(session, "add", 7))).toBe("invalid_input");
    for (const name of ["nothing", "seed", "verify", "constructor", "__proto__", "toString", ""]) {
      expect(failed(await wrong.call(session, name))).toBe("unknown_tool");
    }
    expect(await sessions.state(session)).toEqual({ count: 3, notes: [] });
    const events = await all(sessions.events(session));
    expect(events.map(({ version }) => version)).toEqual(Array.from({ length: 14 }, (_, index) => index + 1));
    expect(events.slice(2).every((event) => event.type === "tool.called" && !event.outcome.ok && !event.delta)).toBe(
      true,
    );
    expect(await sessions.call(session, "add", { by: 1 })).toMatchObject({ ok: true, output: { count: 4 } });
  },
);

onEveryStore("the error of a failed call tells the model the fault and the correction", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const message = async (name: string, input: unknown): Promise<string> => {
    const answer = await sessions.call(session, name as "add", input as never);
    return answer.ok ? "" : answer.error.message;
  };
  expect(await message("add", { by: "two" })).toBe(
    "the arguments of add are wrong: by: Invalid input: expected number, received string",
  );
  expect(await message("ad", {})).toMatch(/^there is no tool "ad"; the tools are: add, read, /);
  expect(await message("spoil", {})).toBe("spoiled on purpose");
  expect(await message("hang", {})).toBe("hang did not return within 30 ms");
  expect(await message("keep", {})).toBe("state/when/at is a Date; only JSON can be kept");
});

onEveryStore("ISOLATION: changes of one session are not visible in another", async (place) => {
  const sessions = place.engine(counter);
  const opened = await Promise.all(
    Array.from({ length: 20 }, (_, n) => sessions.open({ task: { start: n, goal: 0 } })),
  );
  await Promise.all(
    opened.flatMap(({ session }, n) => [1, 2, 3].map(() => sessions.call(session, "add", { by: n * 100 }))),
  );
  const counts = await Promise.all(opened.map(async ({ session }) => (await sessions.state(session)).count));
  expect(counts).toEqual(Array.from({ length: 20 }, (_, n) => n + 3 * n * 100));
});

onEveryStore("ISOLATION: a session cannot be reached through another environment, nor by a wrong id", async (place) => {
  const other = defineEnvironment({ name: "other", tools: {} });
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const others = place.engine(other);
  const missing = { code: "session_not_found" };
  await expect(others.state(session)).rejects.toMatchObject(missing);
  await expect(others.fork(session)).rejects.toMatchObject(missing);
  await expect(others.fork(session, { version: 1 })).rejects.toMatchObject(missing);
  await expect(others.state(session, 1)).rejects.toMatchObject(missing);
  await expect(others.verify(session)).rejects.toMatchObject(missing);
  await expect(all(others.events(session))).rejects.toMatchObject(missing);
  await expect(others.state(session, 99)).rejects.toMatchObject(missing);
  await expect(others.state(session, 0)).rejects.toMatchObject(missing);
  expect(await others.close(session)).toBe(false);
  for (const id of ["", "nothing", session.slice(1), `${session} `, "__proto__"]) {
    await expect(sessions.call(id, "read")).rejects.toMatchObject(missing);
    await expect(sessions.seed(id, task)).rejects.toMatchObject(missing);
    await expect(sessions.verify(id)).rejects.toMatchObject(missing);
    await expect(sessions.state(id)).rejects.toMatchObject(missing);
    await expect(sessions.info(id)).rejects.toMatchObject(missing);
    await expect(sessions.rewind(id, 1)).rejects.toMatchObject(missing);
    await expect(sessions.replay(id)).rejects.toMatchObject(missing);
    expect(await sessions.close(id)).toBe(false);
  }
  expect(await sessions.state(session)).toEqual({ count: 3, notes: [] });
});

onEveryStore("ISOLATION: nothing that a caller or a tool holds is part of the state", async (place) => {
  const shared = { list: [1] };
  const environment = defineEnvironment({
    name: "holder",
    state: z.object({ kept: z.object({ list: z.array(z.number()) }).default({ list: [] }) }),
    task: z.object({ kept: z.object({ list: z.array(z.number()) }) }),
    seed: ({ task }) => ({ kept: task.kept }),
    tools: {
      keep: tool({
        description: "Keep the arguments, and return the state itself.",
        input: z.object({ list: z.array(z.number()) }),
        run: ({ state }, input) => {
          state.kept = input;
          shared.list = input.list;
          return state;
        },
      }),
    },
  });
  const sessions = place.engine(environment);
  const given = { kept: { list: [1] } };
  const { session } = await sessions.open({ task: given });
  given.kept.list.push(99);
  const input = { list: [2] };
  const answer = await sessions.call(session, "keep", input);
  input.list.push(99);
  shared.list.push(99);
  if (answer.ok) (answer.output as { kept: { list: number[] } }).kept.list.push(99);
  (await sessions.state(session)).kept.list.push(99);
  expect(await sessions.state(session)).toEqual({ kept: { list: [2] } });
  expect(await sessions.state(session, 2)).toEqual({ kept: { list: [1] } });
});

onEveryStore("a cancelled call leaves no trace, whether it waits or runs, and others continue", async (place) => {
  const sessions = place.engine(counter, { timeout: 5000 });
  const { session } = await sessions.open({ task });
  const running = new AbortController();
  const waiting = new AbortController();
  const cancelled = { code: "call_cancelled" };
  const first = sessions.call(session, "note", { text: "first" }, { signal: running.signal, call: "first" });
  const second = sessions.call(session, "note", { text: "second" }, { signal: waiting.signal });
  const third = sessions.call(session, "note", { text: "third" });
  const never = sessions.call(session, "note", { text: "never" }, { signal: AbortSignal.abort() });
  waiting.abort();
  running.abort();
  await expect(first).rejects.toMatchObject(cancelled);
  await expect(second).rejects.toMatchObject(cancelled);
  await expect(never).rejects.toMatchObject(cancelled);
  expect(await third).toMatchObject({ ok: true, version: 3 });
  expect((await sessions.state(session)).notes).toEqual(["third"]);
  // Nothing was recorded under its id, so that it can be retried.
  expect(await sessions.call(session, "note", { text: "first" }, { call: "first" })).toMatchObject({ repeated: false });
});

test("a handler that continues after its timeout changes nothing, and its signal says so", async () => {
  const place = await open(everyStore[0]!);
  let aborted: unknown;
  const environment = defineEnvironment({
    name: "zombie",
    state: z.object({ n: z.number().default(0), list: z.array(z.number()).default([]) }),
    tools: {
      late: tool({
        description: "Writes after its time.",
        timeout: 10,
        run: async ({ state, signal }) => {
          signal.addEventListener("abort", () => (aborted = signal.reason));
          state.n = 1;
          await sleep(40);
          state.n = 2;
          state.list.push(1);
        },
      }),
      bump: tool({ description: "Adds one.", run: ({ state }) => ++state.n }),
    },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  expect(failed(await sessions.call(session, "late"))).toBe("tool_timeout");
  expect(isHoldfastError(aborted) && aborted.code).toBe("tool_timeout");
  expect(await sessions.call(session, "bump")).toMatchObject({ output: 1 });
  await sleep(60);
  expect(await sessions.call(session, "bump")).toMatchObject({ output: 2 });
  expect(await sessions.state(session)).toEqual({ n: 2, list: [] });
});

test("log lines of a tool are kept with its event", async () => {
  const place = await open(everyStore[0]!);
  const environment = defineEnvironment({
    name: "talker",
    tools: { say: tool({ description: "Says something.", run: ({ log }) => log("something") }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  expect(await sessions.call(session, "say")).toMatchObject({ ok: true, output: null });
  const events: NumberedEvent[] = await all(sessions.events(session));
  expect(events[1]).toMatchObject({ type: "tool.called", log: ["something"] });
});

test("an output may have undefined properties, but otherwise must be JSON", async () => {
  const place = await open(everyStore[0]!);
  const outputs: unknown[] = [{ a: 1, b: undefined }, undefined, [new Date(0)], { f: () => 1 }, 1n, Number.NaN];
  const environment = defineEnvironment({
    name: "outputs",
    tools: { give: tool({ description: "Gives.", input: z.object({ n: z.number() }), run: (_, { n }) => outputs[n] }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  const answers = await Promise.all(outputs.map((_, n) => sessions.call(session, "give", { n })));
  expect(answers.map((answer) => (answer.ok ? answer.output : answer.error.message))).toEqual([
    { a: 1 },
    null,
    "the output of give/0 is a Date; only JSON can be kept",
    "the output of give/f is a function; only JSON can be kept",
    "the output of give is a bigint; only JSON can be kept",
    "the output of give is NaN; only JSON can be kept",
  ]);
});

test("a stopped engine waits for its calls and accepts no more", async () => {
  const place = await open(everyStore[0]!);
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const call = sessions.call(session, "note", { text: "last" });
  await Promise.all([sessions.stop(), sessions.stop()]);
  expect(await call).toMatchObject({ ok: true });
  const stopped = { code: "engine_stopped" };
  await expect(sessions.call(session, "read")).rejects.toMatchObject(stopped);
  await expect(sessions.open()).rejects.toMatchObject(stopped);
  await expect(sessions.state(session)).rejects.toMatchObject(stopped);
  await expect(sessions.state(session, 1)).rejects.toMatchObject(stopped);
  await expect(all(sessions.list())).rejects.toMatchObject(stopped);
  await sessions.stop();
});

/** Tools that misbehave in ways that no schema can see. */
const odd = defineEnvironment({
  name: "odd",
  state: z.object({ list: z.array(z.number()).default([]) }),
  tools: {
    drain: tool({
      description: "Uses up its arguments, with an await first.",
      input: z.object({ items: z.array(z.number()) }),
      run: async ({ state }, { items }) => {
        await sleep(1);
        while (items.length > 0) state.list.push(items.shift() as number);
      },
    }),
    shift: tool({
      description: "Changes its arguments, which no schema has copied.",
      concurrent: true,
      run: ({ update }, input) => {
        const item = (input as { items: number[] }).items.shift() as number;
        update((state) => void state.list.push(item));
      },
    }),
    replace: tool({
      description: "Assigns to the context instead of to the state.",
      run: (context) => {
        (context as { state: unknown }).state = { list: [7] };
      },
    }),
    fail: tool({
      description: "Throws an error of the engine, with something in it that is not JSON.",
      run: () => {
        throw new HoldfastError("session_closed", "another one", { detail: { when: new Date() } });
      },
    }),
  },
});

onEveryStore("SERIAL: a handler that modifies its arguments gets them unchanged when it is re-run", async (place) => {
  const engines = [place.engine(odd), await place.replica(odd)];
  const { session } = await engines[0]!.open();
  await Promise.all(
    Array.from({ length: 10 }, (_, n) => engines[n % 2]!.call(session, "drain", { items: [n * 2, n * 2 + 1] })),
  );
  const { list } = await engines[0]!.state(session);
  expect(list.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n));
});

onEveryStore("ONCE, REPLAY: the recorded input is the sent one, whatever the handler did to it", async (place) => {
  const sessions = place.engine(odd);
  const { session } = await sessions.open();
  const input = { items: [1, 2] } as object;
  expect(await sessions.call(session, "shift", input, { call: "a" })).toMatchObject({ ok: true });
  expect(await sessions.call(session, "shift", input, { call: "a" })).toMatchObject({ repeated: true });
  await sessions.call(session, "drain", { items: [3] });
  const events = await all(sessions.events(session));
  expect(events[1]).toMatchObject({ input: { items: [1, 2] } });
  expect(await sessions.replay(session)).toMatchObject({ same: true });
});

test("a tool that assigns to its context, or throws one of our errors, fails like any other", async () => {
  const place = await open(everyStore[0]!);
  const sessions = place.engine(odd);
  const { session } = await sessions.open();
  expect(failed(await sessions.call(session, "replace"))).toBe("tool_failed");
  expect(failed(await sessions.call(session, "fail"))).toBe("tool_failed");
  expect(await sessions.call(session, "drain", { items: [] })).toMatchObject({ ok: true });
});

test("calls are made in the order of arrival, also with an async schema", async () => {
  const place = await open(everyStore[0]!);
  const slowly = z.object({ n: z.number() }).refine(async ({ n }) => {
    await sleep(10 - 3 * n);
    return true;
  });
  const environment = defineEnvironment({
    name: "orderly",
    state: z.object({ list: z.array(z.number()).default([]) }),
    tools: { add: tool({ description: "", input: slowly, run: ({ state }, { n }) => state.list.push(n) }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  await Promise.all([0, 1, 2, 3].map((n) => sessions.call(session, "add", { n })));
  expect(await sessions.state(session)).toEqual({ list: [0, 1, 2, 3] });
});

test("a schema that throws refuses the arguments", async () => {
  const place = await open(everyStore[0]!);
  const broken = z.object({}).transform(() => {
    throw new Error("boom");
  });
  const environment = defineEnvironment({
    name: "broken",
    tools: { take: tool({ description: "", input: broken, run: () => 1 }) },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  expect(await sessions.call(session, "take", {})).toMatchObject({
    error: { code: "invalid_input", message: "the arguments of take are wrong: the schema failed: boom" },
  });
});

test("a timeout that no timer can wait for is refused", async () => {
  const place = await open(everyStore[0]!);
  for (const timeout of [0, -1, Infinity, 2 ** 31, Number.NaN]) {
    expect(() => place.engine(counter, { timeout })).toThrow("at most 2,147,483,647");
    expect(() => tool({ description: "", timeout, run: () => 1 })).toThrow("at most 2,147,483,647");
  }
});

onEveryStore("a call of a finished episode is refused, or gets its recorded answer", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const first = await sessions.call(session, "add", { by: 1 }, { call: "a", episode: 1 });
  await (await place.replica(counter)).seed(session, task);
  const ended = { code: "episode_ended" };
  await expect(sessions.call(session, "add", { by: 1 }, { episode: 1 })).rejects.toMatchObject(ended);
  await expect(sessions.call(session, "gather", { by: 1 }, { episode: 1, call: "b" })).rejects.toMatchObject(ended);
  const repeat = await sessions.call(session, "add", { by: 1 }, { call: "a", episode: 1 });
  expect(repeat).toEqual({ ...first, repeated: true });
  expect(await sessions.call(session, "add", { by: 1 }, { call: "a", episode: 2 })).toMatchObject({ repeated: false });
  expect((await sessions.state(session)).count).toBe(4);
});

onEveryStore("a closed store gives a coded error to every verb", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  await place.storage.store.close();
  const closed = { code: "store_closed" };
  await expect(sessions.call(session, "read")).rejects.toMatchObject(closed);
  await expect(sessions.open()).rejects.toMatchObject(closed);
  await expect(sessions.seed(session, task)).rejects.toMatchObject(closed);
  await expect(sessions.verify(session)).rejects.toMatchObject(closed);
  await expect(sessions.state(session)).rejects.toMatchObject(closed);
  await expect(sessions.state(session, 1)).rejects.toMatchObject(closed);
  await expect(sessions.fork(session)).rejects.toMatchObject(closed);
  await expect(sessions.replay(session)).rejects.toMatchObject(closed);
  await expect(sessions.close(session)).rejects.toMatchObject(closed);
  await expect(all(sessions.list())).rejects.toMatchObject(closed);
});
