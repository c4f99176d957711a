// holdfast tasks: check, sample, split and render.
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../e2e/serve-process.ts";
import { linesOf, newFolder, rowsIn, writeRows } from "./rollout-files.ts";

const tasks = "examples/counter/tasks.jsonl";

test("check names the line of every error", async () => {
  expect(await run("tasks", "check", tasks, "--environment", "examples/counter")).toMatchObject({
    code: 0,
    stdout: "60 rows of 60 tasks: all valid\n",
  });
  const input = { input: "hi" };
  const file = await writeRows(
    join(await newFolder(), "bad.jsonl"),
    { initial_count: 1, responses_create_params: input },
    "{bad",
    { initial_count: "x", responses_create_params: { ...input, tools: [{ name: "wipe" }] } },
    { initial_count: 1 },
  );
  const { code, stdout } = await run("tasks", "check", file, "--environment", "examples/counter");
  expect(code).toBe(1);
  expect(stdout.replaceAll(file, "FILE").split("\n")).toEqual([
    expect.stringMatching(/^FILE:2: it is not JSON/),
    expect.stringMatching(/^FILE:3: it is invalid for counter: initial_count: /),
    'FILE:3: it names a tool "wipe" that counter does not have',
    "FILE:4: it has no `responses_create_params.input`",
    "4 rows of 3 tasks: 1 valid, 3 invalid",
    "",
  ]);
  const numbered = [1, 1, 2].map((initial_count) => ({
    _ng_task_index: 3,
    initial_count,
    responses_create_params: input,
  }));
  const other = await writeRows(join(await newFolder(), "numbered.jsonl"), ...numbered);
  expect((await run("tasks", "check", other)).stdout.replaceAll(other, "FILE").split("\n")).toEqual([
    "FILE:3: an earlier task has the same `_ng_task_index` 3",
    "3 rows of 1 tasks: 2 valid, 1 invalid",
    "",
  ]);
  expect((await run("tasks", "split", other, "--parts", "a=1")).stderr).toMatch(
    /^invalid_task: line 3: an earlier task/,
  );
  const told = linesOf((await run("tasks", "check", file, "--json")).stdout);
  expect(told.at(-1)).toEqual({ rows: 4, tasks: 3, fit: 2, wrong: 2 });
});

test("sample draws the same rows for the same seed, byte for byte", async () => {
  const file = await writeRows(
    join(await newFolder(), "a.jsonl"),
    '{"n":1.0}',
    '{"n": 12345678901234567890}',
    '{"n":3}',
  );
  const { stdout } = await run("tasks", "sample", file, "--number", "9");
  expect(stdout).toBe(await readFile(file, "utf8"));
  const draw = async (seed: string) => (await run("tasks", "sample", tasks, "--number", "5", "--seed", seed)).stdout;
  const [first, again, other] = [await draw("1"), await draw("1"), await draw("2")];
  expect(linesOf(first)).toHaveLength(5);
  expect(again).toBe(first);
  expect(other).not.toBe(first);
});

test("split puts every task into one part, together with its repeats", async () => {
  const folder = await newFolder();
  const rows = Array.from({ length: 40 }, (_, at) => ({ at: at % 20 }));
  const file = await writeRows(join(folder, "a.jsonl"), ...rows);
  const { code, stdout } = await run("tasks", "split", file, "--parts", "train=0.8,test=0.2");
  expect({ code, stdout: stdout.replaceAll(folder, "") }).toEqual({
    code: 0,
    stdout: "/a_train.jsonl: 32 rows\n/a_test.jsonl: 8 rows\n",
  });
  const [train, test] = ["train", "test"].map(
    (name) => new Set(rowsIn(join(folder, `a_${name}.jsonl`)).map(({ at }) => at)),
  );
  expect([train?.size, test?.size]).toEqual([16, 4]);
  expect([...(train ?? [])].filter((at) => test?.has(at))).toEqual([]);
  expect((await run("tasks", "split", file, "--parts", "train=0.8,test=0.2")).stderr).toContain("already exists");
});

test("render builds prompts from the fields of each row, and names missing fields", async () => {
  const folder = await newFolder();
  const file = await writeRows(
    join(folder, "a.jsonl"),
    { goal: 5, who: { name: "Ann" } },
    { goal: 6, who: { name: "Bo" } },
  );
  const out = join(folder, "out.jsonl");
  const prompt = ["--prompt", "{who.name}: {goal} {{x}}", "--system", "Be brief."];
  expect((await run("tasks", "render", file, ...prompt, "--out", out)).stdout).toBe(`${out}: 2 rows\n`);
  const content = "Ann: 5 {x}";
  expect(rowsIn(out)[0]).toEqual({
    goal: 5,
    who: { name: "Ann" },
    responses_create_params: {
      input: [
        { role: "system", content: "Be brief." },
        { role: "user", content },
      ],
    },
  });
  expect((await run("tasks", "render", out, "--prompt", "x")).stderr).toMatch(
    /^invalid_task: line 1 already has an input/,
  );
  const failed = await run("tasks", "render", file, "--prompt", "{aim}", "--out", join(folder, "none.jsonl"));
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toBe("invalid_task: line 1: the prompt uses {aim}, but the row has no such field\n");
  expect(await readdir(folder)).toEqual(["a.jsonl", "out.jsonl"]);
});
