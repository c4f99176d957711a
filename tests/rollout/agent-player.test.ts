// createAgentPlayer: rollouts played by a third-party agent, with all its possible answers.
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createGymClient } from "../../src/rollout/gym-client.ts";
import { createAgentPlayer } from "../../src/rollout/play/agent-player.ts";
import type { Played, Rollout } from "../../src/core/rollout.ts";
import { listening } from "../protocols/foreign-gym.ts";
import { failureIn } from "./played.ts";

const rollout: Rollout = {
  task: 0,
  repeat: 0,
  attempt: 0,
  session: "conversation",
  random: 1,
  row: { responses_create_params: { input: "Go.", unknown: 1 }, goal: 6 },
};
const never = new AbortController().signal;

/** An agent that gives one answer, or none. */
async function agentOf(answer: { status?: number; body: string } | "drop" | "silent") {
  const bodies: unknown[] = [];
  const url = await listening(
    createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      bodies.push([request.method, request.url, JSON.parse(text)]);
      if (answer === "drop") return request.socket.destroy();
      if (answer !== "silent") response.writeHead(answer.status ?? 200).end(answer.body);
    }),
  );
  return { url, bodies };
}

async function playedBy(answer: Parameters<typeof agentOf>[0], timeout?: number): Promise<Played> {
  const { url } = await agentOf(answer);
  return createAgentPlayer({ client: createGymClient(url), timeout })(rollout, never);
}

const response = { id: "resp_1", output: [] };
const body = (fields: object): { body: string } => ({ body: JSON.stringify({ response, ...fields }) });

test("the row is posted, and the verdict is returned, with further results under metrics", async () => {
  const seed = { _holdfast_random_seed: 1 };
  const { url, bodies } = await agentOf(body({ reward: 0.5, extra: "kept", goal: 6, session_id: "theirs", ...seed }));
  const played = await createAgentPlayer({ client: createGymClient(url) })(rollout, never);
  const fields = { response, reward: 0.5, metrics: { extra: "kept" } };
  expect(played).toEqual({ outcome: "scored", fields, session: "theirs" });
  expect(bodies).toEqual([["POST", "/run", { goal: 6, responses_create_params: { input: "Go." }, ...seed }]]);
});

const failed: [what: string, answer: Parameters<typeof agentOf>[0], kind: string][] = [
  ["an error", { status: 500, body: "KeyError('x')" }, "agent"],
  ["a row that is refused", { status: 422, body: "{}" }, "task"],
  ["no answer", "drop", "agent"],
  ["what is no JSON", { body: "<html>" }, "agent"],
  ["no reward", body({}), "verify"],
  ["a reward that is too large for a number", { body: '{"response":{"output":[]},"reward":1e999}' }, "agent"],
  ["no transcript", { body: '{"reward":1}' }, "agent"],
  ["a kind of failure", body({ reward: 0, failure_kind: "model" }), "model"],
  ["a row that is masked", body({ reward: 1, mask_sample: true }), "agent"],
  ["a row that is not to be kept", body({ reward: 1, _ng_no_persist: true }), "agent"],
  [
    "what is nested too deeply",
    { body: `{"response":{"output":${"[".repeat(9_000)}${"]".repeat(9_000)}},"reward":1}` },
    "agent",
  ],
  ["a judge that failed", body({ reward: 0, _ng_failure_class: "judge_failed" }), "verify"],
  ["a failure of theirs", body({ reward: 0, _ng_failure_class: "remote_agent_error" }), "agent"],
  ["a failure of a Holdfast", body({ reward: 0, _ng_failure_class: "model" }), "model"],
  [
    ...(["a failure for good", body({ reward: 0, _ng_failure_class: "x", _ng_failure_terminal: true })] as const),
    "task",
  ],
];

test.each(failed)("SCORED: %s is a failure, and not a reward", async (_, answer, kind) => {
  const played = await playedBy(answer);
  expect(failureIn(played)?.kind).toBe(kind);
  expect(failureIn(played)?.reason).not.toBe("");
  expect(played.fields).not.toHaveProperty("reward");
});

test("an agent that does not answer in time, or is cancelled", async () => {
  expect(failureIn(await playedBy("silent", 50))?.kind).toBe("timeout");
  const { url } = await agentOf("silent");
  const play = createAgentPlayer({ client: createGymClient(url) });
  expect(failureIn(await play(rollout, AbortSignal.timeout(50)))).toMatchObject({
    reason: "the episode was cancelled",
  });
});
