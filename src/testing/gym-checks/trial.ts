// A trial: a server to check, its clients, and the answers to compare with.
import assert from "node:assert/strict";
import type { Json } from "../../core/json.ts";
import type { Call, Solution } from "../environments.ts";
import type { ClientOptions, GymClient, GymReply } from "./client.ts";

export interface GymTarget {
  /** The server's URL, without a trailing slash. */
  url: string;
  /** The task to seed and verify with. */
  task: { [field: string]: Json };
  /** Calls that show state: their answers depend on earlier calls. */
  calls: Call[];
  /** Calls to try in turn while the answers show no state. Two tools may undo each other's changes. */
  others?: Call[][];
  /** The tools and the JSON Schemas of their arguments, as far as known. */
  tools: Map<string, { [key: string]: Json }>;
  solution?: Solution | undefined;
  /** The best known reward. Default 1. */
  bestReward?: number | undefined;
}

export type Answers = Pick<GymReply, "status" | "body">[];

export interface Trial extends GymTarget {
  bestReward: number;
  /** Creates a client without a session. */
  client(options?: ClientOptions): GymClient;
  /** Creates a client with a new session, seeded with the task. */
  seeded(options?: ClientOptions): Promise<GymClient>;
  /** Seeds with a client's cookies. */
  seed(client: GymClient, path?: string): Promise<GymReply>;
  /** `first` has the answers to the calls in a new session, `second` to the same calls repeated in that session. */
  first: Answers;
  second: Answers;
}

export interface GymCheck {
  what: string;
  why: string;
  /** True if the check compares answers. It is skipped if the server's answers are not deterministic. */
  compares?: boolean;
  /** Returns the reason for skipping, if there is one. Rejects on failure. */
  run(trial: Trial): Promise<string | undefined | void>;
}

export const noState =
  "the calls return the same answers every time, so they do not show any state; choose other calls with --tool";

export async function make(client: GymClient, calls: Call[]): Promise<Answers> {
  const answers: Answers = [];
  for (const { tool, input } of calls) {
    const { status, body } = await client.post(`/${tool}`, input);
    answers.push({ status, body });
  }
  return answers;
}

// A Responses object without output: valid for the server, with nothing to score.
export const response = {
  id: "resp_check",
  object: "response",
  created_at: 0,
  model: "check",
  status: "completed",
  output: [],
  tools: [],
  tool_choice: "auto",
  parallel_tool_calls: true,
};

/** The body of a verify: the whole row, as agents send it. */
export const verifyBody = (task: { [field: string]: Json }): { [field: string]: Json } => ({
  responses_create_params: { input: [] },
  ...task,
  response,
});

/** Returns the reward in a reply to verify; undefined if the verify was refused or marked as failed. */
export function rewardIn({ status, body }: Answers[number]): number | undefined {
  const { reward, mask_sample, _ng_failure_class } = Object(body) as { [field: string]: Json };
  const isScored = status < 300 && mask_sample !== true && (_ng_failure_class ?? null) === null;
  return isScored && typeof reward === "number" ? reward : undefined;
}

export async function verify(client: GymClient, task: { [field: string]: Json }): Promise<number> {
  const reply = await client.post("/verify", verifyBody(task));
  const { failure_reason: failure } = Object(reply.body) as { failure_reason?: unknown };
  const problem =
    typeof failure === "string" ? `verify failed: ${failure}` : `verify returned no reward: ${inText(reply)}`;
  return rewardIn(reply) ?? assert.fail(problem);
}

export function assertNo5xx(answer: Answers[number], what: string): void {
  assert.ok(answer.status < 500, `${what} returned ${inText(answer)}`);
}

export function showsState({ first, second }: Pick<Trial, "first" | "second">): boolean {
  return JSON.stringify(first) !== JSON.stringify(second);
}

/** Returns whether these answers come from a session in which the calls had already been made once. */
export const continues = (answers: Answers, { second }: Trial): boolean =>
  JSON.stringify(answers) === JSON.stringify(second);

export function same(actual: Answers, expected: Answers, what: string): void {
  for (const [at, answer] of expected.entries()) {
    const [got, wanted] = [inText(actual[at]), inText(answer)];
    assert.ok(got === wanted, `${what}, call ${at + 1} returned ${got} instead of ${wanted}`);
  }
}

export function inText(answer: Answers[number] | undefined): string {
  return answer ? `${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}` : "nothing";
}
