// Assigns ids to manual calls: a new id per call, and the same id for a retry of a call whose outcome is unknown.
import type { Json } from "../../../../src/core/json.ts";

export interface Attempts {
  /** Returns the id for a call of this tool with this input. */
  idFor(tool: string, input: Json): string;
  /** Records that the server answered, with any result: the next call gets a new id. */
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

/** Makes a random id. randomUUID() is missing on a page served over plain http from another host. */
export function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `by-hand-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
