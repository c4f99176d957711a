// The REST API: every route with good and bad input, and the scenarios shared by all protocols.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore, open } from "../session/engine.ts";
import { clientOf, requestOf, type Client, type Got } from "./rest-client.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];
const task = { start: 3, goal: 5 };

async function started(client: Client): Promise<string> {
  const { body } = await client("POST", "/v1/sessions", { body: { task } });
  return `/v1/sessions/${body.session}`;
}

describe("the scenarios of every protocol", () => {
  onEveryStore("a session is opened, called and verified", async (place) => {
    const client = clientOf(place.engine(counter));
    const opened = await client("POST", "/v1/sessions", { body: { task, random: 7, labels: { rollout: "r1" } } });
    expect(opened).toMatchObject({
      status: 201,
      body: { version: 2, episode: 1, task, labels: { rollout: "r1" }, environment: "counter" },
    });
    const at = `/v1/sessions/${opened.body.session}`;
    expect(await client("POST", `${at}/call`, { body: { tool: "add", input: { by: 2 } } })).toMatchObject({
      status: 200,
      body: { ok: true, output: { count: 5 }, version: 3, repeated: false, unseeded: false },
    });
    expect(await client("GET", `${at}/state`)).toMatchObject({
      status: 200,
      body: { session: opened.body.session, version: 3, state: { count: 5, notes: [] } },
    });
    const verdict = { status: 200, body: { reward: 1, version: 3, episode: 1, reseeds: 0 } };
    expect(await client("POST", `${at}/verify`)).toMatchObject(verdict);
    expect(await client("POST", `${at}/verify`, { body: {} })).toMatchObject(verdict);
  });

  onEveryStore("`random` is the random seed of the episode", async (place) => {
    const client = clientOf(place.engine(counter));
    const { body } = await client("POST", "/v1/sessions", { body: { task, random: 7 } });
    await client("POST", `/v1/sessions/${body.session}/seed`, { body: { task, random: 8 } });
    const log = await client("GET", `/v1/sessions/${body.session}/events`);
    const seeded = [{ type: "session.opened" }, { randomness: { seed: 7 } }, { randomness: { seed: 8 } }];
    expect(log.body).toMatchObject({ events: seeded });
  });

  onEveryStore("a mistake of the model is an answer, and the session continues", async (place) => {
    const client = clientOf(place.engine(counter));
    const at = await started(client);
    const call = (body: unknown) => client("POST", `${at}/call`, { body });
    expect(await call({ tool: "spoil" })).toMatchObject({
      status: 200,
      body: { ok: false, error: { code: "tool_failed", message: expect.stringContaining("spoiled on purpose") } },
    });
    expect(await call({ tool: "add", input: { by: "two" } })).toMatchObject({
      status: 200,
      body: { ok: false, error: { code: "invalid_input", message: expect.stringContaining("by") } },
    });
    expect(await call({ tool: "verify" })).toMatchObject({
      status: 200,
      body: { ok: false, error: { code: "unknown_tool" } },
    });
    expect(await call({ tool: "read" })).toMatchObject({ status: 200, body: { ok: true, output: { count: 3 } } });
  });

  onEveryStore("an unknown session is a 404 on every route that needs one", async (place) => {
    const client = clientOf(place.engine(counter));
    const refused = { status: 404, body: { error: { code: "session_not_found" } } };
    const at = "/v1/sessions/nobody";
    for (const [method, target, body] of [
      ["GET", at],
      ["GET", `${at}/state`],
      ["GET", `${at}/state?version=1`],
      ["GET", `${at}/events`],
      ["POST", `${at}/call`, { tool: "read" }],
      ["POST", `${at}/seed`, { task }],
      ["POST", `${at}/verify`],
      ["POST", `${at}/fork`],
      ["POST", `${at}/rewind`, { version: 1 }],
      ["POST", `${at}/replay`],
    ] as const) {
      expect(await client(method, target, { body }), `${method} ${target}`).toMatchObject(refused);
    }
    expect(await client("GET", `${at}/events`, { headers: { accept: "text/event-stream" } })).toMatchObject(refused);
    expect(await client("DELETE", at)).toMatchObject({ status: 200, body: { closed: false } });
  });

  onEveryStore(
    "ONCE: a call id counts once, in the body or as Idempotency-Key; with other arguments it is a 409",
    async (place) => {
      const client = clientOf(place.engine(counter));
      const at = await started(client);
      const add = (by: number, call?: string, key?: string) =>
        client("POST", `${at}/call`, {
          body: { tool: "add", input: { by }, ...(call !== undefined && { call }) },
          headers: { "idempotency-key": key },
        });
      const fresh = { status: 200, body: { output: { count: 4 }, repeated: false } };
      expect(await add(1, undefined, "a")).toMatchObject(fresh);
      const repeat = { status: 200, body: { output: { count: 4 }, repeated: true } };
      expect(await add(1, undefined, "a")).toMatchObject(repeat);
      expect(await add(1, "a")).toMatchObject(repeat);
      // The id in the body wins.
      expect(await add(1, "a", "b")).toMatchObject(repeat);
      expect(await add(2, undefined, "a")).toMatchObject({ status: 409, body: { error: { code: "call_conflict" } } });
      expect(await add(1, undefined, "b")).toMatchObject({
        status: 200,
        body: { output: { count: 5 }, repeated: false },
      });
      expect(await add(1, undefined, "")).toMatchObject({ status: 400, body: { error: { code: "invalid_option" } } });
    },
  );

  onEveryStore("a call of a finished episode or a closed session is refused", async (place) => {
    const client = clientOf(place.engine(counter, { keepEnded: true }));
    const at = await started(client);
    const seed = (): Promise<unknown> =>
      client("POST", `${at}/seed`, { body: { task: { start: 9, goal: 9 } }, headers: { "idempotency-key": "s" } });
    expect(await seed()).toMatchObject({ status: 200, body: { episode: 2, version: 3, repeated: false } });
    expect(await seed()).toMatchObject({ status: 200, body: { episode: 2, version: 3, repeated: true } });
    expect(await client("POST", `${at}/call`, { body: { tool: "read", episode: 1 } })).toMatchObject({
      status: 409,
      body: { error: { code: "episode_ended" } },
    });
    expect(await client("DELETE", at)).toMatchObject({ status: 200, body: { closed: true } });
    expect(await client("DELETE", at)).toMatchObject({ status: 200, body: { closed: false } });
    expect(await client("POST", `${at}/call`, { body: { tool: "read" } })).toMatchObject({
      status: 410,
      body: { error: { code: "session_closed" } },
    });
    expect(await client("GET", at)).toMatchObject({ status: 200, body: { ended: "closed" } });
  });
});

