// gymnasiumHost: episodes on servers with reset and step, a third party's and Holdfast's own.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createSessions, defineAgent, memoryStore, scriptedModel, type Conversations, type Json } from "holdfast";
import { collectRollouts } from "holdfast/rollout";
import { expect, onTestFinished, test } from "vitest";
import type { Model } from "../../src/core/model.ts";
import type { Played, Rollout, TaskRow } from "../../src/core/rollout.ts";
import { createGymClient } from "../../src/rollout/gym-client.ts";
import { gymnasiumHost } from "../../src/rollout/play/gymnasium-host.ts";
import { createPlayerOn } from "../../src/rollout/play/player.ts";
import { rowForServer } from "../../src/rollout/play/server-host.ts";
import { serve } from "../../src/server/serve.ts";
import { foreignGymnasium } from "../protocols/foreign-gymnasium.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { newFolder, rowsOf } from "./folder.ts";
import { failureIn } from "./played.ts";

const both = { supports_explicit_close: true, supports_step_idempotency: true };

const rolloutOf = (fields: TaskRow = {}): Rollout => ({
  task: 0,
  repeat: 0,
  attempt: 0,
  row: {
    responses_create_params: {
      input: "Play.",
      tools: [{ type: "function", name: "hint", parameters: { type: "object", properties: {} }, strict: false }],
      extra: 1,
    },
    secret: 5,
    ...fields,
  },
  session: "conversation-0123456789",
  random: 7,
});

const engine = (): Conversations => createSessions({ app: "rollouts", store: memoryStore() });
const never = new AbortController().signal;

function playerOn(url: string, model: Model, sessions = engine(), limits = {}, timeout?: number) {
  const agentFor = () => defineAgent({ name: "agent", model, limits });
  return createPlayerOn(gymnasiumHost(createGymClient(url)), { sessions, agentFor, timeout });
}

const outputOf = ({ fields }: Played) =>
  (fields["response"] as { output: { type: string; role?: string; content?: unknown; output?: string }[] }).output;
const hint = (near: number) => ({ name: "hint", arguments: { near } });
const paths = (requests: { path: string }[]): string[] => requests.map(({ path }) => path);

test("an episode sums the rewards, reads outputs and observations, and closes the session", async () => {
  const { url, requests, games } = await foreignGymnasium({ info: both });
  const inputs: unknown[] = [];
  const script = [{ calls: [hint(3)] }, "4", "", { calls: [hint(4), hint(6), { name: "nowhere" }] }, "5"];
  const model = scriptedModel(({ input }) => {
    inputs.push(input);
    return script[inputs.length - 1];
  });
  const played = await playerOn(url, model)(rolloutOf(), never);
  expect(failureIn(played)).toBeUndefined();
  expect(played).toMatchObject({
    outcome: "scored",
    fields: { metrics: { terminated: true, truncated: false, guesses: 5, word: "right" } },
  });
  expect(played.fields["reward"]).toBeCloseTo(0.6);
  expect(played).not.toHaveProperty("stopped");
  expect(paths(requests)).toEqual(["/reset", "/step", "/step", "/step", "/step", "/step", "/close"]);
  expect(games).toMatchObject([{ isClosed: true }]);
  // Each step has one answer, and its own id.
  const steps = requests.slice(1, -1).map(({ body }) => body);
  expect(steps.map(({ response }) => (response as { output: unknown[] }).output.length)).toEqual([1, 1, 1, 3, 1]);
  expect(new Set(steps.map((body) => body["_ng_step_request_id"])).size).toBe(5);
  expect(inputs[0]).toMatchObject([{ content: "Play." }, { role: "user", content: "Guess a number." }]);
  expect(inputs.at(-1)).toMatchObject([
    {},
    {},
    { type: "function_call" },
    { type: "function_call_output", output: '{"off":2}' },
    { role: "assistant" },
    { role: "user", content: "higher" },
    {},
    { type: "function_call" },
    { type: "function_call" },
    { type: "function_call" },
    { output: '{"off":1}' },
    { output: '{"off":1}' },
    { output: expect.stringContaining("unknown_tool") as string },
    { role: "user", content: "One hint at a time is cheaper." },
  ]);
  // The row has all of it, after the row's own input.
  expect(outputOf(played).map(({ type, role }) => role ?? type)).toEqual([
    "user",
    "function_call",
    "function_call_output",
    "assistant",
    "user",
    "assistant",
    "function_call",
    "function_call",
    "function_call",
    "function_call_output",
    "function_call_output",
    "function_call_output",
    "user",
    "assistant",
  ]);
});

