// wholePart(): a run with all events of its part of a turn, even if the run continues an interrupted turn.
import type { RunEvent } from "../../agent/invocation.ts";
import type { Family } from "../../agent/transfer.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Conversations } from "../../core/sessions.ts";
import { findBegan } from "../http/find-began.ts";
import { isStreamed } from "../http/is-streamed.ts";
import type { Running } from "../http/running.ts";
import { isBegan, readTurn } from "./turn.ts";

/**
 * Reads a run's first event. Returns the version at which the run's part of a turn began, and the run. A run that
 * continues an interrupted turn yields only new events, so the earlier events of the part are added from the log.
 * Pieces of answers that `isStreamed` excludes are left out.
 */
export async function wholePart(
  sessions: Conversations,
  session: string,
  family: Family,
  running: Running,
): Promise<{ began: number; running: Running }> {
  const first = await running.next();
  const { done, value } = first;
  if (!done && isBegan(value)) return { began: value.version, running: joined([], family, first, running) };
  const began = (await findBegan(sessions, session, value.invocation))?.part.version ?? 0;
  const turn = await readTurn(sessions, session, began);
  return { began, running: joined(turn?.events ?? [], family, first, running) };
}

async function* joined(
  earlier: NumberedEvent[],
  family: Family,
  first: Awaited<ReturnType<Running["next"]>>,
  rest: Running,
): Running {
  const newest = earlier.at(-1)?.version ?? 0;
  try {
    yield* earlier as RunEvent[];
    for (let next = first; ; next = await rest.next()) {
      if (next.done) return next.value;
      const { value } = next;
      // The earlier events, read from the log, may already include the run's first events.
      if (value.type === "partial" ? isStreamed(family, value.path) : value.version > newest) yield value;
    }
  } finally {
    await rest.return(undefined as never);
  }
}
