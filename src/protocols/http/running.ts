// Runs of an agent, for every protocol: collected into one answer, or streamed as they happen.
import type { PartialEvent, RunEvent } from "../../agent/invocation.ts";
import { run, type RunOptions, type RunResult } from "../../agent/run.ts";
import type { Agent } from "../../core/agent.ts";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { finalText } from "../../core/last-words.ts";
import type { Reply } from "../../core/protocol.ts";
import type { Conversations } from "../../core/sessions.ts";
import { streamReply } from "./events-reply.ts";

export type Running = AsyncGenerator<RunEvent, RunResult, undefined>;

/** Runs the agent. Every event is committed before it is yielded, except `partial` ones. */
type RunAgent = (options: RunOptions) => Running;

/** An agent with its conversations. */
export interface ServedAgent {
  agent: Agent;
  sessions: Conversations;
  /** Runs the agent, by default with `run`. */
  run?: RunAgent | undefined;
}

/** Starts a run. A failed run is a normal answer that contains the reason. */
export const runAgent = ({ agent, run: given }: ServedAgent, options: RunOptions): Running =>
  (given ?? ((asked) => run(agent, asked)))({ ...options, throwOnFailure: false });

export type CommittedEvent = Exclude<RunEvent, PartialEvent>;

/** The result of a run, with its text. */
export interface Ended extends RunResult {
  /** The agent's last text; "" if it said nothing. */
  text: string;
}

/** Waits for the end of a run. Returns its result and its committed events. */
export async function collectRun(running: Running): Promise<Ended & { events: CommittedEvent[] }> {
  const events: CommittedEvent[] = [];
  for (;;) {
    const { done, value } = await running.next();
    if (done) return { ...value, text: finalText(events), events };
    if (value.type !== "partial") events.push(value);
  }
}

/** Maximum number of events that wait for a slow reader. */
const mostWaiting = 256;

/**
 * Lets a run continue to its end even if its reader is slow or leaves. A reader that falls behind loses partial events,
 * and reads committed events from the log: `committed` returns the log's events after a version.
 */
export async function* detached(running: Running, committed: (after: number) => AsyncIterable<NumberedEvent>): Running {
  const waiting: RunEvent[] = [];
  let invocation = "";
  /**
   * `known`: the version of the newest event that was put into `waiting` or read from the log. `missed`: the version of
   * the newest event that must be read from the log.
   */
  let known = 0;
  let missed = 0;
  let isRead = true;
  let isOver = false;
  let wake = (): void => undefined;
  const ended = (async () => {
    for (;;) {
      const { done, value } = await running.next();
      if (done) return value;
      if (isRead) keep(value);
      wake();
    }
  })();
  function keep(event: RunEvent): void {
    ({ invocation } = event);
    const version = event.type === "partial" ? undefined : event.version;
    if (version !== undefined && version <= known) return;
    if (missed > 0 || waiting.length >= mostWaiting) {
      if (version === undefined) return;
      // The log is read from this event on, because it may also have events of earlier runs of the same turn.
      known ||= version - 1;
      missed = version;
      return;
    }
    waiting.push(event);
    known = version ?? known;
  }
  const finish = (): void => {
    isOver = true;
    wake();
  };
  // Handles a failure even if the reader has left. The log has the failure, if it could be written.
  ended.then(finish, finish);
  try {
    for (;;) {
      const next = waiting.shift();
      if (next) yield next;
      else if (missed > 0) {
        for await (const event of committed(known)) {
          known = event.version;
          if (isOfRun(event, invocation)) yield event;
        }
        if (known >= missed) missed = 0;
      } else if (isOver) return await ended;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    isRead = false;
    waiting.length = 0;
  }
}

const isOfRun = (event: NumberedEvent, invocation: string): event is CommittedEvent =>
  "invocation" in event && event.invocation === invocation && !event.type.startsWith("turn.");

/** Converts a run to the frames of a stream. An empty frame is not sent. */
export interface RunFrames {
  event(event: RunEvent): string | Promise<string>;
  done(ended: Ended): string | Promise<string>;
  /** Returns the frame for a failure after the stream began. */
  error(error: HoldfastError): string | Promise<string>;
}

/**
 * Streams a run. A refusal before the first event fails the request; later failures are sent as a frame of the stream.
 * If the reader disconnects, the run is cancelled.
 */
export async function streamRun(running: Running, signal: AbortSignal, frames: RunFrames): Promise<Reply> {
  const first = await running.next();
  const events: CommittedEvent[] = [];
  async function* told(): AsyncGenerator<string, void, undefined> {
    try {
      let next = first;
      for (; !next.done; next = await running.next()) {
        if (next.value.type !== "partial") events.push(next.value);
        const frame = await frames.event(next.value);
        if (frame !== "") yield frame;
      }
      const last = await frames.done({ ...next.value, text: finalText(events) });
      if (last !== "") yield last;
    } catch (thrown) {
      if (signal.aborted) return;
      const known = isHoldfastError(thrown) ? thrown : undefined;
      yield await frames.error(known ?? unexpected());
      if (!known) throw thrown;
    } finally {
      await running.return(undefined as never);
    }
  }
  return { ...streamReply(told()), isRun: true };
}

const unexpected = (): HoldfastError =>
  new HoldfastError("internal", "internal server error; the server's log has the cause");