describe("time travel", () => {
  onEveryStore("FORK: a live session is forked at any version, and neither affects the other", async (place) => {
    const client = clientOf(place.engine(counter));
    const at = await started(client);
    const add = (where: string) => client("POST", `${where}/call`, { body: { tool: "add", input: { by: 1 } } });
    await add(at);
    const fork = await client("POST", `${at}/fork`, { body: { version: 2 } });
    expect(fork).toMatchObject({ status: 201, body: { version: 1, episode: 1, parent: { version: 2 } } });
    const child = `/v1/sessions/${fork.body.session}`;
    await add(child);
    await add(child);
    await add(at);
    const count = async (where: string): Promise<unknown> => (await client("GET", `${where}/state`)).body.state.count;
    expect([await count(at), await count(child)]).toEqual([5, 5]);
    await add(child);
    expect([await count(at), await count(child)]).toEqual([5, 6]);
    expect(await client("POST", `${at}/fork`)).toMatchObject({ status: 201, body: { parent: { version: 4 } } });
    expect(await client("POST", `${at}/fork`, { body: { version: 99 } })).toMatchObject({
      status: 404,
      body: { error: { code: "version_not_found" } },
    });
  });

  onEveryStore("REPLAY: a session is rewound, read and verified at a version, and replayed", async (place) => {
    const client = clientOf(place.engine(counter));
    const at = await started(client);
    for (const by of [1, 1, 1]) await client("POST", `${at}/call`, { body: { tool: "add", input: { by } } });
    expect(await client("GET", `${at}/state?version=3`)).toMatchObject({ body: { version: 3, state: { count: 4 } } });
    expect(await client("POST", `${at}/verify`, { body: { version: 4 } })).toMatchObject({ body: { reward: 1 } });
    expect(await client("POST", `${at}/verify`)).toMatchObject({ body: { reward: 0 } });
    expect(
      await client("POST", `${at}/verify`, { body: { task: { start: 0, goal: 6 }, response: "six" } }),
    ).toMatchObject({
      body: { reward: 1 },
    });
    const rewound = await client("POST", `${at}/rewind`, { body: { version: 4 } });
    expect(rewound).toMatchObject({ status: 200, body: { version: 9, episode: 1 } });
    expect(await client("GET", `${at}/state`)).toMatchObject({ body: { version: 9, state: { count: 5 } } });
    expect(await client("POST", `${at}/replay`)).toEqual(
      expect.objectContaining({ status: 200, body: { same: true, events: 9 } }),
    );
    for (const target of [`${at}/state?version=10`]) {
      expect(await client("GET", target)).toMatchObject({
        status: 404,
        body: { error: { code: "version_not_found" } },
      });
    }
    expect(await client("POST", `${at}/rewind`, { body: { version: 99 } })).toMatchObject({ status: 404 });
  });
});