test("a server without capabilities gets no step ids and no close", async () => {
  const { url, requests } = await foreignGymnasium();
  const played = await playerOn(url, scriptedModel(["5"]))(rolloutOf(), never);
  expect(played).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
  expect(paths(requests)).toEqual(["/reset", "/step"]);
  expect(requests[1]?.body).not.toHaveProperty("_ng_step_request_id");
  expect(requests[0]?.body).toMatchObject({ secret: 5, _holdfast_random_seed: 7 });
});

test("a truncated episode is scored, and so is one that reaches a limit of the agent", async () => {
  const { url } = await foreignGymnasium({ most: 2 });
  const played = await playerOn(url, scriptedModel(["1", "2", "5"]))(rolloutOf(), never);
  expect(played).toMatchObject({ fields: { reward: 0, metrics: { terminated: false, truncated: true } } });
  const { url: longer, games } = await foreignGymnasium({ info: both });
  const limited = await playerOn(longer, scriptedModel([{ calls: [hint(1)] }, "2", "5"]), engine(), { steps: 2 })(
    rolloutOf(),
    never,
  );
  expect(limited).toMatchObject({ outcome: "scored", stopped: "steps", fields: { reward: -0.1 } });
  expect(games).toMatchObject([{ isClosed: true, guesses: 2 }]);
  const spent = await playerOn(longer, scriptedModel(["2", "5"]), engine(), { tokens: 1 })(rolloutOf(), never);
  expect(spent).toMatchObject({ outcome: "scored", stopped: "tokens", fields: { reward: 0 } });
});

test("an episode that ends in the middle of an answer's calls is scored", async () => {
  const { url } = await foreignGymnasium({ most: 1 });
  const played = await playerOn(url, scriptedModel([{ calls: [hint(1), hint(2)] }, "5"]))(rolloutOf(), never);
  expect(played).toMatchObject({ outcome: "scored", fields: { reward: -0.2, metrics: { truncated: true } } });
});

const bad: [what: string, body: { status: number; body: unknown } | "drop" | { text: string }][] = [
  ["that drops the connection", "drop"],
  ["with the status 500", { status: 500, body: "KeyError('boom')" }],
  ["with the status 404", { status: 404, body: { detail: "Not Found" } }],
  ["that is not JSON", { text: "<html>" }],
  ["that is cut off", { text: '{"observation":null,"reward":1,' }],
  ["that is a list", { text: "[]" }],
  ["that is empty", { text: "{}" }],
  ["without a reward", { text: '{"observation":null,"terminated":true,"truncated":false,"info":{}}' }],
  ["whose reward is a text", { text: '{"reward":"1","terminated":true,"truncated":false,"info":{}}' }],
  ["whose reward is null", { text: '{"reward":null,"terminated":true,"truncated":false,"info":{}}' }],
  ["without `terminated`", { text: '{"reward":1,"truncated":false,"info":{}}' }],
  ["whose `terminated` is a text", { text: '{"reward":1,"terminated":"no","truncated":false,"info":{}}' }],
  ["whose observation is an object", { text: '{"observation":{},"reward":0,"terminated":false,"truncated":false}' }],
  ["whose `info` is a list", { text: '{"reward":0,"terminated":true,"truncated":false,"info":[]}' }],
  [
    "whose `tool_outputs` are a text",
    { text: '{"reward":0,"terminated":true,"truncated":false,"info":{"tool_outputs":"x"}}' },
  ],
  [
    "whose `tool_outputs` have no output",
    { text: '{"reward":0,"terminated":false,"truncated":false,"info":{"tool_outputs":[{"call_id":"c"}]}}' },
  ],
];

