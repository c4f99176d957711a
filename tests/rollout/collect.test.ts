// A collection plays missing rollouts with limited concurrency, and writes each outcome once despite interruptions.
import { copyFileSync, existsSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FailureKind, Play, Rollout, TaskRow } from "../../src/core/rollout.ts";
import { collect, type CollectOptions } from "../../src/rollout/collect.ts";
import { fileOutput, outputPaths } from "../../src/rollout/output.ts";
import { readLine, type BadRow, type ReadRow } from "../../src/rollout/tasks.ts";
import { runs } from "../runs.ts";
import { keysOf, newFolder, rowsOf } from "./folder.ts";

async function* rowsFrom(lines: Iterable<string>): AsyncGenerator<ReadRow | BadRow, void, undefined> {
  let line = 0;
  for (const text of lines) yield readLine(text, ++line);
}

const linesOf = (count: number): string[] => Array.from({ length: count }, (_, at) => `{"n":${at}}`);

/** A reward that depends on the rollout and its randomness. */
const scored: Play = ({ task, repeat, random, session }) =>
  Promise.resolve({ outcome: "scored", session, fields: { reward: (task * 7 + repeat + random) % 2 } });

const failing = (kind: FailureKind): Awaited<ReturnType<Play>> => ({
  outcome: "failed",
  session: "s",
  fields: { response: { output: [] } },
  failure: { kind, reason: "because" },
});

async function collected(out: string, given: Partial<CollectOptions> & { lines?: Iterable<string> } = {}) {
  return collect({
    output: fileOutput(out),
    run: "run",
    seed: 1,
    repeats: 1,
    concurrency: 4,
    attempts: 1,
    play: scored,
    tasks: rowsFrom(given.lines ?? linesOf(3)),
    prepare: (row: TaskRow) => row,
    pause: () => 0,
    ...given,
  });
}

const newOut = (): string => join(newFolder(), "rows.jsonl");

test("every task is played the given number of times, and its rows and inputs are numbered", async () => {
  const out = newOut();
  expect(await collected(out, { repeats: 2 })).toEqual({ before: 0, scored: 6, failed: 0, stopped: false });
  const wanted = ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"];
  expect(keysOf(rowsOf(out))).toEqual(wanted);
  expect(keysOf(rowsOf(outputPaths(out).inputs))).toEqual(wanted);
  expect(rowsOf(out)[0]).toMatchObject({ n: 0, session_id: expect.any(String), seconds: expect.any(Number) });
  expect(new Set(rowsOf(out).map((row) => row["session_id"])).size).toBe(6);
});

test("the first of many concurrent episodes ask their model before the last are opened", async () => {
  const seen: string[] = [];
  const play: Play = async (...given) => {
    seen.push("open");
    await nextTurn();
    seen.push("ask");
    return scored(...given);
  };
  await collected(newOut(), { play, concurrency: 512, lines: linesOf(512) });
  expect(seen.lastIndexOf("open")).toBeGreaterThan(seen.indexOf("ask") + 256);
});

test("a rollout's own duration is used: it may have waited elsewhere", async () => {
  const out = newOut();
  const play: Play = async (rollout, signal) => ({ ...(await scored(rollout, signal)), seconds: 61.2345 });
  await collected(out, { play, lines: linesOf(1) });
  expect(rowsOf(out)).toMatchObject([{ seconds: 61.235 }]);
});

test("a duplicate line has twice the repeats, a row may bring its number, and the limit counts rows", async () => {
  const lines = ['{"a":1}', '{"a":1}', '{"_ng_task_index":9}', '{"a":2}'];
  const out = newOut();
  await collected(out, { lines, repeats: 2 });
  expect(keysOf(rowsOf(out))).toEqual(["0-0", "0-1", "0-2", "0-3", "9-0", "9-1", "10-0", "10-1"]);
  const few = newOut();
  await collected(few, { lines, repeats: 2, limit: 2 });
  expect(keysOf(rowsOf(few))).toEqual(["0-0", "0-1", "0-2", "0-3"]);
});

test("runs exactly as many rollouts at once as allowed", async () => {
  let [now, most] = [0, 0];
  const play: Play = async (rollout, signal) => {
    most = Math.max(most, ++now);
    await sleep(5);
    now--;
    return scored(rollout, signal);
  };
  await collected(newOut(), { lines: linesOf(60), play, concurrency: 7 });
  expect(most).toBe(7);
});

