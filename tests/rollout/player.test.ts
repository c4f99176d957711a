// An episode is played from its seed to its verdict and resumes after any interruption; only the model's doing is a
// reward.
import { createSessions, defineAgent, defineEnvironment, memoryStore, scriptedModel, tool, type Store } from "holdfast";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { createPlayer } from "../../src/rollout/play/player.ts";
import { HoldfastError, type ErrorCode } from "../../src/core/errors.ts";
import type { Model } from "../../src/core/model.ts";
import type { Played, Rollout, TaskRow } from "../../src/core/rollout.ts";
import { failureIn } from "./played.ts";

/** The actions, in order. */
let done: string[] = [];

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ height: z.number().default(0), draw: z.number().default(0) }),
  task: z.strictObject({ goal: z.number(), trouble: z.string().optional() }),
  seed: ({ task, random }) => {
    done.push("seed");
    if (task.trouble === "seed") throw new Error("no bricks");
    if (task.trouble === "slow seed") return sleep(10_000, { height: 0, draw: 0 });
    return { height: 0, draw: random() };
  },
  tools: {
    stack: tool({
      description: "Stack.",
      input: z.object({ n: z.number() }),
      run: ({ state, task }, { n }) => {
        done.push("stack");
        if (task?.trouble === "tool") throw new Error("it fell");
        if (task?.trouble === "slow tool") return sleep(10_000, { height: 0 });
        return { height: (state.height += n) };
      },
    }),
    send: tool({
      description: "Send.",
      effects: "external",
      timeout: 20,
      run: () => sleep(10_000),
    }),
  },
  verify: async ({ state, task, response }) => {
    done.push("verify");
    if (task.trouble === "verify") throw new Error("no ruler");
    if (task.trouble === "slow verify") await sleep(10_000);
    const { output } = response as { output: unknown[] };
    return { reward: Number(state.height === task.goal), draw: state.draw, items: output.length };
  },
});

const stack = (n: number) => ({ calls: [{ name: "stack", arguments: { n } }] });
const script = [stack(2), { calls: [stack(3).calls[0], stack(5).calls[0]] }, "Done."] as const;

/** A model that counts its requests. */
function counting(answers: readonly unknown[] = script): Model {
  const inner = scriptedModel(answers as never);
  return { name: "counting", respond: (...asked) => (done.push("ask"), inner.respond(...asked)) };
}

function rolloutOf(task: TaskRow = {}, params: TaskRow = {}): Rollout {
  const row = { goal: 10, ...task, responses_create_params: { input: "Stack to 10.", ...params }, _ng_task_index: 3 };
  return { row, task: 3, repeat: 1, attempt: 0, session: "rollout-3-1", random: 42 };
}

interface Playing {
  store?: Store;
  model?: Model;
  timeout?: number;
  signal?: AbortSignal;
  steps?: number;
}

function play(
  rollout: Rollout,
  { store = memoryStore(), model = counting(), ...given }: Playing = {},
): Promise<Played> {
  const sessions = createSessions({ app: "rollouts", store });
  const episodes = createSessions({ environment: pile, store });
  const limits = given.steps === undefined ? {} : { steps: given.steps };
  const agentFor = () => defineAgent({ name: "player", model, limits });
  done = [];
  const player = createPlayer({ sessions, episodes, agentFor, timeout: given.timeout });
  return player(rollout, given.signal ?? new AbortController().signal);
}

/** A store that fails from a commit on, before or after it is made; `of` selects the counted commits. */
function dying(inner: Store, from: number, when: "before" | "after", of: (session: string) => boolean = () => true) {
  let commits = 0;
  const append: Store["append"] = async (first, ...rest) => {
    if (!of(first.session)) return inner.append(first, ...rest);
    const count = ++commits;
    if (count > from || (count === from && when === "before")) throw new Error("the disk is gone");
    const result = await inner.append(first, ...rest);
    if (count === from) throw new Error("the disk is gone");
    return result;
  };
  return { store: { ...inner, append }, commits: () => commits };
}

