// The gym protocol: its wire format, and the session that a request reaches.
import { createSessions, defineEnvironment, memoryStore, tool, type Sessions } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { onEveryStore } from "../session/engine.ts";
import { countOpen, gymCounter, gymOf, tokensOf, requestOf, StrictClient } from "./gym-client.ts";

/** A client of an environment on a new store. */
function start<E extends AnyEnvironment>(environment: E): { sessions: Sessions<E>; client: StrictClient } {
  const sessions = createSessions({ environment, store: memoryStore() });
  return { sessions, client: new StrictClient(gymOf(sessions)) };
}

const row = {
  responses_create_params: { input: [{ role: "user", content: "count to 6" }], tools: null },
  initial_count: 3,
  expected_count: 6,
  agent_ref: { name: "a" },
  verifier_metadata: { level: 2 },
  _ng_task_index: 4,
  _ng_rollout_index: 1,
};
const response = { id: "r", object: "response", output: [], usage: { total_tokens: 7 } };

onEveryStore("a client that keeps only the cookies of the last reply keeps its session throughout", async (place) => {
  const client = new StrictClient(gymOf(place.engine(gymCounter)));
  const seeded = await client.post("/seed_session", row);
  expect(seeded).toMatchObject({ status: 200, json: { episode: 1 } });
  const { session_id: session } = seeded.json as { session_id: string };
  expect(await client.post("/increment_counter", { count: 1 })).toMatchObject({
    status: 200,
    json: { success: true },
  });
  const crashed = await client.post("/crash");
  expect(crashed).toMatchObject({ status: 422, json: { error: { code: "tool_failed", message: "boom" } } });
  expect(JSON.stringify(crashed.json)).not.toContain(".ts:");
  expect(await client.post("/increment_counter", { count: 2 })).toMatchObject({ status: 200 });
  const lost = await client.post("/no_such_tool", {});
  expect(lost).toMatchObject({ status: 404, json: { error: { code: "unknown_tool" } } });
  expect(lost.json.error.message).toContain("increment_counter, increment_slowly, get_counter_value");
  expect((await client.post("/no/such/path", {})).status).toBe(404);
  const wrong = await client.post("/increment_counter", { count: "two" });
  expect(wrong).toMatchObject({ status: 422, json: { error: { code: "invalid_input", detail: {} } } });
  expect(wrong.json.error.message).toMatch(/increment_counter.*count: .*expected number/);
  expect((await client.post("/get_counter_value", {})).json).toEqual({ count: 6 });
  const verified = await client.post("/verify", { ...row, response });
  expect(verified.status).toBe(200);
  expect(verified.json).toEqual({
    ...row,
    response,
    reward: 1,
    count: 6,
    answered: true,
    session_id: session,
    // Nested: collectors of NeMo Gym take every number at the top for a metric.
    holdfast: { episode: 1, reseeds: 0, verdicts: 1 },
  });
});

test("a judge's text that verify returns as `response` does not replace the transcript", async () => {
  const judged = defineEnvironment({ name: "judged", tools: {}, verify: () => ({ reward: 1, response: "Correct." }) });
  const { client } = start(judged);
  await client.post("/seed_session", row);
  expect((await client.post("/verify", { ...row, response })).json).toMatchObject({ reward: 1, response });
});

