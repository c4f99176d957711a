// serverHost: episodes on a third-party server with strict cookies, and on Holdfast's own.
import { createSessions, defineAgent, memoryStore, scriptedModel, type Conversations, type Json } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { errorTable, type ErrorCode } from "../../src/core/errors.ts";
import { createGymClient } from "../../src/rollout/gym-client.ts";
import { createPlayerOn } from "../../src/rollout/play/player.ts";
import { rowForServer, serverHost } from "../../src/rollout/play/server-host.ts";
import type { Model } from "../../src/core/model.ts";
import type { Played, Rollout, TaskRow } from "../../src/core/rollout.ts";
import { serve } from "../../src/server/serve.ts";
import { foreignGym } from "../protocols/foreign-gym.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { failureIn } from "./played.ts";

const functions = (...names: string[]): Json =>
  names.map((name) => ({ type: "function", name, parameters: { type: "object", properties: {} }, strict: false }));

const rowOf = (fields: TaskRow = {}): TaskRow => ({
  responses_create_params: {
    input: "Make it six.",
    tools: functions("increment_counter", "get_counter_value", "crash", "nowhere"),
    temperature: 0.5,
    not_a_parameter: 1,
  },
  initial_count: 3,
  expected_count: 6,
  _ng_task_index: 4,
  _ng_rollout_index: 1,
  ...fields,
});

const rolloutOf = (row: TaskRow = rowOf(), session = "conversation-0123456789"): Rollout => ({
  task: 4,
  repeat: 1,
  attempt: 0,
  row,
  session,
  random: 7,
});

const add = (count: Json) => ({ name: "increment_counter", arguments: { count } });
const never = new AbortController().signal;

const engine = (): Conversations => createSessions({ app: "rollouts", store: memoryStore() });

function playerOn(url: string, model: Model, sessions = engine(), timeout?: number) {
  const agentFor = () => defineAgent({ name: "agent", model });
  return createPlayerOn(serverHost(createGymClient(url)), { sessions, agentFor, timeout });
}

const outputsOf = ({ fields }: Played): string[] =>
  (fields["response"] as { output: { type: string; output: string }[] }).output.flatMap(({ type, output }) =>
    type === "function_call_output" ? [output] : [],
  );

test("an episode on a strict third-party server: every cookie is the newest, also after errors that set none", async () => {
  const refusedOnce = { status: 400, body: "KeyError('boom')" };
  const { url, requests, counts } = await foreignGym(({ path }) => (path === "/crash" ? refusedOnce : undefined));
  const model = scriptedModel([
    { calls: [add(1), { name: "crash" }, add("x"), add(1)] },
    { calls: [{ name: "nowhere" }, add(1), { name: "seed_session", arguments: { initial_count: 6 } }] },
    { calls: [{ name: "get_counter_value" }, add(null)] },
    "It is six.",
  ]);
  const played = await playerOn(`${url}/`, model)(rolloutOf(), never);
  expect(played).toMatchObject({
    fields: { reward: 1, metrics: { final_count: 6 } },
    session: "conversation-0123456789",
  });
  expect(failureIn(played)).toBeUndefined();
  // Unchanged; fields that the row does not list are not sent.
  const [first, crashed, wrong, , nowhere, , seeding, read] = outputsOf(played);
  expect([first, crashed, nowhere, read]).toEqual([
    '{"success":true}',
    "\"KeyError('boom')\"",
    '{"detail":"Not Found"}',
    '{"count":6}',
  ]);
  expect(wrong).toContain("detail");
  expect(seeding).toContain("unknown_tool");
  expect(counts()).toEqual([6]);
  expect(requests.map(({ path }) => path)).toEqual([
    "/seed_session",
    "/increment_counter",
    "/crash",
    "/increment_counter",
    "/increment_counter",
    "/nowhere",
    "/increment_counter",
    "/get_counter_value",
    "/increment_counter",
    "/verify",
  ]);
  // The whole row, except the fields that such servers refuse.
  const { responses_create_params: params, ...fields } = (requests[0] as { body: unknown }).body as TaskRow;
  expect(fields).toEqual({
    initial_count: 3,
    _holdfast_random_seed: 7,
    expected_count: 6,
    _ng_task_index: 4,
    _ng_rollout_index: 1,
  });
  expect(params).toEqual({
    input: "Make it six.",
    temperature: 0.5,
    tools: (rowOf()["responses_create_params"] as TaskRow)["tools"],
  });
  const keys = requests.slice(1, -1).map(({ key }) => key);
  expect(new Set(keys).size).toBe(8);
});

