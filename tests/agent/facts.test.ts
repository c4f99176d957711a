// Behaviour that other systems of this kind get wrong, or differently on each store: here it is right, and the same on
// all.
import {
  createSessions,
  defineAgent,
  memoryStore,
  parallel,
  run,
  scriptedModel,
  tool,
  type Agent,
  type AgentContext,
  type Conversations,
  type AgentState,
  type Callbacks,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { codeOf, finish, gate, logOf, onEveryStore, plain, typesOf } from "./engine.ts";

/** An agent that answers anything, with callbacks. */
const talker = (callbacks: Callbacks = {}, name = "talker"): Agent =>
  defineAgent({ name, model: scriptedModel(() => "Well."), callbacks });

const counting = (): Agent =>
  talker({ beforeAgent: ({ state }) => void (state["count"] = (state["count"] ?? 0) + 1) }, "counting");

const upTo = (n: number): number[] => Array.from({ length: n }, (_, index) => index);

describe("sessions", () => {
  onEveryStore("opening an existing id is refused, and its events stay", async (place) => {
    const sessions = place.engine();
    const other = await place.replica();
    const { session } = await sessions.open({ session: "mine", user: "ann", state: { a: 1 } });
    expect(await codeOf(sessions.open({ session, state: {} }))).toBe("session_exists");
    expect(await codeOf(other.open({ session, user: "bob" }))).toBe("session_exists");
    expect(await other.state(session)).toEqual({ a: 1 });
    expect(await other.info(session)).toMatchObject({ user: "ann", version: 1 });
  });

  onEveryStore("ISOLATION: another user, app or environment cannot reach a session by its id", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open({ session: "mine", user: "ann", state: { a: 1 } });
    const elsewhere = place.engine("another");
    expect(await codeOf(elsewhere.state(session))).toBe("session_not_found");
    expect(await codeOf(logOf(elsewhere, session))).toBe("session_not_found");
    expect(await codeOf(finish(talker(), { sessions: elsewhere, session, message: "hi" }))).toBe("session_not_found");
    expect(await codeOf(finish(talker(), { sessions, session, user: "bob", message: "hi" }))).toBe("session_not_found");
    expect((await finish(talker(), { sessions, session, user: "ann", message: "hi" })).outcome).toBe("answered");
  });

  onEveryStore("the first calls of two engines, and twenty at once for a new user, all succeed", async (place) => {
    const engines = [place.engine(), await place.replica()];
    const opened = await Promise.all(
      upTo(20).map((n) =>
        (engines[n % 2] as Conversations).open({ user: "new", state: { n, [`user:k${n}`]: n, [`app:k${n}`]: n } }),
      ),
    );
    const state = await (engines[0] as Conversations).state((opened[7] as { session: string }).session);
    const shared = upTo(20).flatMap((n) => [
      [`user:k${n}`, n],
      [`app:k${n}`, n],
    ]);
    expect(state).toEqual({ n: 7, ...Object.fromEntries(shared) });
  });

  onEveryStore(
    "initial user: and app: state is shared with the right sessions, temp: is stored nowhere",
    async (place) => {
      const sessions = place.engine();
      const state = { own: 1, "user:name": "Ann", "app:motto": "Hold fast", "temp:x": 1 };
      const { session } = await sessions.open({ user: "ann", state });
      const same = await sessions.open({ user: "ann" });
      const other = await (await place.replica()).open({ user: "bob" });
      const { own, "user:name": name, "app:motto": motto } = state;
      expect(await sessions.state(session)).toEqual({ own, "user:name": name, "app:motto": motto });
      expect(await sessions.state(same.session)).toEqual({ "user:name": name, "app:motto": motto });
      expect(await sessions.state(other.session)).toEqual({ "app:motto": motto });
      const elsewhere = place.engine("another");
      expect(await elsewhere.state((await elsewhere.open({ user: "ann" })).session)).toEqual({});
    },
  );

  onEveryStore("an id that could hold shared state is refused", async (place) => {
    const sessions = place.engine();
    expect(await codeOf(sessions.open({ session: "holdfast:user:app:eve" }))).toBe("invalid_option");
    const saved = await sessions.save((await sessions.open()).session);
    expect(await codeOf(sessions.restore(saved, "holdfast:app:app"))).toBe("invalid_option");
    const { session } = await sessions.open({ user: "eve", state: { "user:a": 1, "app:b": 2 } });
    expect(await sessions.state(session)).toEqual({ "user:a": 1, "app:b": 2 });
  });

  onEveryStore("long conversations are read from their snapshots, also at the versions before them", async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    const large = "x".repeat(3000);
    const agent = talker({
      beforeAgent: ({ state }) => {
        state["n"]++;
        state["large"] = `${large}${state["n"]}`;
        state["user:large"] = { is: `${large}${state["n"]}` };
        (state["app:all"] ??= []).push(state["n"]);
      },
    });
    const { session } = await one.open({ state: { n: 0 } });
    const invocations: string[] = [];
    for (const _ of upTo(20))
      invocations.push((await finish(agent, { sessions: one, session, message: "go" })).invocation);
    expect(await two.state(session)).toMatchObject({ n: 20, "user:large": { is: `${large}20` } });
    await two.rewind(session, { before: invocations[3] as string });
    await finish(agent, { sessions: one, session, message: "go" });
    expect(await two.state(session)).toMatchObject({
      n: 4,
      large: `${large}4`,
      "app:all": [...upTo(20).map((n) => n + 1), 4],
    });
  });

  onEveryStore("users with odd names share nothing with each other", async (place) => {
    const sessions = place.engine();
    const users = ["a", "a:b", "a/b", "a~1b", "A", "ä", "a\u0308", "🙂", "__proto__", " ", "user:a", "%61"];
    for (const user of users) await sessions.open({ user, session: `of ${user}`, state: { "user:me": user } });
    for (const user of users) expect(await sessions.state(`of ${user}`)).toEqual({ "user:me": user });
    for (const user of ["", "x".repeat(201)]) expect(await codeOf(sessions.open({ user }))).toBe("invalid_option");
  });

  onEveryStore("events are numbered: reading after a version returns the later ones, each once", async (place) => {
    const sessions = place.engine();
    const { session } = await finish(counting(), { sessions, message: "hi" });
    const events = await logOf(sessions, session);
    expect(events.map(({ version }) => version)).toEqual(upTo(events.length).map((n) => n + 1));
    const after = async (version: number): Promise<number[]> => {
      const versions: number[] = [];
      for await (const event of sessions.events(session, { after: version })) versions.push(event.version);
      return versions;
    };
    expect(await after(3)).toEqual([4, 5]);
    expect(await after(5)).toEqual([]);
    expect(await codeOf(logOf(sessions, "no such session"))).toBe("session_not_found");
  });

  onEveryStore("events of one millisecond keep their order, and time never goes back", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    for (const n of upTo(15)) await finish(counting(), { sessions, session, message: String(n) });
    const events = await logOf(await place.replica(), session);
    const said = events.flatMap((event) =>
      event.type === "invocation.began" ? event.items.map((item) => ("content" in item ? item.content : "")) : [],
    );
    expect(said).toEqual(upTo(15).map(String));
    const times = events.map(({ at }) => at);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  onEveryStore("list and info agree on every store, also for sessions with shared state", async (place) => {
    const sessions = place.engine("app", { keepEnded: true });
    const { session } = await sessions.open({ user: "ann", state: { "user:a": 1, "app:b": 2 } });
    const listed = [];
    for await (const info of sessions.list()) listed.push(info);
    expect(listed).toEqual([await sessions.info(session)]);
    expect(await sessions.close(session)).toBe(true);
    expect(await sessions.close(session)).toBe(false);
    expect(await codeOf(finish(talker(), { sessions, session, message: "hi" }))).toBe("session_closed");
  });

  onEveryStore("a session that is deleted during a list is left out", async (place) => {
    const sessions = place.engine();
    const ids: string[] = [];
    for (const _ of upTo(3)) ids.push((await sessions.open()).session);
    const listed: string[] = [];
    for await (const { session } of sessions.list()) {
      if (listed.push(session) === 1) await place.storage.store.delete(ids[1] as string);
    }
    expect(listed).toEqual([ids[0], ids[2]]);
  });
});

