// Long work in pieces: other requests of the process get their turn in between.
import { setImmediate as nextTurn } from "node:timers/promises";

/** Milliseconds of work in one piece. */
const longest = 10;

/**
 * Gives a function to call between two steps of long work. It lets the event loop run if the work has taken 10 ms.
 *
 * @example
 * const pace = createPace();
 * for (const row of rows) {
 *   add(row);
 *   await pace();
 * }
 */
export function createPace(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < longest) return undefined;
    return nextTurn().then(() => void (since = performance.now()));
  };
}

/** As `JSON.stringify`, for an object whose lists are long, item by item. */
export async function stringifyInPieces(value: object): Promise<string> {
  const pace = createPace();
  const members: string[] = [];
  for (const [key, member] of Object.entries(value) as [string, unknown][]) {
    if (!Array.isArray(member)) {
      if (member !== undefined) members.push(`${JSON.stringify(key)}:${JSON.stringify(member)}`);
      continue;
    }
    const items: string[] = [];
    for (const item of member) {
      items.push(JSON.stringify(item) ?? "null");
      await pace();
    }
    members.push(`${JSON.stringify(key)}:[${items.join()}]`);
  }
  return `{${members.join()}}`;
}
