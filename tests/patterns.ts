// A pattern where a text is expected means a text that it fits. Without this, Vitest takes anything for it.
import { expect } from "vitest";

expect.addEqualityTesters([
  (received: unknown, expected: unknown) => {
    if (!(expected instanceof RegExp) || received instanceof RegExp) return undefined;
    return typeof received === "string" && expected.test(received);
  },
]);
