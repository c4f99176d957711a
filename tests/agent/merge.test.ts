// Two writers of one value: sessions that share it, in one process or two, and parallel agents.
// The rows are those of docs/agents.md: merged, replaced, and refused changes.
import {
  createSessions,
  defineAgent,
  memoryStore,
  parallel,
  scriptedModel,
  tool,
  type Agent,
  type AgentContext,
  type Conversations,
  type AgentState,
  type Callbacks,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { fileAt, tableIn } from "../files.ts";
import { finish, gate, logOf, onEveryStore, type Committed, type Place } from "./engine.ts";

type Write = (context: AgentContext, key: string) => void;

interface Row {
  /** The cells of the table. */
  both: string;
  kept: string;
  told: string;
  value: unknown;
  first: Write;
  second: Write;
  /** The value after both; that of the first alone if the second is refused. */
  after: unknown;
  overwrote?: string;
  refused?: string;
}

const rows: Row[] = [
  {
    both: "different keys of an object, at any depth",
    kept: "both changes",
    told: "",
    value: { x: { a: 1 }, gone: 1 },
    first: ({ state }, key) => (state[key].x.b = 2),
    second: ({ state }, key) => (state[key].x.a++, delete state[key].gone),
    after: { x: { a: 2, b: 2 } },
  },
  {
    both: "a list, by adding elements to its end",
    kept: "both changes",
    told: "",
    value: { list: [1] },
    first: ({ state }, key) => state[key].list.push("first"),
    second: ({ state }, key) => state[key].list.push("second"),
    after: { list: [1, "first", "second"] },
  },
  {
    both: "a key, with `update(key, …)`",
    kept: "both changes: the function runs again on the newest value",
    told: "",
    value: 1,
    first: ({ update }, key) => update(key, (n) => n + 10),
    second: ({ update }, key) => update(key, (n) => n * 2),
    after: 22,
  },
  {
    both: "the same key, by assigning or removing it",
    kept: "the last commit",
    told: "`overwrote` in its event",
    value: { n: 1 },
    first: ({ state }, key) => state[key].n++,
    second: ({ state }, key) => state[key].n++,
    after: { n: 2 },
    overwrote: "/n",
  },
  {
    both: "a list in any other way: an element changed, removed or inserted",
    kept: "the first commit",
    told: "`state_conflict`",
    value: [{ id: "x" }, { id: "y" }, { id: "z" }],
    first: ({ state }, key) => state[key].shift(),
    second: ({ state }, key) => (state[key][1].done = true),
    after: [{ id: "y" }, { id: "z" }],
    refused: "",
  },
  {
    both: "part of a value that the other writer removed or replaced",
    kept: "the first commit",
    told: "`state_conflict`",
    value: { x: { a: 1 } },
    first: ({ state }, key) => (state[key].x = "none"),
    second: ({ state }, key) => (state[key].x.b = 2),
    after: { x: "none" },
    refused: "/x",
  },
];

/** Variants of the last row, which the table does not list one by one. */
const replacing: Row[] = [
  {
    ...(rows.at(-1) as Row),
    both: "part of an object that the other writer replaced with another object",
    first: ({ state }, key) => (state[key].x = { a: 2 }),
    after: { x: { a: 2 } },
  },
  {
    ...(rows.at(-1) as Row),
    both: "part of a key's object that the other writer replaced with another object",
    first: ({ state }, key) => (state[key] = { x: { a: 1 }, y: 1 }),
    after: { x: { a: 1 }, y: 1 },
    refused: "",
  },
];

const talker = (name: string, callbacks: Callbacks): Agent =>
  defineAgent({ name, model: scriptedModel(() => "Well."), callbacks });

/** Both see the value; the first commits before the second. */
async function between(
  sessions: [Conversations, Conversations],
  key: string,
  value: unknown,
  first: Write,
  second: Write,
) {
  const opened = await sessions[0].open({ user: "ann", state: { [key]: value } });
  const other = await sessions[1].open({ user: "ann" });
  let isFirst = true;
  const before = talker("early", { beforeAgent: (context) => void first(context, key) });
  const agent = talker("late", {
    beforeAgent: async (context) => {
      void context.state[key];
      if (isFirst) await finish(before, { sessions: sessions[1], session: other.session, message: "go" });
      isFirst = false;
      second(context, key);
    },
  });
  const run = await finish(agent, { sessions: sessions[0], session: opened.session, message: "go" });
  return { ...run, agent, other: other.session, state: await sessions[1].state(other.session) };
}

for (const { both, value, first, second, after, overwrote, refused } of [...rows, ...replacing]) {
  onEveryStore(`SERIAL: two sessions that change ${both}`, async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    for (const other of [one, two]) {
      for (const key of ["user:v", "app:v"]) {
        const run = await between([one, other], key, value, first, second);
        expect(run.state[key]).toEqual(after);
        const last = run.events.at(refused === undefined ? 1 : -1);
        if (overwrote === undefined) expect(last).not.toHaveProperty("overwrote");
        else expect(last).toMatchObject({ type: "agent.began", overwrote: [`/${key}${overwrote}`] });
        expect(run.outcome).toBe(refused === undefined ? "answered" : "failed");
        if (refused === undefined) continue;
        const { error } = last as { error: { code: string; message: string } };
        expect(error.code).toBe("state_conflict");
        const writer = key === "user:v" ? `session ${run.other}` : "another session (version";
        expect(error.message).toContain(`agent late and ${writer}`);
        expect(error.message).toContain(`changed /${key}${refused} at the same time; use update("${key}", …)`);
        // A session id opens the session, so ids of other users are not shown.
        expect(error.message.includes(run.other)).toBe(key === "user:v");
      }
    }
  });

  test(`SERIAL: parallel agents that change ${both}`, async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    const { session } = await sessions.open({ state: { v: value } });
    const committed = gate();
    const agents = [
      talker("late", {
        beforeAgent: async (context) => {
          second(context, "v");
          await committed.opened;
        },
      }),
      talker("early", { beforeAgent: (context) => void first(context, "v"), afterAgent: () => committed.open() }),
    ];
    const { events, outcome } = await finish(parallel({ name: "p", agents }), { sessions, session, message: "go" });
    expect((await sessions.state(session))["v"]).toEqual(after);
    expect(outcome).toBe(refused === undefined ? "answered" : "failed");
    const told = (events as Committed[]).flatMap((event) => event.overwrote ?? []);
    expect(told).toEqual(overwrote === undefined ? [] : [`/v${overwrote}`]);
    const failed = (events as Committed[]).flatMap((event) => (event.type === "agent.failed" ? [event.error] : []));
    const message = expect.stringContaining(`agent late and agent early changed /v${refused}`) as string;
    expect(failed).toEqual(refused === undefined ? [] : [{ code: "state_conflict", message }]);
  });
}