describe("the wire", () => {
  test("reports that it is available, and whether rollouts can be verified again", async () => {
    const { client } = start(gymCounter);
    expect(await client.get("/")).toMatchObject({ status: 200, json: { status: "ok" } });
    expect((await client.get("/ng-rollout/3-1/")).json).toEqual({ status: "ok" });
    expect((await client.get("/reverify_mode")).json).toBe("unsupported");
    const stateless = start(defineEnvironment({ name: "weather", tools: {} }));
    expect((await stateless.client.get("/reverify_mode")).json).toBe("stateless");
  });

  test.each([
    ["PUT", "/increment_counter"],
    ["DELETE", "/"],
    ["POST", "/"],
    ["POST", "/v1/sessions"],
    ["POST", "/seed_session/"],
    ["POST", "/ng-rollout/x"],
    ["POST", "/ng-rollout/-x/seed_session"],
    ["POST", "/ng-rollout/x/ng-rollout/y/seed_session"],
    ["POST", "//seed_session"],
    ["POST", "seed_session"],
  ])("%s %s is not part of this protocol", async (method, path) => {
    const { sessions, client } = start(gymCounter);
    expect(await client.protocol.handle(requestOf({ method, path, body: { initial_count: 1 } }))).toBeUndefined();
    expect(await countOpen(sessions)).toBe(0);
  });

  test.each(["/seed_session", "/verify", "/increment_counter"])("GET %s is told to use POST", async (path) => {
    const { client } = start(gymCounter);
    const { status, headers, json } = await client.get(path);
    expect({ status, json }).toMatchObject({ status: 405, json: { error: { code: "method_not_allowed" } } });
    expect(headers).toMatchObject({ allow: "POST", "set-cookie": expect.any(String) as unknown });
  });

  test("a string output is the response text, everything else is JSON", async () => {
    const { client } = start(gymCounter);
    const said = await client.post("/say");
    expect(said).toMatchObject({ status: 200, text: 'it is "0"', json: undefined });
    expect(said.headers["content-type"]).toBe("text/plain; charset=utf-8");
    const slow = await client.post("/increment_slowly", null);
    expect(slow.reply).toMatchObject({ status: 200, body: null });
  });

  test("a seed accepts a bare body or a whole row, keeps the trainer's rollout id, and refuses an invalid task", async () => {
    const { sessions, client } = start(gymCounter);
    const labels = { _ng_session_id: "s", _ng_rollout_id: "r", _ng_attempt_index: 2, _ng_session_close_token: "t" };
    const { json } = await client.post("/ng-rollout/4-1/seed_session", { ...row, ...labels, other: 1 });
    const info = await sessions.info(json.session_id);
    expect(info.labels).toEqual({ ...labels, _ng_task_index: 4, _ng_rollout_index: 1 });
    expect(info.task).toEqual({ initial_count: 3, expected_count: 6 });
    const again = await client.post("/ng-rollout/4-1.a/seed_session", { initial_count: 1 });
    expect(again.json).toEqual({ session_id: json.session_id, episode: 2 });
    expect((await sessions.info(json.session_id)).labels).toEqual({ _ng_rollout_id: "4-1.a" });
    for (const body of [undefined, null, [], "x", 3, {}, { initial_count: "x" }]) {
      expect(await client.post("/seed_session", body)).toMatchObject({
        status: 422,
        json: { error: { code: "invalid_task" } },
      });
    }
    expect(await sessions.state(json.session_id)).toEqual({ count: 1 });
  });

  test("a seed can carry a random seed, which is not part of the task, and verify does not return it", async () => {
    const die = defineEnvironment({
      name: "die",
      state: z.object({ sum: z.number().default(0) }),
      tools: { roll: tool({ description: "", run: ({ state, random }) => (state.sum += random()) }) },
      verify: ({ state }) => state.sum,
    });
    const { sessions, client } = start(die);
    const rolled = async (body: object): Promise<unknown> => {
      client.cookie = undefined;
      await client.post("/seed_session", body);
      return (await client.post("/roll")).json;
    };
    const seed = { _holdfast_random_seed: 5 };
    const first = await rolled(seed);
    expect(await rolled(seed)).toBe(first);
    expect(await rolled({ _holdfast_random_seed: 6 })).not.toBe(first);
    expect(await rolled({ _holdfast_random_seed: null })).not.toBe(await rolled({}));
    await rolled({ n: 1, ...seed });
    const { json } = await client.post("/verify", { n: 1, ...seed, response });
    expect(json).not.toHaveProperty("_holdfast_random_seed");
    expect((await sessions.info(json.session_id)).task).toEqual({ n: 1 });
    client.cookie = undefined;
    expect(await client.post("/seed_session", { _holdfast_random_seed: "x" })).toMatchObject({
      json: { error: { code: "invalid_task", message: '`_holdfast_random_seed` must be a number, not "x"' } },
    });
  });

  test("a refused seed leaves no session behind", async () => {
    const { sessions, client } = start(gymCounter);
    expect((await client.post("/seed_session", {})).status).toBe(422);
    expect(await countOpen(sessions)).toBe(0);
    expect((await client.post("/seed_session", { initial_count: 2 })).json).toMatchObject({ episode: 1 });
    expect(await countOpen(sessions)).toBe(1);
  });

  test("a body that is nested too deeply is refused", async () => {
    const deep: unknown = JSON.parse(`${"[".repeat(5000)}${"]".repeat(5000)}`);
    const { client } = start(
      defineEnvironment({ name: "any", tools: { echo: tool({ description: "", run: (_, x) => x }) } }),
    );
    for (const path of ["/seed_session", "/verify", "/echo"]) {
      expect(await client.post(path, { deep })).toMatchObject({ status: 422, json: { error: { code: "not_json" } } });
    }
  });

  test("metrics cover the posted rows; anything else is refused", async () => {
    const { sessions, client } = start(gymCounter);
    const { status, json } = await client.post("/aggregate_metrics", {
      verify_responses: [{ reward: 1 }, { reward: 0 }],
    });
    expect(status).toBe(200);
    expect(Object.keys(json)).toEqual(["group_level_metrics", "agent_metrics", "key_metrics"]);
    expect(json.key_metrics).toEqual({ "mean/reward": 0.5 });
    for (const body of [undefined, [], { verify_responses: {} }]) {
      expect(await client.post("/aggregate_metrics", body)).toMatchObject({
        status: 422,
        json: { error: { code: "invalid_input" } },
      });
    }
    expect(await countOpen(sessions)).toBe(0);
  });

  test("a reply names its session, for the server's log", async () => {
    const { client } = start(gymCounter);
    const { json, reply } = await client.post("/ng-rollout/7-0/seed_session", { initial_count: 1 });
    expect(reply.about).toMatchObject({ session: json.session_id, rollout: "7-0" });
    const called = await client.post("/say", {}, { "idempotency-key": "k" });
    expect(called.reply.about).toMatchObject({ session: json.session_id, call: "k" });
  });
});

