// When writes of hooks become durable, on every store: the rows of lifecycle.ts, in turns that succeed, fail, or are
// interrupted.
import {
  answerText,
  defineAgent,
  scriptedModel,
  tool,
  type Agent,
  type AgentContext,
  type Conversations,
  type AgentState,
  type Item,
  type RunEvent,
} from "holdfast";
import { describe, expect, test } from "vitest";
import type { Delta } from "../../src/core/delta.ts";
import { unescapeKey } from "../../src/core/json.ts";
import { fileAt, tableIn } from "../files.ts";
import { codeOf, finish, gate, logOf, onEveryStore, plain, stepsOf, typesOf, type Place } from "./engine.ts";
import { lifecycle, lifecycleTable, turns, type Hook } from "./lifecycle.ts";

const scopes = ["", "user:", "app:", "temp:"];
type Keys = Record<string, string[]>;

/** The hooks whose keys a state has, by scope. */
function keysIn(state: AgentState): Keys {
  const known = new Set<string>(lifecycle.map(({ hook }) => hook));
  return Object.fromEntries(
    scopes.map((scope) => [
      scope,
      Object.keys(state)
        .filter((key) => key.startsWith(scope) && known.has(key.slice(scope.length)))
        .map((key) => key.slice(scope.length))
        .sort(),
    ]),
  );
}

/** The same for these hooks. The output key is in the session scope only; `isStored` excludes temporary keys. */
function keysOf(hooks: Hook[], isStored: boolean): Keys {
  return Object.fromEntries(
    scopes.map((scope) => [
      scope,
      isStored && scope === "temp:" ? [] : hooks.filter((hook) => scope === "" || hook !== "outputKey").sort(),
    ]),
  );
}

const marks = (hook: Hook): AgentState => Object.fromEntries(scopes.map((scope) => [`${scope}${hook}`, true]));

interface Observation {
  hook: Hook;
  seen: Keys;
  stored: Keys;
}

interface Turn {
  /** One of the names in lifecycle.ts. */
  name: string;
  /** The hook that throws. */
  throwing?: Hook;
  /** Where the run is cancelled. */
  cutting?: Hook | "model";
  controller?: AbortController;
}

const callOfWork: Item[] = [{ type: "function_call", call_id: "call_a", name: "work", arguments: "{}" }];

/** An agent whose every hook writes its key in each scope, and the keys each one saw afterwards. */
function scenario(fresh: (session: string) => Promise<AgentState>, turn: Turn): { agent: Agent; seen: Observation[] } {
  const seen: Observation[] = [];
  const act = async (hook: Hook, { state, session }: { state: AgentState; session: string }): Promise<void> => {
    // In the second step of the model, its hooks have written already.
    if (Object.hasOwn(state, hook)) return;
    Object.assign(state, marks(hook));
    seen.push({ hook, seen: keysIn(state), stored: keysIn(await fresh(session)) });
    if (turn.throwing === hook) throw new Error("on purpose");
    if (turn.cutting === hook) turn.controller?.abort();
  };
  const isFailing = (name: string): boolean => turn.name === name;
  const failsAt = (hook: Hook): boolean => turn.throwing === hook;
  const on = (hook: Hook) => (context: AgentContext) => act(hook, context);
  let asked = 0;
  const agent = defineAgent({
    name: "worker",
    outputKey: "outputKey",
    model: {
      name: "test",
      async respond(request, options) {
        const isFirst = asked++ === 0;
        if (isFirst && turn.cutting === "model") turn.controller?.abort();
        if (isFirst && (isFailing("the model fails at first") || failsAt("onModelError"))) throw new Error("no answer");
        return scriptedModel((_, turn) => (turn === 0 ? { calls: [{ name: "work" }] } : "All is done.")).respond(
          request,
          options,
        );
      },
    },
    tools: {
      work: tool({
        description: "Works.",
        async run(context) {
          await act("tool", context);
          if (isFailing("the tool fails") || failsAt("onToolError")) throw new Error("no work");
          return "worked";
        },
      }),
    },
    callbacks: {
      beforeAgent: on("beforeAgent"),
      beforeModel: on("beforeModel"),
      afterModel: on("afterModel"),
      beforeTool: on("beforeTool"),
      afterTool: on("afterTool"),
      afterAgent: on("afterAgent"),
      onModelError: async (context) => {
        await act("onModelError", context);
        return callOfWork;
      },
      // Errors that a tool throws on purpose are not corrected here.
      onToolError: async (context, { message }) => {
        if (message === "on purpose") return undefined;
        await act("onToolError", context);
        return "worked in the end";
      },
    },
  });
  return { agent, seen };
}