test("of 100,000 tasks only the played ones are read: nothing is read ahead", async () => {
  let [read, ended, isClosed, ahead] = [0, 0, false, 0];
  function* endless(): Generator<string, void, undefined> {
    try {
      for (; read < 100_000; read++) yield `{"n":${read}}`;
    } finally {
      isClosed = true;
    }
  }
  const stopping = new AbortController();
  const play: Play = async (rollout, signal) => {
    await new Promise((resolve) => setImmediate(resolve));
    if (++ended === 5_000) stopping.abort();
    ahead = Math.max(ahead, read - ended);
    return scored(rollout, signal);
  };
  const { stopped } = await collected(newOut(), {
    lines: endless(),
    play,
    concurrency: 50,
    signal: stopping.signal,
  });
  expect({ stopped, isClosed }).toEqual({ stopped: true, isClosed: true });
  expect(ahead).toBeLessThanOrEqual(50);
  expect(read).toBeLessThanOrEqual(5_000 + 50);
});

test("SCORED: a failed rollout is retried in another session, then it is a failure without a reward", async () => {
  const out = newOut();
  const played: Rollout[] = [];
  const [retried, pauses]: [string[], number[]] = [[], []];
  const play: Play = async (rollout, signal) => {
    played.push(rollout);
    const { task, attempt } = rollout;
    if (task === 1 || (task === 2 && attempt < 2)) return failing("model");
    return scored(rollout, signal);
  };
  const result = await collected(out, {
    play,
    attempts: 3,
    concurrency: 1,
    lines: ['{"n":0}', '{"reward":1}', '{"n":2}'],
    onRetry: ({ task, attempt }, { kind }) => void retried.push(`${task}.${attempt} ${kind}`),
    pause: (attempt) => (pauses.push(attempt), 0),
  });
  expect(result).toMatchObject({ scored: 2, failed: 1 });
  expect(retried).toEqual(["1.0 model", "1.1 model", "2.0 model", "2.1 model"]);
  expect(pauses).toEqual([0, 1, 0, 1]);
  expect(new Set(played.map(({ session }) => session)).size).toBe(7);
  // The randomness of an episode is its rollout's.
  expect(new Set(played.map(({ random }) => random)).size).toBe(3);
  const failures = rowsOf(outputPaths(out).failures);
  expect(failures.map((row) => row["retried"] === true)).toEqual([true, true, false, true, true]);
  for (const failure of failures) {
    expect(failure).toMatchObject({
      reward: null,
      failure_kind: "model",
      failure_reason: "because",
      mask_sample: true,
    });
    expect(failure["response"]).toEqual({ output: [] });
  }
  const rows = rowsOf(out);
  expect(keysOf(rows)).toEqual(["0-0", "2-0"]);
  expect(rows.map((row) => row["_ng_attempt_index"])).toEqual([undefined, 2]);
  expect(rows.some((row) => "mask_sample" in row || "failure_kind" in row)).toBe(false);
});

test("resuming plays failed rollouts again, and continues their attempt count", async () => {
  const out = newOut();
  const attempts: number[] = [];
  const play =
    (until: number): Play =>
    async (rollout, signal) => {
      attempts.push(rollout.attempt);
      return rollout.attempt < until ? failing("store") : scored(rollout, signal);
    };
  expect(await collected(out, { lines: linesOf(1), attempts: 2, play: play(9) })).toMatchObject({ failed: 1 });
  expect(await collected(out, { lines: linesOf(1), attempts: 2, play: play(3) })).toMatchObject({
    scored: 1,
    failed: 0,
  });
  expect(attempts).toEqual([0, 1, 2, 3]);
  expect(await collected(out, { lines: linesOf(1), attempts: 2, play: play(3) })).toMatchObject({
    before: 1,
    scored: 0,
  });
  expect(attempts).toHaveLength(4);
});

test("interrupted attempts are not granted again", async () => {
  const out = newOut();
  const stopping = new AbortController();
  const attempts: number[] = [];
  const play: Play = async ({ attempt }) => {
    attempts.push(attempt);
    return failing("model");
  };
  await collected(out, {
    lines: linesOf(1),
    attempts: 3,
    play,
    signal: stopping.signal,
    onRetry: ({ attempt }) => attempt === 1 && stopping.abort(),
  });
  expect(attempts).toEqual([0, 1]);
  expect(await collected(out, { lines: linesOf(1), attempts: 3, play })).toMatchObject({ failed: 1 });
  expect(attempts).toEqual([0, 1, 2]);
});

