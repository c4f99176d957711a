// The fold of a conversation: the speaker, the open turn, and its owner.
import { expect, test } from "vitest";
import type { Event } from "../../src/core/event.ts";
import { eventKey } from "../../src/core/event-key.ts";
import { fold, type Session } from "../../src/core/session.ts";

const opened: Event = { type: "session.opened", at: 1, environment: "agent:app", randomness: { seed: 1, turn: 0 } };
const about = { at: 2, invocation: "i", agent: "host", path: "host" };
const lease = { owner: "a", lapsesAfter: 1000 };

function folded(...events: Event[]): Session {
  let session = fold(undefined, opened);
  for (const event of events) session = fold(session, structuredClone(event));
  return session;
}

const began: Event = { type: "invocation.began", at: 2, invocation: "i", agent: "host", items: [], call: "m1", lease };
const ended: Event = { type: "agent.ended", ...about, outcome: "answered", last: true };

test("a turn is open from its message to its last event", () => {
  expect(folded().conversation).toEqual({ version: 1 });
  const turn = { invocation: "i", agent: "host", began: 2, call: "m1", lease };
  expect(folded(began).conversation).toEqual({ version: 2, turn });
  expect(folded(began, ended).conversation).toEqual({ version: 3 });
  expect(folded(began, { type: "session.closed", at: 3, reason: "idle" }).conversation).toEqual({ version: 3 });
});

test("a turn that was taken over has a new owner, and a released turn has none", () => {
  const other = { owner: "b", lapsesAfter: 500 };
  const renewed: Event = { type: "turn.renewed", at: 2, invocation: "i", owner: "a" };
  const taken: Event = { type: "turn.taken", at: 3, invocation: "i", lease: other, from: "a" };
  expect(folded(began, renewed, taken).conversation?.turn?.lease).toEqual(other);
  const released: Event = { type: "turn.released", at: 4, invocation: "i", owner: "b", reason: "failed" };
  const { turn } = folded(began, taken, released).conversation ?? {};
  expect(turn).toEqual({ invocation: "i", agent: "host", began: 2, call: "m1" });
});

test("only a transfer at the top level of a turn changes the speaker", () => {
  const transfer = (to: string, path: string): Event => ({
    type: "tools.answered",
    ...about,
    path,
    items: [],
    transfer: to,
  });
  expect(folded(began, transfer("billing", "host")).conversation?.speaker).toBe("billing");
  expect(folded(began, transfer("billing", "host#c1/helper")).conversation?.speaker).toBeUndefined();
  expect(folded(began, transfer("billing", "flow/host")).conversation?.speaker).toBeUndefined();
});

test("a rewind restores the speaker and the turn of its target version", () => {
  const back = { at: 5, to: 2, episode: 0, task: null, randomness: { seed: 1, turn: 0 } };
  const turn = { invocation: "i", agent: "host", began: 2 };
  const rewound: Event = { type: "session.rewound", ...back, conversation: { speaker: "billing", turn } };
  expect(folded(began, ended, rewound).conversation).toEqual({ version: 4, speaker: "billing", turn });
});

test("turns and updates with an id have a key, so that the log has each once", () => {
  expect(eventKey(began)).toBe("turn m1");
  expect(eventKey({ type: "session.updated", at: 1, call: "u" })).toBe("update u");
  expect(eventKey({ type: "session.updated", at: 1 })).toBeUndefined();
});

test("an episode has no speaker and no turn", () => {
  expect(fold(undefined, { ...opened, environment: "counter" }).conversation).toBeUndefined();
});
