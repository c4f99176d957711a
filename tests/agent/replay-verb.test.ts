// replay as a verb of conversations, on every store: it runs the agent again in memory and changes nothing.
import { defineAgent, scriptedModel, tool, type Agent, type AgentState, type Conversations } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { finish, onEveryStore } from "./engine.ts";

const counter = (step = 1): Agent =>
  defineAgent({
    name: "counter",
    model: scriptedModel([{ calls: [{ name: "add", arguments: { n: 2 } }] }, "Done.", "Bye."]),
    tools: {
      add: tool({
        description: "Add.",
        input: z.object({ n: z.number() }),
        run: ({ state }: { state: AgentState }, { n }) => (state["total"] = (state["total"] ?? 0) + n * step),
      }),
    },
  });

onEveryStore("REPLAY: a conversation comes out the same, and code that changed is named by version", async (place) => {
  const sessions = place.engine("app", { agent: counter() });
  const { session } = await sessions.open();
  await finish(counter(), { sessions, session, message: "go" });
  await sessions.update(session, (state) => void (state["note"] = 1));
  await sessions.rewind(session, 3);
  const { version } = await sessions.info(session);
  expect(await sessions.replay(session)).toEqual({ same: true, events: version });
  const other = await place.replica();
  expect(await other.replay(session, { agent: counter() })).toEqual({ same: true, events: version });
  const changed = await other.replay(session, { agent: counter(10) });
  expect(changed).toMatchObject({ same: false, version: 4, what: "event", recorded: "2", replayed: "20" });
  expect(changed).toMatchObject({
    message: /^event 4 \(tools\.answered of counter\): .* was "2" in the recording and is now "20"$/,
  });
  expect((await sessions.info(session)).version).toBe(version);
});

onEveryStore("REPLAY: a fork of a conversation replays as its parent does", async (place) => {
  const sessions = place.engine("app", { agent: counter() });
  const { session } = await sessions.open({ user: "ann", state: { total: 1, "user:name": "Ann" } });
  await finish(counter(), { sessions, session, message: "go" });
  const fork = await sessions.fork(session, { version: 4, set: { total: 7 } });
  expect(await sessions.replay(fork.session)).toEqual({ same: true, events: fork.version });
});

onEveryStore("a replay without an agent is refused, as is one of a session that is not there", async (place) => {
  const sessions = place.engine();
  const { session } = await sessions.open();
  await expect(sessions.replay(session)).rejects.toMatchObject({ code: "invalid_option", message: /needs the agent/ });
  await expect(sessions.replay("nope", { agent: counter() })).rejects.toMatchObject({ code: "session_not_found" });
});

const parts = ["update", "label", "fork"] as const;

onEveryStore(
  "REPLAY: lists and objects in the state stay the same after an update, a label and a fork",
  async (place) => {
    const agent = counter();
    const sessions = place.engine("app", { agent });
    for (const part of parts) {
      const state = { list: [1], object: { a: 1 }, empty: [], "user:profile": { name: "Ann" } };
      let { session } = await sessions.open({ state });
      if (part === "update") await sessions.update(session, (now) => void now["list"].push(2));
      else if (part === "label") await sessions.label(session, { title: "Dinner" });
      else ({ session } = await sessions.fork(session, { set: { object: { a: 1, b: 2 } } }));
      await finish(agent, { sessions, session, message: "go" });
      expect(await sessions.replay(session), part).toMatchObject({ same: true });
    }
  },
);

onEveryStore("REPLAY: a turn that failed, was cancelled and then ended comes out the same", async (place) => {
  let answers: "fails" | "hangs" | "answers" = "fails";
  const agent = defineAgent({
    name: "unsteady",
    model: {
      name: "unsteady",
      respond: async (_, { signal } = {}) => {
        if (answers === "fails") throw new Error("the server is gone");
        if (answers === "hangs") await new Promise((_, reject) => signal?.addEventListener("abort", reject));
        return { status: "completed", output: [{ type: "message", role: "assistant", content: "ok" }] };
      },
    },
  });
  const sessions = place.engine("app", { agent });
  const { session } = await sessions.open();
  await finish(agent, { sessions, session, message: "go" });
  answers = "hangs";
  const cancelling = new AbortController();
  const running = finish(agent, { sessions, session, signal: cancelling.signal });
  await expect.poll(async () => (await logTypes(sessions, session)).at(-1)).toBe("turn.taken");
  cancelling.abort();
  await running.catch(() => undefined);
  answers = "answers";
  await finish(agent, { sessions, session });
  await sessions.update(session, (state) => void (state["after"] = 1));
  expect(await sessions.replay(session)).toMatchObject({ same: true });
});

async function logTypes(sessions: Conversations, session: string): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of sessions.events(session)) types.push(type);
  return types;
}
