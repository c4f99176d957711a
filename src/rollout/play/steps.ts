// playSteps(): plays an episode whose host decides after each answer how it continues. Each answer is one turn.
import type { AgentLimits } from "../../core/agent.ts";
import type { EventOf, NumberedEvent } from "../../core/event.ts";
import type { Item } from "../../core/model.ts";
import type { AgentState } from "../../core/shared-state.ts";
import type { NextTurn } from "./episode-host.ts";

/** A turn to run. Without a message, the interrupted turn continues. */
export interface Turn {
  message?: Item[] | undefined;
  stateDelta?: AgentState | undefined;
}

export interface StepsOptions {
  /** The row's message; undefined if the conversation has it already. */
  message: Item[] | undefined;
  /** The conversation's events. The list grows with each turn. */
  events: readonly NumberedEvent[];
  limits: AgentLimits;
  /** Runs a turn and returns its outcome. */
  play(turn: Turn, limits: AgentLimits): Promise<string>;
  next(): Promise<NextTurn>;
  /** Sets keys in the conversation's state. */
  record(state: AgentState): Promise<unknown>;
}

const defaultSteps = 100;

/** Plays the episode. Returns its outcome: the limit that ended it, "failed", or "answered". */
export async function playSteps({ message, events, limits, play, next, record }: StepsOptions): Promise<string> {
  let first = message;
  let turn: Turn | undefined = isTurnOpen(events) ? {} : undefined;
  for (;;) {
    if (!turn) {
      const { isOver, message, state } = await next();
      const limit = isOver ? "answered" : limitReached(limits, events);
      if (limit !== undefined) {
        await record(state);
        return limit;
      }
      turn = { message: [...(first ?? []), ...message], stateDelta: state };
      first = undefined;
    }
    const seconds = Math.max(0, secondsLeft(limits, events));
    const outcome = await play(turn, { ...limits, steps: 1, empty: 1, seconds });
    if (outcome === "failed" || outcome === "seconds") return outcome;
    turn = undefined;
  }
}

function isTurnOpen(events: readonly NumberedEvent[]): boolean {
  const last = events.findLast(({ type }) => type === "invocation.began" || type === "agent.ended");
  return last?.type === "invocation.began" || (last?.type === "agent.ended" && !last.last);
}

function limitReached(limits: AgentLimits, events: readonly NumberedEvent[]): keyof AgentLimits | undefined {
  const { steps = defaultSteps, tokens = Infinity } = limits;
  const answers = events.filter((event) => event.type === "model.answered") as EventOf<"model.answered">[];
  if (answers.length >= steps) return "steps";
  const spent = answers.reduce((sum, { usage }) => sum + (usage?.total_tokens ?? 0), 0);
  if (spent >= tokens) return "tokens";
  return secondsLeft(limits, events) <= 0 ? "seconds" : undefined;
}

function secondsLeft({ seconds = Infinity }: AgentLimits, events: readonly NumberedEvent[]): number {
  const began = events.find(({ type }) => type === "invocation.began");
  return began ? seconds - (Date.now() - began.at) / 1000 : seconds;
}