/** The top-level keys that a delta sets, by hook. */
const keysAt = (delta: Delta = []): string[] =>
  delta.map(({ path }) => unescapeKey(path.slice(1))).filter((key) => key !== "");

/** The fold of the log's own deltas and of its shared ones. */
async function foldOf(sessions: Conversations, session: string): Promise<string[]> {
  const events = await logOf(sessions, session);
  return events.flatMap((event) => [...keysAt(event.delta), ...keysAt("shared" in event ? event.shared : [])]).sort();
}

for (const { name, without } of turns) {
  const rows = lifecycle.filter(({ hook }) => !without.includes(hook));
  const present = (hooks: Hook[]): Hook[] => hooks.filter((hook) => !without.includes(hook));

  for (const stream of [false, true]) {
    onEveryStore(
      `LIFECYCLE, TEMP: each hook sees all earlier writes and the store has the committed ones, where ${name}${stream ? ", streamed" : ""}`,
      async (place) => {
        const sessions = place.engine();
        const other = await place.replica();
        const { session } = await sessions.open();
        const { agent, seen } = scenario((id) => other.state(id), { name });
        const { outcome } = await finish(agent, {
          sessions,
          session,
          message: "go",
          stateDelta: marks("stateDelta"),
          stream,
        });
        expect(outcome).toBe("answered");
        const hooks = rows.filter(({ hook }) => hook !== "stateDelta" && hook !== "outputKey");
        expect(seen.filter(({ hook }) => !without.includes(hook))).toEqual(
          hooks.map(({ hook, sees, stored }) => ({
            hook,
            seen: keysOf(present(sees), false),
            stored: keysOf(present(stored), true),
          })),
        );
      },
    );

    onEveryStore(
      `LIFECYCLE: at each event the store has exactly the keys of its row, where ${name}${stream ? ", streamed" : ""}`,
      async (place) => {
        const sessions = place.engine();
        const other = await place.replica();
        const { session } = await sessions.open();
        const { agent } = scenario((id) => sessions.state(id), { name });
        let step = 0;
        const stored = new Set<Hook>();
        const pieces: RunEvent[] = [];
        await finish(
          agent,
          { sessions, session, message: "go", stateDelta: marks("stateDelta"), stream },
          async (event) => {
            // Pieces do not wait for their reader, so the state of the store is unknown here.
            if (event.type === "partial") {
              pieces.push(event);
              return;
            }
            if (event.type === "model.answered") step++;
            // Two answers: the first stores the keys of its hooks, the second the output key.
            const names = rows.filter(
              ({ hook, event: type }) =>
                type === event.type && (type !== "model.answered" || (hook === "outputKey") === (step === 2)),
            );
            for (const { hook } of names) stored.add(hook);
            const own = names.flatMap(({ hook }) =>
              hook === "outputKey" ? [hook] : [hook, `user:${hook}`, `app:${hook}`],
            );
            expect([...keysAt(event.delta), ...keysAt(event.shared)].sort(), event.type).toEqual(own.sort());
            expect(keysIn(await other.state(session))).toEqual(keysOf([...stored], true));
            expect(keysIn(await sessions.state(session))).toEqual(keysOf([...stored], true));
          },
        );
        expect(stored.size).toBe(rows.length);
        expect(pieces.length > 0).toBe(stream);
        expect(await foldOf(other, session)).toEqual(
          rows.flatMap(({ hook }) => (hook === "outputKey" ? [hook] : [hook, `user:${hook}`, `app:${hook}`])).sort(),
        );
      },
    );
  }
}

