// A RegExp in an expected value matches a text. Without this, Vitest accepts anything for it.
import { expect } from "vitest";

expect.addEqualityTesters([
  (received: unknown, expected: unknown) => {
    if (!(expected instanceof RegExp) || received instanceof RegExp) return undefined;
    return typeof received === "string" && expected.test(received);
  },
]);
