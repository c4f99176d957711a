// Definitions: invalid ones are refused, and types follow from the schemas.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { isReservedPath } from "../../src/core/reserved-names.ts";
import { filesIn } from "../files.ts";

const nothing = tool({ description: "Nothing.", run: () => null });

test("RESERVED: defineEnvironment refuses reserved and malformed tool names", () => {
  const verbs = ["seed", "seed_session", "verify", "close", "close_session", "fork", "rewind", "replay"];
  const others = ["reset", "step", "state", "aggregate_metrics", "reverify_mode", "mcp", "run", "v1", "metrics"];
  for (const name of [...verbs, ...others]) {
    expect(() => defineEnvironment({ name: "e", tools: { [name]: nothing } })).toThrow(`"${name}" in e is reserved`);
  }
  for (const name of ["", "a/b", "../seed", "a b", "0day", "é", "x".repeat(65), "ng-rollout/x/seed_session"]) {
    expect(() => defineEnvironment({ name: "e", tools: { [name]: nothing } })).toThrow("use 1 to 64 letters");
  }
});

test("RESERVED: every root path of the server is a reserved name", () => {
  // These protocols name paths below a path of their own, which is reserved.
  const isBelow = /^src\/protocols\/(adk|a2a|openai|openenv|ors|http\/task-routes)[./]/;
  const sources = ["src/protocols", "src/server"].flatMap((folder) => filesIn(folder, ".ts"));
  const rooted = sources.filter(({ path }) => !isBelow.test(path));
  const uncommented = rooted.map(({ text }) => text.replaceAll(/\/\*\*[\s\S]*?\*\//g, ""));
  const paths = uncommented.flatMap((text) => [...text.matchAll(/["`](?:[A-Z]+ )?\/([a-z][\w.-]*)/g)]);
  const names = new Set(paths.map(([, name = ""]) => name));
  expect([...names].filter((name) => !isReservedPath(name))).toEqual([]);
  expect([...names]).toEqual(
    expect.arrayContaining(["v1", "docs", "view", "run", "verify", "metrics", "ng-rollout", "reset"]),
  );
});

test("RESERVED: a call by the name of a lifecycle verb is refused", async () => {
  const environment = defineEnvironment({
    name: "e",
    state: z.object({ n: z.number().default(1) }),
    tools: { nothing },
    verify: () => 1,
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open({ task: {} });
  for (const name of ["seed", "verify", "close", "open", "call", "seed_session", "run", "definitions", "tools"]) {
    const answer = await sessions.call(session, name as "nothing");
    expect(answer).toMatchObject({ ok: false, error: { code: "unknown_tool" } });
  }
  expect(await sessions.info(session)).toMatchObject({ episode: 1 });
});

test("an invalid definition is refused with the reason", () => {
  const wrong =
    (definition: object): (() => unknown) =>
    () =>
      defineEnvironment(definition as never);
  expect(wrong({ name: "no name!", tools: {} })).toThrow('invalid environment name "no name!"');
  expect(wrong({ tools: {} })).toThrow("use 1 to 64");
  expect(wrong({ name: "e", tools: { a: () => 1 } })).toThrow('the tool "a" in e was not created with tool({ … })');
  expect(wrong({ name: "e", tools: {}, unseeded: "maybe" })).toThrow('"defaults" or "reject", not "maybe"');
  expect(() => tool({ description: "" } as never)).toThrow("needs a `run` function");
  expect(() => tool({ description: "", effects: "world", run: () => 1 } as never)).toThrow('not "world"');
  expect(() => tool({ description: "", timeout: 0, run: () => 1 })).toThrow("greater than 0");
});

test("state, task, arguments and outputs are typed by the schemas, without annotations", () => {
  const environment = defineEnvironment({
    name: "typed",
    state: z.object({ count: z.number().default(0), tags: z.array(z.string()).default([]) }),
    task: z.object({ start: z.number().default(1), goal: z.number() }),
    seed: ({ task }) => {
      expectTypeOf(task).toEqualTypeOf<{ start: number; goal: number }>();
      return { count: task.start };
    },
    tools: {
      add: tool({
        description: "Adds.",
        input: z.object({ by: z.number(), twice: z.boolean().default(false) }),
        run: ({ state, task }, { by, twice }) => {
          expectTypeOf(state).toEqualTypeOf<{ count: number; tags: string[] }>();
          expectTypeOf(task).toEqualTypeOf<{ start: number; goal: number } | undefined>();
          expectTypeOf(twice).toEqualTypeOf<boolean>();
          // @ts-expect-error -- a wrong key of the state
          state.counter = by;
          return { count: state.count };
        },
      }),
      read: tool({ description: "Reads.", run: async ({ state }) => state.tags }),
      later: tool({
        description: "Changes later.",
        concurrent: true,
        run: ({ state, update }) => {
          // @ts-expect-error -- read-only here
          state.count = 1;
          update((draft) => {
            draft.count = 1;
            // @ts-expect-error -- a wrong type
            draft.count = "1";
          });
        },
      }),
    },
    verify: ({ state, task }) => {
      expectTypeOf(state.count).toEqualTypeOf<number>();
      expectTypeOf(task.goal).toEqualTypeOf<number>();
      return 1;
    },
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const use = async (): Promise<void> => {
    const { session } = await sessions.open({ task: { goal: 1 } });
    // @ts-expect-error -- a task without its goal
    await sessions.open({ task: { start: 1 } });
    const answer = await sessions.call(session, "add", { by: 1 });
    if (answer.ok) expectTypeOf(answer.output).toEqualTypeOf<{ count: number }>();
    const read = await sessions.call(session, "read");
    if (read.ok) expectTypeOf(read.output).toEqualTypeOf<string[]>();
    // @ts-expect-error -- arguments are missing
    await sessions.call(session, "add");
    // @ts-expect-error -- a wrong argument
    await sessions.call(session, "add", { by: "1" });
    // @ts-expect-error -- no such tool
    await sessions.call(session, "subtract", { by: 1 });
    expectTypeOf(await sessions.state(session)).toEqualTypeOf<{ count: number; tags: string[] }>();
  };
  expectTypeOf(use).returns.resolves.toEqualTypeOf<void>();
});

test("any Standard Schema library works", async () => {
  // One schema written by hand, and one that validates asynchronously.
  const even = {
    "~standard": {
      version: 1,
      vendor: "hand",
      validate: async (value: unknown) =>
        Number(value) % 2 === 0
          ? { value: Number(value) }
          : { issues: [{ message: "not even", path: ["n", { key: 0 }] }] },
    },
  } as const;
  const environment = defineEnvironment({
    name: "hand",
    tools: { take: tool({ description: "Takes.", input: even, run: (_, n) => n }) },
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open();
  expect(await sessions.call(session, "take", 4 as never)).toMatchObject({ ok: true, output: 4 });
  expect(await sessions.call(session, "take", 3 as never)).toMatchObject({
    error: { code: "invalid_input", message: "the arguments of take are wrong: n.0: not even" },
  });
});