for (const { hook, failure, drops, stored, sees } of lifecycle.filter(({ failure }) => failure && failure !== "none")) {
  onEveryStore(
    `LIFECYCLE: where ${hook} throws, the writes of its step are dropped, ${failure} says so, and the run can resume`,
    async (place) => {
      const sessions = place.engine();
      const other = await place.replica();
      const { session } = await sessions.open();
      const turn: Turn = { name: "all goes well", throwing: hook };
      const { agent } = scenario((id) => sessions.state(id), turn);
      const run = await finish(agent, { sessions, session, message: "go", stateDelta: marks("stateDelta") });
      const failed = run.events.at(-1);
      const state = await other.state(session);
      for (const dropped of drops) expect(keysIn(state)[""], dropped).not.toContain(dropped);
      if (failure === "agent.failed") {
        expect(run.outcome).toBe("failed");
        expect(failed).toMatchObject({
          type: "agent.failed",
          error: { message: expect.stringContaining("on purpose") },
        });
        expect(keysIn(state)).toEqual(keysOf(withoutErrors(stored), true));
        // Only the failed step is tried again.
        delete turn.throwing;
        const again = await finish(agent, { sessions: other, session });
        expect(again.outcome).toBe("answered");
        expect(keysIn(await sessions.state(session))[""]).toEqual(expect.arrayContaining(withoutErrors(sees)));
      } else {
        expect(run.outcome).toBe("answered");
        const results = run.events.find(({ type }) => type === "tools.answered");
        expect(results).toMatchObject({ failed: [{ code: "tool_failed", message: "on purpose" }] });
        expect(results).not.toHaveProperty("delta");
        expect(results).not.toHaveProperty("shared");
      }
      expect(await foldOf(sessions, session)).toEqual(Object.keys(await other.state(session)).sort());
    },
  );
}

const withoutErrors = (hooks: Hook[]): Hook[] => hooks.filter((hook) => !hook.startsWith("on"));

const turnOf = new Map<Hook, string>([
  ["onModelError", "the model fails at first"],
  ["onToolError", "the tool fails"],
]);
const cuts: { at: Hook | "model"; stored: Hook[]; name: string }[] = [
  ...lifecycle
    .filter(({ hook }) => hook !== "stateDelta" && hook !== "outputKey")
    .map(({ hook, stored }) => ({ at: hook, stored, name: turnOf.get(hook) ?? "all goes well" })),
  { at: "model", stored: lifecycle.find(({ hook }) => hook === "beforeModel")?.stored ?? [], name: "all goes well" },
];

for (const { at, stored, name } of cuts) {
  for (const how of ["goes on", "takes a new message"]) {
    onEveryStore(
      `LIFECYCLE: a run that is cancelled in ${at} keeps exactly its committed writes, and the next one ${how}`,
      async (place) => {
        const sessions = place.engine();
        const { session } = await sessions.open();
        const controller = new AbortController();
        const turn: Turn = { name, cutting: at, controller };
        const { agent, seen } = scenario((id) => sessions.state(id), turn);
        const options = { sessions, session, message: "go", stateDelta: marks("stateDelta") };
        expect(await codeOf(finish(agent, { ...options, signal: controller.signal }))).toBe("run_cancelled");
        const other = await place.replica();
        expect(keysIn(await other.state(session))).toEqual(keysOf(withoutErrors(stored), true));
        expect(typesOf(await logOf(other, session))).not.toContain("agent.failed");
        const before = seen.length;
        delete turn.cutting;
        if (how === "goes on") {
          const again = await finish(agent, { sessions: other, session });
          expect(again.outcome).toBe("answered");
          // Committed steps are not repeated.
          expect(seen.slice(before).filter(({ hook }) => withoutErrors(stored).includes(hook))).toEqual([]);
          expect(await codeOf(finish(agent, { sessions, session }))).toBe("nothing_to_continue");
        } else {
          const again = await finish(agent, { sessions, session, message: "go again" });
          expect(again.outcome).toBe("answered");
        }
        const state = await other.state(session);
        expect(Object.keys(state).sort()).toEqual(await keysOfLog(sessions, session));
        expect(Object.keys(state).filter((key) => key.startsWith("temp:"))).toEqual([]);
        if (how === "goes on" && name === "all goes well") {
          const all = withoutErrors(lifecycle.map(({ hook }) => hook));
          expect(keysIn(state)).toEqual(keysOf(all, true));
        }
      },
    );
  }
}

