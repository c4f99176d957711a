// Going on: a model takes a session of an environment further, from where it is.
import type { AgentOutcome } from "./event.ts";
import type { Item } from "./model.ts";

export interface GoOnOptions {
  /** The name of one of the models. */
  model: string;
  /** What the user says, or the conversation so far. By default the task of the session, as JSON. */
  input?: string | unknown[] | undefined;
  /** Answers of the model at most. Default 20. */
  maxSteps?: number | undefined;
  /** Calls that were made stay made. */
  signal: AbortSignal;
}

export interface WentOn {
  session: string;
  /** The version after its last call. */
  version: number;
  outcome: AgentOutcome | "failed";
  /** Answers of the model. */
  steps: number;
  /** What the model said and was told. */
  items: Item[];
  /** Why it failed, if it did. */
  error?: { code: string; message: string };
}

/** Who can go on with the sessions of an environment. */
export interface GoingOn {
  readonly models: readonly string[];
  /** Until the model makes no more calls. Called again, it is played again. */
  play(session: string, options: GoOnOptions): Promise<WentOn>;
}
