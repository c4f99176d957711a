// The steps of an agent: its instruction, its limits, lists of callbacks, and error handling.
import {
  createSessions,
  defineAgent,
  HoldfastError,
  memoryStore,
  scriptedModel,
  tool,
  type Agent,
  type AgentOptions,
  type Conversations,
  type AgentState,
  type Model,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { codeOf, finish, logOf, onEveryStore, typesOf, type Committed } from "./engine.ts";

const inMemory = (): Conversations => createSessions({ app: "app", store: memoryStore() });
const calling = (...names: string[]) => ({ calls: names.map((name) => ({ name })) });

describe("an instruction", () => {
  async function told(instruction: string, state: AgentState = {}): Promise<string | undefined> {
    const sessions = inMemory();
    const { session } = await sessions.open({ state });
    let heard: string | undefined;
    const model = scriptedModel(({ instructions }) => {
      heard = instructions;
      return "Done.";
    });
    const { outcome, events } = await finish(defineAgent({ name: "worker", instruction, model }), {
      sessions,
      session,
      message: "hi",
    });
    if (outcome === "failed") return (events.at(-1) as { error: { code: string; message: string } }).error.message;
    return heard;
  }

  test("inserts the state that it names, in every scope", async () => {
    const state = { name: "Ann", "user:age": 42, "app:list": [1, { a: 2 }], empty: "", no: false };
    expect(await told("{name}, {user:age}, {app:list}, <{empty}>, {no}", state)).toBe(
      'Ann, 42, [1,{"a":2}], <>, false',
    );
  });

  test("may name a missing key if it is marked optional, and fails otherwise", async () => {
    expect(await told("Hello {user:name?}!")).toBe("Hello !");
    expect(await told("Hello {name?}!", { name: null })).toBe("Hello !");
    expect(await told("Hello {user:name}!")).toBe(
      "the instruction names {user:name}, which the state does not have; write {user:name?} if it may be missing",
    );
  });

  test("leaves other braces unchanged", async () => {
    for (const text of ['{"a": 1}', "{ name }", "{}", "{1}", "{a.b}", "{a-b}", "{{", "${", '{"list": [{"b": {}}]}']) {
      expect(await told(text)).toBe(text);
    }
  });

  test("does not expand inserted values, or properties of every object", async () => {
    expect(await told("{a}", { a: "{b} $& $1", b: "no" })).toBe("{b} $& $1");
    for (const name of ["constructor", "toString", "__proto__"]) {
      expect(await told(`<{${name}?}>`)).toBe("<>");
      expect(await told(`{${name}}`)).toContain("which the state does not have");
    }
  });

  test("that names a missing key is a failure with a code, which can be retried", async () => {
    const sessions = inMemory();
    const agent = defineAgent({ name: "worker", instruction: "Hello {name}!", model: scriptedModel(["Done."]) });
    const { session, events } = await finish(agent, { sessions, message: "hi" });
    expect(events.at(-1)).toMatchObject({ type: "agent.failed", step: "model", error: { code: "missing_state" } });
    await finish(agent, { sessions, session, message: "hi", stateDelta: { name: "Ann" } });
    expect((await logOf(sessions, session)).at(-1)).toMatchObject({ type: "agent.ended", last: true });
  });
});

describe("a limit is an outcome, and not an error", () => {
  const silent: Model = { name: "silent", respond: async () => ({ output: [], status: "completed" }) };
  const busy = scriptedModel(() => calling("work"));
  const never: Model = {
    name: "never",
    respond: (_, options) =>
      new Promise((_, reject) =>
        options?.signal?.addEventListener("abort", () => reject(new Error("stopped")), { once: true }),
      ),
  };
  const work = tool<AgentState, undefined>({
    description: "Works.",
    run: ({ state }) => (state["n"] = (state["n"] ?? 0) + 1),
  });
  const stuck = tool<AgentState, undefined>({
    description: "Waits.",
    run: ({ signal, state }) => {
      state["stuck"] = true;
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
    },
  });

  const limited: { limits: AgentOptions<never>["limits"]; model: Model; outcome: string; state: AgentState }[] = [
    { limits: { steps: 3 }, model: busy, outcome: "steps", state: { n: 3 } },
    { limits: { tokens: 1 }, model: busy, outcome: "tokens", state: { n: 1 } },
    { limits: { empty: 2 }, model: silent, outcome: "empty", state: {} },
    { limits: {}, model: silent, outcome: "empty", state: {} },
    { limits: { seconds: 0.01 }, model: never, outcome: "seconds", state: {} },
    { limits: { seconds: 0.01 }, model: scriptedModel([calling("stuck")]), outcome: "seconds", state: {} },
  ];

  for (const [n, { limits, model, outcome, state }] of limited.entries()) {
    onEveryStore(
      `the limit of ${outcome} (${n}) ends the run, with afterAgent, and the next message is answered`,
      async (place) => {
        const sessions = place.engine();
        const options = {
          name: "worker",
          tools: { work, stuck },
          callbacks: { afterAgent: ({ state }: { state: AgentState }) => void (state["after"] = true) },
        };
        const { session, ...run } = await finish(defineAgent({ ...options, model, limits: limits ?? {} }), {
          sessions,
          message: "hi",
        });
        expect(run.outcome).toBe(outcome);
        expect(run.events.at(-1)).toMatchObject({ type: "agent.ended", outcome, last: true });
        expect(typesOf(run.events)).not.toContain("agent.failed");
        expect(await sessions.state(session)).toEqual({ ...state, after: true });
        expect(await codeOf(finish(defineAgent({ ...options, model }), { sessions, session }))).toBe(
          "nothing_to_continue",
        );
        const next = defineAgent({ ...options, model: scriptedModel(() => "Here I am.") });
        expect((await finish(next, { sessions, session, message: "still there?" })).outcome).toBe("answered");
      },
    );
  }

  onEveryStore("seconds include the agents used as tools", async (place) => {
    const sessions = place.engine();
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([{ calls: [{ name: "ask", arguments: { request: "x" } }] }]),
      tools: { ask: defineAgent({ name: "helper", model: never }) },
      limits: { seconds: 0.01 },
    });
    expect((await finish(agent, { sessions, message: "hi" })).outcome).toBe("seconds");
  });

  test("must be above 0", () => {
    for (const steps of [0, -1, NaN]) {
      expect(() => defineAgent({ name: "worker", model: silent, limits: { steps } })).toThrow(
        "must be a number greater than 0",
      );
    }
  });
});

