// createClient(): the verbs of `Sessions` over HTTP, on a real server, with replies that get lost and servers that restart.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  memoryStore,
  scriptedModel,
  tool,
  type Agent,
  type Model,
  type Store,
} from "holdfast";
import { createClient, type ClientOptions } from "holdfast/client";
import { serve, type ServeOptions } from "holdfast/serve";
import fc from "fast-check";
import { expect, expectTypeOf, onTestFinished, test } from "vitest";
import { z } from "zod";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ start: z.number().int(), goal: z.number().int() }),
  seed: ({ task }) => ({ count: task.start }),
  tools: {
    add: tool({
      description: "Add.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});

const greeter = (): Agent =>
  defineAgent({
    name: "greeter",
    instruction: "Greet.",
    model: scriptedModel([{ calls: [{ name: "note", arguments: {} }] }, "Hello Ann.", "Goodbye Ann."]),
    tools: { note: tool({ description: "Note.", run: ({ state }) => void (state["noted"] = true) }) },
  });

async function served(options: Partial<ServeOptions> = {}): Promise<string> {
  const store = options.store ?? memoryStore();
  const serving = await serve({ environments: [counter], store, port: 0, log: { what: "none" }, ...options });
  onTestFinished(() => serving.close());
  return serving.url;
}

/** A fetch that loses requests, or their replies, as the list says: "lost" never arrives, "cut" arrives unanswered. */
function faulty(faults: ("lost" | "cut" | "ok")[]): NonNullable<ClientOptions["fetch"]> {
  return async (url, init) => {
    const fault = faults.shift() ?? "ok";
    if (fault === "lost") throw new TypeError("fetch failed");
    const response = await fetch(url, init);
    if (fault === "ok") return response;
    await response.text();
    throw new TypeError("terminated");
  };
}

test("an episode: open, call, verify, fork, rewind, replay, list, close", async () => {
  const client = createClient<typeof counter>(await served());
  const { session, version, episode } = await client.open({ task: { start: 3, goal: 5 }, labels: { set: "a" } });
  expect(episode).toBe(1);
  const answer = await client.call(session, "add", { by: 2 });
  expect(answer).toMatchObject({ ok: true, output: { count: 5 } });
  expect(await client.verify(session)).toMatchObject({ reward: 1, session });
  const fork = await client.fork(session, { version });
  expect(await client.state(fork.session)).toEqual({ count: 3 });
  expect(await client.state(session, version)).toEqual({ count: 3 });
  expect((await client.rewards(session)).map(({ reward }) => reward)).toEqual([0, 1]);
  expect(await client.replay(session)).toMatchObject({ same: true });
  await client.rewind(session, version);
  expect(await client.state(session)).toEqual({ count: 3 });
  expect(await client.seed(session, { start: 1, goal: 1 })).toMatchObject({ episode: 2 });
  const types = [];
  for await (const { type } of client.events(session, { after: 1 })) types.push(type);
  expect(types).toEqual(["session.seeded", "tool.called", "session.verified", "session.rewound", "session.seeded"]);
  const listed = [];
  for await (const row of client.list({ open: true })) listed.push(row.session);
  expect(listed).toEqual([session, fork.session]);
  expect(await client.close(session)).toBe(true);
  expect(await client.close(session)).toBe(false);
  expect(await client.peek("unknown")).toBeUndefined();
  await expect(client.info("unknown")).rejects.toMatchObject({ code: "session_not_found" });
});

test("the types come from the definition", () => {
  const client = createClient<typeof counter>("http://127.0.0.1:1");
  expectTypeOf<Parameters<typeof client.call<"add">>>().toExtend<[string, "add", { by: number }, ...unknown[]]>();
  expectTypeOf(client.state).returns.resolves.toEqualTypeOf<{ count: number }>();
  // @ts-expect-error: the tool does not exist.
  const wrong = (): unknown => client.call("s", "subtract", { by: 1 });
  expect(wrong).toBeTypeOf("function");
  expectTypeOf(createClient<Agent>("http://127.0.0.1:1")).toHaveProperty("ask");
});

test("ONCE: every call and seed is applied once, whichever requests and replies are lost", async () => {
  const url = await served();
  const fault = fc.constantFrom("lost" as const, "cut" as const, "ok" as const);
  await fc.assert(
    fc.asyncProperty(fc.array(fault, { maxLength: 6 }), async (faults) => {
      const { session } = await createClient<typeof counter>(url).open({ task: { start: 0, goal: 3 } });
      const client = createClient<typeof counter>(url, { fetch: faulty(faults) });
      for (let by = 1; by <= 3; by++) expect(await client.call(session, "add", { by: 1 })).toMatchObject({ ok: true });
      expect(await client.verify(session)).toMatchObject({ reward: 1 });
      expect(await client.seed(session, { start: 7, goal: 7 })).toMatchObject({ episode: 2 });
      expect(await client.state(session)).toEqual({ count: 7 });
    }),
    { numRuns: 15 },
  );
});

test("a request outlives the restart of its server", async () => {
  const store: Store = memoryStore();
  const first = await serve({ environments: [counter], store, port: 0, log: { what: "none" } });
  const client = createClient<typeof counter>(first.url);
  const { session } = await client.open({ task: { start: 3, goal: 5 } });
  await first.close();
  const calling = client.call(session, "add", { by: 2 });
  const port = Number(new URL(first.url).port);
  await served({ store, port });
  expect(await calling).toMatchObject({ ok: true, output: { count: 5 } });
});

test("a server that cannot be reached, a wrong token and a bad URL are errors with a code", async () => {
  const nowhere = createClient("http://127.0.0.1:1", { retryFor: 0 });
  await expect(nowhere.open()).rejects.toMatchObject({
    code: "server_failed",
    message: expect.stringContaining("cannot reach the server at http://127.0.0.1:1") as unknown,
  });
  const url = await served({ token: "right-token" });
  await expect(createClient(url, { token: "wrong-token" }).open()).rejects.toMatchObject({ code: "unauthorized" });
  expect(await createClient(url, { token: "right-token" }).open()).toMatchObject({ episode: 0 });
  expect(() => createClient("localhost:8080")).toThrow("is not a valid server URL");
  // A proxy's page is not an error of ours.
  const proxied = createClient(url, { retryFor: 0, fetch: async () => new Response("<html>", { status: 403 }) });
  await expect(proxied.open()).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("403"),
  });
});

test("a call that its caller aborts is not sent again", async () => {
  const stop = new AbortController();
  let sent = 0;
  const client = createClient("http://127.0.0.1:1", {
    fetch: (_, { signal }) => {
      sent++;
      stop.abort();
      return Promise.reject((signal as AbortSignal).reason as Error);
    },
  });
  await expect(client.call("s", "add", {}, { signal: stop.signal })).rejects.toThrow("aborted");
  expect(sent).toBe(1);
});

test("follow yields events as they are committed, until the session ends", async () => {
  const client = createClient<typeof counter>(await served());
  const { session } = await client.open({ task: { start: 0, goal: 1 } });
  const types: string[] = [];
  for await (const event of client.follow(session, { after: 1 })) {
    types.push(event.type);
    if (event.type === "session.seeded") await client.call(session, "add", { by: 1 });
    if (event.type === "tool.called") await client.close(session);
  }
  // The memory store deletes a session that has ended.
  expect(types).toEqual(["session.seeded", "tool.called"]);
});

test("an agent: ask, run with pieces, fork, rewind a turn", async () => {
  const client = createClient<Agent>(await served({ environments: [], agents: [greeter()] }));
  const { session } = await client.open({ user: "ann" });
  const first = await client.ask({ session, message: "hi" });
  expect(first).toMatchObject({ text: "Hello Ann.", outcome: "answered", repeated: false, session });
  expect(await client.state(session)).toMatchObject({ noted: true });
  const types: string[] = [];
  for await (const event of client.run({ session, message: "bye", stream: true })) types.push(event.type);
  expect(types).toContain("partial");
  expect(types).toContain("model.answered");
  const fork = await client.fork(session, { set: { room: 12 } });
  expect(await client.state(fork.session)).toMatchObject({ noted: true, room: 12 });
  await client.rewind(session, { before: first.invocation });
  expect(await client.state(session)).not.toHaveProperty("noted");
  expect(await client.info(session)).toMatchObject({ user: "ann" });
});

test("a turn for another user or on an old version is refused, and its labels are stored", async () => {
  const client = createClient<Agent>(await served({ environments: [], agents: [greeter()] }));
  const { session, version: seen } = await client.open({ user: "ann" });
  await client.ask({ session, user: "ann", message: "hello", labels: { topic: "bill" } });
  await expect(client.ask({ session, user: "bob", message: "hello" })).rejects.toMatchObject({
    code: "session_not_found",
  });
  await expect(client.ask({ session, seen, message: "hello" })).rejects.toMatchObject({ code: "version_conflict" });
  const labels: unknown[] = [];
  for await (const event of client.events(session)) if (event.type === "invocation.began") labels.push(event.labels);
  expect(labels).toEqual([{ topic: "bill" }]);
});

test("ONCE: a turn whose stream breaks anywhere is applied once, and yields each event once", async () => {
  for (let cutAfter = 0; cutAfter < 6; cutAfter++) {
    const url = await served({ environments: [], agents: [greeter()] });
    let isCut = false;
    const client = createClient<Agent>(url, {
      async fetch(path, init) {
        const response = await fetch(path, init);
        if (!path.endsWith("/run") || isCut || !response.body) return response;
        isCut = true;
        return new Response(cut(response.body, cutAfter), response);
      },
    });
    const { session } = await client.open();
    const { text, events } = await client.ask({ session, message: "hi" });
    expect(text).toBe("Hello Ann.");
    const versions = events.map(({ version }) => version);
    expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
    const calls = [];
    for await (const event of client.events(session)) if (event.type === "tools.answered") calls.push(event);
    expect(calls).toHaveLength(1);
  }
});

test("ONCE: the client's own tools pause a turn, and broken streams lose and repeat nothing", async () => {
  const locate = { type: "function" as const, name: "locate", parameters: { type: "object" } };
  for (let cutAfter = 0; cutAfter < 5; cutAfter++) {
    const agent = defineAgent({
      name: "guide",
      model: scriptedModel(({ input }) =>
        input.at(-1)?.type === "message" ? { calls: [{ name: "locate" }] } : `Got ${String(input.at(-1)?.["output"])}.`,
      ),
    });
    const url = await served({ environments: [], agents: [agent] });
    let left = 2;
    const client = createClient<Agent>(url, {
      async fetch(path, init) {
        const response = await fetch(path, init);
        // Both requests break once.
        if (!path.endsWith("/run") || !response.body || left <= 0 || left-- % 2 !== 0) return response;
        return new Response(cut(response.body, cutAfter), response);
      },
    });
    const { session } = await client.open();
    const first = await client.ask({ session, message: "go", clientTools: [locate] });
    expect(first).toMatchObject({ outcome: "waiting", calls: [{ name: "locate", arguments: "{}" }] });
    expect((await client.info(session)).turn).toMatchObject({ waiting: ["call_0_0"] });
    await expect(client.ask({ session, message: "hello?" })).rejects.toMatchObject({ code: "results_missing" });
    left = 2;
    const last = await client.ask({ session, results: [{ call_id: "call_0_0", output: "Oslo" }] });
    expect(last).toMatchObject({ outcome: "answered", text: "Got Oslo." });
    const again = client.ask({ session, results: [{ call_id: "call_0_0", output: "Oslo" }] });
    await expect(again).rejects.toMatchObject({ code: "call_not_open" });
    const types: string[] = [];
    for await (const { type } of client.events(session)) types.push(type);
    expect(types.filter((type) => type === "client.answered")).toHaveLength(1);
    expect(types.filter((type) => type === "model.answered")).toHaveLength(2);
  }
});

test("ONCE: a request that continues a turn yields each event once, wherever its stream breaks", async () => {
  for (let cutAfter = 0; cutAfter < 6; cutAfter++) {
    let calls = 0;
    const model = scriptedModel(() => {
      if (++calls === 2) throw new Error("the model's server is gone");
      return calls === 1 ? { calls: [{ name: "note" }] } : "Hello Ann.";
    });
    const url = await served({ environments: [], agents: [{ ...greeter(), model } as Agent] });
    let left = 0;
    const client = createClient<Agent>(url, {
      async fetch(path, init) {
        const response = await fetch(path, init);
        if (!path.endsWith("/run") || !response.ok || left-- <= 0) return response;
        // The server ends the turn, but the rest of its reply is lost.
        return new Response(cut(new Blob([await response.text()]).stream(), cutAfter), response);
      },
    });
    const { session } = await client.open();
    await client.ask({ session, message: "hi", throwOnFailure: false });
    const { version } = await client.info(session);
    left = 1;
    const { outcome, text, events } = await client.ask({ session });
    expect([outcome, text]).toEqual(["answered", "Hello Ann."]);
    const committed: unknown[] = [];
    for await (const event of client.events(session, { after: version })) {
      if (!event.type.startsWith("turn.")) committed.push(event);
    }
    expect(events).toEqual(committed);
    left = 1;
    await expect(client.ask({ session })).rejects.toMatchObject({ code: "nothing_to_continue" });
  }
});

test("after a lost connection, the pieces of an answer start again with a higher attempt", async () => {
  let requests = 0;
  const model: Model = {
    name: "slow",
    async respond(_, options) {
      options?.onPiece?.({ type: "text", text: "Hello " });
      // The first request never ends by itself.
      if (requests === 1) await new Promise((_resolve, reject) => options?.signal?.addEventListener("abort", reject));
      options?.onPiece?.({ type: "text", text: "Ann." });
      return { output: [{ type: "message", role: "assistant", content: "Hello Ann." }], status: "completed" };
    },
  };
  const client = createClient<Agent>(
    await served({ environments: [], agents: [defineAgent({ name: "slow", model })] }),
    {
      async fetch(path, init) {
        if (path.endsWith("/run")) requests++;
        const response = await fetch(path, init);
        // The message and the first piece arrive.
        return path.endsWith("/run") && requests === 1 ? new Response(cut(response.body!, 2), response) : response;
      },
    },
  );
  const pieces: unknown[] = [];
  for await (const event of client.run({ message: "hi", stream: true })) {
    if (event.type === "partial") pieces.push([event.attempt > 1, event.piece.text]);
  }
  expect(pieces).toEqual([
    [false, "Hello "],
    [true, "Hello "],
    [true, "Ann."],
  ]);
});

/** A body that breaks after some server-sent events. */
function cut(body: ReadableStream<Uint8Array>, after: number): ReadableStream<Uint8Array> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader() as ReadableStreamDefaultReader<string>;
  let left = after;
  return new ReadableStream({
    async pull(controller) {
      const { done, value = "" } = await reader.read();
      const events = value.split("\n\n").slice(0, left);
      left -= events.length;
      controller.enqueue(new TextEncoder().encode(events.map((event) => `${event}\n\n`).join("")));
      if (!done && left > 0) return;
      await reader.cancel();
      controller.error(new TypeError("terminated"));
    },
  });
}

test("a failed turn throws its reason, or returns it on request", async () => {
  const failing = defineAgent({ name: "failing", instruction: "Fail.", model: scriptedModel([]) });
  const client = createClient<Agent>(await served({ environments: [], agents: [failing] }));
  await expect(client.ask({ message: "hi" })).rejects.toMatchObject({ code: "model_exhausted" });
  expect(await client.ask({ message: "hi", throwOnFailure: false })).toMatchObject({ outcome: "failed" });
});

test("the client and the engine have the same verbs", () => {
  const client = createClient<typeof counter>("http://127.0.0.1:1");
  const engine = createSessions({ environment: counter, store: memoryStore() });
  // These need the store, or stop the engine.
  const local = new Set(["askModel", "cache", "newSession", "environment", "save", "restore", "stop"]);
  for (const verb of Object.keys(engine)) if (!local.has(verb)) expect(client).toHaveProperty(verb);
});