test("SCORED: an invalid line or task fails once per repeat, and costs no attempt", async () => {
  const out = newOut();
  const lines = ['{"n":0}', "nope", '{"n":2}', '{"n":3}', "nope"];
  const prepare = (row: TaskRow): TaskRow => {
    if (row["n"] === 2) throw new Error("n is wrong");
    return row;
  };
  const given = { lines, prepare, repeats: 2, attempts: 3 };
  expect(await collected(out, given)).toMatchObject({ scored: 4, failed: 6 });
  const failures = rowsOf(outputPaths(out).failures);
  expect(keysOf(failures)).toEqual(["1-0", "1-1", "1-2", "1-3", "2-0", "2-1"]);
  expect(failures.map((row) => row["failure_kind"])).toEqual(Array(6).fill("task"));
  expect(failures.map((row) => String(row["failure_reason"]).slice(0, 18))).toContain("line 3: n is wrong");
  // Reported again, and not written again.
  expect(await collected(out, given)).toMatchObject({ before: 4, scored: 0, failed: 6 });
  expect(rowsOf(outputPaths(out).failures)).toEqual(failures);
});

test("RESUME: after a stop, scored rollouts stay, running ones are not failures, and the rest is played later", async () => {
  const out = newOut();
  const stopping = new AbortController();
  let ended = 0;
  const play: Play = async (rollout, signal) => {
    await sleep(1);
    if (rollout.task % 2 === 1 && signal.aborted) return failing("internal");
    if (++ended === 10) stopping.abort();
    return scored(rollout, signal);
  };
  const given = { repeats: 2, concurrency: 6, play };
  const cut = await collected(out, { ...given, lines: linesOf(20), signal: stopping.signal });
  expect(cut).toMatchObject({ stopped: true, failed: 0 });
  expect(cut.scored).toBeLessThan(40);
  expect(rowsOf(out)).toHaveLength(cut.scored);
  expect(await collected(out, { ...given, lines: linesOf(20) })).toEqual({
    before: cut.scored,
    scored: 40 - cut.scored,
    failed: 0,
    stopped: false,
  });
  expect(new Set(keysOf(rowsOf(out))).size).toBe(40);
  expect(rowsOf(out)).toHaveLength(40);
  expect(keysOf(rowsOf(outputPaths(out).inputs))).toEqual(keysOf(rowsOf(out)));
  expect(rowsOf(outputPaths(out).failures)).toEqual([]);
});

test("RESUME: wherever the files are truncated, the collection ends with the same rows", async () => {
  const whole = newOut();
  const lines = [...linesOf(8), "nope"];
  const play: Play = async (rollout, signal) =>
    rollout.task % 3 === 2 && rollout.attempt === 0 ? failing("tool") : scored(rollout, signal);
  const given = { lines, repeats: 2, attempts: 2, play };
  await collected(whole, given);
  const files = ["rows", "inputs", "failures"] as const;
  const rewards = (out: string) => rowsOf(out).map((row) => `${keysOf([row])[0]}: ${String(row["reward"])}`);
  const cuts = fc.tuple(...files.map(() => fc.option(fc.double({ min: 0, max: 1, noNaN: true }))));
  await fc.assert(
    fc.asyncProperty(cuts, async (shares) => {
      const out = newOut();
      for (const [at, name] of files.entries()) {
        copyFileSync(outputPaths(whole)[name], outputPaths(out)[name]);
        const share = shares[at];
        const { length } = readFileSync(outputPaths(out)[name]);
        if (share !== null && share !== undefined) truncateSync(outputPaths(out)[name], Math.floor(share * length));
      }
      await collected(out, given);
      expect(rewards(out).sort()).toEqual(rewards(whole).sort());
      expect(keysOf(rowsOf(outputPaths(out).inputs))).toEqual(keysOf(rowsOf(outputPaths(whole).inputs)));
      const left = rowsOf(outputPaths(out).failures).filter((row) => row["retried"] !== true);
      expect(keysOf(left)).toEqual(["8-0", "8-1"]);
      rmSync(out);
    }),
    { numRuns: runs(40) },
  );
});

