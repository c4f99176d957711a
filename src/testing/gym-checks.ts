// runGymChecks(): checks a running gym server for the properties of a stateful environment, over HTTP only.
import assert from "node:assert/strict";
import { messageOf } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { badInputs } from "./arguments.ts";
import { play, type Call, type Solution } from "./environments.ts";
import { createGymClient, type GymClient, type GymReply } from "./gym-client.ts";

export interface GymTarget {
  /** Without a trailing slash. */
  url: string;
  /** The task to seed and verify with. */
  task: { [field: string]: Json };
  /** Calls that show state: their answers depend on earlier calls. */
  calls: Call[];
  /** The tools and the JSON Schemas of their arguments, as far as known. */
  tools: Map<string, { [key: string]: Json }>;
  solution?: Solution | undefined;
}

export interface Checked {
  what: string;
  result: "pass" | "fail" | "skipped";
  /** The failure, or the reason for skipping. */
  message?: string;
  why: string;
  /** Commands that reproduce the failure. */
  reproduce?: string[];
}

interface Trial extends GymTarget {
  /** Creates a client without a session. */
  client(cookies?: "merge" | "replace"): GymClient;
  /** Creates a client with a new session, seeded with the task. */
  seeded(cookies?: "merge" | "replace"): Promise<GymClient>;
  /** The answers to the calls in a new session, and to the same calls repeated there. */
  first: Answers;
  second: Answers;
}

type Answers = Pick<GymReply, "status" | "body">[];

interface GymCheck {
  what: string;
  why: string;
  /** Returns undefined on success, or the reason for skipping. Rejects on failure. */
  run(trial: Trial): Promise<string | undefined>;
}

const noState = "the calls answer the same every time, so they show no state; name others with --tool";

async function make(client: GymClient, calls: Call[]): Promise<Answers> {
  const answers: Answers = [];
  for (const { tool, input } of calls) {
    const { status, body } = await client.post(`/${tool}`, input);
    answers.push({ status, body });
  }
  return answers;
}

// A Responses object without output: valid for the server, with nothing to score.
const response = {
  id: "resp_check",
  object: "response",
  created_at: 0,
  model: "check",
  status: "completed",
  output: [],
  tools: [],
  tool_choice: "auto",
  parallel_tool_calls: true,
};

async function verify(client: GymClient, task: { [field: string]: Json }): Promise<Json | undefined> {
  const { status, body } = await client.post("/verify", { responses_create_params: { input: [] }, ...task, response });
  assert.ok(status < 300, `verify answered ${status}: ${JSON.stringify(body)}`);
  return (body as { reward?: Json } | null)?.reward;
}

function assertNo5xx({ status, body }: Answers[number], what: string): void {
  assert.ok(status < 500, `${what} was answered ${status}: ${JSON.stringify(body).slice(0, 200)}`);
}

function showsState({ first, second }: Trial): boolean {
  return JSON.stringify(first) !== JSON.stringify(second);
}

function same(actual: Answers, expected: Answers, what: string): void {
  for (const [at, answer] of expected.entries()) {
    const [got, wanted] = [inText(actual[at]), inText(answer)];
    assert.ok(got === wanted, `${what}: call ${at + 1} was answered ${got}, not ${wanted}`);
  }
}

function inText(answer: Answers[number] | undefined): string {
  return answer ? `${answer.status} ${JSON.stringify(answer.body)}` : "not at all";
}