describe("lists", () => {
  onEveryStore("events come in pages", async (place) => {
    const client = clientOf(place.engine(counter));
    const at = await started(client);
    for (let n = 0; n < 5; n++) await client("POST", `${at}/call`, { body: { tool: "read" } });
    const versions: number[][] = [];
    for (let next: number | null = 0; next !== null;) {
      const { body }: Got = await client("GET", `${at}/events?after=${next}&limit=3`);
      versions.push(body.events.map(({ version }: { version: number }) => version));
      next = body.next;
    }
    expect(versions).toEqual([[1, 2, 3], [4, 5, 6], [7]]);
    expect((await client("GET", `${at}/events?limit=7`)).body.next).toBe(null);
    expect((await client("GET", `${at}/events?after=99`)).body).toEqual({ events: [], next: null });
  });

  test("a page of large events ends before 4 MiB, and holds at least one event", async () => {
    const say = tool({
      description: "Says something long.",
      input: z.object({ length: z.number() }),
      run: (_, { length }) => "x".repeat(length),
    });
    const environment = defineEnvironment({ name: "loud", tools: { say } });
    const client = clientOf(createSessions({ environment, store: memoryStore() }));
    const at = `/v1/sessions/${(await client("POST", "/v1/sessions", {})).body.session}`;
    for (const megabytes of [1, 2, 2, 6, 1, 1]) {
      await client("POST", `${at}/call`, { body: { tool: "say", input: { length: megabytes * 1_000_000 } } });
    }
    const versions: number[][] = [];
    for (let next: number | null = 0; next !== null;) {
      const { body }: Got = await client("GET", `${at}/events?after=${next}`);
      versions.push(body.events.map(({ version }: { version: number }) => version));
      next = body.next;
    }
    expect(versions).toEqual([[1, 2, 3], [4], [5], [6, 7]]);
  });

  onEveryStore("sessions are listed page by page while others open, each once and in order", async (place) => {
    const sessions = place.engine(counter, { keepEnded: true });
    const client = clientOf(sessions);
    const opened: string[] = [];
    const more = async (): Promise<void> => void opened.push((await client("POST", "/v1/sessions")).body.session);
    for (let n = 0; n < 10; n++) await more();
    const seen: string[] = [];
    let rounds = 0;
    for (let next: string | null = ""; next !== null; rounds++) {
      const { status, body }: Got = await client("GET", `/v1/sessions?limit=4${next && `&after=${next}`}`);
      expect(status).toBe(200);
      expect(body.more).toBe(body.next !== null);
      seen.push(...body.sessions.map(({ session }: { session: string }) => session));
      next = body.next;
      if (next !== null) await more();
      expect(rounds).toBeLessThan(9);
    }
    expect(seen).toEqual(opened);

    await client("DELETE", `/v1/sessions/${opened[0]}`);
    const listed = async (query: string): Promise<string[]> =>
      (await client("GET", `/v1/sessions?${query}`)).body.sessions.map(({ session }: { session: string }) => session);
    expect(await listed("open=false")).toEqual([opened[0]]);
    expect(await listed("open=true")).toEqual(opened.slice(1));
    expect(await listed("opened_before=1")).toEqual([]);
    expect((await listed(`idle_before=${Date.now() + 1000}`)).toSorted()).toEqual(opened.toSorted());
    expect((await client("GET", `/v1/sessions?limit=2&idle_before=${Date.now() + 1000}`)).body).toMatchObject({
      next: null,
      more: true,
    });
    expect(await client("GET", "/v1/sessions?after=nobody")).toMatchObject({ status: 404 });
    expect(await client("GET", `/v1/sessions?idle_before=9&after=${opened[0]}`)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_option" } },
    });
  });

  test("ISOLATION: sessions of another environment in the same store are neither listed nor found", async () => {
    const place = await open(memory);
    const other = defineEnvironment({ name: "other", state: z.object({}), tools: {} });
    const { body } = await clientOf(place.engine(other))("POST", "/v1/sessions");
    const client = clientOf(place.engine(counter));
    expect((await client("GET", "/v1/sessions")).body.sessions).toEqual([]);
    expect(await client("GET", `/v1/sessions/${body.session}`)).toMatchObject({ status: 404 });
    expect(await client("DELETE", `/v1/sessions/${body.session}`)).toMatchObject({ body: { closed: false } });
  });
});

