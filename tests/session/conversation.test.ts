// Conversations as logs: the speaker and the open turn are known without reading them, also for logs of older versions.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessions, defineAgent, memoryStore, run, scriptedModel, tool, type Model, type Store } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { expect, test } from "vitest";
import { codeOf, finish, logOf } from "../agent/engine.ts";
import { heapInUse } from "./heap.ts";

/** A store that keeps only the fields that older versions wrote. */
function asBefore(store: Store): Store {
  const without = (body: string): string => {
    const { conversation: _, ...rest } = JSON.parse(body) as { conversation?: unknown };
    return JSON.stringify(rest);
  };
  return {
    ...store,
    append: (first, ...others) => {
      const [one, ...rest] = [first, ...others].map((commit) => ({
        ...commit,
        entries: commit.entries.map((entry) => ({ ...entry, body: without(entry.body) })) as typeof commit.entries,
        ...(commit.snapshot && { snapshot: { ...commit.snapshot, body: without(commit.snapshot.body) } }),
      }));
      return store.append(one as typeof first, ...rest);
    },
  };
}

const notes = tool({
  description: "Writes.",
  run: ({ state }) => {
    (state as { text: string }).text = "x".repeat(20_000);
    return "written";
  },
});
const writes = { calls: [{ name: "notes" }] };

test("a conversation with snapshots and rewinds of an older version continues where it was", async () => {
  const store = memoryStore();
  const before = createSessions({ app: "app", store: asBefore(store) });
  const billing = defineAgent({ name: "billing", model: scriptedModel(Array(20).fill("Paid.")) });
  const transfer = { calls: [{ name: "transfer_to_agent", arguments: { agent: "billing" } }] };
  const script = [...Array.from({ length: 6 }, () => [writes, "Noted."]).flat(), transfer];
  const host = defineAgent({ name: "host", model: scriptedModel(script), tools: { notes }, agents: [billing] });
  const { session } = await before.open();
  for (let turn = 0; turn < 6; turn++) await finish(host, { sessions: before, session, message: "note" });
  await finish(host, { sessions: before, session, message: "pay" });
  // A turn that is interrupted, abandoned for another one, and returned to.
  for await (const { type } of run(host, { sessions: before, session, message: "cut" })) {
    if (type === "invocation.began") break;
  }
  const { invocation } = await finish(host, { sessions: before, session, message: "next" });
  await before.rewind(session, { before: invocation });
  const stored = await store.load(session);
  expect(stored?.snapshot).toBeDefined();

  const sessions = createSessions({ app: "app", store });
  const { outcome, events } = await finish(host, { sessions, session });
  expect(outcome).toBe("answered");
  expect(events.map((event) => "agent" in event && event.agent)).toEqual(["billing", "billing"]);
  const { events: later } = await finish(host, { sessions, session, message: "thanks" });
  expect(later[0]).toMatchObject({ type: "invocation.began", agent: "billing" });
  expect(await codeOf(finish(host, { sessions, session }))).toBe("nothing_to_continue");
});

test("a snapshot of an older version that carried the newer fields along is not trusted", async () => {
  const store = memoryStore();
  const sessions = createSessions({ app: "app", store });
  const agent = defineAgent({ name: "host", model: scriptedModel(["Hello.", "Again."]) });
  const { session } = await sessions.open();
  for await (const { type } of run(agent, { sessions, session, message: "hi" })) if (type === "invocation.began") break;
  await finish(agent, { sessions, session });
  const events = await logOf(sessions, session);
  const { version, at } = events.at(-1) as { version: number; at: number };
  const loaded = await store.load(session);
  // Folded by an older version from a snapshot of the open turn: everything is new but the turn.
  const stale = {
    environment: "agent:app",
    version,
    opened: at,
    touched: at,
    changed: version,
    episode: 0,
    episodes: 0,
    task: null,
    labels: { user: "user" },
    verified: 0,
    verdicts: 0,
    rewinds: [],
    randomness: { seed: 1, turn: 0 },
    conversation: { version: 2, turn: { invocation: "i", agent: "host", began: 2 } },
    state: {},
  };
  const ended = JSON.parse(loaded?.entries.at(-1)?.body ?? "") as object;
  await store.append({
    session,
    version,
    entries: [{ at, body: JSON.stringify({ ...ended, at }) }],
    snapshot: { version, body: JSON.stringify(stale) },
  });
  const other = createSessions({ app: "app", store });
  expect(await codeOf(finish(agent, { sessions: other, session }))).toBe("nothing_to_continue");
});

test("CLEANUP: idle conversations stay within the bytes of the cache, and are read again on use", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-"));
  const store = sqliteStore({ file: join(folder, "sessions.db") });
  try {
    const sessions = createSessions({ app: "app", store, cache: { bytes: 4_000_000 } });
    let shown = 0;
    const model: Model = {
      name: "counting",
      respond: ({ input }) => {
        shown = input.length;
        return scriptedModel(["Yes."]).respond({ input: [] });
      },
    };
    const agent = defineAgent({ name: "host", model });
    const say = (session: string, message: string) => finish(agent, { sessions, session, message });
    const ids: string[] = [];
    const before = heapInUse();
    for (let n = 0; n < 40; n++) {
      const { session } = await sessions.open();
      await say(session, `${n} ${"x".repeat(1_000_000)}`);
      ids.push(session);
    }
    // 40 MB, if all of it stayed.
    expect(heapInUse() - before).toBeLessThan(12e6);
    for (const session of [ids[0], ids[39]] as string[]) {
      await say(session, "still there?");
      expect(shown).toBe(3);
    }
  } finally {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
});
