// The verbs of every session, on episodes and on conversations alike: one list of tests for both.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  memoryStore,
  run,
  scriptedModel,
  tool,
  type Conversations,
  type Episodes,
  type Labels,
  type Store,
} from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Limits } from "../../src/session/limits.ts";
import { everyStore } from "../every-store.ts";
import { clock } from "./clock.ts";

interface Options {
  limits?: Limits;
  keepEnded?: boolean;
}

/** An engine of one kind, and one step of its sessions: it adds 1 to `n`. */
interface Kind {
  create(store: Store, options?: Options): Episodes | Conversations;
  step(sessions: Episodes | Conversations, session: string): Promise<unknown>;
}

const count = ({ state }: { state: { n?: number } }): number => (state.n = (state.n ?? 0) + 1);
const environment = defineEnvironment({
  name: "count",
  state: z.object({ n: z.number().optional() }),
  tools: { count: tool({ description: "Counts.", run: count }) },
});
const agent = defineAgent({
  name: "count",
  model: scriptedModel(({ input }) => (input.at(-1)?.type === "message" ? { calls: [{ name: "count" }] } : "Done.")),
  tools: { count: tool({ description: "Counts.", run: count as never }) },
});

const kinds: [string, Kind][] = [
  [
    "an episode",
    {
      create: (store, options) => createSessions({ environment, store, ...options }) as unknown as Episodes,
      step: (sessions, session) => (sessions as Episodes).call(session, "count"),
    },
  ],
  [
    "a conversation",
    {
      create: (store, options) => createSessions({ app: "count", agent, store, ...options }),
      async step(sessions, session) {
        const running = run(agent, { sessions: sessions as Conversations, session, message: "count" });
        for await (const _ of running) continue;
      },
    },
  ],
];

interface Opened extends Pick<Kind, "create"> {
  sessions: Episodes | Conversations;
  step(session: string): Promise<unknown>;
  /** The `n` of the state. */
  n(session: string, version?: number): Promise<number>;
}