for (const { both, value, first, second, after, refused } of [...rows, ...replacing]) {
  test(`SERIAL: a session and an agent that change ${both}, after another agent's commit`, async () => {
    const sessions = createSessions({ app: "app", store: memoryStore() });
    for (const key of ["user:v", "app:v"]) {
      const { session } = await sessions.open({ user: key, state: { [key]: value } });
      const other = await sessions.open({ user: key });
      const before = talker("early", { beforeAgent: (context) => void first(context, key) });
      const [begun, committed] = [gate(), gate()];
      const agents = [
        talker("late", {
          beforeAgent: async (context) => {
            second(context, key);
            begun.open();
            await committed.opened;
          },
        }),
        // Its commit reads the other session's change, which the first agent has not seen.
        talker("beside", {
          beforeAgent: async ({ state }) => {
            await begun.opened;
            await finish(before, { sessions, session: other.session, message: "go" });
            state[`${key}:beside`] = true;
          },
          afterAgent: () => committed.open(),
        }),
      ];
      const run = await finish(parallel({ name: "p", agents }), { sessions, session, message: "go" });
      expect((await sessions.state(session))[key]).toEqual(after);
      expect(run.outcome).toBe(refused === undefined ? "answered" : "failed");
      const failed = (run.events as Committed[]).find((event) => event.type === "agent.failed");
      if (refused === undefined) continue;
      const writer = key === "user:v" ? `session ${other.session}` : "another session (version";
      expect(failed).toMatchObject({ agent: "late", error: { code: "state_conflict" } });
      expect(failed?.error.message).toContain(`agent late and ${writer}`);
    }
  });
}

test("the table in docs/agents.md is that of the tests", () => {
  expect(tableIn(fileAt("docs/agents.md").text, "both writers change", "result")).toEqual(
    rows.map(({ both, kept, told }) => [both, kept, told]),
  );
});

onEveryStore("SERIAL: a refused step is retried on the new value by a run without a message", async (place) => {
  const [one, two] = [place.engine(), await place.replica()];
  const taken: string[] = [];
  const take: Write = ({ state }, key) => taken.push(state[key].shift());
  const run = await between([one, two], "app:jobs", ["job1", "job2", "job3"], take, take);
  expect(run.outcome).toBe("failed");
  expect((await finish(run.agent, { sessions: one, session: run.session })).outcome).toBe("answered");
  expect(taken).toEqual(["job1", "job1", "job2"]);
  expect((await two.state(run.session))["app:jobs"]).toEqual(["job3"]);
});

