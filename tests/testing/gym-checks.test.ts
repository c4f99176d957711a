// The checks of a gym server: each fault of a server fails the check that is about it, and a right server passes all.
import type { Json } from "../../src/core/json.ts";
import { defineEnvironment, memoryStore, tool } from "holdfast";
import { serve } from "holdfast/serve";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { runGymChecks, type Checked } from "../../src/testing/gym-checks.ts";
import { faultyGym, type Fault } from "./faulty-gym.ts";

function* solution({ initial_count, expected_count }: { initial_count: number; expected_count: number }) {
  yield { tool: "increment_counter", input: { count: expected_count - initial_count } };
}

async function checked(fault: Fault, more: { bestReward?: number } = {}): Promise<Checked[]> {
  const number = { type: "object", properties: { count: { type: "number" } }, required: ["count"] };
  return runGymChecks({
    url: await faultyGym(fault),
    task: { initial_count: 3, expected_count: 6 },
    calls: [
      { tool: "increment_counter", input: { count: 2 } },
      { tool: "get_counter_value", input: {} },
    ],
    tools: new Map<string, { [key: string]: Json }>([
      ["increment_counter", number],
      ["get_counter_value", { type: "object" }],
    ]),
    solution: solution as never,
    ...more,
  });
}

const failedIn = (results: Checked[]): string[] =>
  results.flatMap(({ what, result, message }) => (result === "fail" ? [`${what}: ${message}`] : []));

test("a right server passes every check", async () => {
  const results = await checked("none");
  expect(results.filter(({ result }) => result !== "pass")).toEqual([]);
  expect(results.length).toBe(16);
});

test("an environment whose tools draw random numbers passes every check over HTTP, and no session is left", async () => {
  const dice = defineEnvironment({
    name: "dice",
    state: z.object({ sum: z.int().default(0) }),
    tools: { roll: tool({ description: "", run: ({ state, random }) => (state.sum += 1 + Math.floor(random() * 6)) }) },
    verify: ({ state }) => Number(state.sum > 20),
  });
  const { url, close } = await serve({ environments: [dice], store: memoryStore(), port: 0, log: { what: "none" } });
  onTestFinished(close);
  const calls = [1, 2, 3].map(() => ({ tool: "roll", input: {} }));
  const results = await runGymChecks({ url, task: {}, calls, tools: new Map([["roll", {}]]) });
  const skipped = "verify reads its caller's session and changes nothing";
  expect(results.filter(({ result, what }) => result !== "pass" && what !== skipped)).toEqual([]);
  // The memory store forgets closed sessions.
  expect(await (await fetch(`${url}/v1/sessions`)).json()).toMatchObject({ sessions: [] });
});

test("the solution has to earn the best reward that the environment states, and doing nothing must not", async () => {
  const failed = async (bestReward?: number): Promise<string[]> =>
    failedIn(await checked("partial reward", bestReward === undefined ? {} : { bestReward }));
  expect(await failed(0.8)).toEqual([]);
  expect(await failed()).toEqual([
    expect.stringContaining("the solution got a reward of 0.8, but the best reward is 1"),
  ]);
  expect(await failed(0)).toContainEqual(expect.stringContaining("a session without calls got a reward of 0"));
});

test("a server that cannot close sessions is told that those of the checks stay open", async () => {
  const results = await checked("closing is not a route");
  expect(results.filter(({ result }) => result !== "pass")).toMatchObject([
    {
      what: "closing a session frees it",
      result: "skipped",
      message: expect.stringContaining("so the sessions of these checks stay open") as string,
    },
  ]);
});

const faults: [fault: Fault, check: string][] = [
  ["answers vary", "the same seed and calls return the same answers"],
  ["two processes that alternate", "state persists between the calls of a session"],
  ["one state for all sessions", "two sessions are isolated"],
  ["crash without a session", "a missing session is handled"],
  ["zero state without a session", "a lost session is not answered as if it had a valid state"],
  ["second seed is ignored", "seeding again replaces the state"],
  ["verify writes", "verify reads its caller's session and changes nothing"],
  ["refusals set no cookie", "every response sets the cookie, including refusals"],
  ["crash sets no cookie", "a tool that crashes does not lose the session"],
  ["signature is not checked", "an altered cookie does not open the session"],
  ["key of the cookie is its name", "an altered cookie does not open the session"],
  ["session ids are numbers", "an altered cookie does not open the session"],
  ["seeds with a cookie replace the state", "a model cannot call seed_session as a tool"],
  ["verify needs no row", "a model cannot call verify as a tool to learn its reward"],
  ["call ids are ignored", "a retried call id is applied once"],
  ["closing does nothing", "closing a session frees it"],
  ["bad arguments crash", "invalid arguments never cause a 5xx status"],
];

describe("a server with one fault fails exactly one check", () => {
  test.each(faults)("%s", async (fault, check) => {
    expect(failedIn(await checked(fault))).toEqual([expect.stringContaining(`${check}: `)]);
  });
});

test("an await between read and write is found in 8 of 8 runs", { timeout: 120_000 }, async () => {
  for (let run = 0; run < 8; run++) {
    const failed = failedIn(await checked("await between read and write"));
    expect(failed).toEqual([expect.stringContaining("concurrent calls lose no updates: ")]);
  }
});