describe("values", () => {
  const notJson: [string, unknown][] = [
    ["a Date", new Date(0)],
    ["a Map", new Map()],
    ["undefined", undefined],
    ["a function", () => 1],
    ["a bigint", 1n],
    ["NaN", NaN],
  ];

  onEveryStore("a value that is not JSON is refused with its path, wherever it is written", async (place) => {
    const sessions = place.engine();
    for (const [what, value] of notJson) {
      const { session } = await sessions.open();
      const writing = talker({ beforeModel: ({ state }) => void (state["deep"] = { list: [value] }) });
      const { outcome, events } = await finish(writing, { sessions, session, message: "hi" });
      expect(outcome).toBe("failed");
      expect(events.at(-1)).toMatchObject({
        error: { code: "not_json", message: expect.stringContaining("state/deep/list/0") },
      });
      expect((events.at(-1) as { error: { message: string } }).error.message).toContain(what);
      const given = { sessions, session, message: "hi", stateDelta: { deep: [value] } };
      expect(await codeOf(finish(talker(), given))).toBe("not_json");
      expect(await codeOf(sessions.open({ state: { deep: [value] } }))).toBe("not_json");
      expect(await sessions.state(session)).toEqual({});
    }
  });

  onEveryStore("an undefined property is omitted in a given state, and refused in an assignment", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open({ state: { a: 1, b: undefined } });
    expect(await sessions.state(session)).toEqual({ a: 1 });
    await finish(talker(), { sessions, session, message: "hi", stateDelta: { c: undefined, d: { e: undefined } } });
    expect(await sessions.state(session)).toEqual({ a: 1, d: {} });
    const assigning = talker({ beforeAgent: ({ state }) => void (state["a"] = undefined) });
    const { events } = await finish(assigning, { sessions, session, message: "hi" });
    expect(events.at(-1)).toMatchObject({ error: { message: expect.stringContaining("use `delete`") } });
  });

  onEveryStore("changing an object after it was stored changes nothing stored or seen", async (place) => {
    const sessions = place.engine();
    const list = [1];
    const initial = { nested: { list } };
    const { session } = await sessions.open({ state: initial });
    const given = { given: [1] };
    const kept: unknown[] = [];
    const agent = talker({
      beforeAgent: ({ state }) => void (state["list"] = list),
      beforeModel: ({ state }) => {
        list.push(2);
        given.given.push(2);
        kept.push(plain(state));
      },
      afterAgent: async (context) => {
        const stored = await context.stored();
        stored["list"].push(3);
        stored["more"] = true;
      },
    });
    const { events } = await finish(agent, { sessions, session, message: "hi", stateDelta: given });
    expect(() => (events[0] as { items: unknown[] }).items.push("x")).toThrow(TypeError);
    const right = { nested: { list: [1] }, list: [1], given: [1] };
    expect(kept).toEqual([right]);
    expect(await sessions.state(session)).toEqual(right);
    expect(JSON.stringify(await logOf(sessions, session))).not.toContain("[1,2]");
  });

  onEveryStore("keys are kept exactly, in every scope, also odd ones", async (place) => {
    const sessions = place.engine();
    const odd = ["my_key", "myKey", "a/b", "a~b", "a~1b", "", "__proto__", "constructor", "ÄÖ", "user", "tempo"];
    const state = Object.fromEntries(
      ["", "user:", "app:"].flatMap((scope) =>
        odd.map((key): [string, AgentState] => [`${scope}${key}`, { my_key: 1, myKey: 2 }]),
      ),
    );
    const agent = talker({
      beforeAgent: (context) => {
        for (const [key, value] of Object.entries(state)) context.state[key] = value;
      },
      beforeModel: (context) => {
        for (const key of Object.keys(state)) context.state[key].myKey = 3;
      },
      afterAgent: (context) => {
        for (const key of odd) delete context.state[key];
      },
    });
    const { session } = await finish(agent, { sessions, message: "hi" });
    const right = Object.entries(state)
      .filter(([key]) => !odd.includes(key))
      .map(([key]) => [key, { my_key: 1, myKey: 3 }]);
    expect(await (await place.replica()).state(session)).toEqual(Object.fromEntries(right));
    expect(await sessions.state((await sessions.open({ state })).session)).toEqual({ ...state });
  });

  onEveryStore("delete removes a key, null is a value, and an object is replaced and not merged", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open({ state: { a: { x: 1, y: 2 }, b: 1, "user:c": 1, "app:d": 1 } });
    const agent = talker({
      beforeAgent: ({ state }) => {
        state["a"] = { z: null };
        for (const key of ["b", "user:c", "app:d", "never there"]) delete state[key];
        expect(Object.keys(state)).toEqual(["a"]);
        expect("b" in state).toBe(false);
      },
    });
    await finish(agent, { sessions, session, message: "hi" });
    expect(await sessions.state(session)).toEqual({ a: { z: null } });
  });
});