test("RESUME: an interrupted episode resumes with its cookies, and answered requests are not repeated", async () => {
  const { url, requests } = await foreignGym();
  const sessions = engine();
  let asked = 0;
  const cut = new AbortController();
  const script = [{ calls: [add(1)] }, { calls: [{ name: "nowhere" }, add("x")] }, { calls: [add(2)] }, "Done."];
  const model = scriptedModel(({ input }) => {
    asked++;
    const turn = input.filter(({ type }) => type === "function_call_output").length;
    if (turn === 3 && asked === 3) cut.abort();
    return script[[0, 1, 2, 2, 3][turn] ?? 3];
  });
  const first = await playerOn(url, model, sessions)(rolloutOf(), cut.signal);
  expect(failureIn(first)).toBeDefined();
  // As another process.
  const played = await playerOn(url, model, sessions)(rolloutOf(), never);
  expect(played).toMatchObject({ fields: { reward: 1, metrics: { final_count: 6 } } });
  expect(requests.map(({ path }) => path)).toEqual([
    "/seed_session",
    "/increment_counter",
    "/nowhere",
    "/increment_counter",
    "/increment_counter",
    "/verify",
  ]);
  // The interrupted answer was not committed.
  expect(asked).toBe(5);
});

/** A player that is interrupted when its second request has reached the server, which does not answer it. */
async function cutInCall(url: string, sessions: Conversations, model: Model, cut: AbortController): Promise<void> {
  const played = await playerOn(url, model, sessions)(rolloutOf(), cut.signal);
  expect(failureIn(played)).toEqual({ kind: "internal", reason: "the episode was cancelled" });
}

test("ONCE: a call that may have reached a third-party server is not sent again: the rollout has failed", async () => {
  const cut = new AbortController();
  const { url, requests } = await foreignGym((_, seen) => {
    if (seen !== 2) return undefined;
    cut.abort();
    return "drop";
  });
  const sessions = engine();
  const model = scriptedModel([{ calls: [add(3)] }, "Done."]);
  await cutInCall(url, sessions, model, cut);
  const played = await playerOn(url, model, sessions)(rolloutOf(), never);
  expect(failureIn(played)).toMatchObject({ kind: "tool", reason: expect.stringContaining("run it twice") as string });
  expect(played.fields).not.toHaveProperty("reward");
  expect(requests.length).toBe(2);
});

test("ONCE: to Holdfast's own server it is sent again, and applied once", async () => {
  const serving = await serve({ environments: [gymCounter], store: memoryStore(), port: 0, log: { what: "none" } });
  onTestFinished(() => serving.close());
  const sessions = engine();
  const client = createGymClient(serving.url);
  const cut = new AbortController();
  const agentFor = () => defineAgent({ name: "agent", model: scriptedModel([{ calls: [add(3)] }, "Done."]) });
  const cutting: typeof client = {
    ...client,
    async post(request) {
      const reply = await client.post(request);
      if (request.path === "/increment_counter") cut.abort();
      return reply;
    },
  };
  const row = rowForServer({ ...rowOf(), responses_create_params: { input: "Go." } }, await client.tools());
  expect((row["responses_create_params"] as TaskRow)["tools"]).toContainEqual(
    expect.objectContaining({ type: "function", name: "increment_counter" }),
  );
  await createPlayerOn(serverHost(cutting), { sessions, agentFor })(rolloutOf(row), cut.signal);
  const played = await createPlayerOn(serverHost(client), { sessions, agentFor })(rolloutOf(row), never);
  expect(played).toMatchObject({ fields: { reward: 1, metrics: { count: 6, answered: true } } });
  // The server's own session, which can be requested.
  const info = await fetch(`${serving.url}/v1/sessions/${played.session}`);
  expect(await info.json()).toMatchObject({ session: played.session });
});

const doing = { calls: [add(3)] };
const failures: [what: string, path: string, instead: Parameters<typeof foreignGym>[0], kind: string][] = [
  ["a seed that fails", "/seed_session", () => ({ status: 500, body: "KeyError('x')" }), "seed"],
  ["a seed that is not answered", "/seed_session", () => "drop", "seed"],
  ["a row that the server refuses", "/seed_session", () => ({ status: 422, body: { detail: [] } }), "task"],
  ["a tool that is not answered", "/increment_counter", () => "drop", "tool"],
  ["a gateway that answers for the tool", "/increment_counter", () => ({ status: 503, body: "" }), "tool"],
  ["a tool's server that fails", "/increment_counter", () => ({ status: 500, body: "KeyError('x')" }), "tool"],
  [
    ...(["a store that fails under a Holdfast server", "/increment_counter"] as const),
    () => ({ status: 500, body: { error: { code: "store_corrupt", message: "a hash of another type" } } }),
    "store",
  ],
  [
    ...(["a call that a Holdfast server refuses by itself", "/increment_counter"] as const),
    () => ({ status: 429, body: { error: { code: "session_crowded", message: "too many calls" } } }),
    "tool",
  ],
  ["a verifier that throws", "/verify", () => ({ status: 500, body: "KeyError('x')" }), "verify"],
  ["a verifier that does not answer", "/verify", () => "drop", "verify"],
  ["a verdict without a reward", "/verify", () => ({ status: 200, body: {} }), "verify"],
  ["a verdict that is no object", "/verify", () => ({ status: 200, body: [1] }), "verify"],
  [
    ...(["a judge that failed", "/verify"] as const),
    () => ({ status: 200, body: { reward: 0, _ng_failure_class: "judge_failed", _ng_failure_judge_error: "429" } }),
    "verify",
  ],
];

