// 10,000 malicious requests: each gets an answer with a cookie, and none reaches another client's session.
import fc from "fast-check";
import { createSessions, defineEnvironment, memoryStore, tool, type Sessions } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { runs } from "../runs.ts";
import { gymCounter, gymOf, tokensOf, requestOf, StrictClient, type Wanted } from "./gym-client.ts";

const keeper = defineEnvironment({
  name: "keeper",
  state: z.object({ kept: z.unknown().default(null) }),
  tools: {
    keep: tool({
      description: "Keep anything.",
      run: ({ state }, input) => {
        state.kept = input;
        return input;
      },
    }),
  },
  verify: ({ state }) => ({ reward: 0.5, state }),
});

const stateless = defineEnvironment({
  name: "stateless",
  tools: { echo: tool({ description: "Say it again.", run: (_, input) => input }) },
  verify: ({ task, response }) => ({ reward: 1, task, said: response ?? null }),
});

const nested = (depth: number): unknown => JSON.parse(`${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`);

const names = [
  "initial_count",
  "expected_count",
  "count",
  "response",
  "responses_create_params",
  "verify_responses",
  "x",
  "_ng_session_id",
  "_ng_rollout_id",
  "_ng_attempt_index",
  "_ng_task_index",
  "reward",
  "session_id",
  "episode",
  "__proto__",
  "constructor",
  "prototype",
  "toJSON",
  "then",
  "length",
  "",
];
const value = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(0, -0, 1, 2 ** 53, -(2 ** 63), 1e308, -1e308, 5e-324, 0.1, "1", "\u0000", "\ud800", "é".repeat(999)),
  fc.constantFrom(null, true, [], {}, [[]], [null], JSON.parse('{"__proto__":{"count":1}}')),
  fc.constantFrom(100, 300, 700, 20_000).map(nested),
);
const body = fc.oneof(
  { weight: 1, arbitrary: fc.constant(undefined) },
  { weight: 2, arbitrary: value },
  {
    weight: 6,
    arbitrary: fc.array(fc.tuple(fc.constantFrom(...names), value), { maxLength: 5 }).map(Object.fromEntries),
  },
  { weight: 3, arbitrary: fc.record({ initial_count: fc.integer(), count: fc.integer(), response: value }) },
);

const known = fc.constantFrom(
  "seed_session",
  "seed_session",
  "verify",
  "close_session",
  "aggregate_metrics",
  "increment_counter",
  "picky",
  "get_counter_value",
  "increment_counter",
  "say",
  "crash",
  "keep",
  "keep",
  "echo",
  "echo",
  "increment_slowly",
);
const odd = fc.oneof(
  fc.constantFrom("%73eed_session", "verif%79", "%2Fverify", "%", "%zz", "%00", "..", ".", "", "__proto__"),
  fc.constantFrom("constructor", "reverify_mode", "ng-rollout", "mcp", "reset", "SEED_SESSION", "seed_session%20"),
  fc.string({ unit: "binary", maxLength: 20 }).map((text) => encodeURIComponent(text)),
  fc.string({ maxLength: 300 }).map((text) => text.replaceAll("/", "_")),
);
const segment = fc.oneof({ weight: 3, arbitrary: known }, { weight: 1, arbitrary: odd });
const path = fc.oneof(
  { weight: 8, arbitrary: segment.map((name) => `/${name}`) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.oneof(fc.constantFrom("4-1", "x.y"), odd), segment)
      .map(([id, name]) => `/ng-rollout/${id}/${name}`),
  },
  { weight: 1, arbitrary: fc.array(segment, { maxLength: 4 }).map((all) => `/${all.join("/")}`) },
);
const method = fc.oneof(
  { weight: 9, arbitrary: fc.constant("POST") },
  {
    weight: 2,
    arbitrary: fc.constantFrom("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "post", "", "__proto__"),
  },
);
const header = fc.oneof(
  { weight: 8, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constantFrom("", "1", "0", "-1", "1e3", "k", "k".repeat(257), "\ud800", '"k"') },
  { weight: 1, arbitrary: fc.string() },
);

/** Modifications of another client's valid cookie. None of them leaves it valid. */
const spoiled: ((cookie: string, at: number) => string)[] = [
  (cookie, at) => cookie.slice(0, at % cookie.lastIndexOf(".")),
  (cookie, at) => {
    const [name = "", token = ""] = cookie.split("=");
    const place = at % token.length;
    return `${name}=${token.slice(0, place)}${token[place] === "A" ? "B" : "A"}${token.slice(place + 1)}`;
  },
  (cookie) => cookie.replace("=", "=new."),
  // Without its version, which comes last, it would still be valid.
  (cookie) => cookie.slice(0, cookie.indexOf(".")),
  (cookie) => cookie.replace("holdfast", "Holdfast"),
  (cookie) => `${cookie}=`,
  (cookie) => cookie.replace("=", '="'),
  (cookie) => cookie.replace("=", "= ; "),
];

interface Fuzzed {
  environment: number;
  wanted: Wanted;
  /** The cookie: none, one of the attacker's own, or a modified or invented one. */
  cookie: { own: boolean; client: number } | { spoil: number; at: number } | { raw: string };
  alsoOwn: boolean;
  isLost: boolean;
}

const fuzzed: fc.Arbitrary<Fuzzed> = fc.record({
  environment: fc.nat(2),
  wanted: fc.record({
    method,
    path,
    body,
    headers: fc.record({ "idempotency-key": header, "holdfast-episode": header }),
  }),
  cookie: fc.oneof(
    fc.record({ own: fc.boolean(), client: fc.nat(3) }),
    fc.record({ spoil: fc.nat(spoiled.length - 1), at: fc.nat(200) }),
    fc.record({
      raw: fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constantFrom(";;;", "=", '"', "\\", "a=b")),
    }),
  ),
  alsoOwn: fc.boolean(),
  isLost: fc.boolean(),
});

