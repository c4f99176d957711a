// Every environment of examples/ passes the published cases, and its solution wins every task.
// Each case is also shown an environment that it must refuse.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createSessions, defineEnvironment, memoryStore, refuse, tool, type Environment, type Json } from "holdfast";
import { environmentCases, solutionCases, type Solution } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { root } from "./files.ts";

interface Row {
  responses_create_params: { input: { role: string; content: string }[]; tools: Json[] };
}

const folder = join(root, "examples");
const folders = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? entry.name : [],
);
const names = folders.filter((name) => existsSync(join(folder, name, "environment.ts")));

test("the examples of the docs exist", () => {
  expect(names).toEqual(["blackjack", "counter", "library", "shop", "weather"]);
  expect(folders).toEqual(expect.arrayContaining(["concierge", "session-state"]));
});

const agents = folders.filter((name) => existsSync(join(folder, name, "agent.ts")) && !names.includes(name));

test.each(agents)("%s has a short agent", (name) => {
  const text = readFileSync(join(folder, name, "agent.ts"), "utf8");
  expect(text.split("\n").length).toBeLessThan(150);
});

for (const name of names) {
  describe(name, async () => {
    const { default: environment } = (await import(join(folder, name, "environment.ts"))) as { default: Environment };
    const { default: solution } = (await import(join(folder, name, "solution.ts"))) as { default: Solution };
    const lines = readFileSync(join(folder, name, "tasks.jsonl"), "utf8")
      .trim()
      .split("\n");
    const tasks = lines.map((line) => JSON.parse(line) as Json);
    const open = () => createSessions({ environment, store: memoryStore() });

    for (const { name, run } of environmentCases) test(name, () => run({ open, tasks }));
    for (const { name, run } of solutionCases) test(name, () => run({ open, tasks, solution }));

    test("its tasks have a prompt, and the current tools", () => {
      const tools = [...environment.definitions].map(([name, { description, input }]) => {
        const { $schema: _, ...parameters } = z.toJSONSchema((input ?? z.object({})) as z.ZodType);
        return { type: "function", name, description, parameters, strict: true };
      });
      for (const { responses_create_params } of tasks as unknown as Row[]) {
        expect(responses_create_params.input).toEqual([{ role: "user", content: expect.any(String) as string }]);
        expect(responses_create_params.tools).toEqual(tools);
      }
      expect(new Set(lines).size).toBe(lines.length);
    });

    test("its environment is named after its folder, and is short", () => {
      expect(environment.name).toBe(name);
      expect(readFileSync(join(folder, name, "environment.ts"), "utf8").split("\n").length).toBeLessThan(150);
    });
  });
}

