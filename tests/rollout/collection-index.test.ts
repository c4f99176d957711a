// A collection to be viewed: the summary of its rows, and each whole row by its number.
import { appendFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";
import type { RowSummary, Collection } from "../../src/rollout/collection-view.ts";
import { assertRollouts, openCollection } from "../../src/rollout/collection-index.ts";
import { summarizeRow } from "../../src/rollout/collection-index/summary.ts";
import { newFolder } from "./folder.ts";

const lines = (...rows: unknown[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const rollout = (task: number, repeat = 0): TaskRow => ({ _ng_task_index: task, _ng_rollout_index: repeat, reward: 1 });
const failure = (task: number, more: TaskRow = {}): TaskRow => ({
  ...rollout(task),
  reward: null,
  failure_kind: "model",
  failure_reason: "gone",
  mask_sample: true,
  ...more,
});

function fileOf(text: string, failures?: string): string {
  const folder = newFolder();
  const file = join(folder, "a.jsonl");
  writeFileSync(file, text);
  if (failures !== undefined) writeFileSync(join(folder, "a_failures.jsonl"), failures);
  return file;
}

const runOf = (file: string): Collection =>
  openCollection({ run: "0", name: "a", file, environment: null, model: null, settings: {}, sessions: false });

async function batchesOf(run: Collection): Promise<RowSummary[][]> {
  const batches: RowSummary[][] = [];
  for await (const batch of run.rows()) batches.push(batch);
  return batches;
}

const summariesOf = async (run: Collection): Promise<RowSummary[]> => (await batchesOf(run)).flat();

describe("a summary", () => {
  const said = (text: string) => ({ type: "message", role: "assistant", content: [{ type: "output_text", text }] });
  const call = (id: string, name: string) => ({ type: "function_call", call_id: id, name, arguments: "{}" });
  const gave = (id: string) => ({ type: "function_call_output", call_id: id, output: "ok" });
  const row: TaskRow = {
    ...rollout(3, 2),
    reward: 0.5,
    session_id: "s",
    seconds: 1.5,
    stopped: "steps",
    _ng_attempt_index: 1,
    parent: "p",
    forked_at: 4,
    branch: "0.1",
    metrics: { recall: 0.25, exact: true, note: "long" },
    responses_create_params: {
      input: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "An example" },
        { role: "assistant", content: "An answer" },
        { role: "user", content: [{ type: "input_text", text: "Add 2." }] },
      ],
    },
    response: {
      output: [call("1", "add"), call("2", "read"), gave("1"), gave("2"), call("3", "add"), gave("3"), said("Done.")],
      created_at: 1_700_000_000,
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    },
  };
  const whole: RowSummary = {
    row: 7,
    task: 3,
    repeat: 2,
    branch: "0.1",
    attempt: 1,
    reward: 0.5,
    outcome: "scored",
    kind: null,
    stopped: "steps",
    steps: 3,
    calls: 3,
    tokens: 15,
    isEstimate: false,
    seconds: 1.5,
    began: 1_700_000_000,
    tools: ["add", "read"],
    text: "Add 2.",
    answer: "Done.",
    reason: null,
    metrics: { recall: 0.25, exact: 1 },
    session: "s",
    parent: "p",
  };

  test("has the fields of a table", () => {
    expect(summarizeRow({ row, failed: false }, 7)).toEqual(whole);
  });

  test.each<[string, TaskRow, boolean, Partial<RowSummary>]>([
    [
      "a failed row has its kind, its reason and no reward",
      failure(3),
      true,
      { outcome: "failed", kind: "model", reason: "gone", reward: null },
    ],
    ["a masked row has no reward", { ...row, mask_sample: true }, false, { outcome: "masked", reward: null }],
    [
      "without a total, tokens are added",
      { response: { usage: { input_tokens: 2, output_tokens: 3 } } },
      false,
      { tokens: 5 },
    ],
    ["of a task's own parent nothing is made", { parent: "p" }, false, { parent: null, branch: null }],
    [
      "the answer is the last one",
      { response: { output: [said("One."), said("Two.")] } },
      false,
      { text: "", answer: "Two." },
    ],
    [
      "an empty row has nothing",
      {},
      false,
      { task: null, reward: null, steps: 0, tokens: null, text: "", session: null },
    ],
    [
      "parts that are no objects are passed over",
      { responses_create_params: { input: [{ role: "user", content: [null, 1] }] } },
      false,
      { text: "" },
    ],
  ])("%s", (_, row, failed, wanted) => {
    expect(summarizeRow({ row, failed }, 0)).toMatchObject(wanted);
  });

  test("truncates long texts and many tools, not within a character", () => {
    const output = Array.from({ length: 300 }, (_, at) => call(String(at), `${at}${"x".repeat(1000)}`));
    const long: TaskRow = { responses_create_params: { input: `${"x".repeat(159)}😀` }, response: { output } };
    const { text, tools, calls } = summarizeRow({ row: long, failed: false }, 0);
    expect([text, tools.length, calls]).toEqual(["x".repeat(159), 100, 300]);
    expect(Math.max(...tools.map(({ length }) => length))).toBe(100);
  });

  test("can be made from any row", () => {
    const odd = fc.record(
      {
        responses_create_params: fc.jsonValue(),
        response: fc.jsonValue(),
        reward: fc.jsonValue(),
        _ng_task_index: fc.jsonValue(),
        failure_kind: fc.jsonValue(),
        branch: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const output = fc.record({
      output: fc.array(
        fc.oneof(fc.jsonValue(), fc.record({ role: fc.constantFrom("user", "assistant"), content: fc.jsonValue() })),
      ),
    });
    fc.assert(
      fc.property(odd, output, fc.boolean(), (row, response, failed) => {
        const summary = summarizeRow({ row: { ...row, response } as TaskRow, failed }, 0);
        expect(Object.keys(summary).sort()).toEqual(Object.keys(whole).sort());
      }),
    );
  });
});

describe("rows", () => {
  test("failures come after scored rows, without failures that a later attempt replaced", async () => {
    const again = lines(
      failure(1, { retried: true, n: 1 }),
      failure(2, { n: 2 }),
      failure(1, { n: 3 }),
      failure(2, { n: 4 }),
    );
    const run = runOf(fileOf(lines(rollout(0), rollout(1)), again));
    const summaries = await summariesOf(run);
    expect(summaries.map(({ row, task, outcome }) => [row, task, outcome])).toEqual([
      [0, 0, "scored"],
      [1, 1, "scored"],
      [2, 2, "failed"],
    ]);
    expect(await run.row(2)).toMatchObject({ n: 4 });
    expect(await run.row(3)).toBeUndefined();
  });

  test("invalid rows, and a truncated last one, are skipped", async () => {
    const run = runOf(fileOf(`${lines(rollout(0))}oops\n\n[1]\n${lines(rollout(1))}{"_ng_task_in`));
    expect((await summariesOf(run)).map(({ task }) => task)).toEqual([0, 1]);
    expect(await run.row(1)).toMatchObject({ _ng_task_index: 1 });
  });

  test("each is found by its number, even before all of them were read", async () => {
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\u2028", "\uFEFF", "é", "😀", "a\r\nb"));
    const row = fc.record({ text, n: fc.integer() });
    const between = fc.constantFrom("\n", "\n\n", "\r\n", "\nno row\n", "\n  \n");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(row, between)), fc.boolean(), fc.boolean(), async (rows, hasMark, ends) => {
        const body = rows.map(([row, end], at) => JSON.stringify(row) + (at === rows.length - 1 && !ends ? "" : end));
        const file = fileOf((hasMark ? "\uFEFF" : "") + body.join(""));
        const run = runOf(file);
        for (let round = 0; round < 2; round++) {
          for (const [at, [row]] of rows.entries()) {
            const { _ng_task_index: _, _ng_rollout_index: __, ...stored } = (await run.row(at)) ?? {};
            expect(stored).toEqual(JSON.parse(JSON.stringify(row)));
          }
          expect(await run.row(rows.length)).toBeUndefined();
          expect(await summariesOf(run)).toHaveLength(rows.length);
        }
      }),
      { numRuns: 30 },
    );
  });

  test("they come in batches, with fewer long ones per batch", async () => {
    const many = Array.from({ length: 1_200 }, (_, at) => rollout(at));
    const sizes = async (file: string): Promise<number[]> => (await batchesOf(runOf(file))).map(({ length }) => length);
    expect(await sizes(fileOf(lines(...many)))).toEqual([500, 500, 200]);
    const long = { ...rollout(0), text: "x".repeat(3 * 1024 * 1024) };
    expect(await sizes(fileOf(lines(long, long, long)))).toEqual([2, 1]);
    expect(await sizes(fileOf(""))).toEqual([]);
  });

  test("a file that grows is read again", async () => {
    const file = fileOf(lines(rollout(0)));
    const run = runOf(file);
    expect(await summariesOf(run)).toHaveLength(1);
    appendFileSync(file, lines(rollout(1)));
    expect(await run.row(1)).toMatchObject({ _ng_task_index: 1 });
    expect(await summariesOf(run)).toHaveLength(2);
  });

  test("a replaced or truncated file gives no row from its old position", async () => {
    const file = fileOf(lines(rollout(0), rollout(1)));
    const run = runOf(file);
    await summariesOf(run);
    writeFileSync(`${file}.new`, lines(rollout(5), rollout(6)));
    renameSync(`${file}.new`, file);
    expect(await run.row(1)).toMatchObject({ _ng_task_index: 6 });
    await summariesOf(run);
    writeFileSync(file, lines({ ...rollout(7), text: "longer" }));
    expect(await run.row(0)).toMatchObject({ _ng_task_index: 7 });
    expect(await run.row(1)).toBeUndefined();
  });
});