describe("an unseeded session", () => {
  onEveryStore(
    "MISSING: its tools see the defaults and say so; verify gives a masked 0 with the reason",
    async (place) => {
      const sessions = place.engine(gymCounter);
      const client = new StrictClient(gymOf(sessions));
      const first = await client.post("/increment_counter", { count: 2 });
      expect(first).toMatchObject({ status: 200, headers: { "holdfast-session": "new" } });
      expect((await client.post("/get_counter_value")).json).toEqual({ count: 2 });
      const verified = await client.post("/verify", { ...row, response });
      expect(verified).toMatchObject({ status: 200, json: { ...row, response, reward: 0, mask_sample: true } });
      expect(verified.json.failure_reason).toContain("never seeded");
      const seeded = await client.post("/seed_session", { initial_count: 9 });
      expect(seeded.json).toMatchObject({ session_id: expect.any(String), episode: 1 });
      expect((await client.post("/get_counter_value")).headers).not.toHaveProperty("holdfast-session");
      expect(await countOpen(sessions)).toBe(1);
    },
  );

  test("MISSING: verify without any session gives a masked 0 with the reason, and stores nothing", async () => {
    const { client, sessions } = start(gymCounter);
    const masked = { reward: 0, mask_sample: true, _ng_failure_class: "verify" };
    const verified = await client.post("/verify", { ...row, response });
    expect(verified).toMatchObject({ status: 200, json: { ...row, response, ...masked } });
    expect(verified.json.failure_reason).toBe("the session was never seeded: its seed failed, or its cookie was lost");
    expect((await client.post("/verify")).json).toMatchObject(masked);
    expect(await countOpen(sessions)).toBe(0);
  });

  test("is refused if the environment says so", async () => {
    const strict = defineEnvironment({
      name: "strict",
      tools: { go: tool({ description: "", run: () => 1 }) },
      unseeded: "reject",
    });
    const { client } = start(strict);
    expect(await client.post("/go")).toMatchObject({ status: 409, json: { error: { code: "session_unseeded" } } });
    expect((await client.post("/seed_session")).status).toBe(200);
    expect((await client.post("/go")).json).toBe(1);
  });

  test("is not opened for an unknown tool", async () => {
    const { sessions, client } = start(gymCounter);
    const { status, json } = await client.post("/wp-login.php", { a: 1 });
    expect({ status, code: json.error.code }).toEqual({ status: 404, code: "unknown_tool" });
    expect(json.error.message).toContain("increment_counter");
    expect(await countOpen(sessions)).toBe(0);
  });
});

