// Tasks are read line by line, with any content, and have stable numbers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { countLines, createNumbering, readRows, type BadRow, type ReadRow } from "../../src/rollout/tasks.ts";
import { newFolder } from "./folder.ts";

async function read(text: string | Buffer): Promise<(ReadRow | BadRow)[]> {
  const file = join(newFolder(), "tasks.jsonl");
  writeFileSync(file, text);
  const found: (ReadRow | BadRow)[] = [];
  for await (const row of readRows(file)) found.push(row);
  expect(await countLines(file)).toBe(found.length);
  return found;
}

const shortOf = (found: (ReadRow | BadRow)[]) =>
  found.map((each) => [each.line, "row" in each ? each.row : each.problem.slice(0, 20)]);

test("lines are rows with their positions; blank ones are skipped, and invalid ones reported", async () => {
  const found = await read('\uFEFF{"a":1}\r\n\n  \n{"a":2}\nnope\n[1]\nnull\n{"a":3}');
  expect(shortOf(found)).toEqual([
    [1, { a: 1 }],
    [4, { a: 2 }],
    [5, "it is not JSON: Unex"],
    [6, "it is not a JSON obj"],
    [7, "it is not a JSON obj"],
    [8, { a: 3 }],
  ]);
});

test("a line ends only at a line feed: texts may contain other line separators", async () => {
  const row = { text: "a\u2028b\u2029c\u0085d\u000Be" };
  expect(shortOf(await read(`${JSON.stringify(row)}\n${JSON.stringify(row)}\n`))).toEqual([
    [1, row],
    [2, row],
  ]);
});

test("a row that could not be written again is reported, and the next ones are read", async () => {
  const deep = `{"deep":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
  const [first, second, third] = await read(`{"a":1}\n${deep}\n{"a":2}\n`);
  expect([first, third]).toMatchObject([{ row: { a: 1 } }, { row: { a: 2 } }]);
  expect(second).toMatchObject({
    line: 2,
    problem: expect.stringContaining("only JSON can be kept") as unknown,
  });
});

test("a line may be longer than the read buffer, and characters may cross its boundary", async () => {
  const rows = Array.from({ length: 5 }, (_, at) => ({ at, text: "ä€𝄞".repeat(30_000 + at) }));
  const found = await read(rows.map((row) => JSON.stringify(row)).join("\n"));
  expect(found.map((each) => "row" in each && each.row)).toEqual(rows);
});

test("an unreadable file is refused with a reason", async () => {
  const folder = newFolder();
  const all = async (file: string): Promise<void> => {
    for await (const _ of readRows(file)) continue;
  };
  await expect(all(join(folder, "none"))).rejects.toMatchObject({ code: "cannot_load" });
  await expect(all(folder)).rejects.toMatchObject({ code: "cannot_load" });
});

test("the same line is the same task, a row may bring its number, and an invalid line keeps its position", async () => {
  const lines = ['{"a":1}', '{"a":2}', '{"a":1}', "nope", '{"a":3}', '{"_ng_task_index":7}', '{"a":4}', '{"a":2}'];
  const found = await read(lines.join("\n"));
  expect(found.map(createNumbering()).map(({ task }) => task)).toEqual([0, 1, 0, 2, 3, 7, 8, 1]);
});

test("two tasks with one number are refused; the same task under its number is one task, whatever else is in the row", async () => {
  const row = (n: number, added: object = {}) => ({ _ng_task_index: 3, n, responses_create_params: {}, ...added });
  const rows = [
    { n: 0 },
    row(1),
    row(1, { _ng_rollout_index: 1, agent_ref: { name: "b" }, responses_create_params: { top_p: 1 } }),
    row(2),
    row(1, { responses_create_params: { input: "Other." } }),
    // The number that the first one was given.
    { ...row(0), _ng_task_index: 0 },
  ];
  const found = (await read(rows.map((each) => JSON.stringify(each)).join("\n"))).map(createNumbering());
  expect(found.map(({ task }) => task)).toEqual([0, 3, 3, 3, 3, 0]);
  expect(found.map((each) => ("problem" in each ? `${each.line}: ${each.problem}` : "fits"))).toEqual([
    "fits",
    "fits",
    "fits",
    "4: an earlier task has the same `_ng_task_index` 3",
    "5: an earlier task has the same `_ng_task_index` 3",
    "6: an earlier task has the same `_ng_task_index` 0",
  ]);
});

test("repeats of an earlier collection are one task: their results are not part of the task", async () => {
  const row = { _ng_task_index: 1, responses_create_params: { input: "Go." } };
  const repeats = [0, 1].map((reward) => ({
    ...row,
    reward,
    response: { id: `r${reward}` },
    session_id: `s${reward}`,
  }));
  const found = (await read(repeats.map((each) => JSON.stringify(each)).join("\n"))).map(createNumbering());
  expect(found.filter((each) => "problem" in each)).toEqual([]);
});

test("an overlong line is reported without being held, two of them are two tasks, and the next ones are read", async () => {
  const file = join(newFolder(), "tasks.jsonl");
  const long = `{"a":"${"x".repeat(200_000)}"}`;
  writeFileSync(file, `{"a":1}\n${long}\n${long}\n{"a":2}\n{"a":"${"y".repeat(92)}"}\n${long}`);
  const found: (ReadRow | BadRow)[] = [];
  for await (const row of readRows(file, 100)) found.push(row);
  expect(shortOf(found)).toEqual([
    [1, { a: 1 }],
    ...[2, 3].map((line) => [line, "it is longer than 10"]),
    [4, { a: 2 }],
    [5, { a: "y".repeat(92) }],
    [6, "it is longer than 10"],
  ]);
  expect(Math.max(...found.map(({ text }) => text.length))).toBe(100);
  expect(found.map(createNumbering()).map(({ task }) => task)).toEqual([0, 1, 2, 3, 4, 5]);
});