describe("search", () => {
  const spoken = (role: string, content: unknown): TaskRow => ({ type: "message", role, content }) as TaskRow;
  const rows: TaskRow[] = [
    { responses_create_params: { instructions: "Be kind", input: "Add 2" } },
    { response: { output: [spoken("assistant", [{ type: "output_text", text: "I do NOT know" }])] } },
    { response: { output: [{ type: "function_call", call_id: "1", name: "file_report", arguments: '{"by":7}' }] } },
    { response: { output: [{ type: "function_call_output", call_id: "1", output: "filed already" }] } },
    { session_id: "S-42" },
  ];
  const failed = { ...failure(9), failure_reason: "connection reset" };

  test.each([
    ["add 2", [0]],
    ["be kind", [0]],
    ["do not KNOW", [1]],
    ["file_rep", [2]],
    ['"by":7', [2]],
    ["filed already", [3]],
    ["s-42", [4]],
    ["connection reset", [5]],
    ["nowhere", []],
  ])("finds %s", async (text, wanted) => {
    const found: number[] = [];
    for await (const some of runOf(fileOf(lines(...rows), lines(failed))).search(text)) found.push(...some);
    expect(found).toEqual(wanted);
  });

  test("reads any row", async () => {
    const item = fc.oneof(
      fc.jsonValue(),
      fc.record({ role: fc.constantFrom("user", "assistant"), content: fc.jsonValue() }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(item), async (output) => {
        const file = fileOf(lines({ response: { output } }));
        for await (const some of runOf(file).search("x")) expect(some.length).toBeLessThan(2);
      }),
      { numRuns: 50 },
    );
  });
});