const outputOf = ({ fields }: Played) => (fields["response"] as { output: { type: string; output?: string }[] }).output;

test("an episode is seeded, played and verified; the row has the transcript, the verdict and the session", async () => {
  const played = await play(rolloutOf());
  expect(played).toMatchObject({ fields: { reward: 1, metrics: { items: 7 } } });
  expect(played).not.toHaveProperty("failure");
  expect(played).not.toHaveProperty("stopped");
  expect(Object.keys(played.fields)).toEqual(["response", "reward", "metrics"]);
  expect(outputOf(played).map(({ type }) => type)).toEqual([
    "function_call",
    "function_call_output",
    "function_call",
    "function_call",
    "function_call_output",
    "function_call_output",
    "message",
  ]);
  expect(done).toEqual(["seed", "ask", "stack", "ask", "stack", "stack", "ask", "verify"]);
});

test("RESUME: an episode interrupted before or after any commit resumes, repeats no request, and ends the same", async () => {
  const counted = dying(memoryStore(), Infinity, "before");
  const whole = await play(rolloutOf(), { store: counted.store });
  const wholeDone = [...done];
  expect(counted.commits()).toBeGreaterThan(8);
  // The last commit closes the conversation, after the verdict: without it the rollout is scored all the same.
  const last = counted.commits();
  const unclosed = await play(rolloutOf(), { store: dying(memoryStore(), last, "before").store });
  expect(unclosed.fields).toMatchObject({ reward: whole.fields["reward"] });
  for (let commit = 1; commit < last; commit++) {
    for (const when of ["before", "after"] as const) {
      const store = memoryStore();
      const cut = await play(rolloutOf(), { store: dying(store, commit, when).store });
      expect(failureIn(cut)?.kind).toBe("store");
      expect(cut.fields).not.toHaveProperty("reward");
      const before = [...done];
      const again = await play(rolloutOf(), { store });
      const { response: a, ...verdict } = again.fields;
      const { response: b, ...wholeVerdict } = whole.fields;
      expect(verdict).toEqual(wholeVerdict);
      expect((a as TaskRow)["output"]).toEqual((b as TaskRow)["output"]);
      // Only the interrupted action is repeated.
      const times = (what: string): number => [...before, ...done].filter((each) => each === what).length;
      const extra = (what: string): number => times(what) - wholeDone.filter((each) => each === what).length;
      expect(extra("ask")).toBe(when === "before" && extra("ask") > 0 ? 1 : 0);
      expect(extra("verify")).toBe(when === "before" && extra("verify") > 0 ? 1 : 0);
      // A tool that changes only the state may run again, both of two parallel ones. It is applied once.
      expect(extra("stack")).toBeLessThanOrEqual(2);
      // Seeded again only if the conversation had not started.
      expect(times("seed")).toBeLessThanOrEqual(commit <= 2 ? 2 : 1);
    }
  }
});

test("the randomness of an episode is that of its rollout", async () => {
  const [a, b] = [await play(rolloutOf()), await play({ ...rolloutOf(), session: "another" })];
  const c = await play({ ...rolloutOf(), random: 43 });
  expect(a.fields["metrics"]).toEqual(b.fields["metrics"]);
  expect(a.fields["metrics"]).not.toEqual(c.fields["metrics"]);
});

test("SCORED: mistakes of the model and errors of tools are shown to the model and scored", async () => {
  const fell = await play(rolloutOf({ trouble: "tool" }));
  expect(fell).toMatchObject({ fields: { reward: 0 } });
  expect(outputOf(fell)[1]?.output).toContain("it fell");
  const wrong = [
    {
      calls: [
        { name: "stack", arguments: { n: "many" } },
        { name: "stack", arguments: "{" },
      ],
    },
    "Oh.",
  ];
  const bad = await play(rolloutOf(), { model: counting(wrong) });
  expect(bad).toMatchObject({ fields: { reward: 0 } });
  expect(outputOf(bad).filter(({ output }) => output?.includes("invalid_input"))).toHaveLength(2);
});

