// The world of a run: its inputs from outside. A live run uses models, tools and clocks; a replay uses a recording.
import type { Delta } from "../core/delta.ts";
import type { HoldfastError } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { FunctionCall, Item, ModelResponse } from "../core/model.ts";

/** An agent's position in an invocation. */
export interface Place {
  agent: string;
  /** Unique for every run of an agent. */
  path: string;
  branch: string | undefined;
  /** The path and request of the surrounding agent that is used as a tool, if any. */
  alone: { path: string; request: Item[] } | undefined;
  /** Whether the invocation ends with this run. */
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
  /** The error in the tool's code, or in a callback around it. */
  thrown?: Thrown | undefined;
  /** A replay took the result from the recording. */
  isTaken?: true;
  /** The client runs the call, and has sent no result yet. */
  isWaiting?: true;
  /** Whether the output is a list of content parts from the client. */
  isContent?: boolean;
}

/** A call's effects on its agent's run. */
export interface Wishes {
  transfer?: string;
  escalate?: true;
}

export interface ToolCall {
  index: number;
  /** The handler's work, once it has started. */
  work: Promise<unknown>;
  /** Runs `beforeTool`, and starts the handler. */
  begin(): Promise<void>;
  /** Waits for the handler, keeps its writes, and runs the callbacks after it. */
  end(): Promise<Result>;
}

/** The combined effects of all calls in an answer. */
export interface Effects extends Wishes {
  delta: Delta;
}

export interface World {
  /** Returns the session's random seed. `own`: the seed of the session that is running. */
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
  /** Makes a tool call. `index`: its position among the answer's calls. */
  call(place: Place, call: FunctionCall, index: number, isExternal: boolean, live: () => ToolCall): ToolCall;
  /** Returns the combined effects of all calls in an answer, given the effects of the calls that ran. */
  effects(place: Place, results: Result[], made: Effects): Effects;
  /** Returns whether the agent has reached its limit of seconds. */
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