const keysOfLog = async (sessions: Conversations, session: string): Promise<string[]> =>
  [...new Set(await foldOf(sessions, session))].sort();

onEveryStore(
  "LIFECYCLE: pieces of an answer commit nothing, and afterModel runs once, on the whole of it",
  async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const read = gate();
    const heard: string[] = [];
    const agent = defineAgent({
      name: "worker",
      model: {
        name: "test",
        async respond(request, options) {
          for (const text of ["One, ", "two, "]) options?.onPiece?.({ type: "text", text });
          await read.opened;
          return scriptedModel(["One, two, three."]).respond(request);
        },
      },
      callbacks: {
        beforeModel: ({ state }) => void Object.assign(state, marks("beforeModel")),
        afterModel: (_, { output }) => void heard.push(answerText(output)),
      },
    });
    const pieces: string[] = [];
    await finish(agent, { sessions, session, message: "go", stream: true }, async (event) => {
      if (event.type !== "partial") return;
      pieces.push(event.piece.text);
      expect(await sessions.state(session)).toEqual({});
      expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened", "invocation.began"]);
      if (pieces.length === 2) read.open();
    });
    expect({ pieces, heard }).toEqual({ pieces: ["One, ", "two, "], heard: ["One, two, three."] });
    expect(Object.keys(await sessions.state(session)).sort()).toEqual([
      "app:beforeModel",
      "beforeModel",
      "user:beforeModel",
    ]);
  },
);

onEveryStore("LIFECYCLE: a run that is cancelled before it starts leaves nothing", async (place) => {
  const sessions = place.engine();
  const { session } = await sessions.open();
  const { agent } = scenario((id) => sessions.state(id), { name: "all goes well" });
  expect(await codeOf(finish(agent, { sessions, session, message: "go", signal: AbortSignal.abort() }))).toBe(
    "run_cancelled",
  );
  expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened"]);
});

onEveryStore("LIFECYCLE: a reader that stops reading cancels the run, and committed writes stay", async (place) => {
  const sessions = place.engine();
  for (const last of ["invocation.began", "agent.began", "model.answered", "tools.answered"]) {
    const { session } = await sessions.open();
    const { agent } = scenario((id) => sessions.state(id), { name: "all goes well" });
    await expect(
      finish(agent, { sessions, session, message: "go" }, ({ type }) => {
        if (type === last) throw new Error("enough");
      }),
    ).rejects.toThrow("enough");
    expect((await stepsOf(sessions, session)).at(-1)?.type).toBe(last);
    expect((await finish(agent, { sessions, session })).outcome).toBe("answered");
  }
});