describe("the cookie", () => {
  const seeded = async () => {
    const made = start(gymCounter);
    const { json } = await made.client.post("/seed_session", { initial_count: 5 });
    const count = async (cookie: string) =>
      (await new StrictClient(made.client.protocol, cookie).post("/get_counter_value")).json;
    return { ...made, session: json.session_id as string, cookie: made.client.cookie as string, count };
  };

  test("has a safe name and value, and lasts two weeks", async () => {
    const { client } = await seeded();
    const { headers } = await client.get("/");
    expect(headers["set-cookie"]).toMatch(
      /^holdfast_gym_counter=[A-Za-z0-9._-]+; Path=\/; Max-Age=1209600; HttpOnly; SameSite=Lax$/,
    );
  });

  test("is found among others, quoted, escaped, and after foreign ones", async () => {
    const { cookie, count } = await seeded();
    const [name, value = ""] = cookie.split("=");
    const octal = value.replaceAll(".", String.raw`\056`);
    for (const sent of [
      `other=1; ${cookie}; more=2`,
      `${name}="${value}"`,
      `${name}="${octal}"`,
      `${name}=nonsense; ${cookie}`,
      `a="x; ${cookie}; y"`,
      `  ${name} = ${value} ;;`,
    ]) {
      expect(await count(sent)).toEqual({ count: 5 });
    }
  });

  test("TOKEN: a cookie that is forged, truncated, foreign, or of another name opens nothing", async () => {
    const { cookie, session, count, client } = await seeded();
    const [name, value = ""] = cookie.split("=");
    const foreign = tokensOf("another key").issue(session);
    for (const sent of [
      "",
      ";",
      "=",
      `${name}`,
      `${name}=`,
      `${name}=${session}`,
      `${name}=${session}.`,
      `${name}="`,
      `${name}=${value.slice(0, -1)}`,
      `${name}=${value}x`,
      `${name}=${foreign}`,
      `x${cookie}`,
      `other=${value}`,
      `${name}=new.${value}`,
      `${name}=${value.toUpperCase()}`,
      `__proto__=${value}`,
      `${name}=\u0000${value}`,
    ]) {
      expect(await count(sent)).toEqual({ count: 0 });
    }
    expect((await client.post("/get_counter_value")).json).toEqual({ count: 5 });
  });

  test("of an unused id is valid for the first request, and for its repeat", async () => {
    const { client, sessions } = start(gymCounter);
    await client.get("/");
    const first = client.cookie as string;
    const { json } = await client.post("/seed_session", { initial_count: 4 });
    expect(client.cookie).not.toBe(first);
    const late = new StrictClient(client.protocol, first);
    expect((await late.post("/get_counter_value")).json).toEqual({ count: 4 });
    // The same token; the version behind it is that of the newer answer.
    const tokenIn = (cookie: string | undefined) => cookie?.split(".").slice(0, 2).join(".");
    expect(tokenIn(late.cookie)).toBe(tokenIn(client.cookie));
    expect((await late.post("/verify", { response })).json.session_id).toBe(json.session_id);
    expect(await countOpen(sessions)).toBe(1);
  });

  test("is also on replies of the server itself, and is not set twice", async () => {
    const { client, cookie } = await seeded();
    const tooLarge = Object.freeze({ status: 413, headers: Object.freeze({ "x-why": "size" }) });
    const request = requestOf({ path: "/increment_counter", headers: { cookie } });
    const reply = client.protocol.decorate(request, tooLarge);
    expect(reply).toMatchObject({ status: 413, headers: { "x-why": "size" } });
    expect(reply.headers?.["set-cookie"]).toContain(cookie);
    expect(client.protocol.decorate(requestOf({ path: "/" }), reply)).toBe(reply);
    const nobody = client.protocol.decorate(requestOf({ path: "/" }), { status: 413 });
    expect(nobody.headers?.["set-cookie"]).toMatch(/^holdfast_gym_counter=[\w.-]+;/);
    expect(nobody.headers?.["set-cookie"]).not.toContain(cookie);
  });

  test("two environments on one address do not see each other's sessions", async () => {
    const store = memoryStore();
    const other = defineEnvironment({ name: "other", tools: { say: tool({ description: "", run: () => "other" }) } });
    const counter = new StrictClient(gymOf(createSessions({ environment: gymCounter, store })));
    const second = new StrictClient(gymOf(createSessions({ environment: other, store })));
    await counter.post("/seed_session", { initial_count: 5 });
    second.cookie = counter.cookie?.replace("gym_counter", "other");
    expect(await second.post("/say")).toMatchObject({ status: 404, json: { error: { code: "session_not_found" } } });
    second.cookie = `${counter.cookie}; x=y`;
    expect((await second.post("/say")).text).toBe("other");
  });
});

