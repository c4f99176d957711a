// The one executor of tools: its cost, and the fate of late writes.
import { createHook } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { findDefinition, type ToolDefinition } from "../../src/core/environment.ts";
import { executeAtOnce } from "../../src/session/execute.ts";

test("a synchronous tool costs no promise", () => {
  const add = tool<{ count: number }, undefined, z.ZodObject<{ by: z.ZodNumber }>, number>({
    description: "Adds.",
    input: z.object({ by: z.number() }),
    run: ({ state, log, random, now }, { by }) => {
      log(`${random() < 1} ${now()}`);
      return (state.count += by);
    },
  });
  const tools = new Map([["add", findDefinition(add) as ToolDefinition]]);
  const execution = { session: "s", tool: "add", call: "c", at: 5, timeout: 1000, seed: 1, draws: 1, task: null };
  // Schemas make some on first use.
  void executeAtOnce(tools, execution, { by: 1 }, { count: 1 });
  let promises = 0;
  const hook = createHook({ init: (_, type) => void (promises += Number(type === "PROMISE")) }).enable();
  const finished = executeAtOnce(tools, execution, { by: 2 }, { count: 1 });
  hook.disable();
  expect(finished).toEqual({
    outcome: { ok: true, output: 3 },
    delta: [{ op: "replace", path: "/count", value: 3 }],
    log: ["true 5"],
  });
  expect(promises).toBe(0);
});

test("a write after the tool returned, failed or was stopped is an error and changes nothing", async () => {
  const late: Promise<unknown>[] = [];
  const write = async (state: { count: number }): Promise<unknown> => {
    await sleep(30);
    try {
      return (state.count = 99);
    } catch (thrown) {
      return (thrown as Error).message;
    }
  };
  const environment = defineEnvironment({
    name: "late",
    state: z.object({ count: z.number().default(0) }),
    tools: {
      returns: tool({ description: "", run: ({ state }) => void late.push(write(state)) }),
      throws: tool({
        description: "",
        run: ({ state }) => {
          late.push(write(state));
          throw new Error("no");
        },
      }),
      hangs: tool({
        description: "",
        timeout: 5,
        run: ({ state }) => {
          late.push(write(state));
          return new Promise(() => undefined);
        },
      }),
    },
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open();
  expect(await sessions.call(session, "returns")).toMatchObject({ ok: true });
  expect(await sessions.call(session, "throws")).toMatchObject({ ok: false });
  expect(await sessions.call(session, "hangs")).toMatchObject({ error: { code: "tool_timeout" } });
  const stop = new AbortController();
  const cancelled = sessions.call(session, "hangs", {}, { signal: stop.signal });
  setImmediate(() => stop.abort());
  await expect(cancelled).rejects.toMatchObject({ code: "call_cancelled" });
  expect(new Set(await Promise.all(late))).toEqual(new Set([expect.stringContaining("has ended")]));
  expect(late).toHaveLength(4);
  expect(await sessions.state(session)).toEqual({ count: 0 });
});

test("a line logged after the tool returned is not in the event", async () => {
  const done = sleep(10);
  const environment = defineEnvironment({
    name: "lines",
    tools: {
      talk: tool({
        description: "",
        run: ({ log }) => {
          log("one");
          void done.then(() => log("two"));
        },
      }),
    },
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open();
  await sessions.call(session, "talk");
  await done;
  const events = [];
  for await (const event of sessions.events(session)) events.push(event);
  expect(events.at(-1)).toMatchObject({ log: ["one"] });
});
