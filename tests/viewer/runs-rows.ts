// Random rows of a run: with ties, without numbers, failed, forked.
import fc from "fast-check";
import type { RowSummary } from "../../src/rollout/collection-view.ts";

const word = fc.constantFrom("", "Add 2", "add -4 then", "Tell ME", "counter", "zebra");
const score = fc.oneof(fc.constantFrom(0, 0.5, 1), fc.double({ min: -2, max: 3, noNaN: true }));
const tool = fc.constantFrom("get_value", "increment", "reset");

const row = fc.record({
  task: fc.option(fc.nat(6)),
  repeat: fc.option(fc.nat(5)),
  branch: fc.option(fc.constantFrom("0", "0.2")),
  failure: fc.option(fc.constantFrom("model", "verify", "timeout"), { freq: 4 }),
  score: fc.option(score, { freq: 6 }),
  stopped: fc.option(fc.constantFrom("max_steps", "max_tokens")),
  steps: fc.nat(9),
  calls: fc.nat(9),
  tokens: fc.option(fc.nat(3_000), { freq: 6 }),
  seconds: fc.option(fc.nat(100)),
  tools: fc.uniqueArray(tool),
  text: word,
  answer: word,
  began: fc.option(fc.nat(1_000)),
});

export const someRows: fc.Arbitrary<RowSummary[]> = fc.array(row, { maxLength: 60 }).map((rows) =>
  rows.map(({ failure, score, ...rest }, at) => ({
    ...rest,
    row: at,
    attempt: null,
    session: `session-${at}`,
    parent: null,
    kind: failure,
    reason: failure === null ? null : `the ${failure} failed after ${at} s`,
    metrics: {},
    isEstimate: false,
    outcome: failure === null ? "scored" : "failed",
    reward: failure === null ? score : null,
  })),
);

/** Makes a row from the given fields and defaults. */
export function rowOf(given: Partial<RowSummary>): RowSummary {
  return {
    row: 0,
    task: 0,
    repeat: null,
    branch: null,
    attempt: null,
    reward: null,
    outcome: "scored",
    kind: null,
    stopped: null,
    steps: 1,
    calls: 0,
    tokens: null,
    isEstimate: false,
    seconds: null,
    began: null,
    tools: [],
    text: "",
    answer: "",
    reason: null,
    metrics: {},
    session: null,
    parent: null,
    ...given,
  };
}

/** The fields of a collected row that metrics read, for a summary. */
export function fileRow({ task, repeat, reward, kind, tokens, seconds }: RowSummary): { [name: string]: unknown } {
  return {
    ...(task !== null && { _ng_task_index: task }),
    ...(repeat !== null && { _ng_rollout_index: repeat }),
    ...(reward !== null && { reward }),
    ...(kind !== null && { failure_kind: kind }),
    ...(seconds !== null && { seconds }),
    response: { usage: tokens === null ? {} : { total_tokens: tokens } },
  };
}