describe("concurrency", () => {
  onEveryStore("SERIAL: two overlapping counting runs on a session give 2, and do not mix", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    await Promise.all(["first", "second"].map((message) => finish(counting(), { sessions, session, message })));
    expect(await sessions.state(session)).toEqual({ count: 2 });
    const turn = ["invocation.began", "agent.began", "model.answered", "agent.ended"];
    expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened", ...turn, ...turn]);
  });

  onEveryStore("SERIAL: forty runs on a session queue in order of arrival", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    await Promise.all(
      upTo(40).map((n) => finish(counting(), { sessions, session, message: String(n), stateDelta: { [`k${n}`]: n } })),
    );
    const state = await sessions.state(session);
    expect(state).toEqual({ count: 40, ...Object.fromEntries(upTo(40).map((n) => [`k${n}`, n])) });
    expect(Object.keys(state)[39]).toBe("k38");
  });

  onEveryStore("a run on a busy session is refused if it does not want to wait, or no longer", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const [inside, done] = [gate(), gate()];
    const slow = talker({
      beforeAgent: async () => {
        inside.open();
        await done.opened;
      },
    });
    const first = finish(slow, { sessions, session, message: "slow" });
    await inside.opened;
    const waiting = new AbortController();
    const tired = codeOf(finish(talker(), { sessions, session, message: "hi", signal: waiting.signal }));
    expect(await codeOf(finish(talker(), { sessions, session, message: "hi", busy: "refuse" }))).toBe("session_busy");
    waiting.abort();
    expect(await tired).toBe("run_cancelled");
    done.open();
    expect((await first).outcome).toBe("answered");
    expect((await finish(talker(), { sessions, session, message: "hi", busy: "refuse" })).outcome).toBe("answered");
    expect((await logOf(sessions, session)).filter(({ type }) => type === "invocation.began")).toHaveLength(2);
  });

  onEveryStore("a run whose turn another process took commits nothing more, and nothing is lost", async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open();
    let isFirst = true;
    const agent = talker({
      beforeModel: async ({ state }) => {
        state["count"] = (state["count"] ?? 0) + 1;
        if (!isFirst) return;
        isFirst = false;
        const between = { sessions: two, session, message: "between" };
        expect(await codeOf(finish(counting(), { ...between, busy: "refuse" }))).toBe("session_busy");
        expect((await finish(counting(), { ...between, busy: "take" })).outcome).toBe("answered");
      },
    });
    expect(await codeOf(finish(agent, { sessions: one, session, message: "first" }))).toBe("turn_lost");
    expect(await one.state(session)).toEqual({ count: 1 });
    expect(typesOf(await logOf(one, session))).not.toContain("agent.failed");
    // Both engines continue from the stored state.
    await finish(counting(), { sessions: one, session, message: "again" });
    await finish(counting(), { sessions: two, session, message: "and again" });
    expect(await one.state(session)).toEqual({ count: 3 });
  });

  onEveryStore("parallel agents commit nothing more after another process took their turn", async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open();
    const [between, refused] = [gate(), gate()];
    const agent = parallel({
      name: "both",
      agents: [
        talker(
          {
            beforeAgent: async ({ state }) => {
              state["a"] = 1;
              await finish(counting(), { sessions: two, session, message: "between", busy: "take" });
              between.open();
            },
          },
          "a",
        ),
        talker(
          {
            beforeAgent: async ({ state }) => {
              await between.opened;
              state["b"] = 1;
              // The other one is refused at its next commit.
              for (const _ of upTo(50)) await one.info(session);
              refused.open();
            },
          },
          "b",
        ),
      ],
    });
    expect(await codeOf(finish(agent, { sessions: one, session, message: "go" }))).toBe("turn_lost");
    await refused.opened;
    expect(await one.state(session)).toEqual({ count: 1 });
  });

  onEveryStore(
    "SERIAL: fifty concurrent writes of app: keys, by ten users on two engines, all survive",
    async (place) => {
      const engines = [place.engine(), await place.replica()];
      const agent = talker({
        beforeAgent: ({ state }) => {
          state[`app:k${state["n"]}`] = state["n"];
          state[`user:k${state["n"]}`] = state["n"];
        },
      });
      const done = await Promise.all(
        upTo(50).map(async (n) => {
          const sessions = engines[n % 2] as Conversations;
          const { session } = await sessions.open({ user: `user ${n % 10}`, state: { n } });
          return finish(agent, { sessions, session, message: "go" });
        }),
      );
      const state = await (engines[1] as Conversations).state((done[3] as { session: string }).session);
      const app = upTo(50).map((n) => [`app:k${n}`, n]);
      const user = [3, 13, 23, 33, 43].map((n) => [`user:k${n}`, n]);
      expect(state).toEqual({ n: 3, ...Object.fromEntries(app), ...Object.fromEntries(user) });
    },
  );

  onEveryStore(
    "shared state can be assigned and updated by everyone who shares it, whatever others did in the meantime",
    async (place) => {
      const [one, two] = [place.engine(), await place.replica()];
      const state = { "user:gone": 1, "user:list": [1, 2, 3], "app:nested": { a: { b: 1 } }, "user:both": 1 };
      const { session } = await one.open({ user: "ann", state });
      for (const sessions of [one, two]) {
        const other = await sessions.open({ user: "ann", state });
        const removing = talker({
          beforeAgent: ({ state }) => {
            for (const key of ["user:gone", "user:list", "app:nested", "user:both"]) delete state[key];
          },
        });
        const agent = talker({
          beforeAgent: async ({ state, update }) => {
            await finish(removing, { sessions, session: other.session, message: "go" });
            state["user:gone"]++;
            state["user:list"] = [...state["user:list"], 4];
            update("app:nested", (nested = { a: { b: 1 } }) => ({ a: { b: nested.a.b + 1 } }));
            delete state["user:both"];
          },
        });
        expect((await finish(agent, { sessions: one, session, message: "go" })).outcome).toBe("answered");
        const right = { "user:gone": 2, "user:list": [1, 2, 3, 4], "app:nested": { a: { b: 2 } } };
        for (const reader of [one, two, await place.replica()]) {
          expect(await reader.state(session)).toEqual(right);
          expect(await reader.state(other.session)).toEqual(right);
        }
        const last = (await logOf(two, session)).findLast(({ type }) => type === "agent.began");
        expect(last).toHaveProperty("shared");
      }
    },
  );
});

