// The world of a run: all that its code does not decide. A live run asks models, tools and clocks; a replay asks a recording.
import type { Delta } from "../core/delta.ts";
import type { HoldfastError } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { FunctionCall, Item, ModelResponse } from "../core/model.ts";

/** The position of an agent in an invocation. */
export interface Place {
  agent: string;
  /** Unique for every run of an agent. */
  path: string;
  branch: string | undefined;
  /** The path and the request of the surrounding agent that is a tool of another, if any. */
  alone: { path: string; request: Item[] } | undefined;
  /** Whether its end is the end of the invocation. */
  isOutermost: boolean;
}

/** The result of one call. */
export interface Result {
  call: FunctionCall;
  output: Json;
  error?: HoldfastError;
  wishes?: Wishes;
  /** The lines that the tool logged. */
  lines?: string[] | undefined;
  /** The error of the tool's code, or of a callback around it. */
  thrown?: Thrown | undefined;
  /** Taken from the record by a replay. */
  isTaken?: true;
}

/** Effects of a call on the run of its agent. */
export interface Wishes {
  transfer?: string;
  escalate?: true;
}

export interface ToolCall {
  index: number;
  /** The work of the handler, once it has begun. */
  work: Promise<unknown>;
  /** Runs `beforeTool`, and starts the handler. */
  begin(): Promise<void>;
  /** Waits for the handler, keeps its writes, and runs the callbacks after it. */
  end(): Promise<Result>;
}

/** The effects of all calls of an answer. */
export interface Effects extends Wishes {
  delta: Delta;
}

export interface World {
  /** Returns the random seed of the session. `own`: the seed of the session that runs. */
  seed(own: number): number;
  /** Returns the time of an answer. */
  at(answer: { version: number; at: number }): number;
  /** Asks the model. */
  ask(place: Place, live: () => Promise<ModelResponse>): Promise<ModelResponse>;
  /** Runs `afterModel` on the model's answer. */
  amend(
    place: Place,
    asked: ModelResponse,
    live: (asked: ModelResponse) => Promise<ModelResponse>,
  ): Promise<ModelResponse>;
  /** Makes a call of a tool. `index`: its place among the calls of the answer. */
  call(place: Place, call: FunctionCall, index: number, isExternal: boolean, live: () => ToolCall): ToolCall;
  /** Returns the effects of all calls of an answer, which made these. */
  effects(place: Place, results: Result[], made: Effects): Effects;
  /** Tells whether the agent has reached its limit of seconds. */
  isLate(place: Place, isLate: boolean): boolean;
}

export const liveWorld: World = {
  seed: (own) => own,
  at: (answer) => answer.at,
  ask: (_place, live) => live(),
  amend: (_place, asked, live) => live(asked),
  call: (_place, _call, _index, _isExternal, live) => live(),
  effects: (_place, _results, made) => made,
  isLate: (_place, isLate) => isLate,
};
