// Hostile requests to every route of the OpenAPI documents and of the gym protocol. tests/server/fuzz.test.ts has the
// requests with stolen, forged and mangled cookies.
import fc from "fast-check";
import { createSessions, defineAgent, memoryStore, scriptedModel } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../src/server/serve.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { afterOf, bytesOf, framings, isWellFramed, type Fuzzed } from "../server/fuzz-requests.ts";
import { wire, type Wire } from "../server/wire.ts";
import { limitMemory } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

const token = "the-bearer-token-of-this-server";
const secret = "the-secret-of-a-victim";
const parallel = 8;
const greeter = defineAgent({ name: "greeter", model: scriptedModel(() => "Hi!"), outputKey: "answer" });

interface Operation {
  parameters?: { name: string; in: string }[];
  requestBody?: { content: { "application/json": { example: Record<string, unknown> } } };
}

interface Target {
  method: string;
  path: string;
  fields: string[];
  example: Record<string, unknown>;
}

/** The operations of a document, as targets under its prefix. */
async function targetsAt(url: string, prefix: string): Promise<Target[]> {
  const response = await fetch(`${url}${prefix}/openapi.json`, { headers: { authorization: `Bearer ${token}` } });
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, Operation>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path: prefix + path,
      fields: parameters.filter(({ in: where }) => where === "query").map(({ name }) => name),
      example: requestBody?.content["application/json"].example ?? {},
    })),
  );
}

const gymTargets: Target[] = [
  { path: "/seed_session", example: { initial_count: 1, expected_count: 2 } },
  { path: "/verify", example: { response: {}, responses_create_params: { input: [] } } },
  { path: "/aggregate_metrics", example: { verify_responses: [{ reward: 1 }] } },
  { path: "/close_session", example: {} },
  { path: "/reverify_mode", example: {} },
  { path: "/increment_counter", example: { count: 1 } },
  { path: "/ng-rollout/4-1/increment_counter", example: { count: 1 } },
].map((target) => ({ method: "POST", fields: [], ...target }));

const nested = (depth: number): string => `${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`;
const wide = (count: number): string => `{${Array.from({ length: count }, (_, n) => `"k${n}":0`).join(",")}}`;

/** Values as text, because JSON.stringify would not write some of them. */
const value = fc.oneof(
  fc.constantFrom("null", "true", "-0", "1e999", "9007199254740993", '""', "[]", "{}", '"\\ud800"', '"\\u0000"'),
  fc.constantFrom("-1", "0", "1e-400", '{"__proto__":{"count":9}}', "[[[[]]]]", '"__proto__"', '"constructor"'),
  fc.constantFrom(nested(249), nested(600), wide(2_000), `[${"{},".repeat(3_000)}{}]`, `"${"é".repeat(9_000)}"`),
  fc.jsonValue({ maxDepth: 3 }).map((made) => JSON.stringify(made)),
);
const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom("-1", "0", "1", "1e9", "1e999", "true", "{}", '{"a":1}', "%", "\u0000"),
);

/** A body of the target in which some fields are hostile, missing or added. */
function bodyFor({ example }: Target): fc.Arbitrary<string> {
  const names = [...Object.keys(example), "__proto__", "toJSON", "session", "task", "labels", "user", "version", "x"];
  const changes = fc.array(fc.tuple(fc.constantFrom(...names), value, fc.boolean()), { maxLength: 3 });
  return changes.map((changed) => {
    const fields = new Map(Object.entries(example).map(([name, made]) => [name, JSON.stringify(made)]));
    for (const [name, made, isMissing] of changed) {
      if (isMissing) fields.delete(name);
      else fields.set(name, made);
    }
    return `{${[...fields].map(([name, made]) => `${JSON.stringify(name)}:${made}`).join(",")}}`;
  });
}

