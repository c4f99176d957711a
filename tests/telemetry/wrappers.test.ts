// The tracing wrappers on a real engine, with spans kept in memory.
import * as api from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { createServer } from "node:http";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { createGymClient } from "../../src/rollout/gym-client.ts";
import { run } from "../../src/agent/run.ts";
import type { ModelAgent } from "../../src/core/agent.ts";
import { HoldfastError } from "../../src/core/errors.ts";
import type { Reply, Request } from "../../src/core/protocol.ts";
import type { Played, Rollout } from "../../src/core/rollout.ts";
import type { Store } from "../../src/core/store.ts";
import { scriptedModel } from "../../src/models/scripted.ts";
import { createSessions } from "../../src/session/sessions.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { tracedAgent } from "../../src/telemetry/model.ts";
import { tracedSessions } from "../../src/telemetry/sessions.ts";
import { createSpans, shortDigest } from "../../src/telemetry/spans.ts";
import { tracedStore } from "../../src/telemetry/store.ts";
import { traceHeaders, tracedPlay, tracedRequests, tracedRun } from "../../src/telemetry/root-spans.ts";
import { listening } from "../protocols/foreign-gym.ts";
import { runStoreCases } from "../stores/run-cases.ts";
import counter from "../../examples/counter/environment.ts";

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();
const spans = createSpans(api, provider.getTracer("test"));
beforeEach(() => exporter.reset());
afterAll(() => provider.shutdown());

const named = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name);
const parentOf = (name: string): (string | undefined)[] =>
  named(name).map(
    ({ parentSpanContext }) =>
      exporter.getFinishedSpans().find((span) => span.spanContext().spanId === parentSpanContext?.spanId)?.name,
  );

function engine(store: Store = memoryStore()) {
  const traced = tracedStore(store, "memory:", spans);
  return { store: traced, sessions: tracedSessions(createSessions({ environment: counter, store: traced }), spans) };
}

const task = { initial_count: 3, expected_count: 5 };

describe("a traced store", () => {
  // It behaves like any other store.
  runStoreCases("memory, traced", () => ({ open: () => tracedStore(memoryStore(), "memory:", spans) }), {
    persistent: false,
  });

  test("reports commits and their outcome", async () => {
    const { sessions, store } = engine();
    const { session, version } = await sessions.open({ task });
    exporter.reset();
    const answer = await store.append({ session, version: version + 7, entries: [{ body: '"ä"', at: Date.now() }] });
    expect(answer).toBe("conflict");
    expect(named("holdfast.commit").map(({ attributes, status }) => ({ attributes, status: status.code }))).toEqual([
      {
        attributes: {
          "db.system.name": "memory",
          "holdfast.session": shortDigest(session),
          "holdfast.commits": 1,
          "holdfast.entries": 1,
          "holdfast.bytes": 4,
          "holdfast.answer": "conflict",
        },
        status: api.SpanStatusCode.UNSET,
      },
    ]);
    await sessions.stop();
  });

  test("gives a failed commit the code of the failure, but not its message", async () => {
    const failing = {
      ...memoryStore(),
      append: () => Promise.reject(new HoldfastError("store_busy", "the password is hunter2")),
    };
    const { store } = engine(failing);
    const commit = { session: "s", version: 0, entries: [{ body: "{}", at: 1 }] as [{ body: string; at: number }] };
    await expect(store.append(commit)).rejects.toThrow("hunter2");
    const [span] = named("holdfast.commit");
    expect(span?.attributes["error.type"]).toBe("store_busy");
    expect(span?.status.code).toBe(api.SpanStatusCode.ERROR);
    expect(JSON.stringify([span?.attributes, span?.events, span?.status])).not.toContain("hunter2");
  });

  test("makes spans for reads only below another span", async () => {
    const { store } = engine();
    await store.load("none");
    expect(exporter.getFinishedSpans()).toEqual([]);
  });

  test("reports only the kind of the store, not its URL", async () => {
    const store = tracedStore(memoryStore(), "postgres://ann:hunter2@db/holdfast", spans);
    await store.append({
      session: "s",
      version: 0,
      entries: [{ body: "{}", at: 1 }],
      heading: { environment: "counter", opened: 1 },
    });
    expect(named("holdfast.commit")[0]?.attributes["db.system.name"]).toBe("postgresql");
    expect(JSON.stringify(exporter.getFinishedSpans().map(({ attributes }) => attributes))).not.toContain("hunter2");
  });
});

