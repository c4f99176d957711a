// The agent keeps its list and refuses what it should. A scripted model gives the answers, so every run is the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, createSessions, memoryStore, scriptedModel, type Json, type ScriptedAnswer } from "holdfast";
import agent from "./agent.ts";

/** Sends one message to the agent, with written answers in place of its model. Returns the state after the turn. */
async function stateAfter(answers: ScriptedAnswer[], state: { [key: string]: Json } = {}) {
  const sessions = createSessions({ app: "test", store: memoryStore() });
  const { session } = await sessions.open({ user: "ann", state });
  await ask({ ...agent, model: scriptedModel(answers) }, { sessions, session, message: "go" });
  const after = await sessions.state(session);
  await sessions.stop();
  return after;
}

const add = (item: string) => ({ calls: [{ name: "add_item", arguments: { item, count: 2 } }] });

test("an added item is on the list, and the turn is counted", async () => {
  assert.deepEqual(await stateAfter([add("milk"), "Done."]), { items: { milk: 2 }, "user:turns": 1 });
});

test("a removed item is gone", async () => {
  const remove = { calls: [{ name: "remove_item", arguments: { item: "milk" } }] };
  const { items } = await stateAfter([remove, "Done."], { items: { milk: 2, rice: 1 } });
  assert.deepEqual(items, { rice: 1 });
});

test("a full list takes no more", async () => {
  const items = { apple: 1, bread: 1, cheese: 1, honey: 1, milk: 1 };
  assert.deepEqual((await stateAfter([add("rice"), "It is full."], { items }))["items"], items);
});
