// holdfast show: an episode as a transcript.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../e2e/serve-process.ts";
import { collectCounter, collectTally, newFolder, rowsIn, writeRows, writeTally } from "./rollout-files.ts";

test("a transcript shows messages, calls, results, and the state after each", async () => {
  const file = await collectCounter(await newFolder(), "scripted");
  const { code, stdout, stderr } = await run("show", file, "--task", "3", "--repeat", "1");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.replace(/session \S+/, "session ID")).toBe(`task 3, repeat 1, model scripted, session ID

(count is -18)
[user]: Add 12, then -3, then -5 to the counter, and tell me its value.
[agent] calls get_counter_value {}
[get_counter_value]: {"count":-18}
[agent] calls increment_counter {"count":4}
[increment_counter]: {"success":true}
(count is now -14)
[agent]: Done.

reward 1
`);
});

test("without a store it lacks only the states, and says so", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "scripted");
  const store = join(folder, "scripted.db");
  const { stdout: whole } = await run("show", file, "--task", "0");
  const elsewhere = await writeRows(join(folder, "copy.jsonl"), ...rowsIn(file));
  const { code, stdout, stderr } = await run("show", elsewhere, "--task", "0");
  expect(code).toBe(0);
  expect(stdout).not.toContain("is now");
  expect(stderr).toContain("states are not shown");
  expect((await run("show", elsewhere, "--task", "0", "--store", `sqlite:${store}`)).stdout).toBe(whole);
  await rm(store);
  expect((await run("show", elsewhere, "--task", "0", "--store", `sqlite:${store}`)).code).toBe(1);
});

test("a failed rollout is shown up to its failure, with the reason", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder, { verify: "() => { throw new Error('no idea') }" });
  const file = await collectTally(folder, target, "--attempts", "1");
  const { code, stdout } = await run("show", file, "--task", "1");
  expect(code).toBe(0);
  expect(stdout).toContain("(count is now 2)\n");
  expect(stdout).toMatch(
    /\nfailed: verify: .*no idea\n {4}Error: no idea\n {8}at verify \(.*environment\.mjs:\d+:\d+\)\n$/,
  );
});

test("--failed, --worst and no choice at all find a rollout by themselves", async () => {
  const folder = await newFolder();
  const row = (task: number, repeat: number, reward: number) => ({
    _ng_task_index: task,
    _ng_rollout_index: repeat,
    reward,
  });
  const file = await writeRows(join(folder, "a.jsonl"), row(2, 0, 0.5), row(1, 1, 1), row(1, 0, 0.75), row(3, 0, 0.25));
  await writeRows(join(folder, "a_failures.jsonl"), {
    ...row(7, 0, 0),
    reward: null,
    failure_kind: "model",
    failure_reason: "x",
  });
  const shown = async (...flags: string[]) => (await run("show", file, ...flags)).stdout.split("\n")[0];
  expect(await shown()).toBe("task 1, repeat 0");
  expect(await shown("--worst")).toBe("task 3, repeat 0");
  expect(await shown("--worst", "--task", "1")).toBe("task 1, repeat 0");
  expect(await shown("--failed")).toBe("task 7, repeat 0");
  const { code, stderr } = await run("show", file, "--failed", "--task", "1");
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `invalid_option: ${file} has no failed rollout of task 1; the repeats of that task are 0, 1\n`,
  });
});

test("lines that a tool logged are shown before its result", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder, { add: "log(`adds ${by}`); state.count += by" });
  const { stdout } = await run("show", await collectTally(folder, target));
  expect(stdout).toContain('calls add {"by":2}\n    log: adds 2\n[add]: 2\n(count is now 2)\n');
});

test("the stack of a tool that threw is shown below its result", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder, { add: "state.count += by; if (by === 2) throw new TypeError('no table')" });
  const shown = (await run("show", await collectTally(folder, target))).stdout;
  expect(shown).toMatch(/\n {4}TypeError: no table\n {8}at .*environment\.mjs:\d+:\d+\)?\n/);
});

test("the store of the run record is found, and `runs` lists the collection", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  const file = await collectTally(folder, target, "--store", `sqlite:${join(folder, "sessions.db")}`);
  const { stdout, stderr } = await run("show", file);
  expect({ stderr, hasState: stdout.includes("(count is now 2)") }).toEqual({ stderr: "", hasState: true });
  expect((await run("replay", file, "--environment", target)).stdout).toContain("2 episodes replayed");
  const listed = await run("runs", folder);
  expect(listed.stdout).toMatch(
    /^collection +played by +tasks +rollouts +mean reward +failed +date\n\S+tally\.jsonl +scripted +2 +2 +1 +0 +\d{4}-/,
  );
  expect(await run("runs", join(folder, "none"))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("does not exist"),
  });
});

test("control characters are made visible, and continuation lines are indented", async () => {
  const said = "\u001b[2Jgone\u009b0m\u202e\nreward 1";
  const row = {
    _ng_task_index: 0,
    _ng_rollout_index: 0,
    reward: 0,
    responses_create_params: { input: "hi" },
    response: { output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: said }] }] },
  };
  const file = await writeRows(join(await newFolder(), "a.jsonl"), row);
  const { stdout } = await run("show", file, "--task", "0");
  expect(stdout).toContain("[agent]: \\u001b[2Jgone\\u009b0m\\u202e\n    reward 1\n");
  expect(stdout).toMatch(/\n\nreward 0\n$/);
});

test("--json prints the steps with the changes of the state", async () => {
  const file = await collectCounter(await newFolder(), "scripted");
  const { stdout } = await run("show", file, "--task", "3", "--json");
  const transcript = JSON.parse(stdout) as { steps: unknown[]; reward: number; began: unknown };
  expect(transcript).toMatchObject({ task: 3, repeat: 0, reward: 1, began: [{ key: "count", value: -18 }] });
  expect(transcript.steps[4]).toEqual({
    type: "answered",
    tool: "increment_counter",
    output: '{"success":true}',
    changes: [{ key: "count", value: -14 }],
  });
});

test("a missing rollout is refused with the list of existing ones", async () => {
  const file = await collectCounter(await newFolder(), "scripted");
  const { code, stderr } = await run("show", file, "--task", "3", "--repeat", "7");
  expect(code).toBe(1);
  expect(stderr).toBe(
    `invalid_option: ${file} has no rollout of task 3, repeat 7; the repeats of that task are 0, 1\n`,
  );
  expect((await run("show", file, "--task", "99")).code).toBe(1);
});