describe("contexts", () => {
  onEveryStore("a context of a finished step refuses writes, and can still be read", async (place) => {
    const sessions = place.engine();
    const kept: { hook: string; state: AgentState }[] = [];
    const keep =
      (hook: string) =>
      ({ state }: AgentContext): void => {
        state[hook] = { list: [] };
        kept.push({ hook, state });
      };
    let update: ((change: (state: AgentState) => void) => void) | undefined;
    const agent = defineAgent({
      name: "talker",
      model: scriptedModel([{ calls: [{ name: "work" }, { name: "aside" }] }, "Done."]),
      tools: {
        work: tool({ description: "Works.", run: ({ state }) => void kept.push({ hook: "tool", state }) }),
        aside: tool<AgentState, undefined>({
          description: "Works.",
          concurrent: true,
          run: (context) => {
            expect(() => ((context.state as AgentState)["x"] = 1)).toThrow("read-only");
            update = context.update;
          },
        }),
      },
      callbacks: {
        beforeAgent: keep("beforeAgent"),
        beforeModel: keep("beforeModel"),
        afterModel: keep("afterModel"),
        beforeTool: keep("beforeTool"),
        afterTool: keep("afterTool"),
        afterAgent: keep("afterAgent"),
      },
    });
    const { session } = await sessions.open({ state: { initial: { list: [] } } });
    await finish(agent, { sessions, session, message: "hi" });
    const { initial, ...before } = await sessions.state(session);
    expect(kept.map(({ hook }) => hook)).toEqual(expect.arrayContaining(["tool", ...Object.keys(before)]));
    for (const { hook, state } of kept) {
      expect(() => (state["late"] = 1), hook).toThrow("has ended");
      expect(() => delete state["beforeAgent"], hook).toThrow("has ended");
      expect(() => state["initial"].list.push(1), hook).toThrow("has ended");
      expect(Object.keys(state)).toContain("beforeAgent");
    }
    expect(() => update?.(() => undefined)).toThrow("after the tool had returned");
    expect(await sessions.state(session)).toEqual({ ...before, initial });
  });

  test("a read-only context refuses writes, with a reason", async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { session } = await sessions.open({ state: { a: { b: 1 } } });
    const refused: string[] = [];
    const agent = defineAgent({
      name: "talker",
      model: scriptedModel(["Done."]),
      instruction: ({ state }) => {
        const writable = state as AgentState;
        const tries = [
          () => (writable["c"] = 1),
          () => (writable["a"].b = 2),
          () => delete writable["a"],
          () => Object.assign(writable, { "temp:x": 1 }),
        ];
        for (const attempt of tries) {
          try {
            attempt();
          } catch (thrown) {
            refused.push((thrown as Error).message);
          }
        }
        return `It is ${state["a"].b}.`;
      },
    });
    expect((await finish(agent, { sessions, session, message: "hi" })).outcome).toBe("answered");
    expect(refused).toEqual(Array(4).fill("this state is read-only here"));
    expect(await sessions.state(session)).toEqual({ a: { b: 1 } });
  });

  test("a context names its turn, and cannot be changed", async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { session } = await sessions.open({ user: "ann" });
    const told: unknown[] = [];
    const agent = talker({
      beforeAgent: (context) => {
        const { agent, session, user, invocation } = context;
        told.push({ agent, session, user, invocation });
        expect(() => ((context as { state: AgentState }).state = {})).toThrow(TypeError);
      },
    });
    const { invocation, outcome } = await finish(agent, { sessions, session, message: "hi" });
    expect(outcome).toBe("answered");
    expect(told).toEqual([{ agent: "talker", session, user: "ann", invocation }]);
  });
});