test.each(bad)("SCORED: a step's reply %s fails the rollout, and the session is closed", async (_, reply) => {
  const instead = ({ path }: { path: string }, seen: number) => (path === "/step" && seen > 2 ? reply : undefined);
  for (const last of ["5", { calls: [hint(1)] }]) {
    const { url, games } = await foreignGymnasium({ info: both, instead });
    const played = await playerOn(url, scriptedModel([{ calls: [hint(3)] }, last]))(rolloutOf(), never);
    expect(failureIn(played)).toMatchObject({ kind: "tool", code: "server_failed" });
    expect(played.fields).not.toHaveProperty("reward");
    expect(games).toMatchObject([{ isClosed: true }]);
  }
});

test.each(bad.filter(([what]) => !/reward|terminated|info|tool_outputs|empty/.test(what)))(
  "SCORED: a reset's reply %s fails the rollout as its seed",
  async (_, reply) => {
    const { url } = await foreignGymnasium({ instead: ({ path }) => (path === "/reset" ? reply : undefined) });
    const played = await playerOn(url, scriptedModel(["5"]))(rolloutOf(), never);
    expect(failureIn(played)?.kind).toBe("seed");
  },
);

test("SCORED: a row that the server refuses fails as a task, and a masked step fails as verify", async () => {
  const refused = await foreignGymnasium({ instead: () => ({ status: 422, body: { detail: [] } }) });
  const played = await playerOn(refused.url, scriptedModel(["5"]))(rolloutOf(), never);
  expect(failureIn(played)?.kind).toBe("task");
  const info = { _ng_failure_class: "judge_failed" };
  const masked = { status: 200, body: { reward: 0, terminated: true, truncated: false, info } };
  const { url } = await foreignGymnasium({ instead: ({ path }) => (path === "/step" ? masked : undefined) });
  expect(failureIn(await playerOn(url, scriptedModel(["5"]))(rolloutOf(), never))?.kind).toBe("verify");
});

test("SCORED: a model that fails and an episode that takes too long close the session", async () => {
  const { url, games } = await foreignGymnasium({ info: both });
  const failing: Model = { name: "failing", respond: () => Promise.reject(new Error("no answer")) };
  expect(failureIn(await playerOn(url, failing)(rolloutOf(), never))?.kind).toBe("model");
  const slow: Model = { name: "slow", respond: () => new Promise(() => undefined) };
  expect(failureIn(await playerOn(url, slow, engine(), {}, 50)(rolloutOf(), never))?.kind).toBe("timeout");
  expect(games.map(({ isClosed }) => isClosed)).toEqual([true, true]);
});

/** Plays until the server has seen a number of requests, then as another process. */
async function cutAt(cutAfter: number, info: Record<string, unknown>, isLost: boolean) {
  const sessions = engine();
  const cut = new AbortController();
  const foreign = await foreignGymnasium({
    info,
    instead(_, seen) {
      if (seen !== cutAfter) return undefined;
      cut.abort();
      return isLost ? "drop" : undefined;
    },
  });
  const script = [{ calls: [hint(3)] }, "4", { calls: [hint(1), hint(2)] }, "5"];
  const model = scriptedModel(({ input }) => {
    const answers = input.filter(({ type, role }) => type === "function_call" || role === "assistant").length;
    return script[[0, 1, 2, 3, 3][answers] ?? 0];
  });
  const first = await playerOn(foreign.url, model, sessions)(rolloutOf(), cut.signal);
  expect(failureIn(first)).toMatchObject({ reason: "the episode was cancelled" });
  const second = await playerOn(foreign.url, model, sessions)(rolloutOf(), never);
  return { foreign, second };
}

test("RESUME, ONCE: with step ids, an episode that is cut anywhere ends with the same reward, and no step runs twice", async () => {
  for (const isLost of [true, false]) {
    for (const cutAfter of [2, 3, 4, 5]) {
      const { foreign, second } = await cutAt(cutAfter, both, isLost);
      expect(second).toMatchObject({ outcome: "scored", fields: { metrics: { guesses: 4 } } });
      expect(second.fields["reward"]).toBeCloseTo(0.7);
      expect(foreign.games).toMatchObject([{ guesses: 4, isClosed: true }]);
    }
  }
});