test("the environment is described, with the schemas of its tools, its task and its state", async () => {
  const place = await open(memory);
  const { status, body } = await clientOf(place.engine(counter))("GET", "/v1/environment");
  expect(status).toBe(200);
  expect(body).toMatchObject({ name: "counter", unseeded: "guard", reseed: "guard", bestReward: 1 });
  expect(body.task).toMatchObject({ type: "object", required: ["start", "goal"] });
  expect(body.state.properties).toHaveProperty("count");
  expect(body.tools).toContainEqual({
    name: "add",
    description: "Add to the counter.",
    kind: "state",
    input: expect.objectContaining({ type: "object", required: ["by"] }),
  });
  expect(body.tools).toContainEqual(expect.objectContaining({ name: "read", input: { type: "object" } }));
  expect(body.tools).toContainEqual(expect.objectContaining({ name: "gather", kind: "concurrent" }));
});

describe("a bad request names the field, the reason, and a correct value", () => {
  const cases: [method: string, target: string, body: unknown, field: string, message: string][] = [
    ["POST", "", 3, "the body", "the body must be an object, not 3"],
    ["POST", "", null, "the body", "the body must be an object, not null"],
    ["POST", "", [], "the body", "the body must be an object, not an array"],
    ["POST", "", { tsak: {} }, "tsak", 'the body has no field "tsak"; its fields are task, random, labels, tools'],
    ["POST", "", { random: "7" }, "random", 'random must be a number, not "7"'],
    ["POST", "", { task, labels: [] }, "labels", "labels must be an object, not an array"],
    ["POST", "", { labels: { a: 1 } }, "labels", "labels requires task; send both or neither"],
    ["GET", "?limit=0", undefined, "limit", "limit must be an integer from 1 to 1000, not 0"],
    ["GET", "?limit=1001", undefined, "limit", "limit must be an integer from 1 to 1000, not 1001"],
    ["GET", "?limit=ten", undefined, "limit", 'limit must be an integer from 1 to 1000, not "ten"'],
    ["GET", "?limit=1&limit=2", undefined, "limit", "limit must be an integer from 1 to 1000, not an array"],
    ["GET", "?open=yes", undefined, "open", 'open must be true or false, not "yes"'],
    ["GET", "?opened_before=-1", undefined, "opened_before", "opened_before must be an integer of at least 0, not -1"],
    ["GET", "?after=a&after=b", undefined, "after", "after must be a string, not an array"],
    ["GET", "/ID/state?version=0", undefined, "version", "version must be an integer of at least 1, not 0"],
    ["GET", "/ID/state?version=1.5", undefined, "version", 'version must be an integer of at least 1, not "1.5"'],
    ["GET", "/ID/state?v=1", undefined, "v", 'the query has no field "v"; its fields are version'],
    ["GET", "/ID?x=1", undefined, "x", 'the query has no field "x"; it has no fields'],
    ["GET", "/ID/events?after=-1", undefined, "after", "after must be an integer of at least 0, not -1"],
    ["POST", "/ID/call", undefined, "tool", "tool is missing; it must be a string"],
    ["POST", "/ID/call", { tool: 5 }, "tool", "tool must be a string, not 5"],
    ["POST", "/ID/call", { tool: "read", episode: -1 }, "episode", "episode must be an integer of at least 0, not -1"],
    ["POST", "/ID/call", { tool: "read", call: 1 }, "call", "call must be a string, not 1"],
    ["POST", "/ID/seed", {}, "task", "task is missing; it must be any JSON"],
    ["POST", "/ID/verify", { version: "2" }, "version", 'version must be an integer of at least 1, not "2"'],
    ["POST", "/ID/fork", { version: 0 }, "version", "version must be an integer of at least 1, not 0"],
    ["POST", "/ID/rewind", {}, "version", "version is missing; it must be an integer of at least 1"],
    ["POST", "/ID/rewind", { version: 2 ** 53 }, "version", `version must be an integer of at least 1, not ${2 ** 53}`],
    ["POST", "/ID/replay", { again: 1 }, "again", 'the body has no field "again"; it has no fields'],
  ];
  test.each(cases)("%s /v1/sessions%s with %j", async (method, target, body, field, message) => {
    const client = clientOf((await open(memory)).engine(counter));
    const at = await started(client);
    const reply = await client(method, `/v1/sessions${target.replace("/ID", at.slice("/v1/sessions".length))}`, {
      body,
    });
    expect(reply.status).toBe(400);
    expect(reply.body).toEqual({ error: { code: "invalid_option", message, detail: { field } } });
    expect((await client("GET", at)).body.version).toBe(2);
  });

  test("an invalid task is a 422, and `__proto__` is an ordinary field", async () => {
    const client = clientOf((await open(memory)).engine(counter));
    const refused = { status: 422, body: { error: { code: "invalid_task" } } };
    expect(await client("POST", "/v1/sessions", { body: { task: { start: "x" } } })).toMatchObject(refused);
    const at = await started(client);
    expect(await client("POST", `${at}/seed`, { body: { task: 1 } })).toMatchObject(refused);
    expect(await client("POST", `${at}/verify`, { body: { task: null } })).toMatchObject(refused);
    const body: unknown = JSON.parse('{"__proto__":{"tool":"read"}}');
    expect(await client("POST", `${at}/call`, { body })).toMatchObject({
      status: 400,
      body: { error: { detail: { field: "__proto__" } } },
    });
  });
});