onEveryStore("an ended session is reported as ended, and never returns as an empty one", async (place) => {
  const sessions = place.engine(gymCounter);
  const client = new StrictClient(gymOf(sessions));
  expect((await client.post("/close_session")).json).toEqual({ closed: false });
  const unopened = client.cookie;
  await client.post("/seed_session", { initial_count: 3 });
  const cookie = client.cookie;
  expect((await client.post("/close_session", {})).json).toEqual({ closed: true });
  expect((await client.post("/close_session", {})).json).toEqual({ closed: false });
  const status = place.kind.persistent ? 410 : 404;
  expect((await client.post("/get_counter_value")).status).toBe(status);
  expect((await client.post("/seed_session", { initial_count: 3 })).status).toBe(status);
  expect((await client.post("/verify", { expected_count: 3 })).status).toBe(place.kind.persistent ? 200 : 404);
  expect(client.cookie).toBe(cookie);
  // The client's cookie from before its session.
  client.cookie = unopened;
  expect((await client.post("/get_counter_value")).status).toBe(status);
  expect(await countOpen(sessions)).toBe(0);
});

describe("call ids", () => {
  onEveryStore("ONCE: an Idempotency-Key makes a repeat return the recorded answer", async (place) => {
    const client = new StrictClient(gymOf(place.engine(gymCounter)));
    const key = { "idempotency-key": "call_1" };
    const seeds = [await client.post("/seed_session", row, key), await client.post("/seed_session", row, key)];
    expect(seeds.map(({ json }) => json.episode)).toEqual([1, 1]);
    expect((await client.post("/increment_counter", { count: 1 }, key)).headers).not.toHaveProperty(
      "holdfast-repeated",
    );
    client.protocol = gymOf(await place.restart(gymCounter));
    const repeated = await client.post("/increment_counter", { count: 1 }, key);
    expect(repeated).toMatchObject({ status: 200, json: { success: true }, headers: { "holdfast-repeated": "true" } });
    expect(await client.post("/increment_counter", { count: 2 }, key)).toMatchObject({
      status: 409,
      json: { error: { code: "call_conflict" } },
    });
    expect((await client.post("/get_counter_value")).json).toEqual({ count: 4 });
    expect((await client.post("/say", {}, { "idempotency-key": "x".repeat(300) })).status).toBe(400);
  });

  test("ONCE: the first seed of a client, repeated under its key with the old cookie, seeds once", async () => {
    const { client, sessions } = start(gymCounter);
    await client.get("/");
    const first = client.cookie as string;
    const key = { "idempotency-key": "seed" };
    await client.post("/seed_session", row, key);
    client.cookie = first;
    const { json } = await client.post("/seed_session", row, key);
    expect(json.episode).toBe(1);
    expect((await sessions.verify(json.session_id)).reseeds).toBe(0);
  });

  test("a call that names its episode is refused in the next one", async () => {
    const { client } = start(gymCounter);
    await client.post("/seed_session", row);
    expect((await client.post("/say", {}, { "holdfast-episode": "1" })).status).toBe(200);
    await client.post("/seed_session", row);
    expect(await client.post("/say", {}, { "holdfast-episode": "1" })).toMatchObject({
      status: 409,
      json: { error: { code: "episode_ended" } },
    });
    for (const header of ["", "x", "-1", "1.5", "9".repeat(30)]) {
      expect((await client.post("/say", {}, { "holdfast-episode": header })).status).toBe(400);
    }
  });
});

