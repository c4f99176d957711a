// isStreamed(): decides which agents' answers a protocol streams in pieces.
import type { Family } from "../../agent/transfer.ts";
import type { Running } from "./running.ts";

/** Earlier results by path. All pieces of an answer have the same path, so each path is parsed once. */
const known = new WeakMap<Family, Map<string, boolean>>();

/**
 * Returns whether the answer of the agent at a path is streamed in pieces. The answer of an agent used as a tool is
 * not, because it is only for the calling agent. Answers of parallel agents are sent whole, because they are listed in
 * the order in which they end.
 */
export function isStreamed(family: Family, path: string): boolean {
  let paths = known.get(family);
  if (!paths) known.set(family, (paths = new Map<string, boolean>()));
  let found = paths.get(path);
  if (found === undefined) {
    const isParallel = (step: string): boolean => family.find(step.replace(/^\d+\./, ""))?.kind === "parallel";
    found = !path.includes("#") && !path.split(/[/>]/).some(isParallel);
    paths.set(path, found);
  }
  return found;
}

/** Returns a run from its first event on, without the pieces of answers that are not streamed. */
export async function* streamedOnly(
  family: Family,
  first: Awaited<ReturnType<Running["next"]>>,
  rest: Running,
): Running {
  try {
    for (let next = first; ; next = await rest.next()) {
      if (next.done) return next.value;
      if (next.value.type !== "partial" || isStreamed(family, next.value.path)) yield next.value;
    }
  } finally {
    await rest.return(undefined as never);
  }
}