const checks: GymCheck[] = [
  {
    what: "the same seed and calls give the same answers",
    why: "Rewards of one task are compared with each other. If the episode itself varies, they measure luck.",
    async run(trial) {
      same(await make(await trial.seeded(), trial.calls), trial.first, "in a second session");
      return undefined;
    },
  },
  {
    what: "state persists over the calls of a session",
    why: "An environment that forgets between calls cannot score a task of more than one step.",
    run: async (trial) => (showsState(trial) ? undefined : noState),
  },
  {
    what: "two sessions are isolated",
    why: "Episodes run side by side. What one changes must not be in the state that another is scored by.",
    async run(trial) {
      const [one, two] = [await trial.seeded(), await trial.seeded()];
      const answers: [Answers, Answers] = [[], []];
      for (const call of trial.calls) {
        answers[0].push(...(await make(one, [call])));
        answers[1].push(...(await make(two, [call])));
      }
      same(answers[0], trial.first, "in the first of two sessions");
      same(answers[1], trial.first, "in the second of two sessions");
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "a missing session is handled",
    why: "A client that lost its cookie should get an answer, not a crash, and no reward for what it did not do.",
    async run(trial) {
      const client = trial.client();
      for (const answer of await make(client, trial.calls)) assertNo5xx(answer, "a call without a session");
      const { status, body } = await trial.client().post("/verify", { ...trial.task, response });
      assertNo5xx({ status, body }, "verify without a session");
      const reward = (body as { reward?: Json } | null)?.reward;
      assert.notEqual(reward, 1, "verify without a session gave a reward of 1");
      return undefined;
    },
  },
  {
    what: "seeding again replaces the state",
    why: "A session that is used again would start its next episode with what is left of the last one.",
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const { status, body } = await client.post("/seed_session", trial.task);
      if (status === 409) return "the server refuses to seed while an episode is under way";
      assert.ok(status < 300, `the second seed was answered ${status}: ${JSON.stringify(body)}`);
      same(await make(client, trial.calls), trial.first, "after the second seed");
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "verify reads the session of its caller, and changes nothing",
    why: "A verify that writes, or that looks elsewhere, gives rewards that the episode did not earn.",
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reward = await verify(client, trial.task);
      assert.equal(typeof reward, "number", "the reward is not a number");
      assert.equal(await verify(client, trial.task), reward, "the second verify gave another reward");
      same(await make(client, trial.calls), trial.second, "after verify");
      const { solution } = trial;
      if (!solution) return "no solution is known, so that it was only tried whether verify changes something";
      const [winner, idler] = [await trial.seeded(), await trial.seeded()];
      await play(solution, trial.task, async ({ tool, input }) => (await winner.post(`/${tool}`, input)).body);
      assert.notEqual(await verify(idler, trial.task), 1, "a session in which nothing was done got a reward of 1");
      assert.equal(await verify(winner, trial.task), 1, "the solution did not get a reward of 1");
      return undefined;
    },
  },
  {
    what: "every response sets the cookie, refusals too",
    why: "Agents keep the cookies of the last response and no others: one response without it, and the session is lost.",
    async run(trial) {
      const client = await trial.seeded("replace");
      const answers = await make(client, trial.calls);
      same(answers, trial.first, "with the cookies of the last response only");
      const [call] = trial.calls;
      const refused: Call[] = [{ tool: "no_such_tool", input: {} }];
      if (call) refused.push({ tool: call.tool, input: "not an object" });
      let isRefused = true;
      for (const { tool, input } of refused) {
        const { status, cookie } = await client.post(`/${tool}`, input);
        assert.ok(cookie, `POST /${tool} with ${JSON.stringify(input)} was answered ${status} without a cookie`);
        isRefused &&= status >= 400;
      }
      // A tool without a schema accepts any input, and then the call may have changed the state.
      if (isRefused) same(await make(client, trial.calls), trial.second, "after refusals");
      return undefined;
    },
  },
  {
    what: "a retried call id is applied once",
    why: "A client that got no answer sends the call again. Applied twice, the state is not what the model made it.",
    async run(trial) {
      if (!showsState(trial)) return noState;
      const client = await trial.seeded();
      for (const [at, { tool, input }] of trial.calls.entries()) {
        const key = { "idempotency-key": `check-${at + 1}` };
        const { status, body } = await client.post(`/${tool}`, input, key);
        const again = await client.post(`/${tool}`, input, key);
        same([again], [{ status, body }], `the repeat of ${tool}`);
      }
      same(await make(client, trial.calls), trial.second, "after every call was sent twice under one Idempotency-Key");
      return undefined;
    },
  },
  {
    what: "calls at once lose nothing",
    why: "Models call tools in parallel. Without an order of some kind, one call overwrites what another has done.",
    async run(trial) {
      if (!showsState(trial)) return noState;
      // Equal calls, so that their order does not matter.
      const calls = new Map(trial.calls.map((call) => [JSON.stringify(call), call]));
      for (const call of [...calls.values()].slice(0, 10)) {
        const many = Array.from({ length: 8 }, () => call);
        const [atOnce, inTurn] = [await trial.seeded(), await trial.seeded()];
        await Promise.all(many.map((one) => make(atOnce, [one])));
        await make(inTurn, many);
        const [actual, expected] = [await make(atOnce, trial.calls), await make(inTurn, trial.calls)];
        same(actual, expected, `after 8 calls of ${call.tool} at once, instead of in turn`);
      }
      return undefined;
    },
  },
  {
    what: "closing a session frees it",
    why: "What nobody ends piles up until the server dies, with every episode in it.",
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const { status, body } = await client.post("/close_session", {});
      if (status === 404 || status === 405)
        return "the server has no POST /close_session; see that sessions end otherwise";
      assert.ok(status < 300, `closing was answered ${status}: ${JSON.stringify(body)}`);
      assertNo5xx(await client.post("/close_session", {}), "closing again");
      const after = await make(client, trial.calls);
      for (const answer of after) assertNo5xx(answer, "a call after the end");
      const goesOn = showsState(trial) && JSON.stringify(after) === JSON.stringify(trial.second);
      assert.ok(!goesOn, "the session goes on as if it had not been closed");
      return undefined;
    },
  },
  {
    what: "bad arguments never give a 5xx",
    why: "Models send all sorts of arguments. A crash tells them nothing, and often costs the episode its session.",
    async run(trial) {
      for (const [tool, schema] of trial.tools) {
        const client = await trial.seeded();
        for (const { what, input } of badInputs(schema)) {
          assertNo5xx(await client.post(`/${tool}`, input), `${tool} with ${what}`);
        }
      }
      return undefined;
    },
  },
];