onEveryStore(
  "LIFECYCLE: a model that fails leaves nothing of its step, in the store or in the process",
  async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const seen: AgentState[] = [];
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([]),
      callbacks: {
        beforeAgent: ({ state }) => void seen.push(plain(state)),
        beforeModel: ({ state }) => void Object.assign(state, marks("beforeModel")),
      },
    });
    for (const message of ["one", "two"]) {
      const { outcome, events } = await finish(agent, { sessions, session, message });
      expect(outcome).toBe("failed");
      expect(events.at(-1)).toMatchObject({ type: "agent.failed", step: "model", error: { code: "model_exhausted" } });
      expect(events.at(-1)).not.toHaveProperty("delta");
    }
    expect(seen).toEqual([{}, {}]);
    expect(await sessions.state(session)).toEqual({});
  },
);

describe("a hook that returns a value", () => {
  onEveryStore("LIFECYCLE: beforeAgent answers: no model, no afterAgent, and its writes are stored", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const never = (): never => {
      throw new Error("must not run");
    };
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel(never),
      outputKey: "said",
      callbacks: {
        beforeAgent: [
          ({ state }) => void (state["first"] = 1),
          ({ state }) => {
            state["temp:second"] = 2;
            state["user:second"] = 2;
            return "Sorry, I can only reply once.";
          },
          never,
        ],
        afterAgent: never,
      },
    });
    const { outcome, events } = await finish(agent, { sessions, session, message: "go" });
    expect(outcome).toBe("replaced");
    expect(typesOf(events)).toEqual(["invocation.began", "agent.began", "agent.ended"]);
    expect(events.at(-1)).toMatchObject({ outcome: "replaced", last: true });
    const said = "Sorry, I can only reply once.";
    expect(await sessions.state(session)).toEqual({ first: 1, "user:second": 2, said });
  });

  onEveryStore("LIFECYCLE: beforeModel gives the answer: the model is not asked, afterModel not run", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([]),
      outputKey: "app:said",
      callbacks: {
        beforeModel: ({ state }, request) => {
          state["asked"] = request.input.length;
          return "From memory.";
        },
        afterModel: ({ state }) => void (state["after"] = true),
        afterAgent: ({ state }) => void (state["heard"] = state["app:said"]),
      },
    });
    const { events } = await finish(agent, { sessions, session, message: "go" });
    const answer = events.find(({ type }) => type === "model.answered");
    expect(answer).not.toHaveProperty("model");
    expect(answer).toMatchObject({ items: [{ content: [{ text: "From memory." }] }] });
    const said = "From memory.";
    expect(await sessions.state(session)).toEqual({ asked: 1, "app:said": said, heard: said });
  });

  onEveryStore(
    'LIFECYCLE: beforeTool gives the result, also {}, false, 0, "" and null; afterTool runs',
    async (place) => {
      const sessions = place.engine();
      for (const value of [{}, false, 0, "", null, []]) {
        const { session } = await sessions.open();
        const agent = defineAgent({
          name: "worker",
          model: scriptedModel([{ calls: [{ name: "work" }] }, "Done."]),
          tools: { work: tool({ description: "Works.", run: ({ state }) => void (state["ran"] = true) }) },
          callbacks: {
            beforeTool: ({ state }, { tool: name }) => {
              state["before"] = name;
              return value;
            },
            afterTool: ({ state }, { output }) => void (state["after"] = output),
          },
        });
        const { events } = await finish(agent, { sessions, session, message: "go" });
        expect(await sessions.state(session)).toEqual({ before: "work", after: value });
        const output = typeof value === "string" ? value : JSON.stringify(value);
        expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({ items: [{ output }] });
      }
    },
  );

  onEveryStore(
    "LIFECYCLE: afterModel, afterTool and afterAgent replace or add, and the new value is stored",
    async (place) => {
      const sessions = place.engine();
      const { session } = await sessions.open();
      const agent = defineAgent({
        name: "worker",
        outputKey: "said",
        model: scriptedModel([{ calls: [{ name: "work" }] }, "Done."]),
        tools: { work: tool({ description: "Works.", run: () => "raw" }) },
        callbacks: {
          afterModel: (_, { output }) =>
            output.some(({ type }) => type === "function_call") ? undefined : "Well done.",
          afterTool: (_, { output }) => [output, "cooked"],
          afterAgent: [() => undefined, () => "Goodbye.", () => "never said"],
        },
      });
      const { events } = await finish(agent, { sessions, session, message: "go" });
      const items = events.flatMap((event) => (event.type === "partial" ? [] : (event.items ?? [])));
      expect(items).toMatchObject([
        { role: "user" },
        { type: "function_call" },
        { output: '["raw","cooked"]' },
        { content: [{ text: "Well done." }] },
        { content: [{ text: "Goodbye." }] },
      ]);
      expect(await sessions.state(session)).toEqual({ said: "Well done." });
    },
  );
});