test("RESERVED: a model that calls lifecycle verbs as tools is told that they do not exist, and changes nothing", async () => {
  const names = ["seed_session", "verify", "aggregate_metrics", "close", "ng-rollout/x/seed_session", "/verify"];
  const calls = names.map((name) => ({ name, arguments: { goal: 0, height: 10 } }));
  const store = memoryStore();
  const played = await play(rolloutOf(), { store, model: counting([{ calls }, "Done."]) });
  expect(played).toMatchObject({ fields: { reward: 0 } });
  const outputs = outputOf(played).filter(({ type }) => type === "function_call_output");
  expect(outputs).toHaveLength(names.length);
  for (const { output } of outputs) {
    expect(JSON.parse(output ?? "")).toMatchObject({ error: { code: "unknown_tool" } });
    expect(output).not.toContain("goal");
  }
  const episodes = createSessions({ environment: pile, store });
  const types: string[] = [];
  for await (const { type } of episodes.events(played.session)) types.push(type);
  expect(types).toEqual(["session.opened", "session.seeded", "session.verified"]);
  expect(done).toEqual(["seed", "ask", "ask", "verify"]);
});

test("a limit ends an episode, which is still scored", async () => {
  const endless: Model = scriptedModel(() => stack(1));
  expect(await play(rolloutOf({ goal: 4 }), { model: endless, steps: 4 })).toMatchObject({
    stopped: "steps",
    fields: { reward: 1 },
  });
  const silent: Model = scriptedModel(() => ({ output: [] }));
  expect(await play(rolloutOf({ goal: 0 }), { model: silent })).toMatchObject({
    stopped: "empty",
    fields: { reward: 1 },
  });
});

/** It ignores the signal. */
const deafModel: Model = { name: "deaf", respond: () => sleep(10_000, { status: "completed", output: [] }) };

const failingModel = scriptedModel(() => {
  throw new Error("no GPU");
});

test.each<[string, Rollout, Playing, string, string]>([
  ["a task that does not fit", rolloutOf({ goal: "high" }), {}, "task", "goal"],
  ["a row that says nothing", rolloutOf({}, { input: [] }), {}, "task", "input"],
  ["a seed that throws", rolloutOf({ trouble: "seed" }), {}, "seed", "no bricks"],
  ["a model that fails", rolloutOf(), { model: failingModel }, "model", "no GPU"],
  ["a model that has no answer", rolloutOf(), { model: counting([stack(10)]) }, "model", "model_exhausted"],
  ["a verify that throws", rolloutOf({ trouble: "verify" }), {}, "verify", "no ruler"],
  [
    "a model that takes too long",
    rolloutOf(),
    { model: scriptedModel(() => sleep(10_000, "x")), timeout: 30 },
    "timeout",
    "30 ms",
  ],
  ["a model that does not listen", rolloutOf(), { model: deafModel, timeout: 30 }, "timeout", "30 ms"],
  ["a seed that takes too long", rolloutOf({ trouble: "slow seed" }), { timeout: 30 }, "timeout", "30 ms"],
  ["a tool that takes too long", rolloutOf({ trouble: "slow tool" }), { timeout: 60 }, "timeout", "60 ms"],
  ["a verify that takes too long", rolloutOf({ trouble: "slow verify" }), { timeout: 60 }, "timeout", "60 ms"],
  [
    "a tool whose answer is lost",
    rolloutOf(),
    { model: counting([{ calls: [{ name: "send" }] }, "Done."]) },
    "tool",
    "may not",
  ],
])(
  "SCORED: %s is a failure with its kind and its transcript, and not a reward",
  async (_, rollout, given, kind, reason) => {
    const began = performance.now();
    const played = await play(rollout, given);
    const [failure, { fields }] = [failureIn(played), played];
    expect(failure?.kind).toBe(kind);
    expect(failure?.reason).toContain(reason);
    expect(fields).not.toHaveProperty("reward");
    const isOpened = !["task", "seed"].includes(kind) && rollout.row["trouble"] !== "slow seed";
    if (isOpened) expect(fields).toHaveProperty("response");
    expect(performance.now() - began).toBeLessThan(5_000);
  },
);

