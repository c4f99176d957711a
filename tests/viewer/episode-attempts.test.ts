// The ids of calls that a person makes by hand.
import { expect, test } from "vitest";
import { createAttempts, newCallId } from "../../viewer/src/pages/episode/call-attempt.ts";

test("a retry is the same call until the server has answered, and another call has another id", () => {
  let made = 0;
  const attempts = createAttempts(() => `id ${++made}`);
  expect(attempts.idFor("add", { count: 1 })).toBe("id 1");
  expect(attempts.idFor("add", { count: 1 })).toBe("id 1");
  expect(attempts.idFor("add", { count: 2 })).toBe("id 2");
  attempts.answered();
  expect(attempts.idFor("add", { count: 2 })).toBe("id 3");
});

test("ids are not repeated", () => {
  expect(new Set(Array.from({ length: 100 }, newCallId)).size).toBe(100);
});
