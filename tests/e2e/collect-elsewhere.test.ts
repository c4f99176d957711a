// `holdfast collect` with a remote environment or agent: third-party servers, and Holdfast's own.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { gather } from "../protocols/foreign-collector.ts";
import { foreignGym } from "../protocols/foreign-gym.ts";
import { run, start, startServing } from "./serve-process.ts";

type Row = Record<string, unknown>;

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-elsewhere-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function rowsIn(file: string): Promise<Row[]> {
  const lines = (await readFile(file, "utf8")).split("\n");
  return lines.filter(Boolean).map((line) => JSON.parse(line) as Row);
}

const tasks = "examples/counter/tasks.jsonl";

test("on a strict third-party server every episode is scored, and one with a lost connection is played again", async () => {
  let calls = 0;
  const { url, seeded } = await foreignGym(({ path }) =>
    path === "/increment_counter" && ++calls === 5 ? "drop" : undefined,
  );
  const out = join(await newFolder(), "out.jsonl");
  // The solution beside the environment plays; the environment itself is theirs.
  const ended = await run(
    "collect",
    "examples/counter",
    "--server",
    url,
    "--limit",
    "20",
    "--repeats",
    "2",
    "--out",
    out,
  );
  expect(ended.stderr).not.toContain("Error");
  expect(ended.code).toBe(0);
  const rows = await rowsIn(out);
  expect(rows.length).toBe(40);
  expect(rows.map(({ reward, metrics }) => ({ reward, metrics }))).toEqual(
    rows.map(({ expected_count }) => ({ reward: 1, metrics: { final_count: expected_count } })),
  );
  const failures = await rowsIn(out.replace(".jsonl", "_failures.jsonl"));
  expect(failures).toMatchObject([{ failure_kind: "tool", retried: true, reward: null }]);
  expect(seeded()).toBe(41);
});

test(
  "RESUME: killed and resumed repeatedly on a strict third-party server, each rollout comes once, with its true reward",
  { tags: ["full"] },
  async () => {
    const kills = [30, 75, 140, 200];
    let kill = (): void => undefined;
    const { url, requests, seeded } = await foreignGym((_, seen) => {
      if (seen === kills[0]) {
        kills.shift();
        kill();
      }
      return undefined;
    });
    const out = join(await newFolder(), "out.jsonl");
    const args = ["collect", "examples/counter", "--server", url, "--concurrency", "6", "--out", out, "--resume"];
    for (let code: number | null = null; code === null;) {
      const running = await start(args);
      kill = () => running.process.kill("SIGKILL");
      const ended = await running.ended;
      ({ code } = ended);
      if (code !== null) expect(ended).toMatchObject({ code: 0 });
    }
    expect(kills).toEqual([]);
    const rows = await rowsIn(out);
    expect(new Set(rows.map((row) => row["_ng_task_index"])).size).toBe(60);
    expect(rows.length).toBe(60);
    expect(rows.filter(({ reward }) => reward !== 1)).toEqual([]);
    // Only unknown calls, and rollouts killed during their seed, were started again.
    const failures = await rowsIn(out.replace(".jsonl", "_failures.jsonl"));
    expect(
      failures.every((row) => row["retried"] === true && /run it twice|stale/.test(String(row["failure_reason"]))),
    ).toBe(true);
    expect(seeded()).toBeLessThanOrEqual(60 + 4 * 6);
    expect(requests.length).toBeLessThan(60 * 4 + 4 * 6 * 4);
  },
);

test("Holdfast as server, as agent and as collector gives the same rewards", async () => {
  const folder = await newFolder();
  const { url } = await startServing(["examples/counter", "--port", "0", "--model", "scripted"]);
  const [served, theirs] = [join(folder, "served.jsonl"), join(folder, "theirs.jsonl")];
  const short = ["--limit", "10", "--out"];
  expect(
    (await run("collect", url, "--tasks", tasks, "--model", "random", "--max-steps", "3", ...short, served)).code,
  ).toBe(0);
  expect((await rowsIn(served)).length).toBe(10);
  expect((await run("collect", "--agent", url, "--tasks", tasks, ...short, theirs)).code).toBe(0);
  const rewards = (rows: Row[]): unknown[] => rows.map(({ reward }) => reward);
  expect(rewards(await rowsIn(theirs))).toEqual(Array.from({ length: 10 }, () => 1));
  const { rows, failures } = await gather(url, (await rowsIn(tasks)).slice(0, 10));
  expect(failures).toEqual([]);
  expect(rewards(rows)).toEqual(Array.from({ length: 10 }, () => 1));
});

test("a missing server or file is reported before anything is played", async () => {
  const out = join(await newFolder(), "out.jsonl");
  const file = join(await newFolder(), "tasks.jsonl");
  await writeFile(file, '{"responses_create_params":{"input":"Go."}}\n');
  const rest = ["--model", "random", "--out", out];
  const gone = await run("collect", "--server", "http://127.0.0.1:1", "--tasks", file, ...rest);
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining("could not be reached") as string });
  const nobody = await run("collect", "--agent", "http://127.0.0.1:1", "--tasks", file, "--out", out);
  expect(nobody).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^server_failed: .*could not be reached/) as string,
  });
  expect(await run("collect", ...rest)).toMatchObject({
    stderr: expect.stringContaining("name an environment") as string,
  });
  const { url } = await foreignGym();
  const none = await run("collect", "--server", url, ...rest);
  expect(none.stderr).toContain("--tasks");
  await expect(readFile(out)).rejects.toThrow("ENOENT");
});