describe("calls of one answer", () => {
  const writer = (concurrent: boolean, write: (state: AgentState) => void) =>
    concurrent
      ? tool<AgentState, undefined>({ description: "Writes.", concurrent, run: ({ update }) => update(write) })
      : tool<AgentState, undefined>({ description: "Writes.", run: ({ state }) => write(state) });

  async function write(place: Place, concurrent: boolean, writes: ((state: AgentState) => void)[]) {
    const sessions = place.engine();
    const { session } = await sessions.open({ state: { list: ["a"], gone: 1, "user:n": 0 } });
    const tools = Object.fromEntries(writes.map((one, n) => [`write_${n}`, writer(concurrent, one)]));
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([{ calls: Object.keys(tools).map((name) => ({ name })) }, "Done."]),
      tools,
      callbacks: { beforeTool: ({ state }, { tool: name }) => void (state[`before_${name}`] = true) },
    });
    const { events } = await finish(agent, { sessions, session, message: "go" });
    expect(events.filter(({ type }) => type === "tools.answered")).toHaveLength(1);
    return { state: await sessions.state(session), events };
  }

  for (const concurrent of [true, false]) {
    onEveryStore(
      `LIFECYCLE: ${concurrent ? "in parallel" : "in turn"}, are one event with the changes of all, in call order`,
      async (place) => {
        const { state } = await write(place, concurrent, [
          (state) => void ((state["x"] = 1), (state["last"] = "first"), state["list"].push("b")),
          (state) => void ((state["app:y"] = 2), (state["last"] = "second"), state["user:n"]++),
          (state) => void (state["list"].push("c"), delete state["gone"], state["user:n"]++, (state["temp:z"] = 1)),
        ]);
        expect(state).toEqual({
          x: 1,
          "app:y": 2,
          "user:n": 2,
          last: "second",
          list: ["a", "b", "c"],
          before_write_0: true,
          before_write_1: true,
          before_write_2: true,
        });
      },
    );

    onEveryStore(
      `LIFECYCLE: ${concurrent ? "in parallel" : "in turn"}, keep the changes of the others if one fails`,
      async (place) => {
        const { state, events } = await write(place, concurrent, [
          (state) => void (state["x"] = 1),
          (state) => {
            state["y"] = 1;
            throw new Error("no");
          },
          (state) => void (state["z"] = new Date()),
          (state) => void (state["list"] = []),
        ]);
        expect(state).toEqual({
          x: 1,
          list: [],
          gone: 1,
          "user:n": 0,
          before_write_0: true,
          before_write_3: true,
        });
        expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({
          failed: [
            { call: "call_0_1", code: "tool_failed" },
            { call: "call_0_2", code: "not_json" },
          ],
        });
      },
    );
  }

  onEveryStore("LIFECYCLE: in parallel, really run at once, and their results come in call order", async (place) => {
    const sessions = place.engine();
    let arrived = 0;
    let go = (): void => undefined;
    const all = new Promise<void>((resolve) => (go = resolve));
    const meet = tool<AgentState, undefined>({
      description: "Waits for the others.",
      concurrent: true,
      async run({ call, update }) {
        const place = ++arrived;
        if (arrived === 3) go();
        await all;
        update((state) => void (state["order"] = [...(state["order"] ?? []), call]));
        return place;
      },
    });
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([{ calls: [{ name: "meet" }, { name: "meet" }, { name: "meet" }] }, "Done."]),
      tools: { meet },
    });
    const { events, session } = await finish(agent, { sessions, message: "go" });
    const ids = ["call_0_0", "call_0_1", "call_0_2"];
    expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({
      items: ids.map((call_id) => ({ call_id })),
    });
    expect((await sessions.state(session))["order"]).toEqual(ids);
  });

  onEveryStore(
    "LIFECYCLE: cancelled while they run, leave nothing, and nothing of them arrives later",
    async (place) => {
      const sessions = place.engine();
      const { session } = await sessions.open();
      const controller = new AbortController();
      const unheard: unknown[] = [];
      const hear = (reason: unknown): void => void unheard.push(reason);
      process.on("unhandledRejection", hear);
      const wait = (signal: AbortSignal): Promise<void> =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
      const agent = defineAgent({
        name: "worker",
        model: scriptedModel([{ calls: [{ name: "aside" }, { name: "aside" }, { name: "own" }] }]),
        tools: {
          aside: tool<AgentState, undefined>({
            description: "Waits.",
            concurrent: true,
            run: ({ signal, update }) => {
              update((state) => void (state["aside"] = true));
              return wait(signal);
            },
          }),
          own: tool<AgentState, undefined>({
            description: "Cancels.",
            run: ({ state, signal }) => {
              state["own"] = true;
              setImmediate(() => controller.abort());
              return wait(signal);
            },
          }),
        },
      });
      const cut = await codeOf(finish(agent, { sessions, session, message: "go", signal: controller.signal }));
      await new Promise((resolve) => setImmediate(resolve));
      process.off("unhandledRejection", hear);
      expect({ cut, unheard }).toEqual({ cut: "run_cancelled", unheard: [] });
      expect(await sessions.state(session)).toEqual({});
      expect((await stepsOf(sessions, session)).at(-1)?.type).toBe("model.answered");
    },
  );
});