describe("callbacks in a list", () => {
  onEveryStore("run until one returns a value; writes of earlier ones are kept", async (place) => {
    const sessions = place.engine();
    const ran: string[] = [];
    const list = (hook: string) => [
      ({ state }: { state: AgentState }) => {
        ran.push(`${hook} 1`);
        state[`${hook}_1`] = true;
      },
      async () => void ran.push(`${hook} 2`),
      ({ state }: { state: AgentState }) => {
        ran.push(`${hook} 3`);
        state[`${hook}_3`] = true;
        return hook.endsWith("Tool") ? { from: hook } : `from ${hook}`;
      },
      () => {
        throw new Error("must not run");
      },
    ];
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([calling("work")]),
      tools: { work: tool({ description: "Works.", run: () => "worked" }) },
      callbacks: {
        beforeTool: list("beforeTool"),
        afterTool: list("afterTool"),
        onModelError: list("onModelError"),
        afterModel: [() => undefined],
        afterAgent: list("afterAgent"),
      },
    });
    const { session, events } = await finish(agent, { sessions, message: "hi" });
    const hooks = ["beforeTool", "afterTool", "onModelError", "afterAgent"];
    expect(ran).toEqual(hooks.flatMap((hook) => [1, 2, 3].map((n) => `${hook} ${n}`)));
    expect(Object.keys(await sessions.state(session)).sort()).toEqual(
      hooks.flatMap((hook) => [`${hook}_1`, `${hook}_3`]).sort(),
    );
    expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({
      items: [{ output: '{"from":"afterTool"}' }],
    });
  });
});

