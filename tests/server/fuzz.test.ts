// 10,000 malicious requests over real sockets: the server answers and continues, and no foreign session changes.
import fc from "fast-check";
import { createSessions, defineEnvironment, memoryStore, tool, type Sessions } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { serve } from "../../src/server/serve.ts";
import { createTokens } from "../../src/server/tokens.ts";
import { gymCounter } from "../protocols/gym-client.ts";
import { runs } from "../runs.ts";
import { afterOf, bytesOf, fuzzed, isWellFramed, spoiled, type Fuzzed, type FuzzedCookie } from "./fuzz-requests.ts";
import { wire, type Wire, type WireReply } from "./wire.ts";

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

const token = "the-bearer-token-of-this-server";
const secret = "what-only-a-victim-knows";
const cookieNames = ["holdfast_gym_counter", "holdfast_keeper"] as const;
const parallel = 8;

interface Victim {
  /** An index into cookieNames. */
  environment: number;
  session: string;
  cookie: string;
  state: unknown;
}

const ask = (lane: Wire, method: string, path: string, headers: Record<string, string>, body: string) => {
  const lines = Object.entries({ host: "localhost", "content-length": String(Buffer.byteLength(body)), ...headers });
  const head = `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  return lane.ask({ bytes: Buffer.from(head + body), method, after: "wait", isLast: false });
};

const cookieIn = (reply: WireReply | undefined): string | undefined =>
  reply?.headers.get("set-cookie")?.split(";", 1)[0];

/** A session with some history, made by an honest client. */
async function victimOf(lane: Wire, at: number): Promise<Victim> {
  const environment = at % 2;
  const prefix = environment === 0 ? "" : "/keeper";
  const post = (path: string, body: unknown, cookie = "") =>
    ask(lane, "POST", prefix + path, { cookie, "idempotency-key": "k" }, JSON.stringify(body));
  const seeded = await post("/seed_session", { initial_count: at, note: secret });
  const { session_id: session } = JSON.parse(seeded?.body ?? "") as { session_id: string };
  const [path, body] = environment === 0 ? ["/increment_counter", { count: 100 }] : ["/keep", { secret, at }];
  const called = await post(path as string, body, cookieIn(seeded));
  expect(called?.status).toBe(200);
  const state = environment === 0 ? { count: 100 + at } : { kept: { secret, at } };
  return { environment, session, cookie: cookieIn(called) as string, state };
}

/** The environment that serves a path. */
const environmentOf = (path: string): number => (/^\/keeper(\/|\?|#|$)/.test(path) ? 1 : 0);

/** Whether the gym protocol is asked, and no other part of the server. */
function isGym(path: string): boolean {
  if (/^\/(metrics|healthz|readyz)(\?|#|$)/.test(path)) return false;
  return !/^\/(v1|openapi\.json|docs)(\/|\?|#|$)/i.test(path.replace(/^\/(gym-counter|keeper)(?=\/)/, ""));
}

test("ISOLATION: no fuzzed request is answered with a 5xx, stops the server, or touches a session of somebody else", async () => {
  const store = memoryStore();
  const lines: string[] = [];
  const log = { slow: 60_000, destination: { write: (line: string) => void lines.push(line) } };
  // Small, so that exceeding it does not take megabytes.
  const limits = { body: 20_000 };
  const serving = await serve({ environments: [gymCounter, keeper], store, port: 0, token, log, limits });
  const port = Number(new URL(serving.url).port);
  const lanes = Array.from({ length: parallel }, () => wire(port));
  const calm = wire(port);
  // These engines read the same store without the server.
  const engines: Sessions[] = [gymCounter, keeper].map((environment) => createSessions({ environment, store }));
  onTestFinished(async () => {
    for (const lane of [...lanes, calm]) lane.close();
    void serving.close();
    await serving.close();
    await Promise.all(engines.map((engine) => engine.stop()));
    await store.close();
  });

  const victims: Victim[] = [];
  while (victims.length < 12) victims.push(await victimOf(calm, victims.length));
  const seen = ({ environment, session }: Victim): Promise<unknown> => {
    const { info, state } = engines[environment] as Sessions;
    return Promise.all([info(session), state(session), store.read(session, 0)]);
  };
  const before = await Promise.all(victims.map(seen));
  for (const { environment, session, state } of victims) {
    expect(await engines[environment]?.state(session)).toEqual(state);
  }

  /** The cookies of the sender's own clients, by environment, and its sessions under /v1. */
  const own: (string | undefined)[][] = [[], []];
  const opened: string[] = [];
  const otherKey = createTokens(["a key that is not the server's"]);

  const cookieOf = (cookie: FuzzedCookie, environment: number): string | undefined => {
    const victim = "victim" in cookie ? (victims[cookie.victim] as Victim) : undefined;
    switch (cookie.kind) {
      case "own":
        return own[environment]?.[cookie.client];
      case "quoted":
        return own[environment]?.[cookie.client]?.replace(/=(.*)$/, (_, token: string) => {
          return `="${token.replaceAll(".", "\\056")}"`;
        });
      case "spoiled":
        return spoiled[cookie.spoil]?.(victim?.cookie ?? "", cookie.at);
      case "forged":
        return `${cookieNames[environment]}=${otherKey.issue(victim?.session ?? "")}`;
      case "foreign": {
        // Signed by this server, for the other environment.
        const stranger = victims.find((one, at) => at >= cookie.victim - 1 && one.environment !== environment);
        return stranger?.cookie.replace(/^[^=]+/, cookieNames[environment] as string);
      }
      case "raw":
        return cookie.text;
      default:
        return undefined;
    }
  };

  const statuses = new Map<number, number>();
  let answered = 0;
  const send = async (request: Fuzzed, lane: Wire): Promise<void> => {
    const path = request.path
      .replace(/OWN(\d)/, (_, at: string) => opened[Number(at)] ?? "none")
      .replace(/VICTIM(\d+)/, (_, at: string) => victims[Number(at)]?.session ?? "");
    const environment = environmentOf(path);
    const { method, cookie, alsoOwn, bearer } = request;
    const cookies = [cookieOf(cookie, environment), alsoOwn ? own[environment]?.[0] : undefined];
    const bytes = bytesOf({ ...request, path }, [
      ...cookies.flatMap((value): [string, string][] => (value === undefined ? [] : [["cookie", value]])),
      ...(bearer === "none"
        ? []
        : [["authorization", `Bearer ${token}${bearer === "wrong" ? "x" : ""}`] as [string, string]]),
    ]);
    const isGood = isWellFramed(request);
    const reply = await lane.ask({ bytes, method, after: afterOf(request), isLast: !isGood });
    if (isGood) expect(reply, "a reply").toBeDefined();
    if (!reply) return;

    answered++;
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
    expect(reply.status).toBeLessThan(500);
    expect(reply.body).not.toContain(secret);
    for (const value of reply.headers.values()) expect(value).toMatch(/^[\x20-\x7e]*$/);
    if (reply.status >= 400 && method !== "HEAD") {
      expect(JSON.parse(reply.body)).toMatchObject({ error: { code: expect.any(String) as unknown } });
    }
    if (isGood && isGym(path)) {
      const wanted = new RegExp(
        `^${cookieNames[environment]}=[A-Za-z0-9._-]+; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax$`,
      );
      expect(reply.headers.get("set-cookie")).toMatch(wanted);
      if (cookie.kind === "own" || cookie.kind === "quoted") {
        // A closed session is replaced.
        const isGone = reply.status === 404 || reply.status === 410;
        (own[environment] as (string | undefined)[])[cookie.client] = isGone ? undefined : cookieIn(reply);
      }
    }
    if (reply.status === 201) opened[answered % 4] = (JSON.parse(reply.body) as { session: string }).session;
  };

  const batch = fc.array(fuzzed, { minLength: parallel, maxLength: parallel });
  const property = fc.asyncProperty(batch, async (requests) => {
    // Waits for all of them, because the next batch needs the connections.
    const sent = await Promise.allSettled(requests.map((request, at) => send(request, lanes[at] as Wire)));
    for (const one of sent) if (one.status === "rejected") throw one.reason;
  });
  const batches = runs(10_000 / parallel);
  await fc.assert(property, { numRuns: batches });

  expect(await Promise.all(victims.map(seen))).toEqual(before);
  // Their own clients continue with them.
  for (const { environment, session, cookie, state } of victims) {
    const path = environment === 0 ? "/verify" : "/keeper/verify";
    const verified = await ask(calm, "POST", path, { cookie }, "{}");
    const shown = environment === 0 ? state : { state };
    expect(JSON.parse(verified?.body ?? "")).toMatchObject({
      session_id: session,
      holdfast: { episode: 1, reseeds: 0 },
      ...(shown as object),
    });
  }
  // Enough requests got far enough to do harm.
  expect(answered).toBeGreaterThan(batches * parallel * 0.9);
  for (const status of [200, 400, 401, 404, 405, 413, 415, 422]) {
    expect([status, (statuses.get(status) ?? 0) > batches / 20]).toEqual([status, true]);
  }
  // The counter has a tool that throws, which the server logs.
  expect(lines.filter((line) => !line.includes("error thrown by your code"))).toEqual([]);
  expect(({} as { count?: unknown }).count).toBeUndefined();
  // No request is in flight except this one.
  const look = async () => (await ask(calm, "GET", "/metrics", { authorization: `Bearer ${token}` }, ""))?.body;
  const idle = /^holdfast_requests_inflight 1$[^]*^holdfast_streams_open 0$/m;
  await expect.poll(look).toMatch(idle);
});