describe("paths", () => {
  test("a wrong method on a known path lists the right ones", async () => {
    const client = clientOf((await open(memory)).engine(counter));
    for (const [method, path, allow] of [
      ["PUT", "/v1/sessions", ["POST", "GET"]],
      ["POST", "/v1/sessions/x", ["GET", "DELETE"]],
      ["GET", "/v1/sessions/x/call", ["POST"]],
      ["POST", "/openapi.json", ["GET"]],
      ["DELETE", "/docs", ["GET"]],
    ] as const) {
      expect(await client(method, path)).toMatchObject({
        status: 405,
        body: { error: { code: "method_not_allowed", detail: { allow } } },
      });
    }
  });

  test("an unknown path under /v1 is a 404, and any other is left to other protocols", async () => {
    const client = clientOf((await open(memory)).engine(counter));
    for (const path of ["/v1", "/v1/", "/v1/sessions/", "/v1/sessions/x/nothing", "/v1/sessions//call", "/v1/{id}"]) {
      expect(await client("GET", path), path).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
    }
    for (const path of ["/", "/v2", "/v1x", "/seed_session", "/docs/", "/sessions/{id}"]) {
      expect(await client.protocol.handle(requestOf("GET", path)), path).toBe(undefined);
    }
  });

  test("a session id is percent-decoded, and an invalid one is a bad request", async () => {
    const client = clientOf((await open(memory)).engine(counter));
    const at = await started(client);
    const id = at.split("/").at(-1) as string;
    const encoded = [...id].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");
    expect(await client("GET", `/v1/sessions/${encoded}`)).toMatchObject({ status: 200, body: { session: id } });
    expect(await client("GET", "/v1/sessions/%zz")).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request" } },
    });
    for (const odd of ["{id}", "__proto__", "%00", "%F0%9F%90%99", "a%2Fb"]) {
      expect(await client("GET", `/v1/sessions/${odd}`), odd).toMatchObject({ status: 404 });
    }
  });
});