describe("the random seed of a rollout", () => {
  const played = async (options: Parameters<typeof collected>[1] = {}): Promise<Rollout[]> => {
    const found: Rollout[] = [];
    const play: Play = (rollout, signal) => (found.push(rollout), scored(rollout, signal));
    await collected(newOut(), { play, concurrency: 1, repeats: 2, ...options });
    return found;
  };
  const seedsIn = (rollouts: Rollout[]): number[] => rollouts.map(({ random }) => random);

  test.each(["per-task", "per-rollout"] as const)(
    "%s: is the same in another collection with the same seed",
    async (randomSeed) => {
      const [a, b, c] = [
        await played({ run: "a", seed: 1, randomSeed }),
        await played({ run: "b", seed: 1, randomSeed }),
        await played({ run: "b", seed: 2, randomSeed }),
      ];
      expect(seedsIn(a)).toEqual(seedsIn(b));
      expect(seedsIn(a)).not.toEqual(seedsIn(c));
      expect(a.map(({ session }) => session)).not.toEqual(b.map(({ session }) => session));
    },
  );

  test("per-task: all repeats of a task share it, also if the data set repeats the row", async () => {
    const rollouts = await played({ randomSeed: "per-task", lines: ['{"n":0}', '{"n":1}', '{"n":0}'] });
    expect(rollouts.map(({ task }) => task)).toEqual([0, 0, 1, 1, 0, 0]);
    const [zero, , one] = seedsIn(rollouts);
    expect(seedsIn(rollouts)).toEqual([zero, zero, one, one, zero, zero]);
    expect(zero).not.toBe(one);
  });

  test("per-rollout: no two rollouts share it", async () => {
    expect(new Set(seedsIn(await played({ randomSeed: "per-rollout" }))).size).toBe(6);
  });

  test("is that of the row, if the row has one", async () => {
    const lines = ['{"n":0,"_holdfast_random_seed":7}', '{"n":1}'];
    const [first, second, third] = seedsIn(await played({ randomSeed: "per-rollout", lines }));
    expect([first, second]).toEqual([7, 7]);
    expect(third).not.toBe(7);
  });
});

test("a row's result in an earlier collection does not affect the new one", async () => {
  const out = newOut();
  const before = {
    reward: 0,
    failure_kind: "model",
    failure_reason: "x",
    mask_sample: true,
    stopped: "steps",
    retried: true,
  };
  await collected(out, {
    lines: [JSON.stringify({ n: 1, ...before })],
    play: async () => ({ outcome: "scored", session: "s", fields: { reward: 1 } }),
  });
  const { seconds: _, ...row } = rowsOf(out)[0] as TaskRow;
  expect(row).toEqual({ n: 1, reward: 1, session_id: "s", _ng_task_index: 0, _ng_rollout_index: 0 });
});

test("a fatal error of one rollout stops all, and is reported", async () => {
  const out = newOut();
  let played = 0;
  const play: Play = async (rollout, signal) => {
    await sleep(1);
    if (++played === 5) throw new Error("a bug");
    return scored(rollout, signal);
  };
  await expect(collected(out, { lines: linesOf(1_000), play, concurrency: 3 })).rejects.toThrow("a bug");
  expect(played).toBeLessThan(10);
  expect(existsSync(out)).toBe(true);
  expect(rowsOf(out).length).toBeGreaterThanOrEqual(4);
});

