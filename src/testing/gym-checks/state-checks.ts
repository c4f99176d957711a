// Checks on a session's state: it persists, is not shared, survives retries and concurrent calls, and can be closed.
import assert from "node:assert/strict";
import { badInputs } from "../arguments.ts";
import { play, type Call } from "../environments.ts";
import type { GymClient } from "./client.ts";
import {
  assertNo5xx,
  continues,
  inText,
  make,
  noState,
  rewardIn,
  same,
  showsState,
  verify,
  verifyBody,
  type Answers,
  type GymCheck,
} from "./trial.ts";

/** If one of these checks fails, later checks that compare answers are skipped. */
export const basicChecks: GymCheck[] = [
  {
    what: "the same seed and calls return the same answers",
    why:
      "Training compares the rewards of several attempts at a task. The comparison means little if the same calls can " +
      "have different results. " +
      "Derive random numbers from the seed, and share sessions between all server processes.",
    async run(trial) {
      for (let session = 2; session < 5; session++) {
        same(await make(await trial.seeded(), trial.calls), trial.first, `in session ${session}`);
      }
    },
  },
  {
    what: "state persists between the calls of a session",
    why:
      "An environment that forgets its state between calls cannot score a task with several steps. A session that only one " +
      "process has in memory is lost when a call reaches another process.",
    compares: true,
    async run(trial) {
      for (const between of [0, 1, 2]) {
        const client = await trial.seeded({ connections: "new" });
        const answers: Answers = [];
        for (const call of trial.calls) {
          for (let n = 0; n < between; n++) await client.get("/");
          answers.push(...(await make(client, [call])));
        }
        same(answers, trial.first, `with ${between} other requests before each call, each on a new connection`);
      }
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "two sessions are isolated",
    why: "Episodes run concurrently. One episode must not change the state that decides another episode's reward.",
    compares: true,
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
];

/** The number of concurrent calls, and the number of rounds. */
const [atOnce, rounds] = [24, 5];

export const stateChecks: GymCheck[] = [
  {
    what: "a missing session is handled",
    why: "A client without a valid cookie should get an error reply. The server must not crash or return a reward.",
    async run(trial) {
      for (const answer of await make(trial.client(), trial.calls)) assertNo5xx(answer, "a call without a session");
      const reply = await trial.client().post("/verify", verifyBody(trial.task));
      assertNo5xx(reply, "verify without a session");
      const reward = rewardIn(reply) ?? -Infinity;
      assert.ok(reward < trial.bestReward, `verify without a session gave a reward of ${reward}`);
    },
  },
  {
    what: "a lost session is not answered as if it had a valid state",
    why: "An agent that lost its cookie would otherwise continue on an empty state without noticing, and get its reward from that state.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      const client = trial.client();
      for (const [at, { tool, input }] of trial.calls.entries()) {
        const reply = await client.post(`/${tool}`, input);
        if (reply.isNew) return 'the environment allows calls without a seed: `unseeded: "defaults"`';
        const [before, after] = [trial.first[at], trial.second[at]];
        const isState = JSON.stringify(before) !== JSON.stringify(after) && (before?.status ?? 500) < 300;
        assert.ok(!isState || reply.status >= 300, `${tool} without a session was answered with ${inText(reply)}`);
      }
    },
  },
  {
    what: "seeding again replaces the state",
    why: "If the old state stays, the next episode in the session starts with data from the previous episode.",
    compares: true,
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reply = await trial.seed(client);
      // The second seed was refused, so no data of the old episode can be in a new episode.
      if (reply.status >= 400 && reply.status < 500) return undefined;
      assert.ok(reply.status < 300, `the second seed returned ${inText(reply)}`);
      same(await make(client, trial.calls), trial.first, "after the second seed");
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "verify reads its caller's session and changes nothing",
    why: "If verify writes, or reads another session, it returns rewards that the episode did not earn.",
    compares: true,
    async run(trial) {
      const { solution, task, bestReward } = trial;
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reward = await verify(client, task);
      assert.equal(await verify(client, task), reward, "the second verify returned a different reward");
      same(await make(client, trial.calls), trial.second, "after verify");
      if (!solution)
        return "there is no solution that earns the best reward, so the check tested only that verify changes nothing";
      const [winner, idler] = [await trial.seeded(), await trial.seeded()];
      await play(solution, task, async ({ tool, input }) => (await winner.post(`/${tool}`, input)).body);
      const [idle, won] = [await verify(idler, task), await verify(winner, task)];
      assert.ok(idle < bestReward, `a session without calls got a reward of ${idle}`);
      assert.ok(won >= bestReward, `the solution got a reward of ${won}, but the best reward is ${bestReward}`);
    },
  },
  {
    what: "every response sets the cookie, including refusals",
    why: "Agents keep only the cookies of the last response. After one response without a cookie, the session is lost.",
    compares: true,
    async run(trial) {
      const client = await trial.seeded({ cookies: "replace" });
      same(await make(client, trial.calls), trial.first, "with the cookies of the last response only");
      const [call] = trial.calls;
      const refused: Call[] = [{ tool: "no_such_tool", input: {} }];
      if (call) refused.push({ tool: call.tool, input: "not an object" });
      let isRefused = true;
      for (const { tool, input } of refused) {
        const { status, cookie } = await client.post(`/${tool}`, input);
        // The check for crashing tools covers status 500.
        assert.ok(cookie || status >= 500, `POST /${tool} with ${JSON.stringify(input)}: ${status} without a cookie`);
        isRefused &&= cookie && status >= 400;
      }
      // A tool without a schema accepts any input, and then the call may have changed the state.
      if (isRefused) same(await make(client, trial.calls), trial.second, "after refusals");
    },
  },
  {
    what: "a tool that crashes does not lose the session",
    why: "Agents keep only the cookies of the last response. A 500 response without a cookie silently ends the episode.",
    async run(trial) {
      for (const [tool, schema] of trial.tools) {
        const client = await trial.seeded();
        const replies = [{ what: "truncated JSON", reply: await client.postText(`/${tool}`, '{"count": ') }];
        for (const { what, input } of badInputs(schema)) {
          replies.push({ what, reply: await client.post(`/${tool}`, input) });
        }
        for (const { what, reply } of replies) {
          const message = `${tool} with ${what} was answered with ${inText(reply)}, without a cookie`;
          assert.ok(reply.status < 500 || reply.cookie, message);
        }
      }
    },
  },
  {
    what: "a retried call id is applied once",
    why: "A client that received no reply retries the call. If the call is applied twice, the state is wrong.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      const client = await trial.seeded();
      for (const [at, { tool, input }] of trial.calls.entries()) {
        const key = { "idempotency-key": `check-${at + 1}` };
        const { status, body } = await client.post(`/${tool}`, input, key);
        const again = await client.post(`/${tool}`, input, key);
        same([again], [{ status, body }], `when ${tool} was repeated`);
      }
      same(
        await make(client, trial.calls),
        trial.second,
        "after every call was sent twice with the same Idempotency-Key",
      );
    },
  },
  {
    what: "concurrent calls lose no updates",
    why: "Models call tools in parallel. Unless the server orders these calls, one overwrites the result of another.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      // All calls are identical, so that their order does not matter.
      const calls = new Map(trial.calls.map((call) => [JSON.stringify(call), call]));
      for (const call of [...calls.values()].slice(0, 10)) {
        const inTurn = await trial.seeded();
        await make(
          inTurn,
          Array.from({ length: atOnce }, () => call),
        );
        const expected = await make(inTurn, trial.calls);
        for (let round = 0; round < rounds; round++) {
          const client = await trial.seeded();
          await callAtOnce(client, call);
          const what = `after ${atOnce} concurrent calls of ${call.tool} (round ${round + 1})`;
          same(await make(client, trial.calls), expected, what);
        }
      }
    },
  },
  {
    what: "closing a session frees it",
    why: "Sessions that never end use more and more memory, until the server crashes and loses every episode.",
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reply = await client.post("/close_session", {});
      if (reply.status === 404 || reply.status === 405) {
        return "the server has no POST /close_session, so the sessions of these checks stay open; make sure that the server ends old sessions";
      }
      assert.ok(reply.status < 300, `POST /close_session returned ${inText(reply)}`);
      assertNo5xx(await client.post("/close_session", {}), "closing again");
      const after = await make(client, trial.calls);
      assert.ok(!showsState(trial) || !continues(after, trial), "the session still works after it was closed");
    },
  },
  {
    what: "invalid arguments never cause a 5xx status",
    why: "Models send invalid arguments. A crash gives the model no information, and often loses the session.",
    async run(trial) {
      for (const [tool, schema] of trial.tools) {
        const client = await trial.seeded();
        for (const { what, input } of badInputs(schema)) {
          assertNo5xx(await client.post(`/${tool}`, input), `${tool} with ${what}`);
        }
      }
    },
  },
];

/** Makes many identical calls concurrently. Opens connections first, because handshakes would separate the calls. */
async function callAtOnce(client: GymClient, { tool, input }: Call): Promise<void> {
  const times = Array.from({ length: atOnce }, (_, n) => n);
  await Promise.all(times.map(() => client.get("/")));
  await Promise.all(times.map((n) => client.post(`/${tool}`, input, { "idempotency-key": `at-once-${n}` })));
}