describe("verify", () => {
  test("judges by the seeded task, and by the fields the row adds", async () => {
    const { client } = start(gymCounter);
    await client.post("/seed_session", { initial_count: 3 });
    expect((await client.post("/verify", { response })).json).toMatchObject({ reward: 0 });
    expect((await client.post("/verify", { expected_count: 3, response })).json).toMatchObject({
      reward: 1,
      expected_count: 3,
    });
    expect(await client.post("/verify", { expected_count: "x" })).toMatchObject({
      status: 422,
      json: { error: { code: "invalid_task" } },
    });
    for (const body of [[], "x", 1]) expect((await client.post("/verify", body)).status).toBe(422);
  });

  test("without a task schema, judges by the seeded task and echoes the rest", async () => {
    const free = defineEnvironment({
      name: "free",
      state: z.object({}).default({}),
      tools: {},
      verify: ({ task }) => (task as { n: number }).n,
    });
    const { client } = start(free);
    await client.post("/seed_session", { n: 0.5, prompt: "x" });
    const { json } = await client.post(
      "/verify",
      JSON.parse('{"n":7,"response":null,"__proto__":{"a":1},"reward":9,"episode":9}'),
    );
    expect(json).toMatchObject({ n: 7, reward: 0.5, episode: 9, holdfast: { episode: 1 } });
    expect(Object.hasOwn(json as object, "__proto__")).toBe(true);
  });

  test("of a stateless environment needs no session: the row is enough", async () => {
    const weather = defineEnvironment({
      name: "weather",
      task: z.object({ city: z.string() }),
      tools: {},
      verify: ({ task, response }) => Number((response as { text?: string } | undefined)?.text === task.city),
    });
    const { client } = start(weather);
    const body = { city: "Oslo", responses_create_params: {}, response: { text: "Oslo" } };
    expect((await client.post("/verify", body)).json).toMatchObject({
      ...body,
      reward: 1,
      holdfast: { episode: 1, reseeds: 0 },
    });
    client.cookie = undefined;
    expect(await client.post("/verify", { response: {} })).toMatchObject({
      status: 422,
      json: { error: { code: "invalid_task" } },
    });
  });
});

describe("the name of a tool", () => {
  test("RESERVED: no spelling of it reaches a lifecycle call", async () => {
    const { client, sessions } = start(gymCounter);
    const { json } = await client.post("/seed_session", row);
    for (const path of [
      "/%73eed_session",
      "/seed%5Fsession",
      "/verif%79",
      "/close_sessio%6e",
      "/%2Fseed_session",
      "/ng-rollout%2Fx%2Fseed_session",
      "/SEED_SESSION",
      "/seed_session%00",
      "/seed_session%20",
      "/ng-rollout/x/%73eed_session",
      "/reset",
      "/step",
      "/state",
      "/mcp",
      "/__proto__",
      "/constructor",
      "/toString",
      "/%E0%A4%A",
      "/%",
      "/reverify_mode",
      "/ng-rollout",
      "/..",
      "/.%2e",
    ]) {
      const reply = await client.post(path, { initial_count: 6, response });
      expect({ path, status: reply.status, code: reply.json.error.code }).toEqual({
        path,
        status: 404,
        code: "unknown_tool",
      });
    }
    const info = await sessions.info(json.session_id);
    expect(info).toMatchObject({ episode: 1, task: { initial_count: 3 } });
    expect(info.ended).toBeUndefined();
    expect((await client.post("/get%5Fcounter_value")).json).toEqual({ count: 3 });
  });
});
