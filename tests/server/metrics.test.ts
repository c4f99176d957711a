// /metrics: the numbers of the engine, the store and the requests.
import { createSessions, memoryStore } from "holdfast";
import { describe, expect, test } from "vitest";
import type { Commit } from "../../src/core/store.ts";
import { createMetrics, observedSessions, observedStore } from "../../src/server/metrics.ts";
import { keysFromStore } from "../../src/server/tokens.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore } from "../session/engine.ts";
import { appOf, asked, echo } from "./serving.ts";

/** The value of a line of the text. */
async function valueOf(metrics: { text(): Promise<string> }, name: string): Promise<number | undefined> {
  const line = (await metrics.text()).split("\n").find((line) => line.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}

onEveryStore("sessions, calls and commits are counted, with every outcome", async ({ storage }) => {
  const metrics = createMetrics();
  const store = observedStore(storage.store, metrics);
  await keysFromStore(store);
  const sessions = observedSessions(createSessions({ environment: counter, store, limits: { sessions: 3 } }), metrics);
  const opened = [];
  for (let at = 0; at < 4; at++) opened.push(await sessions.open({ task: { start: 0, goal: 1 } }));
  const session = opened[3]?.session ?? "";
  await sessions.call(session, "add", { by: 1 });
  await sessions.call(session, "add", { by: 1 });
  await sessions.call(session, "spoil");
  await sessions.call(session, "made up" as "read");
  await expect(sessions.call("no-such-session", "read")).rejects.toMatchObject({ code: "session_not_found" });
  const usage = { input_tokens: 5, output_tokens: 2, total_tokens: 7 };
  const asking = { model: "m", respond: () => Promise.resolve({ output: [], usage, status: "completed" as const }) };
  for (const limits of [{}, {}, { calls: 2 }]) {
    await sessions.askModel(session, { input: [] }, { ...asking, limits }).catch(() => undefined);
  }
  await sessions.close(session);
  await sessions.expire();
  await sessions.stop();

  const value = (name: string): Promise<number | undefined> => valueOf(metrics, `holdfast_${name}`);
  expect(await value('sessions_open{environment="counter"}')).toBe(2);
  expect(await value('sessions_opened_total{environment="counter"}')).toBe(4);
  expect(await value('sessions_closed_total{environment="counter",reason="closed"}')).toBe(1);
  expect(await value('sessions_closed_total{environment="counter",reason="capacity"}')).toBe(1);
  expect(await value('calls_total{environment="counter",tool="add",outcome="ok"}')).toBe(2);
  expect(await value('calls_total{environment="counter",tool="spoil",outcome="tool_failed"}')).toBe(1);
  expect(await value('calls_total{environment="counter",tool="unknown tool",outcome="unknown_tool"}')).toBe(1);
  expect(await value('calls_total{environment="counter",tool="read",outcome="session_not_found"}')).toBe(1);
  expect(await value('call_seconds_count{environment="counter",tool="add"}')).toBe(2);
  expect(await value('model_calls_total{environment="counter",outcome="ok"}')).toBe(2);
  expect(await value('model_calls_total{environment="counter",outcome="limit_reached"}')).toBe(1);
  expect(await value('model_tokens_total{environment="counter",kind="output"}')).toBe(4);
  expect(await value('model_call_seconds_count{environment="counter"}')).toBe(3);
  expect(await value('call_seconds_bucket{le="+Inf",environment="counter",tool="add"}')).toBe(2);
  // Four calls and the end hit the cache; a missing session cannot.
  expect(await value('cache_hits_total{environment="counter"}')).toBeGreaterThanOrEqual(5);
  expect(await value('cache_misses_total{environment="counter"}')).toBe(1);
  expect(await value("commit_seconds_count")).toBeGreaterThanOrEqual(10);
  expect(await value("store_bytes_total")).toBeGreaterThan(500);
  expect(await metrics.text()).not.toContain("holdfast:keys");
});

test("conflicts and store failures are counted", async () => {
  const metrics = createMetrics();
  const plain = memoryStore();
  const store = observedStore(plain, metrics);
  const heading = { environment: "e", opened: 1 };
  const commit: Commit = { session: "s", version: 0, entries: [{ body: "1", at: 1, key: "k" }], heading };
  expect(await store.append(commit)).toBe("ok");
  expect(await store.append({ ...commit, entries: [{ body: "2", at: 1 }] })).toBe("conflict");
  expect(await store.append({ ...commit, version: 1 })).toBe("duplicate");
  await plain.close();
  await expect(store.read("s", 0)).rejects.toMatchObject({ code: "store_closed" });
  await expect(store.append(commit)).rejects.toMatchObject({ code: "store_closed" });
  expect(await valueOf(metrics, "holdfast_commit_conflicts_total")).toBe(1);
  expect(await valueOf(metrics, "holdfast_commit_duplicates_total")).toBe(1);
  expect(await valueOf(metrics, 'holdfast_store_errors_total{code="store_closed"}')).toBe(2);
});

test("commits appended together are counted one by one and timed as one", async () => {
  const metrics = createMetrics();
  const store = observedStore(memoryStore(), metrics);
  const commitOf = (session: string, version: number, body: string): Commit => ({
    session,
    version,
    entries: [{ body, at: 1 }],
    heading: { environment: "e", opened: 1, ...(version > 0 && { ended: "closed" }) },
  });
  expect(await store.append(commitOf("a", 0, "12345"), commitOf("b", 0, "123"))).toBe("ok");
  expect(await store.append(commitOf("c", 0, "1"), commitOf("b", 0, "2"))).toBe("conflict");
  expect(await store.append(commitOf("c", 0, "1"), commitOf("a", 1, "2"), commitOf("b", 1, "3"))).toBe("ok");
  expect(await valueOf(metrics, "holdfast_store_bytes_total")).toBe(11);
  expect(await valueOf(metrics, 'holdfast_sessions_opened_total{environment="e"}')).toBe(3);
  expect(await valueOf(metrics, 'holdfast_sessions_closed_total{environment="e",reason="closed"}')).toBe(2);
  expect(await valueOf(metrics, "holdfast_commit_seconds_count")).toBe(3);
  expect(await valueOf(metrics, "holdfast_commit_conflicts_total")).toBe(1);
});

test("counters of several processes are summed, but not the open sessions of their shared store", async () => {
  const store = memoryStore();
  const processes = [];
  for (let at = 0; at < 2; at++) {
    const metrics = createMetrics();
    const sessions = observedSessions(
      createSessions({ environment: counter, store: observedStore(store, metrics) }),
      metrics,
    );
    const { session } = await sessions.open({ task: { start: 0, goal: 1 } });
    for (let calls = 0; calls <= at; calls++) await sessions.call(session, "add", { by: 1 });
    processes.push(metrics);
  }
  const [one, two] = processes;
  const report = (await two?.report()) as object[];
  const text = await one?.text([JSON.parse(JSON.stringify(report)) as object[]]);
  expect(text).toContain('holdfast_calls_total{environment="counter",tool="add",outcome="ok"} 3\n');
  expect(text).toContain('holdfast_call_seconds_count{environment="counter",tool="add"} 3\n');
  expect(text).toContain('holdfast_sessions_opened_total{environment="counter"} 2\n');
  expect(text).toContain('holdfast_sessions_open{environment="counter"} 2\n');
});

describe("/metrics", () => {
  test("returns the Prometheus text, with the requests by status", async () => {
    const app = appOf([echo()]);
    for (const path of ["/echo", "/echo", "/nowhere", "/bug"]) await app.handle(asked(path));
    const reply = await app.handle(asked("/metrics"));
    expect(reply.headers).toEqual({ "content-type": "text/plain; version=0.0.4; charset=utf-8" });
    expect(reply.text).toContain('holdfast_requests_total{status="200"} 2\n');
    expect(reply.text).toContain('holdfast_requests_total{status="404"} 1\n');
    expect(reply.text).toContain('holdfast_requests_total{status="500"} 1\n');
    expect(reply.text).toContain("# TYPE holdfast_call_seconds histogram");
    const lines = (reply.text ?? "").split("\n").filter((line) => line && !line.startsWith("#"));
    for (const line of lines) expect(line).toMatch(/^holdfast_[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [\d.e+-]+$/);
  });
});