test("ONCE: without step ids, a step that may have reached the server is not sent again: the rollout has failed", async () => {
  for (const cutAfter of [2, 3, 4, 5]) {
    const { foreign, second } = await cutAt(cutAfter, {}, false);
    expect(failureIn(second)).toMatchObject({ kind: "tool", code: "outcome_unknown" });
    expect(foreign.games).toHaveLength(1);
  }
});

test("RESUME: an episode that is cut while the model answers continues without step ids", async () => {
  const sessions = engine();
  const { url, games } = await foreignGymnasium();
  const cut = new AbortController();
  let asked = 0;
  const model = scriptedModel(() => {
    if (++asked === 2) cut.abort();
    return asked < 3 ? { calls: [hint(3)] } : "5";
  });
  expect(failureIn(await playerOn(url, model, sessions)(rolloutOf(), cut.signal))).toBeDefined();
  const played = await playerOn(url, model, sessions)(rolloutOf(), never);
  expect(played).toMatchObject({ outcome: "scored", fields: { reward: 0.9, metrics: { guesses: 2 } } });
  expect(games).toHaveLength(1);
});

test("an episode on Holdfast's own server has the reward and the session of that server", async () => {
  const store = memoryStore();
  const serving = await serve({ environments: [gymCounter], store, port: 0, log: { what: "none" } });
  onTestFinished(() => serving.close());
  const row = rowForServer(
    { responses_create_params: { input: "Count." }, initial_count: 3, expected_count: 6 },
    await createGymClient(serving.url).tools(),
  );
  const add = (count: Json) => ({ name: "increment_counter", arguments: { count } });
  const script = () => scriptedModel([{ calls: [add(1), add("x"), { name: "verify" }] }, { calls: [add(2)] }, "Six."]);
  const played = await playerOn(serving.url, script())({ ...rolloutOf(), row }, never);
  expect(played).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
  expect(played.session).not.toBe("conversation-0123456789");
  const outputs = outputOf(played).flatMap(({ output }) => (output === undefined ? [] : [output]));
  expect(outputs).toMatchObject([
    '{"success":true}',
    expect.stringContaining("invalid_input"),
    expect.stringContaining("unknown_tool"),
    '{"success":true}',
  ]);
  // The server verified the episode and closed it.
  expect((await fetch(`${serving.url}/v1/sessions/${played.session}`)).status).toBe(404);
});

test("SCORED: a verify that throws on Holdfast's own server fails the rollout as verify", async () => {
  const broken = { ...gymCounter, verify: () => Promise.reject(new Error("the judge is ill")) };
  const serving = await serve({ environments: [broken], store: memoryStore(), port: 0, log: { what: "none" } });
  onTestFinished(() => serving.close());
  const row = { responses_create_params: { input: "Count." }, initial_count: 3, expected_count: 6 };
  const played = await playerOn(serving.url, scriptedModel(["Done."]))({ ...rolloutOf(), row }, never);
  expect(failureIn(played)).toMatchObject({ kind: "verify", code: "verify_failed" });
});

test("RESUME: a collection on a gymnasium server is stopped and resumed", async () => {
  const { url, games } = await foreignGymnasium({ info: both });
  const folder = newFolder();
  const [tasks, out] = [join(folder, "tasks.jsonl"), join(folder, "out.jsonl")];
  await writeFile(tasks, [1, 2, 3].map((secret) => JSON.stringify({ ...rolloutOf({ secret }).row })).join("\n"));
  const model = scriptedModel(({ input }) => String(input.filter(({ role }) => role === "assistant").length + 1));
  const stopping = new AbortController();
  const given = { server: `gymnasium+${url}`, model, tasks, out, concurrency: 1 };
  await collectRollouts({ ...given, signal: stopping.signal, onRow: () => stopping.abort() });
  const { metrics } = await collectRollouts({ ...given, resume: true });
  expect(metrics).toMatchObject({ rollouts: 3, scored: 3 });
  expect(rowsOf(out).map((row) => [row["secret"], row["reward"], (row["metrics"] as TaskRow)["guesses"]])).toEqual([
    [1, 1, 1],
    [2, 1, 2],
    [3, 1, 3],
  ]);
  expect(games).toHaveLength(3);
  await expect(collectRollouts({ ...given, server: url, resume: true })).rejects.toThrow("different settings");
});
