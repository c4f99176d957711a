// Errors of an author's code: the log keeps where they were thrown, people see it, and models do not.
import { createSessions, defineEnvironment, HoldfastError, memoryStore, refuse, tool, type Thrown } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { fileURLToPath } from "node:url";
import { describeThrown, isOwnFault, thrownIn } from "../../src/session/thrown.ts";

function broken(): never {
  const nothing = undefined as unknown as { foo: { bar: number } };
  return nothing.foo.bar as never;
}

const environment = defineEnvironment({
  name: "dice",
  state: z.object({ sum: z.number().default(0) }),
  task: z.object({ seedFails: z.boolean().default(false) }),
  seed: ({ task }) => (task.seedFails ? broken() : { sum: 0 }),
  tools: {
    roll: tool({ description: "Roll.", run: () => broken() }),
    later: tool({ description: "Roll later.", concurrent: true, run: ({ update }) => update(() => broken()) }),
    send: tool({
      description: "Send.",
      effects: "external",
      run: async () => {
        await Promise.resolve();
        throw new Error("no route");
      },
    }),
    word: tool({
      description: "Throws a word.",
      run: () => {
        // eslint-disable-next-line no-throw-literal, typescript/only-throw-error -- authors do
        throw "sorry";
      },
    }),
  },
  verify: () => broken(),
});

const place = (name: string): RegExp => new RegExp(`^${name} \\(tests/session/thrown\\.test\\.ts:\\d+\\)$`);

async function opened() {
  const reported: [string, string][] = [];
  const onError = ({ error, place: at }: Thrown, session: string): void =>
    void reported.push([`${error} in ${at}`, session]);
  const sessions = createSessions({ environment, store: memoryStore(), onError });
  const { session } = await sessions.open({ task: {} });
  const last = async () => {
    let found;
    for await (const event of sessions.events(session)) found = event;
    return found as { type: string; outcome?: unknown; thrown?: Thrown };
  };
  return { sessions, session, last, reported };
}

describe("a tool that throws", () => {
  test.each([
    ["roll", /^TypeError: Cannot read properties of undefined/],
    ["later", /^TypeError: Cannot read properties of undefined/],
    ["send", /^Error: no route$/],
  ] as const)("%s leaves its error, its line and its stack in the event", async (name, error) => {
    const { sessions, session, last, reported } = await opened();
    const answer = await sessions.call(session, name, {}, { call: "c1" });
    const { thrown, outcome } = await last();
    expect(thrown?.error).toMatch(error);
    expect(thrown?.place).toMatch(place(name));
    expect(thrown?.stack).toMatch(/^\S+: .*\n {4}at .*tests\/session\/thrown\.test\.ts:\d+:\d+/);
    expect(thrown?.stack).not.toContain("src/session");
    expect(JSON.stringify(outcome)).not.toContain("thrown.test");
    expect(answer).toMatchObject({ ok: false, thrown });
    const again = await sessions.call(session, name, {}, { call: "c1" });
    expect(again).toEqual({ ...answer, repeated: true });
    expect(reported).toEqual([[`${thrown?.error} in ${thrown?.place}`, session]]);
    expect(await sessions.replay(session)).toMatchObject({ same: true });
  });

  test("a word instead of an error has only the tool as its place", async () => {
    const { sessions, session, last } = await opened();
    await sessions.call(session, "word");
    expect((await last()).thrown).toEqual({ error: "sorry", place: "word" });
  });
});