test.each(failures)("SCORED: %s is a failure, and not a reward", async (_, path, instead, kind) => {
  const { url } = await foreignGym((request, seen) => (request.path === path ? instead?.(request, seen) : undefined));
  const played = await playerOn(url, scriptedModel([doing, "Done."]))(rolloutOf(), never);
  expect(failureIn(played)?.kind).toBe(kind);
  expect(played.fields).not.toHaveProperty("reward");
  if (kind === "verify") expect(outputsOf(played)).toEqual(['{"success":true}']);
  if (path === "/verify" && kind === "verify") expect(failureIn(played)?.reason).toMatch(/server/);
  // Another server may score an empty episode if it is asked again, so the next attempt plays the episode again.
  expect(failureIn(played)).not.toHaveProperty("isPlayed");
});

test("SCORED: what Holdfast's own server refuses is never read by the model; what its tool refuses is", async () => {
  const codes = Object.keys(errorTable) as ErrorCode[];
  const read: string[] = [];
  for (const code of codes.filter((each) => each !== "call_in_progress")) {
    const { status } = errorTable[code];
    const { url } = await foreignGym(({ path }) =>
      path === "/increment_counter" ? { status, body: { error: { code, message: "no" } } } : undefined,
    );
    const model = scriptedModel(({ input }) => {
      if (JSON.stringify(input).includes(`\\"${code}\\"`)) read.push(code);
      return input.length === 1 ? doing : "Done.";
    });
    const played = await playerOn(url, model)(rolloutOf(), never);
    expect([code, played.outcome]).toEqual([code, read.includes(code) ? "scored" : "failed"]);
  }
  const ofTools = ["not_json", "invalid_input", "unknown_tool", "tool_failed", "state_invalid", "tool_timeout"];
  expect(read).toEqual([...ofTools, "call_conflict", "state_conflict"]);
});

test.each([
  ["/seed_session", "task", "task"],
  ["/seed_session", "store", "seed"],
  ["/verify", "verify", "verify"],
])("SCORED: a masked reply to %s of the class %s fails the rollout as %s", async (masked, failure_kind, kind) => {
  const failed = { reward: 0, mask_sample: true, _ng_failure_class: failure_kind, failure_kind, failure_reason: "why" };
  const { url } = await foreignGym(({ path, body }) =>
    path === masked ? { status: 200, body: { ...body, ...failed } } : undefined,
  );
  const played = await playerOn(url, scriptedModel(["Done."]))(rolloutOf(), never);
  expect(failureIn(played)).toMatchObject({ kind, reason: expect.stringContaining('failure_reason "why"') as string });
});

test("an unreachable server, or one that does not answer in time", async () => {
  const gone = await playerOn("http://127.0.0.1:1", scriptedModel([]))(rolloutOf(), never);
  expect(failureIn(gone)).toMatchObject({
    kind: "seed",
    reason: expect.stringContaining("could not be reached") as string,
  });
  const { url } = await foreignGym();
  const slow: Model = { name: "slow", respond: () => new Promise(() => undefined) };
  const late = await playerOn(url, slow, engine(), 50)(rolloutOf(), never);
  expect(failureIn(late)?.kind).toBe("timeout");
});

test("RESERVED: a row cannot name a reserved tool or a path of several segments", () => {
  for (const name of ["seed_session", "verify", "seed", "state", "ng-rollout/x/verify", "..", "a%2Fb", ""]) {
    const row = { responses_create_params: { input: "Go.", tools: functions(name) } };
    expect(() => rowForServer(row)).toThrow("which is reserved or not a valid name");
  }
  const pages = { responses_create_params: { input: "Go.", tools: functions("docs", "view") } };
  expect(rowForServer(pages)).toEqual(pages);
});