describe("a traced engine", () => {
  test("puts the reads and commits of a call below it, also for concurrent calls", async () => {
    const { sessions } = engine();
    const { session } = await sessions.open();
    await sessions.seed(session, task);
    exporter.reset();
    await Promise.all(Array.from({ length: 8 }, () => sessions.call(session, "increment_counter", { count: 1 })));
    expect(named("holdfast.call")).toHaveLength(8);
    expect(parentOf("holdfast.commit")).toEqual(Array.from({ length: 8 }, () => "holdfast.call"));
    const parents = named("holdfast.commit").map(({ parentSpanContext }) => parentSpanContext?.spanId);
    expect(new Set(parents).size).toBe(8);
    expect(named("holdfast.commit")[0]?.attributes["holdfast.environment"]).toBe("counter");
    await sessions.stop();
  });

  test("reports the tool and outcome of a call, and nothing a model wrote", async () => {
    const { sessions } = engine();
    const { session } = await sessions.open({ task });
    await sessions.call(session, "increment_counter", { count: 1 }, { call: "a" });
    await sessions.call(session, "increment_counter", { count: 1 }, { call: "a" });
    await sessions.call(session, "increment_counter", { count: "many secrets" } as never);
    await sessions.call(session, "tell me a secret" as never, {} as never);
    const told = named("holdfast.call").map(({ attributes }) => [
      attributes["holdfast.tool"],
      attributes["holdfast.outcome"],
      attributes["holdfast.repeated"],
    ]);
    expect(told).toEqual([
      ["increment_counter", "ok", false],
      ["increment_counter", "ok", true],
      ["increment_counter", "invalid_input", false],
      ["unknown tool", "unknown_tool", false],
    ]);
    const all = exporter.getFinishedSpans().map(({ name, attributes }) => ({ name, attributes }));
    expect(JSON.stringify(all)).not.toContain("secret");
    expect(JSON.stringify(all)).not.toContain(session);
    await sessions.stop();
  });

  test("reports the reward of a verdict, and a failed verdict as a failure", async () => {
    const { sessions } = engine();
    const { session } = await sessions.open({ task });
    await sessions.verify(session);
    await expect(sessions.verify("nobody")).rejects.toThrow("nobody");
    const [scored, failed] = named("holdfast.verify");
    expect(scored?.attributes["holdfast.reward"]).toBe(0);
    expect(failed?.attributes["error.type"]).toBe("session_not_found");
    expect(failed?.status.code).toBe(api.SpanStatusCode.ERROR);
    await sessions.stop();
  });
});

describe("a traced agent", () => {
  const usage = { input_tokens: 7, output_tokens: 2, total_tokens: 9 };
  const answering = {
    name: "openai:gpt-x",
    respond: () =>
      Promise.resolve({
        id: "resp_1",
        model: "gpt-x-2026",
        usage,
        status: "completed" as const,
        output: [{ type: "message" as const, role: "assistant" as const, content: "a secret" }],
      }),
  };

  test("run > model and commit, with tokens and without texts; agents below are traced too", async () => {
    const helper = defineAgent({ name: "helper", model: scriptedModel(["done"]), instruction: "" });
    const agent = defineAgent({ name: "boss", model: answering, instruction: "a secret", agents: [helper] });
    const traced = tracedAgent(agent, spans) as ModelAgent;
    expect((traced.agents[0] as ModelAgent).model).not.toBe(helper.model);
    const store = tracedStore(memoryStore(), "memory:", spans);
    const sessions = createSessions({ app: "app", store });
    const { session } = await sessions.open();
    exporter.reset();
    const running = tracedRun("boss", run(traced, { sessions, session, message: "a secret" }), spans);
    let last = await running.next();
    while (!last.done) last = await running.next();
    expect(last.value.outcome).toBe("answered");
    expect(parentOf("chat gpt-x")).toEqual(["holdfast.run"]);
    expect(new Set(parentOf("holdfast.commit"))).toEqual(new Set(["holdfast.run"]));
    expect(named("chat gpt-x")[0]?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.system": "openai",
      "gen_ai.request.model": "gpt-x",
      "gen_ai.response.model": "gpt-x-2026",
      "gen_ai.response.id": "resp_1",
      "gen_ai.response.finish_reasons": ["completed"],
      "holdfast.tool_calls": 0,
      "gen_ai.usage.input_tokens": 7,
      "gen_ai.usage.output_tokens": 2,
    });
    const all = exporter.getFinishedSpans().map(({ name, attributes, events }) => ({ name, attributes, events }));
    expect(JSON.stringify(all)).not.toContain("secret");
    await sessions.stop();
  });

  test("a reader that leaves early ends the run and its span", async () => {
    let left = false;
    async function* endless(): AsyncGenerator<number, { outcome: string }, undefined> {
      try {
        for (let n = 0; ; n++) yield n;
      } finally {
        left = true;
      }
    }
    for await (const n of tracedRun("boss", endless(), spans)) if (n === 2) break;
    expect(left).toBe(true);
    expect(named("holdfast.run")).toHaveLength(1);
  });

  test("a rollout reports its result", async () => {
    const rollout: Rollout = { task: 4, repeat: 1, attempt: 0, row: { q: "a secret" }, session: "s", random: 1 };
    const played: Played[] = [
      { outcome: "scored", fields: { reward: 0.5, response: "a secret" }, session: "e" },
      { outcome: "failed", fields: {}, session: "e", failure: { kind: "model", reason: "a secret" } },
    ];
    for (const one of played) {
      await tracedPlay(() => Promise.resolve(one), spans)(rollout, new AbortController().signal);
    }
    const told = named("holdfast.rollout").map(({ attributes, status }) => [
      ...["holdfast.task", "holdfast.outcome", "holdfast.reward", "error.type"].map((name) => attributes[name]),
      status.code,
    ]);
    expect(told).toEqual([
      [4, "scored", 0.5, undefined, api.SpanStatusCode.UNSET],
      [4, "failed", undefined, "model", api.SpanStatusCode.ERROR],
    ]);
    const all = exporter.getFinishedSpans().map(({ attributes }) => attributes);
    expect(JSON.stringify(all)).not.toContain("secret");
  });
});