test("a disconnecting client cancels its call without an id", async () => {
  let began = (): void => undefined;
  const running = new Promise<void>((resolve) => (began = resolve));
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({}),
    tools: {
      wait: tool({
        description: "Wait until told to stop.",
        run: ({ signal }) =>
          new Promise<null>((resolve) => {
            began();
            signal.addEventListener("abort", () => resolve(null));
          }),
      }),
    },
  });
  const store = memoryStore();
  const sessions = createSessions({ environment: slow, store });
  const client = clientOf(sessions);
  const { body } = await client("POST", "/v1/sessions");
  const gone = new AbortController();
  const call = client("POST", `/v1/sessions/${body.session}/call`, { body: { tool: "wait" }, signal: gone.signal });
  await running;
  gone.abort();
  expect(await call).toMatchObject({ status: 408, body: { error: { code: "call_cancelled" } } });
  expect((await client("GET", `/v1/sessions/${body.session}`)).body.version).toBe(1);
  await sessions.stop();
  await store.close();
});

test.for(["wait", "hold"])("a retry joins a call of %s whose client has disconnected", async (name) => {
  let started = 0;
  let began = (): void => undefined;
  let finish = (): void => undefined;
  const running = new Promise<void>((resolve) => (began = resolve));
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const description = "Wait until the test lets the tool finish.";
  const run = async () => {
    started++;
    began();
    await finished;
    return { started };
  };
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({}),
    tools: { wait: tool({ description, concurrent: true, run }), hold: tool({ description, run }) },
  });
  const store = memoryStore();
  const sessions = createSessions({ environment: slow, store });
  const client = clientOf(sessions);
  const opened = await client("POST", "/v1/sessions");
  const at = `/v1/sessions/${opened.body.session}/call`;
  const gone = new AbortController();
  const body = { tool: name, call: "c1" };
  const first = client("POST", at, { body, signal: gone.signal });
  await running;
  gone.abort();
  const retry = client("POST", at, { body });
  finish();
  expect(await first).toMatchObject({ status: 200, body: { repeated: false } });
  expect(await retry).toMatchObject({ status: 200, body: { ok: true, output: { started: 1 }, repeated: true } });
  expect(started).toBe(1);
  await sessions.stop();
  await store.close();
});

test("a different call with the id of a running call is refused", async () => {
  const store = memoryStore();
  const sessions = createSessions({ environment: counter, store });
  const client = clientOf(sessions);
  const at = `${await started(client)}/call`;
  const replies = [1, 2, 1].map((by) => client("POST", at, { body: { tool: "add", input: { by }, call: "c1" } }));
  expect(await Promise.all(replies)).toMatchObject([
    { status: 200, body: { output: { count: 4 }, repeated: false } },
    { status: 409, body: { error: { code: "call_conflict" } } },
    { status: 200, body: { output: { count: 4 }, repeated: true } },
  ]);
  await sessions.stop();
  await store.close();
});

test("a verify continues after its client disconnects, and a retry gets its verdict", async () => {
  let judged = 0;
  let began = (): void => undefined;
  let finish = (): void => undefined;
  const running = new Promise<void>((resolve) => (began = resolve));
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({}),
    task: z.object({}),
    seed: () => ({}),
    tools: {},
    verify: async () => {
      began();
      await finished;
      return ++judged;
    },
  });
  const store = memoryStore();
  const sessions = createSessions({ environment: slow, store });
  const client = clientOf(sessions);
  const opened = await client("POST", "/v1/sessions", { body: { task: {} } });
  const at = `/v1/sessions/${opened.body.session}/verify`;
  const gone = new AbortController();
  const first = client("POST", at, { signal: gone.signal });
  await running;
  gone.abort();
  finish();
  expect(await first).toMatchObject({ status: 200, body: { reward: 1 } });
  expect(await client("POST", at)).toMatchObject({ status: 200, body: { reward: 1 } });
  await sessions.stop();
  await store.close();
});