describe("errors", () => {
  onEveryStore("of the model are answered by onModelError, with its writes, or end the run", async (place) => {
    const sessions = place.engine();
    const agent = (isKind: boolean): Agent =>
      defineAgent({
        name: "worker",
        model: scriptedModel(() => {
          throw new Error("on fire");
        }),
        callbacks: {
          onModelError: ({ state }, { code }, request) => {
            state["error"] = { code, asked: request.input.length };
            return isKind ? "Sorry." : undefined;
          },
        },
      });
    const kind = await finish(agent(true), { sessions, message: "hi" });
    expect(kind.outcome).toBe("answered");
    expect(await sessions.state(kind.session)).toEqual({ error: { code: "model_failed", asked: 1 } });
    const unkind = await finish(agent(false), { sessions, message: "hi" });
    expect(unkind.outcome).toBe("failed");
    expect(unkind.events.at(-1)).toMatchObject({
      error: { code: "model_failed", message: expect.stringContaining("on fire") },
    });
    expect(await sessions.state(unkind.session)).toEqual({});
  });

  onEveryStore(
    "of a tool are read by the model, or corrected by onToolError; the tool's writes are dropped",
    async (place) => {
      const sessions = place.engine();
      const names = ["broken", "aside", "missing", "picky"];
      const agent = defineAgent({
        name: "worker",
        model: scriptedModel([
          { calls: [...names.map((name) => ({ name })), { name: "fine", arguments: "{not json" }] },
          "Done.",
        ]),
        tools: {
          broken: tool<AgentState, undefined>({
            description: "Fails.",
            run: ({ state, agent }) => {
              state["half"] = true;
              state["temp:half"] = true;
              agent?.escalate();
              throw new Error("broke");
            },
          }),
          aside: tool<AgentState, undefined>({
            description: "Fails.",
            concurrent: true,
            run: ({ update }) => {
              update((state) => void (state["half"] = true));
              throw new Error("broke aside");
            },
          }),
          picky: tool<AgentState, undefined>({
            description: "Fails.",
            timeout: 1,
            concurrent: true,
            run: () => new Promise(() => undefined),
          }),
          fine: tool({ description: "Works.", run: () => "fine" }),
        },
        callbacks: {
          beforeTool: ({ state }, { tool: name }) => void (state[`before_${name}`] = true),
          onToolError: ({ state }, { code }, { tool: name }) => {
            state[`error_${name}`] = code;
            return name === "broken" || name === "aside" ? { mended: name } : undefined;
          },
        },
      });
      const { session, events, outcome } = await finish(agent, { sessions, message: "hi" });
      expect(outcome).toBe("answered");
      expect(await sessions.state(session)).toEqual({
        before_broken: true,
        error_broken: "tool_failed",
        before_aside: true,
        error_aside: "tool_failed",
      });
      const results = (events as Committed[]).find((event) => event.type === "tools.answered");
      expect(results).toMatchObject({
        items: [
          { output: '{"mended":"broken"}' },
          { output: '{"mended":"aside"}' },
          { output: expect.stringContaining("the tools are: broken, aside, picky, fine") },
          { output: expect.stringContaining("did not return within 1 ms") },
          { output: expect.stringContaining("are not JSON") },
        ],
        failed: [{ code: "unknown_tool" }, { code: "tool_timeout" }, { code: "invalid_input" }],
      });
      expect(results).not.toHaveProperty("escalate");
    },
  );

  onEveryStore(
    "that tools and callbacks get from other sessions stay theirs, and do not end the run",
    async (place) => {
      const sessions = place.engine();
      const refused = tool<AgentState, undefined>({
        description: "Reads another session.",
        run: () => {
          throw new HoldfastError("session_busy", "that other session is in use");
        },
      });
      const agent = defineAgent({
        name: "worker",
        model: scriptedModel([calling("refused"), "Done."]),
        tools: { refused },
        callbacks: { afterAgent: async () => void (await sessions.state("no such session")) },
      });
      const { outcome, events } = await finish(agent, { sessions, message: "hi" });
      expect(outcome).toBe("failed");
      expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({
        failed: [{ code: "session_busy" }],
      });
      expect(events.at(-1)).toMatchObject({
        type: "agent.failed",
        step: "afterAgent",
        error: { code: "session_not_found" },
      });
    },
  );
});

describe("a request", () => {
  test("can be changed by beforeModel, for this question only", async () => {
    const sessions = inMemory();
    const asked: unknown[] = [];
    const agent = defineAgent({
      name: "worker",
      instruction: "Work.",
      model: scriptedModel(({ instructions, tools, input }, turn) => {
        asked.push([instructions, tools?.[0]?.description, input.length]);
        return turn === 0 ? calling("work") : "Done.";
      }),
      tools: { work: tool({ description: "Works.", run: () => "worked" }) },
      callbacks: {
        beforeModel: (_, request) => {
          request.instructions += " Now.";
          request.input.push({ type: "message", role: "user", content: "by the way" });
          for (const one of request.tools ?? []) one.description += " Quickly.";
        },
      },
    });
    await finish(agent, { sessions, message: "hi" });
    expect(asked).toEqual([
      ["Work. Now.", "Works. Quickly.", 2],
      ["Work. Now.", "Works. Quickly.", 4],
    ]);
  });
});
