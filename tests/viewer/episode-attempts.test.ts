// The ids of manual calls.
import { expect, test } from "vitest";
import { createAttempts, newCallId } from "../../viewer/src/pages/episode/call-attempt.ts";

test("a retry keeps its call id until the server answers; another call gets another id", () => {
  let made = 0;
  const attempts = createAttempts(() => `id ${++made}`);
  expect(attempts.idFor("add", { count: 1 })).toBe("id 1");
  expect(attempts.idFor("add", { count: 1 })).toBe("id 1");
  expect(attempts.idFor("add", { count: 2 })).toBe("id 2");
  attempts.answered();
  expect(attempts.idFor("add", { count: 2 })).toBe("id 3");
});

test("ids are unique", () => {
  expect(new Set(Array.from({ length: 100 }, newCallId)).size).toBe(100);
});