/** Plays a solution and returns its calls in order. */
export async function playSolution(target: Pick<GymTarget, "url" | "task">, solution: Solution): Promise<Call[]> {
  const client = createGymClient({ url: target.url, name: "a", commands: [] });
  await client.post("/seed_session", target.task);
  const calls: Call[] = [];
  await play(solution, target.task, async (call) => {
    calls.push(call);
    return (await client.post(`/${call.tool}`, call.input)).body;
  });
  return calls;
}

/** Runs every check. Rejects only if the server is unreachable or cannot be seeded. */
export async function runGymChecks(target: GymTarget): Promise<Checked[]> {
  let commands: string[] = [];
  let clients = 0;
  const client = (cookies?: "merge" | "replace"): GymClient => {
    const name = String.fromCharCode(97 + (clients++ % 26));
    return createGymClient({ url: target.url, name, commands, ...(cookies && { cookies }) });
  };
  const seeded = async (cookies?: "merge" | "replace"): Promise<GymClient> => {
    const made = client(cookies);
    const { status, body } = await made.post("/seed_session", target.task);
    assert.ok(status < 300, `seeding was answered ${status}: ${JSON.stringify(body)}`);
    return made;
  };
  const sample = await seeded();
  const first = await make(sample, target.calls);
  const second = await make(sample, target.calls);
  const trial: Trial = { ...target, client, seeded, first, second };

  const results: Checked[] = [];
  for (const { what, why, run } of checks) {
    commands = [];
    clients = 0;
    try {
      const message = await run(trial);
      results.push(message === undefined ? { what, result: "pass", why } : { what, result: "skipped", message, why });
    } catch (thrown) {
      // Keep the first command, which seeds, and the last ones, which lead to the failure.
      const reproduce = commands.length > 12 ? [...commands.slice(0, 1), "# …", ...commands.slice(-10)] : commands;
      results.push({ what, result: "fail", message: messageOf(thrown), why, reproduce });
    }
  }
  return results;
}