describe("rewind", () => {
  onEveryStore(
    "restores the session from before an invocation, initial state included; shared state stays",
    async (place) => {
      const sessions = place.engine();
      const { session } = await sessions.open({ state: { initial: { a: 1 }, count: 5 } });
      const agent = talker({
        beforeAgent: ({ state }) => {
          state["count"]++;
          state["added"] = true;
          state["app:seen"] = (state["app:seen"] ?? 0) + 1;
          delete state["initial"];
        },
      });
      const first = await finish(agent, { sessions, session, message: "one" });
      const second = await finish(agent, { sessions, session, message: "two" });
      await sessions.rewind(session, { before: second.invocation });
      expect(await sessions.state(session)).toEqual({ count: 6, added: true, "app:seen": 2 });
      await sessions.rewind(session, { before: first.invocation });
      const other = await place.replica();
      expect(await other.state(session)).toEqual({ initial: { a: 1 }, count: 5, "app:seen": 2 });
      expect(await codeOf(other.rewind(session, { before: first.invocation }))).toBe("version_not_found");
      // The log only grows, and the model is shown the current history.
      const log = await logOf(other, session);
      expect(log.filter(({ type }) => type === "session.rewound")).toHaveLength(2);
      const shown: number[] = [];
      const looking = talker({ beforeModel: (_, { input }) => void shown.push(input.length) });
      await finish(looking, { sessions: other, session, message: "three" });
      expect(shown).toEqual([1]);
      expect((await logOf(sessions, session)).slice(0, log.length)).toEqual(log);
    },
  );

  onEveryStore("of an interrupted invocation leaves nothing to resume", async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    const { invocation } = await finish(
      talker({
        afterAgent: () => {
          throw new Error("no");
        },
      }),
      { sessions, session, message: "hi" },
    );
    await sessions.rewind(session, { before: invocation });
    expect(await codeOf(finish(talker(), { sessions, session }))).toBe("nothing_to_continue");
  });
});