test("totals have the wall time from the first start to the last end, not the sum of the episodes", async () => {
  const at = (began: number, seconds: number, more: TaskRow = {}): TaskRow => ({
    ...rollout(0, began),
    seconds,
    response: { created_at: began },
    ...more,
  });
  const run = runOf(fileOf(lines(at(100, 8), at(101, 9), at(102, 1, { reward: 0 })), lines(failure(1))));
  expect(await run.totals(new AbortController().signal)).toEqual({
    rollouts: 4,
    tasks: 2,
    failed: 1,
    reward: 2 / 3,
    tokens: null,
    began: 100,
    wallSeconds: 10,
  });
});

test("totals are read again only when the file has changed, and not to the end when the client has left", async () => {
  const file = fileOf(lines(rollout(0), rollout(1)));
  const run = runOf(file);
  const leaving = new AbortController();
  leaving.abort();
  expect(await run.totals(leaving.signal)).toMatchObject({ rollouts: 0 });
  const { signal } = new AbortController();
  const first = await run.totals(signal);
  expect(first).toMatchObject({ rollouts: 2 });
  expect(await run.totals(signal)).toBe(first);
  appendFileSync(file, lines(rollout(2)));
  expect(await run.totals(signal)).toMatchObject({ rollouts: 3 });
});

describe("a file without rollouts is refused", () => {
  test.each<[string, string, string | undefined]>([
    ["one without rows yet", "", undefined],
    ["one with a row after a line that is none", `oops\n${lines(rollout(0))}`, undefined],
    ["text", "# Title\n\nwords\n", "a.jsonl is not in JSON Lines format: line 1: it is not JSON"],
    ["a list", "[1, 2]\n", "line 1: it is not a JSON object"],
  ])("%s", async (_, text, message) => {
    const asserted = assertRollouts(fileOf(text));
    if (message === undefined) await asserted;
    else
      await expect(asserted).rejects.toThrow(
        expect.objectContaining({ code: "cannot_load", message: expect.stringContaining(message) as string }),
      );
  });

  test("one that is missing, and a folder", async () => {
    const folder = newFolder();
    await expect(assertRollouts(join(folder, "no.jsonl"))).rejects.toThrow("does not exist");
    await expect(assertRollouts(folder)).rejects.toThrow("is a folder");
  });

  test.skipIf(process.platform === "win32")("one that can be read only once", async () => {
    await expect(assertRollouts("/dev/null")).rejects.toThrow("can be read only once");
  });

  test("one that was deleted since is refused before the first row", () => {
    const run = runOf(join(newFolder(), "no.jsonl"));
    expect(() => run.rows()).toThrow(expect.objectContaining({ code: "cannot_load" }));
  });
});