test("SCORED: a store failure under a tool is neither shown to the model nor scored", async () => {
  const seen: string[] = [];
  const inner = counting();
  const model: Model = {
    name: "watching",
    respond: (request, options) => (seen.push(JSON.stringify(request.input)), inner.respond(request, options)),
  };
  const { store } = dying(memoryStore(), 2, "before", (session) => !session.startsWith("rollout-"));
  const played = await play(rolloutOf(), { store, model });
  expect(failureIn(played)?.kind).toBe("store");
  expect(played.fields).not.toHaveProperty("reward");
  expect(seen.join()).not.toContain("disk");
  expect(outputOf(played)).toHaveLength(1);
});

test("700 calls of one answer all run, and their results are in their order", async () => {
  const calls = Array.from({ length: 700 }, () => stack(1).calls[0]);
  const played = await play(rolloutOf({ goal: 700 }), { model: counting([{ calls }, "Done."]) });
  expect(played).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
  const heights = outputOf(played).flatMap((item) => ("output" in item ? [JSON.parse(String(item.output))] : []));
  expect(heights).toEqual(Array.from({ length: 700 }, (_, n) => ({ height: n + 1 })));
});

const broken = (code: ErrorCode) =>
  tool({
    description: "Breaks.",
    run: () => {
      throw new HoldfastError(code, "the machine is to blame");
    },
  });
const subagent = defineAgent({ name: "sub", description: "Helps.", model: failingModel });

test.each<[string, Partial<Parameters<typeof defineAgent>[0]>, string, string]>([
  ["an agent's tool that meets a busy store", { tools: { help: broken("store_busy") } }, "store", "store_busy"],
  ["an agent's tool that meets a full queue", { tools: { help: broken("session_crowded") } }, "store", "the machine"],
  ["an agent's tool that meets a bug", { tools: { help: broken("internal") } }, "internal", "the machine"],
  ["an agent behind a tool whose model fails", { tools: { help: subagent } }, "model", "no GPU"],
])("SCORED: %s is a failure, and the model does not read it", async (_, given, kind, reason) => {
  const store = memoryStore();
  const sessions = createSessions({ app: "rollouts", store });
  const episodes = createSessions({ environment: pile, store });
  const asking = { calls: [{ name: "help", arguments: { request: "Stack." } }] };
  const agentFor = () => defineAgent({ name: "player", model: counting([asking, "Done."]), ...given });
  done = [];
  const playAgain = createPlayer({ sessions, episodes, agentFor });
  for (const asked of [1, 1]) {
    const played = await playAgain(rolloutOf(), new AbortController().signal);
    expect(failureIn(played)).toMatchObject({ kind, reason: expect.stringContaining(reason) as string });
    expect(played.fields).not.toHaveProperty("reward");
    // Nor when it resumes.
    expect(done.filter((each) => each === "ask")).toHaveLength(asked);
  }
});

test("a cancelled rollout ends at once, is not an outcome, and resumes later", async () => {
  const store = memoryStore();
  const stopping = new AbortController();
  let asked = 0;
  const slow = scriptedModel(async (_, turn) => {
    if (++asked === 2) {
      stopping.abort();
      await sleep(10_000);
    }
    return script[turn] as never;
  });
  const began = performance.now();
  expect(await play(rolloutOf(), { store, model: slow, signal: stopping.signal })).toHaveProperty("failure");
  expect(performance.now() - began).toBeLessThan(2_000);
  expect(await play(rolloutOf(), { store, model: slow })).toMatchObject({ fields: { reward: 1 } });
  expect(asked).toBe(4);
});