describe("temporary state", () => {
  onEveryStore(
    "TEMP: is seen by the rest of its invocation in every hook and agent, and by no other",
    async (place) => {
      const sessions = place.engine();
      const seen: unknown[] = [];
      const agent = defineAgent({
        name: "worker",
        instruction: "Given: {temp:given?}.",
        outputKey: "temp:said",
        model: scriptedModel(({ instructions }, turn) => {
          seen.push(instructions);
          return turn % 2 === 0 ? { calls: [{ name: "work" }] } : "Done.";
        }),
        tools: {
          work: tool<AgentState, undefined>({
            description: "Works.",
            run: ({ state }) => void (state["temp:list"] ??= []).push(1),
          }),
        },
        callbacks: {
          beforeAgent: ({ state }) => void seen.push(plain(state)),
          afterTool: ({ state }) => void state["temp:list"].push(2),
          afterAgent: ({ state }) => {
            seen.push(plain(state));
            delete state["temp:given"];
          },
        },
      });
      const { session } = await sessions.open({ state: { "temp:initial": 1 } });
      await finish(agent, { sessions, session, message: "go", stateDelta: { "temp:given": "x" } });
      await finish(agent, { sessions, session, message: "again" });
      expect(seen).toEqual([
        { "temp:given": "x" },
        "Given: x.",
        "Given: x.",
        { "temp:given": "x", "temp:list": [1, 2], "temp:said": "Done." },
        {},
        "Given: .",
        "Given: .",
        { "temp:list": [1, 2], "temp:said": "Done." },
      ]);
      expect(await sessions.state(session)).toEqual({});
      expect(JSON.stringify(await logOf(sessions, session))).not.toContain("temp:");
    },
  );
});

test("the table in docs/agents.md is that of the tests", () => {
  expect(tableIn(fileAt("docs/agents.md").text, "written in", "stored with")).toEqual(lifecycleTable());
});
