// Failures seen in the reference implementation of the gym protocol, one by one, and the behaviour here.
// The numbers are those of the list of its weaknesses.
import { setTimeout as sleep } from "node:timers/promises";
import {
  createSessions,
  defineEnvironment,
  HoldfastError,
  memoryStore,
  tool,
  type Sessions,
  type Store,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { onEveryStore, open } from "../session/engine.ts";
import { everyStore } from "../every-store.ts";
import { countOpen, gymCounter, gymOf, tokensOf, requestOf, StrictClient } from "./gym-client.ts";
import { parseCookie, writeCookie } from "../../src/protocols/http/cookie.ts";

const row = { initial_count: 3, expected_count: 6 };
const response = { object: "response", output: [] };

const onMemory = (): { sessions: Sessions<typeof gymCounter>; client: StrictClient } => {
  const sessions = createSessions({ environment: gymCounter, store: memoryStore() });
  return { sessions, client: new StrictClient(gymOf(sessions)) };
};

const count = async (client: StrictClient): Promise<number> => (await client.post("/get_counter_value")).json.count;

onEveryStore("5.1 CLEANUP: abandoned sessions end by themselves, and their clients are told", async (place) => {
  const sessions = place.engine(gymCounter, { limits: { idle: 60_000, sessions: 5 } });
  const clients = Array.from({ length: 8 }, () => new StrictClient(gymOf(sessions)));
  for (const client of clients) expect((await client.post("/seed_session", row)).status).toBe(200);
  expect(await countOpen(sessions)).toBe(5);
  // A later process with a shorter limit finds them idle, so no clock is raced.
  const later = await place.replica(gymCounter, { limits: { idle: 20, sessions: 5 } });
  await sleep(40);
  await later.expire();
  expect(await countOpen(sessions)).toBe(0);
  for (const client of clients) {
    const { status, json } = await client.post("/get_counter_value");
    expect([404, 410]).toContain(status);
    expect(["session_not_found", "session_closed"]).toContain(json.error.code);
  }
});

onEveryStore("5.2 DURABLE: an episode continues after a restart, with its old cookie", async (place) => {
  const client = new StrictClient(gymOf(place.engine(gymCounter)));
  await client.post("/seed_session", row);
  await client.post("/increment_counter", { count: 1 });
  client.protocol = gymOf(await place.restart(gymCounter));
  await client.post("/increment_counter", { count: 2 });
  client.protocol = gymOf(await place.restart(gymCounter));
  expect((await client.post("/verify", { ...row, response })).json).toMatchObject({
    reward: 1,
    holdfast: { reseeds: 0 },
  });
});

onEveryStore(
  "5.3 SERIAL: with two workers every episode of 50 ends with reward 1, whichever worker serves a call",
  async (place) => {
    const workers = [gymOf(place.engine(gymCounter)), gymOf(await place.replica(gymCounter))] as const;
    const rewards = await Promise.all(
      Array.from({ length: 50 }, async (_, episode) => {
        let turn = episode;
        const client = new StrictClient(workers[0]);
        const post = (path: string, body: unknown) => {
          client.protocol = workers[++turn % 2 === 0 ? 0 : 1];
          return client.post(path, body);
        };
        await post("/seed_session", row);
        for (const by of [2, -1, 2]) await post("/increment_counter", { count: by });
        return (await post("/verify", { ...row, response })).json.reward as number;
      }),
    );
    expect(rewards).toEqual(Array.from({ length: 50 }, () => 1));
  },
);

test("5.4 ATOMIC: a tool that throws loses neither the session nor the state", async () => {
  const { sessions, client } = onMemory();
  await client.post("/seed_session", row);
  await client.post("/increment_counter", { count: 1 });
  const crashed = await client.post("/crash", {});
  expect(crashed).toMatchObject({ status: 422, json: { error: { code: "tool_failed", message: "boom" } } });
  await client.post("/increment_counter", { count: 2 });
  expect((await client.post("/verify", { ...row, response })).json).toMatchObject({ reward: 1, count: 6 });
  expect(await countOpen(sessions)).toBe(1);
});

test("5.5 a validator that throws refuses the arguments, and the session continues", async () => {
  const { client } = onMemory();
  await client.post("/seed_session", row);
  const refused = await client.post("/picky", { x: 1 });
  expect(refused).toMatchObject({ status: 422, json: { error: { code: "invalid_input" } } });
  expect(refused.json.error.message).toContain("the validator broke");
  expect(await count(client)).toBe(3);
});

describe("5.6 a repeated request whose answer was lost", () => {
  onEveryStore("ONCE: is applied once, however often it is repeated", async (place) => {
    const client = new StrictClient(gymOf(place.engine(gymCounter)));
    await client.post("/seed_session", row);
    for (let lost = 0; lost < 3; lost++) await client.lose("/increment_counter", { count: 1 });
    const arrived = await client.post("/increment_counter", { count: 1 });
    expect(arrived).toMatchObject({ status: 200, json: { success: true }, headers: { "holdfast-repeated": "true" } });
    expect(await count(client)).toBe(4);
  });

  test("ONCE: is applied once also if it arrives while the first is still running", async () => {
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const slow = defineEnvironment({
      name: "slow",
      state: z.object({ n: z.number().default(0) }),
      tools: { bump: tool({ description: "", run: async ({ state }) => (await gate, ++state.n) }) },
    });
    const sessions = createSessions({ environment: slow, store: memoryStore() });
    const client = new StrictClient(gymOf(sessions));
    const { session_id: session } = (await client.post("/seed_session")).json as { session_id: string };
    const { cookie } = client;
    const request = requestOf({ path: "/bump", headers: { cookie } });
    const bump = () => client.protocol.handle(requestOf({ path: "/bump", headers: { cookie } }));
    const first = client.protocol.handle(request);
    // A second call while the first client still waits is a new call.
    const beside = bump();
    request.gone?.();
    const repeat = bump();
    release();
    await first;
    expect([(await beside)?.body, (await repeat)?.body]).toEqual([2, 1]);
    // The loss of the first is settled: the next request is a new call.
    expect((await client.post("/bump")).json).toBe(3);
    expect(await sessions.state(session)).toEqual({ n: 3 });
  });

  test("two concurrent lost calls are both recognised", async () => {
    const { client } = onMemory();
    await client.post("/seed_session", row);
    await Promise.all([1, 10].map((by) => client.lose("/increment_counter", { count: by })));
    await client.post("/increment_counter", { count: 1 });
    await client.post("/increment_counter", { count: 10 });
    expect(await count(client)).toBe(14);
  });

  test("is a new call if its answer arrived, after another request, or in another session", async () => {
    const { client } = onMemory();
    await client.post("/seed_session", row);
    await client.post("/increment_counter", { count: 1 });
    await client.post("/increment_counter", { count: 1 });
    expect(await count(client)).toBe(5);
    for (const between of ["/get_counter_value", "/verify", "/nothing"]) {
      const before = await count(client);
      await client.lose("/increment_counter", { count: 1 });
      await client.post(between, {});
      await client.post("/increment_counter", { count: 1 });
      expect(await count(client)).toBe(before + 2);
    }
    const before = await count(client);
    await client.lose("/increment_counter", { count: 1 });
    const other = new StrictClient(client.protocol);
    await other.post("/seed_session", row);
    expect((await other.post("/increment_counter", { count: 1 })).headers).not.toHaveProperty("holdfast-repeated");
    await client.post("/increment_counter", { count: 1 });
    expect(await count(client)).toBe(before + 1);
    // Recognised once: the next one is a new call.
    await client.post("/increment_counter", { count: 1 });
    expect(await count(client)).toBe(before + 2);
  });

  test("the seed of a session is not taken for a second one", async () => {
    const { client, sessions } = onMemory();
    await client.get("/");
    const lost = await client.lose("/seed_session", row);
    expect((await client.post("/seed_session", row)).json).toEqual(lost.json);
    await client.lose("/seed_session", row);
    const { json } = await client.post("/seed_session", row);
    expect(json).toEqual({ session_id: lost.json.session_id, episode: 2 });
    expect((await sessions.verify(json.session_id)).reseeds).toBe(1);
  });

  test("the memory of lost calls is bounded", async () => {
    const { client } = onMemory();
    await client.post("/seed_session", row);
    const others = await Promise.all(
      Array.from({ length: 1000 }, async () => {
        const other = new StrictClient(client.protocol);
        await other.post("/seed_session", row);
        return other;
      }),
    );
    await client.lose("/increment_counter", { count: 1 });
    for (const other of others) await other.lose("/increment_counter", { count: 1 });
    await client.post("/increment_counter", { count: 1 });
    expect(await count(client)).toBe(5);
    const last = others.at(-1) as StrictClient;
    await last.post("/increment_counter", { count: 1 });
    expect(await count(last)).toBe(4);
    const large = { count: 1, padding: "x".repeat(20_000) };
    await last.lose("/increment_counter", large);
    await last.post("/increment_counter", large);
    expect(await count(last)).toBe(6);
  });

  onEveryStore("is a new call if the client has continued elsewhere since", async (place) => {
    const client = new StrictClient(gymOf(place.engine(gymCounter)));
    const replica = await place.replica(gymCounter);
    const elsewhere = new StrictClient(gymOf(replica));
    const { session_id: session } = (await client.post("/seed_session", row)).json as { session_id: string };
    elsewhere.cookie = client.cookie;
    const lose = async (path: string, body: unknown): Promise<void> => {
      await client.lose(path, body);
      // The next request is later than the loss, by the clock too.
      const now = Date.now();
      while (Date.now() === now) await new Promise((resolve) => setTimeout(resolve, 1));
    };
    await lose("/get_counter_value", {});
    await elsewhere.post("/increment_counter", { count: 5 });
    expect((await client.post("/get_counter_value", {})).json).toEqual({ count: 8 });
    await lose("/increment_counter", { count: 7 });
    await elsewhere.post("/seed_session", { initial_count: 100 });
    await client.post("/increment_counter", { count: 7 });
    expect(await count(elsewhere)).toBe(107);
    const { version } = await replica.info(session);
    await lose("/increment_counter", { count: 1 });
    await replica.rewind(session, version);
    await client.post("/increment_counter", { count: 1 });
    expect(await count(elsewhere)).toBe(108);
  });

  test("ONCE: is found again even if the store could not be asked at first", async () => {
    const store = memoryStore();
    let isOut = false;
    const outage = <Args extends unknown[], T>(verb: (...args: Args) => Promise<T>) => {
      return (...args: Args) => (isOut ? Promise.reject(new HoldfastError("store_busy", "not now")) : verb(...args));
    };
    const flaky: Store = { ...store, append: outage(store.append), read: outage(store.read), load: outage(store.load) };
    const client = new StrictClient(gymOf(createSessions({ environment: gymCounter, store: flaky })));
    await client.post("/seed_session", row);
    await client.lose("/increment_counter", { count: 7 });
    isOut = true;
    for (let retry = 0; retry < 3; retry++) {
      expect((await client.post("/increment_counter", { count: 7 })).status).toBe(503);
    }
    isOut = false;
    const { headers } = await client.post("/increment_counter", { count: 7 });
    expect(headers).toMatchObject({ "holdfast-repeated": "true" });
    expect(await count(client)).toBe(10);
  });

  test("ONCE: a call that the store failed to confirm is repeated under its own id", async () => {
    const store = memoryStore();
    let failing = false;
    const flaky: Store = {
      ...store,
      async append(...commits) {
        const result = await store.append(...commits);
        if (failing) throw new HoldfastError("store_failed", "the line to the store broke");
        return result;
      },
    };
    const client = new StrictClient(gymOf(createSessions({ environment: gymCounter, store: flaky })));
    await client.get("/");
    failing = true;
    expect(await client.post("/seed_session", row)).toMatchObject({
      status: 503,
      json: { error: { code: "store_failed" } },
    });
    failing = false;
    expect((await client.post("/seed_session", row)).json).toMatchObject({ episode: 1 });
    failing = true;
    expect((await client.post("/increment_counter", { count: 1 })).status).toBe(503);
    failing = false;
    expect((await client.post("/increment_counter", { count: 1 })).status).toBe(200);
    expect((await client.post("/verify", { response })).json).toMatchObject({
      count: 4,
      holdfast: { reseeds: 0, episode: 1 },
    });
  });
});

describe("5.10 RESERVED: a model that calls a lifecycle verb as a tool", () => {
  const cheat = { initial_count: 6 };

  test.each(["/seed_session", "/ng-rollout/x/seed_session"])(
    "is visible to the trainer when it seeds by %s, if the environment allows it",
    async (path) => {
      const { client } = onMemory();
      const honest = await client.post("/seed_session", row);
      await client.post(path, cheat);
      const { json } = await client.post("/verify", { ...row, response });
      const about = { session_id: honest.json.session_id, holdfast: { episode: 2, reseeds: 1 } };
      expect(json).toMatchObject(about);
    },
  );

  test.each(["/seed_session", "/ng-rollout/x/seed_session"])(
    "is refused by %s if the environment says so",
    async (path) => {
      const guarded = { ...gymCounter, reseed: "reject" as const };
      const client = new StrictClient(gymOf(createSessions({ environment: guarded, store: memoryStore() })));
      await client.post("/seed_session", row);
      expect(await client.post(path, cheat)).toMatchObject({
        status: 409,
        json: { error: { code: "episode_in_flight" } },
      });
      await client.post("/increment_counter", { count: 3 });
      expect((await client.post("/verify", { ...row, response })).json).toMatchObject({
        reward: 1,
        holdfast: { episode: 1, reseeds: 0 },
      });
      // Nor after a verdict.
      expect((await client.post("/seed_session", row)).status).toBe(409);
    },
  );

  test("learns no field of the task from verify, and changes nothing by it", async () => {
    const { client, sessions } = onMemory();
    const { session_id: session } = (await client.post("/seed_session", row)).json as { session_id: string };
    for (const body of [undefined, {}, { x: 1 }, [], "x"]) {
      expect(JSON.stringify((await client.post("/verify", body)).json)).not.toContain("expected_count");
    }
    expect(await sessions.state(session)).toEqual({ count: 3 });
    const { json } = await client.post("/verify", { ...row, response });
    expect(json).toMatchObject({ reward: 0, holdfast: { episode: 1 } });
  });
});

test("5.11 TOKEN: a token made from public knowledge opens no session", async () => {
  const { client } = onMemory();
  const { session_id: victim } = (await client.post("/seed_session", row)).json as { session_id: string };
  for (const key of ["", "holdfast", "gym-counter", "holdfast_gym_counter", victim]) {
    for (const value of [victim, `new.${victim}`]) {
      const thief = new StrictClient(client.protocol, `holdfast_gym_counter=${tokensOf(key).issue(value)}`);
      expect((await thief.post("/seed_session", { initial_count: 100 })).json.session_id).not.toBe(victim);
    }
  }
  expect(await count(client)).toBe(3);
});

onEveryStore(
  "5.13 SEED: seeding a live session again replaces its state, and a lost session is not a zero state",
  async (place) => {
    const client = new StrictClient(gymOf(place.engine(gymCounter)));
    await client.post("/seed_session", { initial_count: 5 });
    await client.post("/increment_counter", { count: 1 });
    expect((await client.post("/seed_session", { initial_count: 100 })).json).toMatchObject({ episode: 2 });
    expect(await count(client)).toBe(100);
    await client.post("/close_session");
    expect((await client.post("/get_counter_value")).json.error.code).toMatch(/session_(closed|not_found)/);
  },
);

onEveryStore(
  "5.14 SERIAL: 20 concurrent calls, each awaiting between reading and writing, add up to 20",
  async (place) => {
    const workers = [gymOf(place.engine(gymCounter)), gymOf(await place.replica(gymCounter))] as const;
    const client = new StrictClient(workers[0]);
    await client.post("/seed_session", { initial_count: 0 });
    const { cookie } = client;
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        workers[at % 2 === 0 ? 0 : 1].handle(requestOf({ path: "/increment_slowly", headers: { cookie } })),
      ),
    );
    expect(replies.map((reply) => reply?.status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(await count(client)).toBe(20);
  },
);

onEveryStore("5.15 PURE-VERIFY: a second verify gives the same reward, and ends nothing", async (place) => {
  const client = new StrictClient(gymOf(place.engine(gymCounter)));
  await client.post("/seed_session", { ...row, initial_count: 6 });
  const first = await client.post("/verify", { ...row, response });
  client.protocol = gymOf(await place.restart(gymCounter));
  expect((await client.post("/verify", { ...row, response })).json).toEqual(first.json);
  await client.post("/increment_counter", { count: 1 });
  expect((await client.post("/verify", { ...row, response })).json).toMatchObject({ reward: 0, count: 7 });
});

describe("5.16 SCORED: a failure not caused by the model is never a reward", () => {
  const broken = (verify: () => number) =>
    defineEnvironment({ name: "broken", state: z.object({ n: z.number().default(0) }), tools: {}, verify });
  const verdictOf = async (verify: () => number) => {
    const client = new StrictClient(gymOf(createSessions({ environment: broken(verify), store: memoryStore() })));
    await client.post("/seed_session");
    return client.post("/verify", { response });
  };

  test("a verify that throws, or returns no number, is an error", async () => {
    for (const verify of [() => Number.NaN, () => undefined as never, () => JSON.parse("{") as never]) {
      const { status, json, headers } = await verdictOf(verify);
      expect({ status, code: json.error.code }).toEqual({ status: 500, code: "verify_failed" });
      expect(json).not.toHaveProperty("reward");
      expect(headers["set-cookie"]).toContain("holdfast_broken=");
    }
  });

  test("a failed seed is an error, and so is verify of a lost session", async () => {
    const environment = defineEnvironment({
      name: "unlucky",
      state: z.object({ n: z.number() }),
      seed: () => ({ n: "x" }) as never,
      tools: {},
      verify: () => 1,
    });
    const client = new StrictClient(gymOf(createSessions({ environment, store: memoryStore() })));
    expect(await client.post("/seed_session")).toMatchObject({ status: 500, json: { error: { code: "seed_failed" } } });
    const { client: other, sessions } = onMemory();
    const { session_id: session } = (await other.post("/seed_session", row)).json as { session_id: string };
    await sessions.close(session);
    const gone = await other.post("/verify", { ...row, response });
    expect(gone).toMatchObject({ status: 404, json: { error: { code: "session_not_found" } } });
    expect(gone.json).not.toHaveProperty("reward");
  });

  test("an unreachable store is an error with a cookie", async () => {
    const place = await open(everyStore[0] as (typeof everyStore)[0]);
    const client = new StrictClient(gymOf(place.engine(gymCounter)));
    await client.post("/seed_session", row);
    const { cookie } = client;
    await place.storage.store.close();
    for (const path of ["/get_counter_value", "/verify", "/seed_session", "/close_session"]) {
      const { status, json, headers } = await new StrictClient(client.protocol, cookie).post(path, row);
      expect({ status, json }).toMatchObject({ status: 503, json: { error: { code: "store_closed" } } });
      expect(headers["set-cookie"]).toContain(cookie);
    }
  });
});

describe("5.6 a repeat that no process has seen the loss of", () => {
  /** Posts with the cookie of the client, and drops the reply: the client does not learn its new cookie. */
  const dropped = async (client: StrictClient, path: string, body: object): Promise<void> => {
    await client.protocol.handle(requestOf({ path, body, headers: { cookie: client.cookie } }));
  };
  const aRetryLater = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 300));

  onEveryStore(
    "ONCE: gets the recorded answer in another process, and when the answer was lost after it was sent",
    async (place) => {
      const client = new StrictClient(gymOf(place.engine(gymCounter)));
      await client.post("/seed_session", row);
      await client.post("/increment_counter", { count: 1 });
      await dropped(client, "/increment_counter", { count: 1 });
      await aRetryLater();
      // Here, where the answer left as if it had arrived.
      const here = { ...client };
      const arrived = await client.post("/increment_counter", { count: 1 });
      expect(arrived).toMatchObject({ status: 200, json: { success: true }, headers: { "holdfast-repeated": "true" } });
      expect(await count(client)).toBe(5);
      // In another process, which has never heard of the first.
      await dropped(client, "/increment_counter", { count: 2 });
      await aRetryLater();
      const other = new StrictClient(gymOf(await place.replica(gymCounter)));
      other.cookie = client.cookie;
      expect((await other.post("/increment_counter", { count: 2 })).headers).toHaveProperty("holdfast-repeated");
      // The genuine second call follows with the new cookie.
      expect((await other.post("/increment_counter", { count: 2 })).headers).not.toHaveProperty("holdfast-repeated");
      expect(await count(other)).toBe(9);
      expect(here.cookie).not.toBe(client.cookie);
    },
  );

  test("is a new call at once, side by side, from a client that keeps its first cookie, and with other arguments", async () => {
    const { client } = onMemory();
    await client.post("/seed_session", row);
    const first = client.cookie;
    // A client that never takes up a new cookie.
    for (let at = 0; at < 2; at++) {
      await client.protocol.handle(
        requestOf({ path: "/increment_counter", body: { count: 1 }, headers: { cookie: first } }),
      );
      await aRetryLater();
    }
    expect(await count(client)).toBe(5);
    // Two of the same at once, with one cookie.
    await Promise.all([1, 2].map(() => dropped(client, "/increment_counter", { count: 1 })));
    expect(await count(client)).toBe(7);
    await dropped(client, "/increment_counter", { count: 1 });
    await aRetryLater();
    await client.post("/increment_counter", { count: 2 });
    expect(await count(client)).toBe(10);
  });

  test("TOKEN: a cookie with a damaged version opens nothing, and a version that is made up only repeats an own answer", async () => {
    const { client } = onMemory();
    await client.post("/seed_session", row);
    await client.post("/increment_counter", { count: 1 });
    const [name, value = ""] = (client.cookie as string).split("=");
    const { token } = parseCookie(value);
    const countWith = async (cookie: string) =>
      (await new StrictClient(client.protocol, `${name}=${cookie}`).post("/get_counter_value")).json;
    for (const damaged of [
      `${value}0`,
      value.slice(0, -1),
      `${token}.`,
      `${token}.9-`,
      `${token}.9`,
      `${value}.${value}`,
    ]) {
      expect(await countWith(damaged)).toEqual({ count: 0 });
    }
    for (const made of [0, 1, 99, 2 ** 40]) {
      expect(await countWith(writeCookie(token, made))).toEqual({ count: 4 });
    }
  });
});