const spoiled = fc.oneof(
  value,
  fc.constantFrom("{", "[1,]", "{} {}", "NaN", "\uFEFF{}", " ", "", "[".repeat(5_000), '{"a":'.repeat(700), "01"),
);
const header: fc.Arbitrary<[string, string]> = fc.oneof(
  fc.tuple(fc.constantFrom("idempotency-key", "last-event-id", "holdfast-episode"), fc.string({ maxLength: 20 })),
  fc.constantFrom<[string, string]>(
    ["accept", "text/event-stream"],
    ["content-type", "text/plain"],
    ["content-type", ""],
    ["content-encoding", "gzip"],
    ["origin", "https://evil.example"],
    ["origin", "null"],
    ["expect", "100-continue"],
    ["range", "bytes=0-1"],
    ["x-forwarded-host", "evil.example"],
    ["x-http-method-override", "DELETE"],
  ),
);

/** One hostile request to a target. Only requests without the token name the session of a victim. */
function hostile(target: Target): fc.Arbitrary<Fuzzed> {
  const query = fc.array(fc.tuple(fc.constantFrom(...target.fields, "after", "__proto__"), text), { maxLength: 2 });
  const own = fc.record({
    id: fc.oneof(fc.constantFrom("OWN0", "OWN1", "OWN2", "OWN3", "OWN0"), text.map(encodeURIComponent)),
    bearer: fc.oneof(
      { weight: 9, arbitrary: fc.constant("right" as const) },
      { weight: 1, arbitrary: fc.constant("none" as const) },
    ),
  });
  const other = fc.record({
    id: fc.constantFrom("VICTIM0", "VICTIM1", "%56ICTIM0"),
    bearer: fc.constantFrom("wrong" as const, "none" as const),
  });
  return fc
    .record({
      method: fc.oneof(
        { weight: 9, arbitrary: fc.constant(target.method) },
        { weight: 1, arbitrary: fc.constantFrom("GET", "POST", "DELETE", "PUT", "HEAD", "PATCH", "OPTIONS") },
      ),
      at: fc.oneof({ weight: 5, arbitrary: own }, { weight: 1, arbitrary: other }),
      query,
      body: fc.oneof({ weight: 4, arbitrary: bodyFor(target) }, { weight: 1, arbitrary: spoiled }),
      framing: fc.oneof(
        { weight: 12, arbitrary: fc.constantFrom("length" as const, "chunked" as const) },
        { weight: 1, arbitrary: fc.constantFrom(...framings) },
      ),
      headers: fc.oneof(fc.constant<[string, string][]>([]), fc.array(header, { maxLength: 2 })),
    })
    .map(({ at: { id, bearer }, query, body, ...rest }) => {
      const asked = new URLSearchParams(query).toString();
      const path = target.path.replace("{id}", () => id) + (asked === "" ? "" : `?${asked}`);
      const cookie = { kind: "own", client: 0 } as const;
      return { ...rest, path, cookie, alsoOwn: false, bearer, body: Buffer.from(body) };
    });
}