describe("failures that would hit every rollout", () => {
  const refused = (reason = "status 401", code = "model_refused"): Awaited<ReturnType<Play>> => ({
    outcome: "failed",
    session: "s",
    fields: {},
    failure: { kind: code.startsWith("store") ? "store" : "model", reason, code },
  });

  test("stop the collection after three, without other attempts, and it can be resumed", async () => {
    const out = newOut();
    let played = 0;
    const play: Play = async () => (played++, refused(`request ${played}: status 401`));
    const first = await collected(out, { play, lines: linesOf(50), concurrency: 2, attempts: 3 });
    expect(first).toMatchObject({ scored: 0, failed: 3, stopped: true, gaveUp: { rollouts: 3, kind: "model" } });
    expect(played).toBeLessThanOrEqual(4);
    expect(rowsOf(outputPaths(out).failures)).toHaveLength(3);
    expect(await collected(out, { lines: linesOf(50) })).toEqual({ before: 0, scored: 50, failed: 0, stopped: false });
  });

  test("stop it only after half as many as are running, because failing rollouts end first", async () => {
    const options = { lines: linesOf(200), concurrency: 100 };
    const few: Play = async (rollout, signal) => {
      const isRefused = rollout.task % 10 === 0;
      await new Promise((resolve) => setTimeout(resolve, isRefused ? 5 : 50));
      return isRefused ? refused("status 400") : scored(rollout, signal);
    };
    expect(await collected(newOut(), { ...options, play: few })).toMatchObject({
      scored: 180,
      failed: 20,
      stopped: false,
    });
    const all = await collected(newOut(), { ...options, play: async () => refused() });
    expect(all).toMatchObject({ scored: 0, stopped: true });
    expect(all.gaveUp?.rollouts).toBeLessThanOrEqual(50);
    // A verify that throws for three tasks is enough.
    const unverified: Play = async () => refused("verify threw", "verify_failed");
    const everyTask = { ...options, lines: linesOf(3), repeats: 100, attempts: 1, play: unverified };
    expect(await collected(newOut(), everyTask)).toMatchObject({ stopped: true, gaveUp: { rollouts: 3 } });
  });

  test("do not stop it with keepGoing, or if they differ", async () => {
    const play: Play = async () => refused();
    const options = { lines: linesOf(6), concurrency: 1 };
    expect(await collected(newOut(), { ...options, play, keepGoing: true })).toMatchObject({
      failed: 6,
      stopped: false,
    });
    const other: Play = async ({ task }) => refused(task % 2 === 0 ? "status 401" : "status 404");
    expect(await collected(newOut(), { ...options, play: other })).toMatchObject({ failed: 6, stopped: false });
  });

  test("a refused request stops it later only if it is about the key or the model; an unreachable store always", async () => {
    const after = (failure: Awaited<ReturnType<Play>>): Play => {
      return async (rollout, signal) => (rollout.task === 0 ? scored(rollout, signal) : failure);
    };
    const options = { lines: linesOf(9), concurrency: 1 };
    const long = after(refused("status 400: too long"));
    expect(await collected(newOut(), { ...options, play: long })).toMatchObject({ failed: 8, stopped: false });
    expect(await collected(newOut(), { ...options, play: after(refused()) })).toMatchObject({
      failed: 3,
      stopped: true,
    });
    const lost = after(refused("cannot be reached", "store_busy"));
    expect(await collected(newOut(), { ...options, play: lost })).toMatchObject({
      failed: 3,
      gaveUp: { kind: "store" },
    });
  });

  test.each([
    [
      "an unreachable model",
      "chat:m at http://h/v1 could not be reached: connect ECONNREFUSED 127.0.0.1:1 (4 attempts)",
      3,
    ],
    [
      "an answer of another server",
      "m sent an invalid answer: text/html that is not JSON (is the base URL correct?): <p>",
      1,
    ],
  ])("%s stops it before the first reward, and not later", async (_, reason, attempts) => {
    let played = 0;
    const lost = (number: number) => refused(`${reason} ${number}`, "model_failed");
    const play: Play = async () => lost(played++);
    const options = { lines: linesOf(9), concurrency: 1, attempts: 3 };
    const stopped = { failed: 3, stopped: true, gaveUp: { kind: "model", rollouts: 3 } };
    expect(await collected(newOut(), { ...options, play })).toMatchObject(stopped);
    expect(played).toBe(3 * attempts);
    const later: Play = async (rollout, signal) => (rollout.task === 0 ? scored(rollout, signal) : lost(played++));
    expect(await collected(newOut(), { ...options, play: later })).toMatchObject({ failed: 8, stopped: false });
  });

  test("a resumed collection with a scored row is not stopped by refused requests", async () => {
    const out = newOut();
    await collected(out, { lines: linesOf(9), limit: 1 });
    const play: Play = async () => refused("status 400: too long");
    expect(await collected(out, { lines: linesOf(9), play })).toMatchObject({ before: 1, failed: 8, stopped: false });
  });
});

test("observers learn how many rollouts run, and the errors of the author's code", async () => {
  const [running, errors]: [number[], string[][]] = [[], []];
  const play: Play = async (rollout, signal) => ({
    ...(rollout.task === 1
      ? {
          ...failing("verify"),
          failure: { kind: "verify" as const, reason: "x", thrown: { error: "Error: x", place: "verify" } },
        }
      : await scored(rollout, signal)),
    errors: ["TypeError: y in roll (a.ts:1)"],
  });
  const onRow = (_: TaskRow, __: boolean, thrown: string[]): void => void errors.push(thrown);
  await collected(newOut(), {
    play,
    lines: linesOf(2),
    concurrency: 1,
    onRunning: (count) => running.push(count),
    onRow,
  });
  expect(running).toEqual([1, 0, 1, 0]);
  expect(errors).toEqual([["TypeError: y in roll (a.ts:1)"], ["TypeError: y in roll (a.ts:1)", "Error: x in verify"]]);
});

test("a task with a field `metrics` of its own is refused: rows have the results of verify there", async () => {
  const out = newOut();
  expect(await collected(out, { lines: ['{"metrics":["wer"]}', '{"n":1}'] })).toMatchObject({ scored: 1, failed: 1 });
  const [failed] = rowsOf(outputPaths(out).failures);
  expect(failed).toMatchObject({ metrics: ["wer"], failure_kind: "task" });
  expect(failed?.["failure_reason"]).toContain("line 1: rename the field `metrics`");
});