/** Runs a test on episodes and on conversations, on every kind of store. */
function onEveryStore(title: string, body: (opened: Opened) => Promise<void>, options: Options = {}): void {
  for (const { name, tags, open } of everyStore) {
    describe(`on ${name}`, { tags }, () => {
      test.each(kinds)(`${title} (%s)`, async (_, kind) => {
        const storage = await open();
        const sessions = kind.create(storage.store, { keepEnded: true, ...options });
        onTestFinished(async () => {
          await sessions.stop();
          await storage.dispose();
        });
        const n = async (session: string, version?: number): Promise<number> =>
          ((await sessions.state(session, version)) as { n?: number } | null)?.n ?? 0;
        await body({ sessions, n, create: kind.create, step: (session) => kind.step(sessions, session) });
      });
    });
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const refusal = (code: string): { code: string } => ({ code });

onEveryStore("FORK: a session is forked at a version, and neither affects the other", async ({ sessions, step, n }) => {
  const { session } = await sessions.open();
  await step(session);
  const { version } = await sessions.info(session);
  await step(session);
  const fork = await sessions.fork(session, { version });
  expect(fork.parent).toMatchObject({ session, version });
  expect([await n(session), await n(fork.session)]).toEqual([2, 1]);
  await step(fork.session);
  await step(fork.session);
  await sessions.close(session);
  expect([await n(session), await n(fork.session)]).toEqual([2, 3]);
  await expect(sessions.fork(session, { version: 999 })).rejects.toMatchObject(refusal("version_not_found"));
  await expect(sessions.fork("nobody")).rejects.toMatchObject(refusal("session_not_found"));
});

onEveryStore("a session is rewound to a version by one more event", async ({ sessions, step, n }) => {
  const { session } = await sessions.open();
  await step(session);
  const { version } = await sessions.info(session);
  await step(session);
  const before = await sessions.info(session);
  const info = await sessions.rewind(session, version);
  expect(info.version).toBe(before.version + 1);
  expect([await n(session), await n(session, before.version)]).toEqual([1, 2]);
  await step(session);
  expect(await n(session)).toBe(2);
  await expect(sessions.rewind(session, 999)).rejects.toMatchObject(refusal("version_not_found"));
  await sessions.close(session);
  await expect(sessions.rewind(session, version)).rejects.toMatchObject(refusal("session_closed"));
});

onEveryStore("REPLAY: a session replays the same, with a rewind and an end in its log", async ({ sessions, step }) => {
  const { session } = await sessions.open();
  await step(session);
  await sessions.rewind(session, 1);
  await step(session);
  await sessions.close(session);
  const { version } = await sessions.info(session);
  expect(await sessions.replay(session)).toEqual({ same: true, events: version });
  expect((await sessions.info(session)).version).toBe(version);
  await expect(sessions.replay("nobody")).rejects.toMatchObject(refusal("session_not_found"));
});

onEveryStore("CLEANUP: a session ends once by close, and closing a missing one is fine", async ({ sessions, step }) => {
  const { session } = await sessions.open();
  await step(session);
  expect(await Promise.all([1, 2].map(() => sessions.close(session)))).toEqual([true, false]);
  expect(await sessions.close("nobody")).toBe(false);
  await expect(step(session)).rejects.toMatchObject(refusal("session_closed"));
  expect((await sessions.info(session)).ended).toBe("closed");
});

for (const [reason, limits] of [
  ["idle", { idle: 1000 }],
  ["age", { age: 1000 }],
] as const) {
  onEveryStore(
    `CLEANUP: a session ends by its limit of ${reason}`,
    async ({ sessions, step }) => {
      const now = clock();
      const { session } = await sessions.open();
      now.pass(600);
      await step(session);
      expect(await sessions.expire()).toBe(0);
      now.pass(1100);
      expect(await sessions.expire()).toBe(1);
      expect((await sessions.info(session)).ended).toBe(reason);
      await expect(step(session)).rejects.toMatchObject(refusal("session_closed"));
    },
    { limits },
  );
}

onEveryStore(
  "CLEANUP: the session that was idle for longest makes room",
  async ({ sessions, step }) => {
    const now = clock();
    const ids: string[] = [];
    for (let at = 0; at < 3; at++) {
      ids.push((await sessions.open()).session);
      now.pass(1);
      if (at === 1) await step(ids[0] as string);
      now.pass(1);
    }
    expect((await sessions.info(ids[1] as string)).ended).toBe("capacity");
    const open = await all(sessions.list({ open: true }));
    expect(open.map(({ session }) => session)).toEqual([ids[0], ids[2]]);
  },
  { limits: { sessions: 2 } },
);

onEveryStore("sessions are listed by label, by whether they are open, and after a cursor", async ({ sessions }) => {
  const open = async (labels: Labels): Promise<string> => (await sessions.open({ labels })).session;
  const a = await open({ topic: "bill" });
  const b = await open({ topic: "trip" });
  const c = await open({ topic: "bill", level: 2 });
  await sessions.close(a);
  const ids = async (filter: object): Promise<string[]> =>
    (await all(sessions.list(filter))).map(({ session }) => session);
  expect((await ids({})).toSorted()).toEqual([a, b, c].toSorted());
  expect((await ids({ labels: { topic: "bill" } })).toSorted()).toEqual([a, c].toSorted());
  expect(await ids({ labels: { topic: "bill", level: 2 } })).toEqual([c]);
  expect(await ids({ labels: { topic: "bill" }, open: true })).toEqual([c]);
  const [first, ...rest] = await ids({});
  expect(await ids({ after: first })).toEqual(rest);
});

onEveryStore(
  "a session is saved as data and restored, in this store and in another",
  async ({ sessions, step, n, create }) => {
    const { session } = await sessions.open();
    await step(session);
    const saved = JSON.parse(JSON.stringify(await sessions.save(session))) as never;
    const restored = await sessions.restore(saved);
    expect(restored).toMatchObject({ version: (await sessions.info(session)).version });
    await step(restored.session);
    expect([await n(session), await n(restored.session)]).toEqual([1, 2]);
    expect(await sessions.replay(restored.session)).toMatchObject({ same: true });
    const elsewhere = create(memoryStore());
    const moved = await elsewhere.restore(saved);
    expect(await elsewhere.state(moved.session)).toEqual(await sessions.state(session));
    expect(await elsewhere.replay(moved.session)).toMatchObject({ same: true });
    await elsewhere.stop();
  },
);

onEveryStore("every verb is refused once the engine has stopped", async ({ sessions, step }) => {
  const { session } = await sessions.open();
  await sessions.stop();
  for (const verb of [step(session), sessions.info(session), sessions.replay(session), sessions.fork(session)]) {
    await expect(verb).rejects.toMatchObject(refusal("engine_stopped"));
  }
});

test("episodes and conversations have the same shared verbs", async () => {
  const [episodes, conversations] = kinds.map(([, { create }]) => create(memoryStore())) as [object, object];
  const own = new Set([
    "environment",
    "seed",
    "call",
    "askModel",
    "verify",
    "rewards",
    "app",
    "update",
    "label",
    "cancel",
    "enter",
  ]);
  const shared = (sessions: object): string[] =>
    Object.keys(sessions)
      .filter((verb) => !own.has(verb))
      .toSorted();
  expect(shared(episodes)).toEqual(shared(conversations));
});