test(
  "ISOLATION: hostile requests to every documented route get a coded refusal, and no victim is touched",
  lasting(60),
  async () => {
    // The server and its clients together.
    const memory = limitMemory();
    const store = memoryStore();
    const lines: string[] = [];
    const log = { slow: 60_000, destination: { write: (line: string) => void lines.push(line) } };
    const limits = { body: 20_000 };
    const serving = await serve({ environments: [gymCounter], agents: [greeter], store, port: 0, token, log, limits });
    const port = Number(new URL(serving.url).port);
    const lanes = Array.from({ length: parallel }, () => wire(port));
    const [episodes, chats] = [
      createSessions({ environment: gymCounter, store }),
      createSessions({ app: greeter.name, agent: greeter, store }),
    ];
    onTestFinished(async () => {
      for (const lane of lanes) lane.close();
      void serving.close();
      await serving.close();
      await Promise.all([episodes.stop(), chats.stop()]);
      await store.close();
    });

    const victims = [
      (await episodes.open({ task: { initial_count: 4 }, labels: { secret } })).session,
      (await chats.open({ user: "ann", state: { secret } })).session,
    ];
    const seen = () => Promise.all(victims.map((session) => store.read(session, 0)));
    const before = await seen();
    const targets = [
      ...(await targetsAt(serving.url, "/gym-counter")),
      ...(await targetsAt(serving.url, "/greeter")),
      ...gymTargets,
    ];
    expect(targets.length).toBeGreaterThan(30);
    /** Two open episodes and two open conversations of the attacker. */
    const own: string[] = [];
    const open = async (at: number): Promise<string> =>
      (at < 2 ? await episodes.open({ task: { initial_count: 1 } }) : await chats.open({ user: "eve" })).session;
    let cookie: string | undefined;
    const statuses = new Map<number, number>();
    const routes = new Map<string, number>();
    let sent = 0;

    async function send(request: Fuzzed, lane: Wire): Promise<void> {
      const isChat = request.path.startsWith("/greeter");
      const path = request.path
        .replace(/OWN(\d)/, (_, at: string) => own[isChat ? 2 + (Number(at) % 2) : Number(at) % 2] as string)
        .replace(/(V|%56)ICTIM(\d)/, (_, first: string, at: string) => {
          const session = victims[Number(at)] ?? "";
          return first === "V" ? session : `%${session.charCodeAt(0).toString(16)}${session.slice(1)}`;
        });
      const { method, bearer } = request;
      const given: [string, string][] = cookie === undefined ? [] : [["cookie", cookie]];
      if (bearer !== "none") given.push(["authorization", `Bearer ${token}${bearer === "wrong" ? "x" : ""}`]);
      const isGood = isWellFramed(request);
      const bytes = bytesOf({ ...request, path }, given);
      const reply = await lane.ask({ bytes, method, after: afterOf(request), isLast: !isGood });
      sent++;
      if (isGood) expect(reply, "a reply").toBeDefined();
      if (!reply) return;
      statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
      expect(reply.status, `${method} ${path}: ${reply.body.slice(0, 500)}`).toBeLessThan(500);
      if (bearer !== "right") expect(reply.body).not.toContain(secret);
      if (/VICTIM/.test(request.path)) expect(reply.status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
      if (reply.status >= 400 && method !== "HEAD") {
        const { error } = JSON.parse(reply.body) as { error?: { code?: unknown } };
        // A2A answers with errors of JSON-RPC, whose codes are numbers.
        expect(path.includes("/v1/a2a") ? ["number", "string"] : ["string"]).toContain(typeof error?.code);
      }
      // Replaces a session that is closed.
      const at = own.findIndex((session) => path.includes(session));
      if (at >= 0 && (reply.status === 410 || reply.status === 404 || method === "DELETE")) own[at] = await open(at);
      const set = reply.headers.get("set-cookie");
      if (set !== undefined) cookie = reply.status === 410 || reply.status === 404 ? undefined : set.split(";", 1)[0];
    }

    for (let at = 0; at < 4; at++) own[at] = await open(at);
    const one = fc.constantFrom(...targets).chain((target) => {
      return hostile(target).map((request) => ({ request, route: `${target.method} ${target.path}` }));
    });
    const batch = fc.array(one, { minLength: parallel, maxLength: parallel });
    const property = fc.asyncProperty(batch, async (requests) => {
      const settled = await Promise.allSettled(
        requests.map(({ request, route }, at) => {
          routes.set(route, (routes.get(route) ?? 0) + 1);
          return send(request, lanes[at] as Wire);
        }),
      );
      for (const result of settled) if (result.status === "rejected") throw result.reason;
    });
    await fc.assert(property, { numRuns: Math.ceil(attacks(100_000) / parallel), endOnFailure: true });

    expect(await seen()).toEqual(before);
    expect(lines).toEqual([]);
    // Every route was reached many times, and every kind of refusal happened.
    expect(routes.size).toBe(targets.length);
    for (const status of [200, 201, 400, 401, 404, 405, 413, 415, 422])
      expect(statuses.has(status), `${status}`).toBe(true);
    const refused = [...statuses].reduce((sum, [status, count]) => sum + (status >= 400 ? count : 0), 0);
    report("requests", { requests: sent, routes: routes.size, refusals: refused, "MB of memory": memory() });
  },
);
