// Checks on a session's state: it persists, is not shared, survives retries and concurrent calls, and ends.
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

/** Later checks compare answers, which means nothing if one of these fails. */
export const basicChecks: GymCheck[] = [
  {
    what: "the same seed and calls give the same answers",
    why:
      "Rewards of one task are compared with each other. They mean little if equal play has different results. " +
      "Take random numbers from the seed, and share the sessions among all processes of the server.",
    async run(trial) {
      for (let session = 2; session < 5; session++) {
        same(await make(await trial.seeded(), trial.calls), trial.first, `in session ${session}`);
      }
    },
  },
  {
    what: "state persists over the calls of a session",
    why:
      "An environment that forgets between calls cannot score a task of more than one step. A session that only one " +
      "process knows is lost when a call reaches another one.",
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
    why: "Episodes run at the same time. One must not change the state that another is scored by.",
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

/** The number of concurrent calls, and how often they are tried. */
const [atOnce, rounds] = [24, 5];

export const stateChecks: GymCheck[] = [
  {
    what: "a missing session is handled",
    why: "A client that lost its cookie should get an answer, not a crash, and no reward for work it did not do.",
    async run(trial) {
      for (const answer of await make(trial.client(), trial.calls)) assertNo5xx(answer, "a call without a session");
      const reply = await trial.client().post("/verify", verifyBody(trial.task));
      assertNo5xx(reply, "verify without a session");
      const reward = rewardIn(reply) ?? -Infinity;
      assert.ok(reward < trial.bestReward, `verify without a session gave a reward of ${reward}`);
    },
  },
  {
    what: "a lost session does not read as a valid state",
    why: "An agent that lost its cookie plays on an empty state without noticing, and is scored by it.",
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
    why: "A session that is used again would start its next episode with the remains of the last one.",
    compares: true,
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reply = await trial.seed(client);
      // The call was refused, so nothing from the old episode can be in a new one.
      if (reply.status >= 400 && reply.status < 500) return undefined;
      assert.ok(reply.status < 300, `the second seed was answered with ${inText(reply)}`);
      same(await make(client, trial.calls), trial.first, "after the second seed");
      return showsState(trial) ? undefined : noState;
    },
  },
  {
    what: "verify reads the session of its caller, and changes nothing",
    why: "A verify that writes, or that reads another session, gives rewards that the episode did not earn.",
    compares: true,
    async run(trial) {
      const { solution, task, bestReward } = trial;
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reward = await verify(client, task);
      assert.equal(await verify(client, task), reward, "the second verify gave another reward");
      same(await make(client, trial.calls), trial.second, "after verify");
      if (!solution) return "no solution is known: only checked that verify changes nothing";
      const [winner, idler] = [await trial.seeded(), await trial.seeded()];
      await play(solution, task, async ({ tool, input }) => (await winner.post(`/${tool}`, input)).body);
      const [idle, won] = [await verify(idler, task), await verify(winner, task)];
      assert.ok(idle < bestReward, `a session without calls got a reward of ${idle}`);
      assert.ok(won >= bestReward, `the solution got a reward of ${won}, and the best reward is ${bestReward}`);
    },
  },
  {
    what: "every response sets the cookie, refusals too",
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
        // A different check covers crashes.
        assert.ok(cookie || status >= 500, `POST /${tool} with ${JSON.stringify(input)}: ${status} without a cookie`);
        isRefused &&= cookie && status >= 400;
      }
      // A tool without a schema accepts any input, and then the call may have changed the state.
      if (isRefused) same(await make(client, trial.calls), trial.second, "after refusals");
    },
  },
  {
    what: "a call that crashes keeps its session",
    why: "Agents keep only the cookies of the last response: a 500 without a cookie ends the episode unnoticed.",
    async run(trial) {
      for (const [tool, schema] of trial.tools) {
        const client = await trial.seeded();
        const replies = [{ what: "JSON that is cut off", reply: await client.postText(`/${tool}`, '{"count": ') }];
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
    why: "A client that got no answer sends the call again. Applied twice, the state is not what the model made it.",
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
      same(await make(client, trial.calls), trial.second, "after every call was sent twice with one Idempotency-Key");
    },
  },
  {
    what: "calls at once lose nothing",
    why: "Models call tools in parallel. Without an order of some kind, one call overwrites the result of another.",
    compares: true,
    async run(trial) {
      if (!showsState(trial)) return noState;
      // Equal calls, so that their order does not matter.
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
          const what = `after ${atOnce} calls of ${call.tool} at once (round ${round + 1})`;
          same(await make(client, trial.calls), expected, what);
        }
      }
    },
  },
  {
    what: "closing a session frees it",
    why: "Sessions that nothing ends pile up until the server runs out of memory and loses every episode.",
    async run(trial) {
      const client = await trial.seeded();
      await make(client, trial.calls);
      const reply = await client.post("/close_session", {});
      if (reply.status === 404 || reply.status === 405) {
        return "the server has no POST /close_session, so the sessions of these checks stay open; make sure that it ends sessions";
      }
      assert.ok(reply.status < 300, `closing was answered with ${inText(reply)}`);
      assertNo5xx(await client.post("/close_session", {}), "closing again");
      const after = await make(client, trial.calls);
      assert.ok(!showsState(trial) || !continues(after, trial), "the session continues as if it had not been closed");
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
    },
  },
];

/**
 * Makes a call many times at once. Connections are opened first, because handshakes would make the calls arrive one
 * after another.
 */
async function callAtOnce(client: GymClient, { tool, input }: Call): Promise<void> {
  const times = Array.from({ length: atOnce }, (_, n) => n);
  await Promise.all(times.map(() => client.get("/")));
  await Promise.all(times.map((n) => client.post(`/${tool}`, input, { "idempotency-key": `at-once-${n}` })));
}
