// RolloutRequest: a rollout request's tasks, model and limits, and the checks on them.
import { hash } from "node:crypto";
import type { AgentLimits } from "../../core/agent.ts";
import { canonicalText } from "../../core/digest.ts";
import { invalidOption } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import type { TaskRow } from "../../core/rollout.ts";
import type { RandomSeedPolicy } from "../collection-settings.ts";
import { assertRequest } from "../prepare.ts";
import { createTree, type Branching } from "../tree.ts";

/** The model to run. */
export interface RequestedModel {
  /** The URL of its API, as in http://127.0.0.1:8000/v1. Without a URL, `name` is "scripted" or "random". */
  url?: string;
  /** The model's name on the server. */
  name: string;
  /** The server's API. Default "chat". */
  api?: "chat" | "openai" | "anthropic";
  temperature?: number;
  topP?: number;
  /** Maximum number of tokens in each answer. */
  maxTokens?: number;
  /** Further fields of every request to the model, such as `{ return_token_ids: true }`. */
  request?: { [field: string]: Json };
}

export interface RolloutRequest {
  /** The request id, chosen by the client. If the same request is sent again, it runs only once. Default: a new id. */
  request?: string;
  /** The tasks. Default: the tasks in the environment's file. */
  tasks?: TaskRow[];
  /** The tasks file next to the environment: "train" for tasks_train.jsonl. Default: tasks.jsonl. */
  split?: string;
  /** Skips this many rows of the file. */
  offset?: number;
  /** Runs only this many rows of the file. */
  limit?: number;
  /** Number of rollouts per task. Default 1. */
  repeats?: number;
  /** Where episodes are forked. Default: nowhere. */
  branch?: Branching[];
  model: RequestedModel;
  /** Limits for the agent. An episode that reaches a limit is still verified. */
  limits?: Pick<AgentLimits, "steps" | "tokens" | "seconds">;
  /** Seconds after which an episode fails. Default: unlimited. */
  timeout?: number;
  /** Maximum number of concurrent episodes of this request. Default: the number of slots. */
  concurrency?: number;
  /** Maximum number of attempts for a rollout that fails. Default 3. */
  attempts?: number;
  /** Random seed for the environment. Default 0. */
  seed?: number;
  /** Which rollouts share random numbers. Default "per-task". */
  randomSeed?: RandomSeedPolicy;
  /** The system prompt, instead of the row's `instructions`. */
  system?: string;
  /** Labels for every row, as in `{ policy: "7" }`. */
  labels?: { [name: string]: Json };
  /** Returns all rows of a task together, once its last rollout has ended. Default: each row as it ends. */
  groups?: boolean;
  /** Adds the reward at every version of the episode. */
  stepRewards?: boolean;
}

/** The maximum number of rollouts from one episode. */
const mostLeaves = 10_000;

const requestName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Refuses an id that cannot be part of a path. */
export function assertRequestId(id: string): void {
  if (requestName.test(id)) return;
  const shown = JSON.stringify(id.slice(0, 60));
  throw invalidOption(`${shown} is not a valid request id; use 1 to 128 letters, digits, ".", "-" and "_"`);
}

/** Refuses a request that cannot be run. */
export function assertRolloutRequest(asked: RolloutRequest): void {
  const { tasks, split, offset, limit, branch = [], limits = {}, model } = asked;
  if (asked.request !== undefined) assertRequestId(asked.request);
  if (tasks && (split !== undefined || offset !== undefined || limit !== undefined)) {
    throw invalidOption("send either `tasks`, or `split`, `offset` and `limit`, not both");
  }
  if (tasks?.length === 0) throw invalidOption("`tasks` is empty; send at least one row");
  if (split !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(split)) {
    throw invalidOption(`\`split\` must be letters, digits, "-" and "_", as in train, not ${JSON.stringify(split)}`);
  }
  if (new Set(branch.map(({ step }) => step)).size < branch.length) {
    throw invalidOption("`branch` names a step twice; name each step once");
  }
  if (createTree(branch).leaves(0) > mostLeaves) {
    throw invalidOption(`\`branch\` would make more than ${mostLeaves} rollouts of one episode`);
  }
  const { steps = Infinity } = limits;
  if (branch.some(({ step }) => step >= steps)) {
    throw invalidOption("`branch` must fork at a step below `limits.steps`; otherwise no step follows the fork");
  }
  assertRequest({ ...(model.request && { request: model.request }) });
}

/** Returns a digest of the request without its id. */
export function digestRequest(given: RolloutRequest): string {
  const { request: _, ...asked } = given;
  return hash("sha256", canonicalText(asked as unknown as Json), "base64url");
}