test("the requests of a rollout to another server continue its trace there", async () => {
  const sent: unknown[] = [];
  const server = createServer(({ headers }, response) => {
    sent.push(headers["traceparent"]);
    response.end("{}");
  });
  const client = createGymClient(await listening(server), { headers: () => traceHeaders(spans) });
  const post = () => client.post({ path: "/verify", body: {}, signal: new AbortController().signal });
  const asking = async (): Promise<Played> => ({
    outcome: "scored",
    fields: { text: (await post()).text },
    session: "e",
  });
  const rollout: Rollout = { task: 4, repeat: 1, attempt: 0, row: {}, session: "s", random: 1 };
  await tracedPlay(asking, spans)(rollout, new AbortController().signal);
  await post();
  const { traceId, spanId } = named("holdfast.rollout")[0]!.spanContext();
  expect(sent).toEqual([`00-${traceId}-${spanId}-01`, undefined]);
});

describe("traced requests", () => {
  const request = (path: string, headers: { [name: string]: string } = {}) => ({
    method: "POST",
    path,
    headers,
    body: undefined,
    query: new URLSearchParams(),
    signal: new AbortController().signal,
  });
  const app = { handle: ({ method }: Request) => Promise.resolve({ status: method === "POST" ? 503 : 200 }), other: 1 };

  test("continue the trace of their client; a server error is a failure", async () => {
    const traced = tracedRequests(app, spans);
    expect(traced.other).toBe(1);
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await traced.handle(request("/increment_counter", { traceparent }));
    const [span] = named("holdfast.request");
    expect(span?.spanContext().traceId).toBe("0af7651916cd43dd8448eb211c80319c");
    expect(span?.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
    expect(span?.status.code).toBe(api.SpanStatusCode.ERROR);
  });

  test("are not traced below a client whose trace is not sampled", async () => {
    const { sessions } = engine();
    const { session } = await sessions.open({ task });
    exporter.reset();
    const calling = { handle: async () => (await sessions.call(session, "get_counter_value"), { status: 200 }) };
    const traced = tracedRequests<{ handle(request: Request): Promise<Reply> }>(calling, spans);
    const traceparent = (kept: string): string => `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-${kept}`;
    await traced.handle(request("/get_counter_value", { traceparent: traceparent("00") }));
    expect(exporter.getFinishedSpans()).toEqual([]);
    await traced.handle(request("/get_counter_value", { traceparent: traceparent("01") }));
    expect(parentOf("holdfast.commit")).toEqual(["holdfast.call"]);
    expect(parentOf("holdfast.call")).toEqual(["holdfast.request"]);
    await sessions.stop();
  });

  test("start a new trace on a malformed traceparent; probes are not traced", async () => {
    const traced = tracedRequests(app, spans);
    await traced.handle(request("/verify", { traceparent: "00-zz-zz-01" }));
    for (const path of ["/healthz", "/readyz", "/metrics"]) await traced.handle(request(path));
    expect(named("holdfast.request").map(({ parentSpanContext }) => parentSpanContext)).toEqual([undefined]);
  });
});
