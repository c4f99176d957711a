// The verdict that the list of sessions shows.
import { expect, test } from "vitest";
import type { NumberedEvent } from "../../src/core/event.ts";
import { currentVerdict } from "../../viewer/src/pages/sessions/current-verdict.ts";

/** Numbers events as the end of a longer log. */
const log = (...events: object[]): NumberedEvent[] =>
  events.map((event, index) => ({ at: 0, ...event, version: 11 + index }) as unknown as NumberedEvent);

const called = { type: "tool.called" };
const verified = { type: "session.verified", judged: 11, verdict: { reward: 0.5 } };
const refused = { type: "session.verified", judged: 11, refused: true, verdict: { reward: 0 } };
const failed = { type: "verify.failed", judged: 11 };
const closed = { type: "session.closed", reason: "closed" };

test.each([
  ["the last event", [called, verified], 0.5],
  ["followed by the end", [called, verified, closed], 0.5],
  ["followed by verify requests that have none", [called, verified, refused, failed, closed], 0.5],
  ["followed by a call", [called, verified, called, closed], undefined],
  ["followed by a rewind", [called, verified, { type: "session.rewound", to: 10 }], undefined],
  ["about an older version", [called, called, verified], undefined],
  ["refused", [called, refused, closed], undefined],
  ["missing", [called, closed], undefined],
])("a verdict that is %s", (_, events, reward) => {
  expect(currentVerdict(log(...events))?.verdict.reward).toBe(reward);
});
