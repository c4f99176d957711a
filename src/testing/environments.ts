// environmentCases and solutionCases: test cases that every environment must pass.
import assert from "node:assert/strict";
import { isHoldfastError } from "../core/errors.ts";
import { summarizeThrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { sample } from "../core/json-sample.ts";
import { toJsonSchema } from "../core/schema.ts";
import type { Answer, Replayed, Sessions } from "../core/sessions.ts";
import { badInputs } from "./arguments.ts";
import type { Case } from "./case.ts";
import { explainDifference } from "./determinism.ts";

export interface Call {
  tool: string;
  input: Json;
}

/**
 * Solves a task: yields turns. A turn is one call or a list of parallel calls. `yield` returns their outputs as a list.
 *
 * @example
 * export default function* solution({ goal }) {
 *   const [value] = yield [{ tool: "get", input: {} }];
 *   yield [{ tool: "add", input: { by: goal - value.count } }];
 * }
 */
export type Solution = (task: never) => Iterable<Call | Call[]>;

/** One environment. The runner creates one per case and disposes of it afterwards. */
export interface EnvironmentHarness {
  /** Opens an engine on an empty store. A case calls it once and stops the engine. */
  open(): Sessions | Promise<Sessions>;
  /** Tasks to seed with, at least one: rows of the data set, or values that match the task's schema. */
  tasks: readonly Json[];
}

export type EnvironmentCase = Case<EnvironmentHarness>;
export type SolutionCase = Case<EnvironmentHarness & { solution: Solution }>;

/** Random seed for all cases that need equal random numbers. */
export const randomSeed = 20_260_302;

function onSessions<Harness extends EnvironmentHarness>(
  name: string,
  run: (sessions: Sessions, harness: Harness & { task: Json }) => Promise<void>,
): Case<Harness> {
  return {
    name,
    async run(harness) {
      const [task] = harness.tasks;
      assert.ok(task !== undefined, "there is no task to check the environment with");
      const sessions = await harness.open();
      try {
        await run(sessions, { ...harness, task });
      } finally {
        await sessions.stop();
      }
    },
  };
}

/** Returns a list of valid calls, with several calls to every tool, so that state can build up. */
function validCalls({ environment }: Sessions): Call[] {
  // A checker must not call tools with external effects.
  const tools = [...environment.definitions].filter(([, { kind }]) => kind !== "external");
  const round = tools.map(([tool, { input }]) => ({ tool, input: sample(toJsonSchema(input)) }));
  return [...round, ...round, ...round.toReversed()];
}

async function make(sessions: Sessions, session: string, calls: Call[]): Promise<Json[]> {
  const outcomes: Json[] = [];
  for (const { tool, input } of calls) outcomes.push(toOutcome(await sessions.call(session, tool, input)));
  return outcomes;
}

function toOutcome(answer: Answer): Json {
  return answer.ok ? { ok: true, output: answer.output } : { ok: false, message: answer.error.message };
}

/** Returns why a new session replays differently if its code is not deterministic; otherwise undefined. */
function explain(sessions: Sessions, task: Json, calls: Call[] = validCalls(sessions)): Promise<string | undefined> {
  return explainDifference(async () => {
    const { session } = await sessions.open({ task, randomSeed });
    await make(sessions, session, calls);
    return (await sessions.replay(session)).same;
  });
}

/** Allows states to differ only if the handlers use now(). In that case, the replay of each session is identical. */
async function sameUnlessTimed(
  sessions: Sessions,
  task: Json,
  compared: string[],
  assertSame: () => Promise<void>,
): Promise<void> {
  try {
    await assertSame();
  } catch (different) {
    const replays = await Promise.all(compared.map((session) => sessions.replay(session)));
    if (replays.every(({ same }) => same)) return;
    const reason = await explain(sessions, task, []);
    throw reason === undefined ? different : new assert.AssertionError({ message: reason });
  }
}

async function assertReplays(sessions: Sessions, task: Json, replayed: Replayed): Promise<void> {
  if (replayed.same) return;
  const reason = await explain(sessions, task);
  assert.fail(reason ?? `the replay differs: ${JSON.stringify(replayed)}`);
}

/** Runs a task's solution. `call` makes one call and returns its output. The calls of one turn run in parallel. */
export async function play(solution: Solution, task: Json, call: (call: Call) => Promise<Json>): Promise<void> {
  const turns = solution(task as never)[Symbol.iterator]() as Iterator<Call | Call[], unknown, unknown>;
  let turn = turns.next();
  while (!turn.done) {
    const calls = Array.isArray(turn.value) ? turn.value : [turn.value];
    turn = turns.next(await Promise.all(calls.map(call)));
  }
}

function callOn(sessions: Sessions, session: string): (call: Call) => Promise<Json> {
  return async ({ tool, input }) => {
    const answer: Answer = await sessions.call(session, tool, input);
    if (answer.ok) return answer.output;
    const { thrown, error } = answer;
    const how = thrown ? `failed: ${summarizeThrown(thrown)}` : `was refused: ${error.message}`;
    return assert.fail(`${tool} ${JSON.stringify(input)} ${how}`);
  };
}

/**
 * The cases that every environment must pass.
 *
 * @example
 * const open = () => createSessions({ environment, store: memoryStore() });
 * for (const { name, run } of environmentCases) test(name, () => run({ open, tasks }));
 */
export const environmentCases: readonly EnvironmentCase[] = [
  onSessions("every task can be used as a seed", async (sessions, { tasks }) => {
    for (const [at, task] of tasks.entries()) {
      await sessions.open({ task }).catch((error: unknown) => assert.fail(`task ${at}: ${String(error)}`));
    }
  }),

  onSessions("the same task and random seed give the same state", async (sessions, { task }) => {
    const [one, two] = [await sessions.open({ task, randomSeed }), await sessions.open({ task, randomSeed })];
    await sameUnlessTimed(sessions, task, [one.session, two.session], async () =>
      assert.deepEqual(await sessions.state(two.session), await sessions.state(one.session)),
    );
  }),

  onSessions("the state survives JSON", async (sessions, { task }) => {
    const { session } = await sessions.open({ task, randomSeed });
    await make(sessions, session, validCalls(sessions));
    const state: unknown = await sessions.state(session);
    assert.deepEqual(JSON.parse(JSON.stringify(state)), state);
  }),

  onSessions("ISOLATION: two sessions share nothing", async (sessions, { task }) => {
    const calls = validCalls(sessions);
    const [one, two] = [await sessions.open({ task, randomSeed }), await sessions.open({ task, randomSeed })];
    const before: unknown = await sessions.state(two.session);
    await make(sessions, one.session, calls);
    assert.deepEqual(
      await sessions.state(two.session),
      before,
      "calls in one session changed the state of another session",
    );
    await make(sessions, two.session, calls);
    for (const { session } of [one, two]) {
      const replayed = await sessions.replay(session);
      // REPLAY reports code that is not deterministic.
      if (replayed.same || (await explain(sessions, task)) !== undefined) continue;
      const what = "the call results depend on other sessions, or on values that a replay cannot reproduce";
      assert.fail(`${what}: ${JSON.stringify(replayed)}`);
    }
  }),

  onSessions("SEED: seeding again replaces the whole state", async (sessions, { task }) => {
    const { session } = await sessions.open({ task, randomSeed });
    const { version } = await sessions.info(session);
    await make(sessions, session, validCalls(sessions));
    if (sessions.environment.verify) await sessions.verify(session);
    const seeded = await sessions.seed(session, task, { randomSeed });
    assert.equal(seeded.episode, 2);
    await sameUnlessTimed(sessions, task, [session], async () =>
      assert.deepEqual(await sessions.state(session), await sessions.state(session, version)),
    );
  }),

  onSessions("MISSING: a session that was never seeded is handled", async (sessions) => {
    const { session } = await sessions.open({ randomSeed });
    for (const { tool, input } of validCalls(sessions)) {
      try {
        const answer = await sessions.call(session, tool, input);
        assert.equal(answer.unseeded, true);
      } catch (error) {
        const refused = isHoldfastError(error) && error.code === "session_unseeded";
        assert.ok(refused && sessions.environment.unseeded === "reject", `${tool}: ${String(error)}`);
      }
    }
    assert.equal((await sessions.verify(session)).reward, 0);
  }),

  onSessions("PURE-VERIFY: verify changes nothing and returns the same result twice", async (sessions, { task }) => {
    if (!sessions.environment.verify) return;
    const { session } = await sessions.open({ task, randomSeed });
    await make(sessions, session, validCalls(sessions));
    const before: unknown = await sessions.state(session);
    const verdict = await sessions.verify(session);
    assert.deepEqual(await sessions.verify(session), verdict);
    assert.deepEqual(await sessions.state(session), before);
    // The first verdict is recorded. A fork has no verdict, so verify runs again.
    const { session: copy } = await sessions.fork(session);
    await sessions.verify(copy);
    assert.deepEqual(await sessions.state(copy), before);
  }),

  onSessions("invalid arguments never crash a tool", async (sessions, { task }) => {
    for (const [tool, { input, kind }] of sessions.environment.definitions) {
      if (kind === "external") continue;
      const { session } = await sessions.open({ task, randomSeed });
      for (const { what, input: bad } of badInputs(toJsonSchema(input))) {
        const before: unknown = await sessions.state(session);
        const answer = await sessions
          .call(session, tool, bad)
          .catch((error: unknown) => assert.fail(`${tool} with ${what} threw ${String(error)}`));
        if (!answer.ok)
          assert.deepEqual(await sessions.state(session), before, `${tool} with ${what} failed, but changed the state`);
      }
      const after = await sessions.call(session, tool, sample(toJsonSchema(input)));
      assert.ok(after.version > 0, `${tool}: the session did not continue`);
    }
  }),

  onSessions("REPLAY: a replayed session has the same outputs and states", async (sessions, { task }) => {
    const { session } = await sessions.open({ task, randomSeed });
    await make(sessions, session, validCalls(sessions));
    await assertReplays(sessions, task, await sessions.replay(session));
  }),
];

/**
 * Additional cases for an environment with a solution.
 *
 * @example
 * for (const { name, run } of solutionCases) test(name, () => run({ open, tasks, solution }));
 */
export const solutionCases: readonly SolutionCase[] = [
  onSessions(
    "the solution earns the best reward on every task, and its replay is identical",
    async (sessions, harness) => {
      const { bestReward } = sessions.environment;
      for (const [at, task] of harness.tasks.entries()) {
        const { session } = await sessions.open({ task });
        await play(harness.solution, task, callOn(sessions, session));
        const { reward } = await sessions.verify(session);
        assert.ok(
          reward >= bestReward,
          `task ${at}: the solution earns ${reward}, but the best reward is ${bestReward}; correct the solution, or set \`bestReward\` of the environment`,
        );
        assert.ok((await sessions.replay(session)).same, `task ${at}: a replay has a different result`);
      }
    },
  ),

  onSessions("doing nothing does not earn the best reward on any task", async (sessions, { tasks }) => {
    const { bestReward } = sessions.environment;
    for (const [at, task] of tasks.entries()) {
      const { session } = await sessions.open({ task });
      const { reward } = await sessions.verify(session);
      assert.ok(
        reward < bestReward,
        `task ${at}: doing nothing earns ${reward}, which is the best reward (${bestReward})`,
      );
    }
  }),
];