describe("the published cases refuse", () => {
  const state = z.object({ count: z.number().default(0) });
  const input = z.object({ by: z.number().default(1) });
  const add = tool({
    description: "Add.",
    input,
    run: ({ state }: { state: { count: number } }, { by }) => (state.count += by),
  });
  const good = { name: "sample", state, tools: { add }, verify: () => 0 };
  let total = 0;

  async function failuresOf(environment: Environment, tasks: Json[] = [{}]): Promise<string[]> {
    return Object.keys(await messagesOf(environment, tasks));
  }

  /** Returns the message of each failed case. */
  async function messagesOf(environment: Environment, tasks: Json[] = [{}]): Promise<Record<string, string>> {
    const open = () => createSessions({ environment, store: memoryStore() });
    const messages: Record<string, string> = {};
    const attempt = ({ name, run }: (typeof environmentCases)[number]) =>
      run({ open, tasks }).then(
        () => undefined,
        ({ message }: Error) => [name, message] as const,
      );
    for (const failed of await Promise.all(environmentCases.map(attempt))) if (failed) messages[failed[0]] = failed[1];
    return messages;
  }

  test("nothing of a correct environment", async () => {
    expect(await failuresOf(defineEnvironment(good))).toEqual([]);
    expect(await failuresOf(defineEnvironment({ ...good, unseeded: "reject", reseed: "reject" }))).toEqual([]);
    const clock = defineEnvironment({ ...good, seed: ({ now, random }) => ({ count: now() + random() }) });
    expect(await failuresOf(clock)).toEqual([]);
  });

  const varies = (call: string, instead: string): unknown =>
    expect.stringMatching(
      new RegExp(
        `examples\\.test\\.ts:\\d+ calls ${call}\\(\\), so the code is not deterministic; use ${instead}\\(\\) from`,
      ),
    );

  test("a seed that calls Math.random, and name its line", async () => {
    const { random, now } = { random: Math.random, now: Date.now };
    expect(await messagesOf(defineEnvironment({ ...good, seed: () => ({ count: Math.random() }) }))).toEqual({
      "the same task and random seed give the same state": varies("Math.random", "random"),
      "SEED: seeding again replaces the whole state": varies("Math.random", "random"),
      "REPLAY: a replayed session has the same outputs and states": varies("Math.random", "random"),
    });
    expect([Math.random, Date.now]).toEqual([random, now]);
  });

  test.each([
    ["Math.random", "random", () => Math.random()],
    ["Date.now", "now", () => Date.now()],
  ])("a tool that calls %s, and name its line", async (call, instead, run) => {
    const roll = tool({
      description: "Roll.",
      input,
      run: async () => {
        // Longer than the resolution of the clock.
        await new Promise((resolve) => setTimeout(resolve, 2));
        return run();
      },
    });
    expect(await messagesOf(defineEnvironment({ ...good, tools: { roll } }))).toEqual({
      "REPLAY: a replayed session has the same outputs and states": varies(call, instead),
    });
  });

  test("a tool that keeps data outside the state", async () => {
    const leak = tool({ description: "Leak.", input, run: () => ++total });
    expect(await failuresOf(defineEnvironment({ ...good, tools: { leak } }))).toEqual([
      "ISOLATION: two sessions share nothing",
      "REPLAY: a replayed session has the same outputs and states",
    ]);
  });

  test("a verify that writes, or returns no number", async () => {
    const writes = defineEnvironment({ ...good, verify: ({ state }) => ((state as { count: number }).count = 1) });
    const name = "PURE-VERIFY: verify changes nothing and returns the same result twice";
    expect(await failuresOf(writes)).toContain(name);
    expect(await failuresOf(defineEnvironment({ ...good, verify: () => Number.NaN }))).toContain(name);
  });

  test("a task that cannot be seeded", async () => {
    const environment = defineEnvironment({ ...good, task: z.object({ start: z.number() }) });
    expect(await failuresOf(environment, [{ start: 1 }, { start: "one" }])).toEqual([
      "every task can be used as a seed",
    ]);
  });

  test("a solution that does not win, and a task that is won by doing nothing", async () => {
    const results: boolean[] = [];
    for (const reward of [0, 1]) {
      const environment = defineEnvironment({ ...good, verify: () => reward });
      const open = () => createSessions({ environment, store: memoryStore() });
      const solution: Solution = () => [{ tool: "add", input: { by: 1 } }];
      for (const { run } of solutionCases) {
        results.push(
          await run({ open, tasks: [{}], solution }).then(
            () => true,
            () => false,
          ),
        );
      }
    }
    expect(results).toEqual([false, true, true, false]);
  });

  test("a solution whose tool throws, by its line, and one whose tool refuses, by its message", async () => {
    const fails = (thrown: Error) =>
      tool({
        description: "Fail.",
        run: () => {
          throw thrown;
        },
      });
    const tools = { break: fails(new TypeError("a bug")), buy: fails(refuse("out of stock")) };
    const environment = defineEnvironment({ ...good, tools });
    const open = () => createSessions({ environment, store: memoryStore() });
    const message = async (name: string): Promise<string> => {
      const solution: Solution = () => [{ tool: name, input: {} }];
      const failed = solutionCases[0]?.run({ open, tasks: [{}], solution });
      return (await failed?.catch((thrown: Error) => thrown.message)) ?? "";
    };
    expect(await message("break")).toMatch(
      /^break \{\} failed: TypeError: a bug in break \(tests\/examples\.test\.ts:\d+\)$/,
    );
    expect(await message("buy")).toBe("buy {} was refused: out of stock");
  });
});