describe("100 concurrent updates of one key", () => {
  const count = (n = 0): number => n + 1;

  async function hundred(place: Place, agent: () => Agent): Promise<AgentState> {
    const engines = [place.engine(), await place.replica()];
    const done = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        finish(agent(), { sessions: engines[n % 2] as Conversations, user: "ann", message: "go" }),
      ),
    );
    for (const { outcome } of done) expect(outcome).toBe("answered");
    const log = await logOf(engines[0] as Conversations, (done[0] as { session: string }).session);
    expect(log.some((event) => "overwrote" in event || "refused" in event)).toBe(false);
    return (engines[1] as Conversations).state((done[0] as { session: string }).session);
  }

  onEveryStore("SERIAL: by callbacks of sessions in two processes count 100", async (place) => {
    const state = await hundred(place, () =>
      talker("counter", {
        beforeAgent: ({ update }) => {
          update("user:n", count);
          update("app:n", count);
        },
      }),
    );
    expect(state).toEqual({ "user:n": 100, "app:n": 100 });
  });

  onEveryStore("SERIAL: by tools of every kind count 100 each", async (place) => {
    const kinds = { own: {}, aside: { concurrent: true }, away: { effects: "external" } };
    const state = await hundred(place, () =>
      defineAgent({
        name: "counter",
        model: scriptedModel([{ calls: Object.keys(kinds).map((name) => ({ name })) }, "Done."]),
        tools: Object.fromEntries(
          Object.entries(kinds).map(([name, kind]) => [
            name,
            tool({
              description: "Counts.",
              ...kind,
              run: ({ update }: Pick<AgentContext, "update">) => update(`app:${name}`, count),
            } as never),
          ]),
        ),
      }),
    );
    expect(state).toEqual({ "app:own": 100, "app:aside": 100, "app:away": 100 });
  });
});

onEveryStore(
  "SERIAL: a tool whose write is refused has failed, and the model reads why; other writes are kept",
  async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open({ user: "ann", state: { "user:list": [1, 2] } });
    const other = await two.open({ user: "ann" });
    const removing = talker("early", { beforeAgent: ({ state }) => void state["user:list"].shift() });
    const agent = defineAgent({
      name: "late",
      model: scriptedModel([{ calls: ["wait", "change", "aside", "fine"].map((name) => ({ name })) }, "Done."]),
      tools: {
        wait: tool<AgentState, undefined>({
          description: "",
          run: async () => void (await finish(removing, { sessions: two, session: other.session, message: "go" })),
        }),
        change: tool<AgentState, undefined>({
          description: "",
          run: ({ state }) => {
            state["changed"] = true;
            state["user:list"][1] = 9;
          },
        }),
        aside: tool<AgentState, undefined>({ description: "", concurrent: true, run: () => "has happened" }),
        fine: tool<AgentState, undefined>({ description: "", run: ({ state }) => void (state["user:fine"] = true) }),
      },
      callbacks: {
        beforeTool: ({ state }, { tool: name }) => {
          state[`before_${name}`] = true;
          if (name === "aside") state["user:list"].splice(0, 1);
        },
      },
    });
    const { events, outcome } = await finish(agent, { sessions: one, session, message: "go" });
    expect(outcome).toBe("answered");
    const answered = (events as Committed[]).find((event) => event.type === "tools.answered");
    const message = `agent late and session ${other.session} changed /user:list at the same time; use update("user:list", …)`;
    expect(answered).toMatchObject({
      items: [
        {},
        { output: JSON.stringify({ error: { code: "state_conflict", message } }) },
        { output: "has happened" },
        {},
      ],
      failed: [{ call: "call_0_1", code: "state_conflict", message }],
      refused: [{ call: "call_0_2", path: "/user:list", message }],
    });
    expect(await two.state(session)).toEqual({
      before_wait: true,
      before_fine: true,
      "user:list": [2],
      "user:fine": true,
    });
  },
);

onEveryStore("TEMP: writes of a refused step are not kept, also temporary ones", async (place) => {
  const sessions = place.engine();
  const seen: unknown[] = [];
  const write: Write = ({ state }, key) => {
    seen.push(state["temp:n"]);
    state["temp:n"] = 1;
    state[key].shift();
  };
  const { session, outcome } = await between([sessions, sessions], "user:list", [1, 2], write, write);
  expect(outcome).toBe("failed");
  expect(seen).toEqual([undefined, undefined]);
  expect(JSON.stringify(await logOf(sessions, session))).not.toContain("temp:");
});

onEveryStore("SERIAL: an update of a key that was also assigned in the same callback replaces it", async (place) => {
  const [one, two] = [place.engine(), await place.replica()];
  const first: Write = ({ state }, key) => (state[key] = 100);
  const mixed: Write[] = [
    ({ state, update }, key) => ((state[key] = 5), update(key, (n) => n + 1)),
    ({ state, update }, key) => (update(key, (n) => n + 1), (state[key] = 6)),
  ];
  for (const second of mixed) {
    const { state, events } = await between([one, two], "user:v", 1, first, second);
    expect(state["user:v"]).toBe(6);
    expect(events[1]).toMatchObject({ overwrote: ["/user:v"] });
  }
});

test("a step that changes very many keys commits", async () => {
  const agent = defineAgent({
    name: "filler",
    model: scriptedModel(["Filled."]),
    callbacks: {
      beforeAgent: ({ state }) => {
        for (let index = 0; index < 150_000; index++) state["map"][`k${index}`] = index;
      },
    },
  });
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open({ state: { map: {} } });
  await finish(agent, { sessions, session, message: "go", throwOnFailure: true });
  expect(Object.keys((await sessions.state(session))["map"])).toHaveLength(150_000);
});