async function serve<E extends AnyEnvironment>(environment: E, task: object) {
  const sessions: Sessions = createSessions({ environment, store });
  const protocol = gymOf(sessions, tokens);
  const bystanders: { session: string; cookie: string; version: number; state: unknown }[] = [];
  for (let made = 0; made < 3; made++) {
    const client = new StrictClient(protocol);
    const { session_id: session } = (await client.post("/seed_session", task)).json as { session_id: string };
    const { version } = await sessions.info(session);
    bystanders.push({ session, cookie: client.cookie as string, version, state: await sessions.state(session) });
  }
  const own = Array.from({ length: 4 }, () => new StrictClient(protocol));
  return { sessions, protocol, bystanders, own };
}

const store = memoryStore();
const tokens = tokensOf();

test("ISOLATION: no fuzzed request is answered with a 5xx, without a cookie, or from a session that is not the caller's", async () => {
  const served = [await serve(gymCounter, { initial_count: 3 }), await serve(keeper, {}), await serve(stateless, {})];
  const statuses = new Map<number, number>();

  const check = async ({ environment, wanted, cookie, alsoOwn, isLost }: Fuzzed): Promise<void> => {
    const { sessions, protocol, bystanders, own } = served[environment] as (typeof served)[0];
    const victim = bystanders[0] as (typeof bystanders)[0];
    const client = "client" in cookie && cookie.own ? own[cookie.client] : undefined;
    const bad =
      "raw" in cookie ? cookie.raw : "spoil" in cookie ? spoiled[cookie.spoil]?.(victim.cookie, cookie.at) : undefined;
    const sent = [bad, client?.cookie ?? (alsoOwn ? own[0]?.cookie : undefined)].filter((one) => one !== undefined);
    const headers = { ...wanted.headers, ...(sent.length > 0 && { cookie: sent.join("; ") }) };
    const request = requestOf({ ...wanted, headers });
    const reply = (await protocol.handle(request)) ?? protocol.decorate(request, { status: 404 });
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);

    expect(reply.status).toBeLessThan(500);
    const issued = reply.headers?.["set-cookie"];
    // On a path of another protocol, a client without a valid cookie gets none.
    if (issued !== undefined || !/^\/(?:v1|openenv|ors|m)\//.test(request.path)) {
      expect(issued).toMatch(/^holdfast_[a-z_]+=[A-Za-z0-9._-]+; Path=\/; Max-Age=1209600; HttpOnly; SameSite=Lax$/);
    }
    for (const one of Object.values(reply.headers ?? {})) expect(one).toMatch(/^[\x20-\x7e]*$/);
    expect(() => JSON.stringify(reply.body)).not.toThrow();
    for (const { session, version } of bystanders) {
      expect(reply.about?.session).not.toBe(session);
      expect((await sessions.info(session)).version).toBe(version);
    }
    if (isLost) request.gone?.();
    // A closed session is replaced.
    if (client)
      client.cookie =
        reply.status === 404 || reply.status === 410 ? undefined : reply.headers?.["set-cookie"]?.split(";")[0];
  };
  await fc.assert(fc.asyncProperty(fuzzed, check), { numRuns: runs(10_000) });

  for (const { sessions, protocol, bystanders } of served) {
    for (const { session, cookie, state } of bystanders) {
      expect(await sessions.state(session)).toEqual(state);
      const { json } = await new StrictClient(protocol, cookie).post("/verify", {});
      expect(json).toMatchObject({ session_id: session, holdfast: { episode: 1, reseeds: 0 } });
    }
  }
  // Enough requests got far enough to do harm.
  for (const status of [200, 400, 404, 422]) expect(statuses.get(status) ?? 0).toBeGreaterThan(100);
  expect(({} as { count?: unknown }).count).toBeUndefined();
});
