// The ids of calls made by hand: one for each attempt, and the same one again where it is not known what came of it.
import type { Json } from "../../../../src/core/json.ts";

export interface Attempts {
  /** The id for a call of that tool with that input. */
  idFor(tool: string, input: Json): string;
  /** The server answered, whatever it said: the next call is another one. */
  answered(): void;
}

export function createAttempts(newId: () => string): Attempts {
  let open: { what: string; id: string } | undefined;
  return {
    idFor(tool, input) {
      const what = JSON.stringify([tool, input]);
      if (open?.what !== what) open = { what, id: newId() };
      return open.id;
    },
    answered: () => (open = undefined),
  };
}

/** randomUUID() is missing where a page is served over http from elsewhere. */
export function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `by-hand-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