describe("a tool that refuses", () => {
  const shop = defineEnvironment({
    name: "shop",
    state: z.object({ sold: z.number().default(0) }),
    task: z.object({ in: z.enum(["seed", "verify", "none"]).default("none") }),
    seed: ({ task }) => {
      if (task.in === "seed") throw refuse("closed");
      return { sold: 0 };
    },
    tools: {
      buy: tool({
        description: "Buy.",
        run: ({ state, log }) => {
          state.sold += 1;
          log("sold out");
          throw refuse("out of stock");
        },
      }),
      order: tool({
        description: "Order.",
        concurrent: true,
        run: ({ update }) =>
          update(() => {
            throw refuse("out of stock");
          }),
      }),
      pay: tool({ description: "Pay.", effects: "external", run: () => Promise.reject(refuse("out of stock")) }),
      wrap: tool({
        description: "Fails inside.",
        run: () => {
          throw new HoldfastError("tool_failed", "the parser failed", { cause: new TypeError("not a number") });
        },
      }),
    },
    verify: ({ task }) => {
      if (task.in === "verify") throw refuse("no reward");
      return 1;
    },
  });

  async function refusing() {
    const reported: Thrown[] = [];
    const sessions = createSessions({
      environment: shop,
      store: memoryStore(),
      onError: (error) => void reported.push(error),
    });
    return { sessions, reported, ...(await sessions.open({ task: {} })) };
  }

  test.each(["buy", "order", "pay"] as const)("%s answers with the message, and reports no error", async (name) => {
    const { sessions, session, reported } = await refusing();
    const answer = await sessions.call(session, name, {}, { call: "c1" });
    expect(answer).toMatchObject({ ok: false, error: { code: "tool_failed", message: "out of stock" } });
    expect(answer).not.toHaveProperty("thrown");
    expect(await sessions.call(session, name, {}, { call: "c1" })).toEqual({ ...answer, repeated: true });
    const events: unknown[] = [];
    for await (const event of sessions.events(session)) events.push(event);
    expect(events.at(-1)).toMatchObject({ outcome: { ok: false } });
    expect(JSON.stringify(events)).not.toContain("thrown");
    expect(await sessions.state(session)).toEqual({ sold: 0 });
    expect(await sessions.replay(session)).toMatchObject({ same: true });
    expect(reported).toEqual([]);
  });

  test("an error with a cause is still reported", async () => {
    const { sessions, session, reported } = await refusing();
    expect(await sessions.call(session, "wrap")).toMatchObject({ ok: false, error: { message: "the parser failed" } });
    expect(reported).toMatchObject([{ error: "tool_failed: the parser failed" }]);
  });

  test("a seed or a verify cannot refuse: its error is a failure", async () => {
    const { sessions, reported } = await refusing();
    await expect(sessions.open({ task: { in: "seed" } })).rejects.toMatchObject({ code: "seed_failed" });
    const { session } = await sessions.open({ task: { in: "verify" } });
    await expect(sessions.verify(session)).rejects.toMatchObject({ code: "verify_failed" });
    expect(reported.map(({ error }) => error)).toEqual(["tool_failed: closed", "tool_failed: no reward"]);
  });
});

test("a seed and a verify that throw are described by their error, and reported", async () => {
  const { sessions, session, reported } = await opened();
  const thrownBy = (work: Promise<unknown>) => work.then(() => undefined, thrownIn);
  const seeding = await thrownBy(sessions.seed(session, { seedFails: true }));
  const opening = await thrownBy(sessions.open({ task: { seedFails: true } }));
  const verifying = await thrownBy(sessions.verify(session));
  expect(seeding?.place).toMatch(place("seed"));
  expect(opening?.place).toMatch(place("seed"));
  expect(verifying?.place).toMatch(place("verify"));
  expect(reported.map(([text]) => text)).toEqual(
    [seeding, opening, verifying].map((t) => `${t?.error} in ${t?.place}`),
  );
});

describe("a description", () => {
  test("names causes, and is limited in size", () => {
    const cause = new RangeError("too far");
    const { stack = "" } = describeThrown(new Error("outer", { cause }), "roll");
    expect(stack).toMatch(/^Error: outer\n {4}at [\s\S]+\ncaused by RangeError: too far\n {4}at /);
    const long = describeThrown(new Error("x".repeat(100_000)), "roll");
    expect(JSON.stringify(long).length).toBeLessThan(6_000);
  });

  test("takes linear time for a message with any input in it", () => {
    for (const hostile of [" ".repeat(500_000), "\n ".repeat(250_000), `\n    at a (${"/a:1".repeat(100_000)}`]) {
      const { error, stack = "" } = describeThrown(new Error(`no book called ${hostile}x`), "find");
      expect(error.length).toBeLessThanOrEqual(501);
      expect(stack).toContain("thrown.test.ts");
    }
  });

  test("survives an error whose stack cannot be read", () => {
    const odd = Object.defineProperty(new Error("odd"), "stack", {
      get() {
        throw new Error("no stack");
      },
    });
    expect(describeThrown(odd, "roll")).toEqual({ error: "Error: odd", place: "roll" });
  });

  test("shows no path of files outside the working directory in its place", () => {
    const elsewhere = new Error("no");
    elsewhere.stack = "Error: no\n    at run (/srv/secret/environment.ts:12:5)\n    at /srv/x.ts:1:1";
    expect(describeThrown(elsewhere, "roll").place).toBe("roll (environment.ts:12)");
  });
});

test.each([
  ["Holdfast's code alone", false, ["src/session/call.ts"], true],
  ["an author's code", false, ["examples/counter/environment.ts"], false],
  ["Holdfast's code, called by an author's", false, ["src/session/call.ts", "examples/counter/environment.ts"], false],
  ["an author's package, called by Holdfast", false, ["node_modules/my-env/index.js", "src/session/call.ts"], false],
  ["no code", false, [], false],
  ["Holdfast, on purpose", true, ["src/session/call.ts"], false],
])("an error thrown by %s: whether it is a bug of Holdfast", (_, isCoded, files, expected) => {
  const error = isCoded ? new HoldfastError("store_failed", "no") : new Error("no");
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const frames = ["node:internal/timers", ...files.map((file) => root + file)].map(
    (path) => `    at run (${path}:1:2)`,
  );
  error.stack = ["Error: no", ...frames].join("\n");
  expect(isOwnFault(error)).toBe(expected);
});