describe("a run", () => {
  test("without a message refuses a state change, which no event would carry", async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    expect(await codeOf(finish(talker(), { sessions, stateDelta: { a: 1 } }))).toBe("invalid_option");
  });

  test("that is cancelled while it enters the session does not start", async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { session } = await sessions.open();
    const controller = new AbortController();
    const running = run(talker(), { sessions, session, message: "hi", signal: controller.signal });
    const first = running.next();
    controller.abort();
    expect(await codeOf(first)).toBe("run_cancelled");
    expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened"]);
    expect((await finish(talker(), { sessions, session, message: "hi", busy: "refuse" })).outcome).toBe("answered");
  });

  onEveryStore(
    "keeps its messages if it fails: dangling calls of an interrupted run are closed for the model",
    async (place) => {
      const sessions = place.engine();
      const { session } = await sessions.open();
      const controller = new AbortController();
      const shown: unknown[] = [];
      const agent = defineAgent({
        name: "worker",
        model: scriptedModel(({ input }, turn) => {
          shown.push(input.map(({ type }) => type));
          return turn === 0 ? { calls: [{ name: "work" }] } : "Done.";
        }),
        tools: { work: tool({ description: "Works.", run: () => controller.abort() }) },
      });
      expect(await codeOf(finish(agent, { sessions, session, message: "hi", signal: controller.signal }))).toBe(
        "run_cancelled",
      );
      await finish(agent, { sessions, session, message: "and now?" });
      expect(shown).toEqual([["message"], ["message", "function_call", "function_call_output", "message"]]);
    },
  );
});