test("token ids and log-probabilities stay on the items of the transcript", async () => {
  const tokens = { prompt_token_ids: [1, 2, 3], generation_token_ids: [4, 5], generation_log_probs: [-0.125, -2.5e-7] };
  const call = { type: "function_call", call_id: "c1", name: "stack", arguments: '{"n":10}', ...tokens };
  const text = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }], ...tokens };
  const played = await play(rolloutOf(), { model: counting([{ output: [call] }, { output: [text] }]) });
  expect(played).toMatchObject({ fields: { reward: 1 } });
  expect(outputOf(played).filter(({ type }) => type !== "function_call_output")).toEqual([call, text]);
});

test("the environment's log does not contain the tokens of the response", async () => {
  const [ids, probs] = [{ token_ids: [4], prompt_token_ids: [1] }, { logprobs: [{ token: "D", logprob: -1 }] }];
  const content = [{ type: "output_text", text: "Done.", ...probs }];
  const text = { type: "message", role: "assistant", content, ...ids, ...probs };
  const store = memoryStore();
  const { session } = await play(rolloutOf(), { store, model: counting([{ output: [text] }]) });
  const log = (await store.read(session, 0))?.map(({ body }) => body).join("\n");
  expect(log).toContain('"content":[{"type":"output_text","text":"Done."}]}');
});

test("a row sets the model parameters, and its usage is summed", async () => {
  const asked: unknown[] = [];
  const inner = counting();
  const model: Model = {
    name: "watching",
    respond: (request, options) => (
      asked.push(request["temperature"], request["tool_choice"]),
      inner.respond(request, options)
    ),
  };
  const params = { temperature: 0.5, tool_choice: "auto", parallel_tool_calls: false, top_p: null, model: "other" };
  const { fields } = await play(rolloutOf({}, params), { model });
  expect(asked).toEqual([0.5, "auto", 0.5, "auto", 0.5, "auto"]);
  const { usage, ...response } = fields["response"] as { usage: Record<string, number> };
  expect(usage["total_tokens"]).toBe((usage["input_tokens"] ?? 0) + (usage["output_tokens"] ?? 0));
  expect(usage["output_tokens"]).toBeGreaterThan(0);
  expect(response).toMatchObject({ object: "response", parallel_tool_calls: false, model: "watching" });
});

test("a row that names tools offers the model only those, and refuses the others", async () => {
  const offered: unknown[] = [];
  const inner = counting([{ calls: [{ name: "send", arguments: {} }] }, ...script]);
  const model: Model = {
    name: "looking",
    respond: (request, options) => {
      offered.push(request.tools?.map(({ name }) => name));
      return inner.respond(request, options);
    },
  };
  const { fields } = await play(rolloutOf({}, { tools: [{ type: "function", name: "stack" }] }), { model });
  expect(offered).toEqual([["stack"], ["stack"], ["stack"], ["stack"]]);
  expect(JSON.stringify(fields["response"])).toContain("unknown_tool");
  expect(fields["reward"]).toBe(1);
});

test("ISOLATION: rollouts do not see each other's `user:` and `app:` state", async () => {
  const store = memoryStore();
  const sessions = createSessions({ app: "rollouts", store, keepEnded: true });
  const episodes = createSessions({ environment: pile, store });
  const told: unknown[] = [];
  const beforeAgent = ({ state }: { state: Record<string, unknown> }): void => {
    told.push(state["user:notes"] ?? state["app:notes"] ?? "nothing");
    state["user:notes"] = state["app:notes"] = "a secret";
  };
  const agentFor = () => defineAgent({ name: "player", model: counting(), callbacks: { beforeAgent } });
  const player = createPlayer({ sessions, episodes, agentFor });
  for (const session of ["one", "two"]) {
    expect(await player({ ...rolloutOf(), session }, new AbortController().signal)).toMatchObject({
      outcome: "scored",
    });
    // And it is over: CLEANUP holds for the conversation of a rollout, too.
    expect((await sessions.info(session)).ended).toBe("closed");
  }
  expect(told).toEqual(["nothing", "nothing"]);
});
