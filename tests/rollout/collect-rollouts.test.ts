// collectRollouts(): a collection from code, with objects instead of names.
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { defineAgent, defineEnvironment, memoryStore, scriptedModel, tool } from "holdfast";
import { collectRollouts } from "holdfast/rollout";
import { serve } from "holdfast/serve";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import type { Model } from "../../src/core/model.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import { readRecord } from "../../src/rollout/collection-record.ts";
import { listCollections } from "../../src/rollout/list-collections.ts";
import { describeStore, locateStore } from "../../src/rollout/store-location.ts";
import { openCollections } from "../../src/rollout/viewed-collections.ts";
import { openStore } from "../../src/stores/open.ts";

const lamp = defineEnvironment({
  name: "lamp",
  state: z.object({ on: z.boolean().default(false) }),
  tools: { press: tool({ description: "Press the switch.", run: ({ state }) => ({ on: (state.on = !state.on) }) }) },
  verify: ({ state }) => Number(state.on),
});

const press = scriptedModel(({ input }) =>
  input.some(({ type }) => type === "function_call_output") ? "Done." : { calls: [{ name: "press", arguments: {} }] },
);

async function settings(lines = 1) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-collect-"));
  const tasks = join(folder, "tasks.jsonl");
  const line = (_: unknown, task: number): string =>
    JSON.stringify({ number: task, responses_create_params: { input: "Turn the lamp on." } });
  await writeFile(tasks, Array.from({ length: lines }, line).join("\n"));
  return { environment: lamp, model: press, tasks, out: join(folder, "lamp.jsonl") };
}

const rewardsIn = async (file: string): Promise<unknown[]> =>
  (await readFile(file, "utf8")).split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line).reward]));

describe("a collection resumed without its --store", () => {
  async function stopped() {
    const base = await settings();
    const folder = dirname(base.out);
    const stopping = new AbortController();
    const given = { ...base, repeats: 3, concurrency: 1 };
    const store = `sqlite:${join(folder, "other.db")}`;
    await collectRollouts({ ...given, store, signal: stopping.signal, onRow: () => stopping.abort() });
    return { given, folder, record: base.out.replace(".jsonl", "_run.json"), store };
  }

  test("RESUME: uses the recorded store, so that every session stays in one", async () => {
    const { given, folder, record, store } = await stopped();
    await collectRollouts({ ...given, resume: true });
    expect(readRecord(record)?.store).toBe("sqlite:other.db");
    expect(existsSync(join(folder, "lamp.db"))).toBe(false);
    const sessions = await openStore(store);
    onTestFinished(() => sessions.close());
    const rows = (await readFile(given.out, "utf8")).trim().split("\n");
    expect(rows).toHaveLength(3);
    for (const row of rows) expect(await sessions.read(JSON.parse(row).session_id, 0, 1)).toHaveLength(1);
  });

  test("is refused if that store is elsewhere or gone, and the record stays", async () => {
    const { given, folder, record } = await stopped();
    const before = readRecord(record)!;
    const recorded = async (store: string) => {
      await writeFile(record, JSON.stringify({ ...before, store }));
      const message = await collectRollouts({ ...given, resume: true }).then(
        () => "resumed",
        (thrown: Error) => thrown.message,
      );
      expect(message).toContain(store.replace("sqlite:", `sqlite:${folder}/`));
      expect(message).toContain("--store");
      expect(readRecord(record)?.store).toBe(store);
    };
    await recorded("s3://bucket/runs");
    await recorded("sqlite:gone.db");
    expect(existsSync(join(folder, "lamp.db"))).toBe(false);
  });
});

test("RESUME: a stopped collection of objects continues, and repeats no finished rollout", async () => {
  const given = await settings();
  const stopping = new AbortController();
  const first = await collectRollouts({
    ...given,
    repeats: 6,
    concurrency: 1,
    signal: stopping.signal,
    onRow: () => stopping.abort(),
  });
  expect(first).toMatchObject({ before: 0, stopped: true });
  const listed = () => listCollections(dirname(given.out), () => undefined).map(({ stopped }) => stopped);
  expect(listed()).toEqual([true]);
  const before = await rewardsIn(given.out);
  expect(before.length).toBeLessThan(6);
  const second = await collectRollouts({ ...given, repeats: 6, resume: true });
  expect(second).toMatchObject({ before: before.length, scored: 6 - before.length, failed: 0, stopped: false });
  expect(listed()).toEqual([false]);
  expect(await rewardsIn(given.out)).toEqual([1, 1, 1, 1, 1, 1]);
  expect(second.metrics.key_metrics["mean/reward"]).toBe(1);
});

test("ISOLATION: repeats, attempts, forks and other collections of a store do not see each other's shared state", async () => {
  const seen: unknown[] = [];
  let asked = 0;
  const failing: Model = {
    name: "failing",
    // The first attempt fails, after its agent has written.
    respond: (...given) => (++asked === 2 ? Promise.reject(new Error("no light")) : press.respond(...given)),
  };
  const agent = defineAgent({
    name: "notes",
    model: failing,
    callbacks: {
      beforeModel({ state }) {
        seen.push(state["user:notes"], state["app:notes"]);
        for (const key of ["user:notes", "app:notes"]) state[key] = Number(state[key] ?? 0) + 1;
      },
    },
  });
  const collectTo = async (branch?: { ways: number; step: number }[]) => {
    const given = await settings();
    const store = `sqlite:${join(folder, "all.db")}`;
    const forked = branch === undefined ? {} : { branch };
    return collectRollouts({ ...given, ...forked, model: failing, agent, store, repeats: 2, concurrency: 1 });
  };
  const folder = await mkdtemp(join(tmpdir(), "holdfast-collect-"));
  expect(await collectTo()).toMatchObject({ scored: 2, failed: 0 });
  expect(asked).toBe(6);
  expect(await collectTo([{ ways: 2, step: 1 }])).toMatchObject({ scored: 4, failed: 0 });
  // Three episodes of two answers. Then, twice, an answer before the fork and one in each of its two continuations.
  const [first, second] = [
    [undefined, undefined],
    [1, 1],
  ];
  const whole = [first, second];
  expect(seen).toEqual([whole, whole, whole, [first, second, second], [first, second, second]].flat(2));
});

describe("a verify that fails", () => {
  /** A model that counts its requests, and an environment whose verify fails the first times. */
  function flaky(failures: number) {
    const counts = { asked: 0, verified: 0 };
    const model: Model = { name: "counting", respond: (...given) => (counts.asked++, press.respond(...given)) };
    const verify = (): number => {
      if (++counts.verified <= failures) throw new Error("the judge is busy");
      return 1;
    };
    const environment = defineEnvironment({ name: "lamp", state: z.object({}), tools: lamp.tools as never, verify });
    return { counts, model, environment };
  }

  test("is tried again on the recorded episode, and the model is not asked again", async () => {
    const { counts, ...given } = flaky(1);
    const retried: unknown[] = [];
    const onRetry = (...[, failure]: [unknown, { kind: string }]): void => void retried.push(failure.kind);
    const found = await collectRollouts({ ...(await settings()), ...given, onRetry });
    expect({ ...found, ...counts, retried }).toMatchObject({ scored: 1, asked: 2, verified: 2, retried: ["verify"] });
  });

  test("stops the collection after three tasks if no rollout has a reward", async () => {
    const { counts, ...given } = flaky(Infinity);
    const options = { ...(await settings(20)), ...given, concurrency: 1, attempts: 1 };
    const found = await collectRollouts(options);
    expect(found).toMatchObject({ failed: 3, stopped: true, gaveUp: { kind: "verify", rollouts: 3 } });
    expect(counts).toEqual({ asked: 6, verified: 3 });
  });

  test("for one task does not stop the others", async () => {
    const broken = defineEnvironment({
      name: "lamp",
      state: z.object({}),
      task: z.looseObject({ number: z.number() }),
      tools: lamp.tools as never,
      verify: ({ task }) => {
        if (task.number === 0) throw new Error("no judge for this task");
        return 1;
      },
    });
    const options = { ...(await settings(3)), environment: broken, repeats: 8, concurrency: 4, attempts: 1 };
    expect(await collectRollouts(options)).toMatchObject({ scored: 16, failed: 8, stopped: false });
  });

  test("is not asked for in an environment without one, which is refused before the first request", async () => {
    const { counts, model } = flaky(0);
    const environment = defineEnvironment({ name: "lamp", state: z.object({}), tools: lamp.tools as never });
    await expect(collectRollouts({ ...(await settings()), model, environment })).rejects.toThrow(
      "lamp has no verify; add one to defineEnvironment",
    );
    expect(counts.asked).toBe(0);
  });
});

test("the name of the agent in rows and metrics can be chosen", async () => {
  const given = await settings();
  const rows: TaskRow[] = [];
  await collectRollouts({ ...given, agentName: "my_agent", onRow: (row) => void rows.push(row) });
  expect(rows).toMatchObject([{ agent_ref: { type: "responses_api_agents", name: "my_agent" } }]);
  const metrics = await readFile(given.out.replace(".jsonl", "_aggregate_metrics.json"), "utf8");
  expect(JSON.parse(metrics)).toMatchObject([{ agent_ref: { name: "my_agent" } }]);
});

describe("the random seed of the environment", () => {
  const die = defineEnvironment({
    name: "die",
    state: z.object({ rolled: z.array(z.number()).default([]) }),
    tools: {
      press: tool({ description: "Roll.", run: ({ state, random }) => state.rolled.push(Math.floor(random() * 1e9)) }),
    },
    verify: ({ state }) => ({ reward: 1, rolled: state.rolled[0] }),
  });

  async function rolled(given: Partial<Parameters<typeof collectRollouts>[0]> = {}): Promise<number[]> {
    const { environment: _, ...base } = await settings();
    const rows: TaskRow[] = [];
    const onRow = (row: TaskRow): void => void rows.push(row);
    await collectRollouts({ ...base, environment: die, repeats: 3, onRow, ...given });
    return rows
      .sort((a, b) => Number(a["_ng_rollout_index"]) - Number(b["_ng_rollout_index"]))
      .map((row) => Number((row["metrics"] as TaskRow)["rolled"]));
  }

  test("is shared by the repeats of a task, unless it is asked for per rollout", async () => {
    const [first, ...others] = await rolled();
    expect(others).toEqual([first, first]);
    expect(new Set(await rolled({ randomSeed: "per-rollout" })).size).toBe(3);
  });

  test("is sent to servers", async () => {
    const store = memoryStore();
    const serving = await serve({ environments: [die], store, port: 0, log: { what: "none" } });
    onTestFinished(() => serving.close());
    const served = { environment: undefined, server: serving.url, store: "memory:" };
    expect(await rolled(served)).toEqual(await rolled());
    const apart = await rolled({ ...served, randomSeed: "per-rollout" });
    expect(apart).toEqual(await rolled({ randomSeed: "per-rollout" }));
  });

  test("RESUME: a collection from before this setting continues per rollout, as it began", async () => {
    const wanted = await rolled({ randomSeed: "per-rollout" });
    const { environment: _, ...base } = await settings();
    const run = base.out.replace(".jsonl", "_run.json");
    await collectRollouts({ ...base, environment: die, repeats: 3, limit: 1, randomSeed: "per-rollout" });
    const { settings: recorded, ...record } = JSON.parse(await readFile(run, "utf8"));
    expect(recorded["random-seed"]).toBe("per-rollout");
    delete recorded["random-seed"];
    await writeFile(run, JSON.stringify({ ...record, settings: recorded }));
    // As if it had been killed before its first row.
    await rm(base.out);
    const again = { ...base, environment: die, repeats: 3, limit: 1, resume: true, store: "memory:" };
    const changed = collectRollouts({ ...again, randomSeed: "per-task" });
    await expect(changed).rejects.toThrow('random-seed was "per-rollout" and is now "per-task"');
    expect(await rolled({ ...again })).toEqual(wanted);
  });
});

const hanging: RequestListener = () => undefined;
const stopping: RequestListener = (_, response) => void response.write("x");
const large: RequestListener = (_, response) => void response.end("x".repeat(2_000_000));

test.each([
  ["hangs", { replyTimeout: 100 }, hanging, "did not answer within 100 ms"],
  ["stops in its reply", { replyIdle: 100 }, stopping, "sent nothing for 100 ms"],
  ["sends too much", { maxReply: 1 }, large, "larger than 1 MB"],
])("a server that %s ends the attempt with the reason", async (_, limits, listener, reason) => {
  const server = createServer((request, response) => {
    if (request.url === "/seed_session") response.end("{}");
    else if (request.method === "GET") response.writeHead(404).end();
    else listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  const { tasks, out } = await settings();
  const tools = [{ type: "function", name: "press", parameters: {} }];
  await writeFile(tasks, JSON.stringify({ responses_create_params: { input: "Go.", tools } }));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rows: unknown[] = [];
  const given = { tasks, out, model: press, server: url, store: "memory:", attempts: 1 };
  await collectRollouts({ ...given, ...limits, onRow: (row) => rows.push(row) });
  const failure_reason = expect.stringContaining(reason) as string;
  expect(rows).toMatchObject([{ reward: null, failure_kind: "tool", failure_reason }]);
});

test("refuses invalid options and says how to correct them", async () => {
  const given = await settings();
  await expect(collectRollouts({ ...given, tasks: given.out })).rejects.toMatchObject({ code: "invalid_option" });
  await expect(collectRollouts({ ...given, tasks: undefined as never })).rejects.toMatchObject({
    code: "invalid_option",
  });
  await expect(collectRollouts({ ...given, queue: "redis://127.0.0.1:1" })).rejects.toMatchObject({
    code: "invalid_option",
    message: /playerFor/,
  });
  await collectRollouts(given);
  await expect(collectRollouts(given)).rejects.toMatchObject({ code: "invalid_option", message: /resume/ });
});

describe("settings of the model", () => {
  test("reach every request, are in the record, and must be the same to resume", async () => {
    const given = await settings();
    const asked: Record<string, unknown>[] = [];
    const model: Model = {
      name: "asked",
      respond: (request, ...rest) => (asked.push({ ...request }), press.respond(request, ...rest)),
    };
    const flags = {
      temperature: 0.5,
      topP: 0.9,
      maxTokens: 64,
      system: "Be brief.",
      request: { top_k: 3, temperature: 1 },
    };
    expect(await collectRollouts({ ...given, model, ...flags })).toMatchObject({ scored: 1 });
    const wanted = { temperature: 0.5, top_p: 0.9, max_output_tokens: 64, instructions: "Be brief.", top_k: 3 };
    expect(asked[0]).toMatchObject(wanted);
    const recorded = JSON.parse(await readFile(given.out.replace(".jsonl", "_run.json"), "utf8")) as {
      settings: object;
    };
    expect(recorded.settings).toMatchObject({
      "top-p": 0.9,
      "max-tokens": 64,
      system: "Be brief.",
      request: { top_k: 3 },
    });
    const again = collectRollouts({ ...given, model, ...flags, request: { top_k: 4 }, resume: true });
    await expect(again).rejects.toThrow(/request was \{"top_k":3,"temperature":1\} and is now \{"top_k":4\}/);
    await collectRollouts({ ...given, model, ...flags, resume: true });
  });

  test("that would have no effect are refused", async () => {
    const given = await settings();
    const refused = (flags: object) => collectRollouts({ ...given, ...flags });
    await expect(refused({ request: { tools: [] } })).rejects.toThrow("`request` cannot set `tools`");
    await expect(refused({ request: { instructions: "x" } })).rejects.toThrow("use `system`");
    const agent = defineAgent({ name: "own", model: press });
    await expect(refused({ agent, system: "x" })).rejects.toThrow("--system cannot be combined with --agent");
  });
});

describe("the record of a collection", () => {
  test("has the store without its password, and the result", async () => {
    const given = await settings();
    const folder = dirname(given.out);
    await collectRollouts({ ...given, store: `sqlite:${join(folder, "sessions.db")}` });
    const record = readRecord(given.out.replace(".jsonl", "_run.json"));
    expect(record).toMatchObject({
      store: "sqlite:sessions.db",
      result: { tasks: 1, scored: 1, failed: 0, reward: 1 },
    });
    expect(locateStore(given.out)).toEqual({ url: `sqlite:${join(folder, "sessions.db")}`, isTrusted: true });
    expect(listCollections(folder, () => undefined)).toMatchObject([
      {
        file: given.out,
        model: "scripted",
        agent: null,
        tasks: 1,
        rollouts: 1,
        reward: 1,
        failed: 0,
        at: expect.any(String),
      },
    ]);
    const described = (url: string) => describeStore(url, given.out)["store"];
    expect(described("redis://ann:secret@host:6379/2")).toBe("redis://ann@host:6379/2");
    expect(described("redis://:secret@host")).toBe("redis://host");
    expect(described("https://secret@host/a")).toBe("https://host/a");
    expect(described("postgres://ann:s@h/db?sslmode=require&password=s")).toBe("postgres://ann@h/db?sslmode=require");
    expect(described("memory:")).toBeUndefined();
    expect(described(`sqlite:${join(folder, "lamp.db")}`)).toBeUndefined();
  });

  test("makes a reader open files and servers on this machine only", async () => {
    const given = await settings();
    const file = given.out.replace(".jsonl", "_run.json");
    const write = (store: string) => writeFile(file, JSON.stringify({ run: "r", settings: {}, store }));
    const trusted = async (store: string) => {
      await write(store);
      const located = locateStore(given.out);
      expect(located?.url).toBe(store);
      return located?.isTrusted;
    };
    for (const store of [
      "https://attacker.example",
      "redis://elsewhere",
      "redis+cluster://localhost:1,elsewhere:2",
      "redis://localhost:1#@elsewhere",
      "redis://localhost:1\\@elsewhere",
      "http://localhost.attacker.example",
      "http://localhost@attacker.example",
      "http://…@localhost",
      "postgres://elsewhere/db",
      "postgres://localhost/db?host=elsewhere",
      "s3://b/p",
      "s3://b/p?endpoint=https://evil",
      "s3://b/p?endpoint=http://localhost&endpoint=https://evil",
      "s3://evil/p?endpoint=http://localhost&style=host",
    ])
      expect([store, await trusted(store)]).toEqual([store, false]);
    for (const store of [
      "http://localhost:8080/store",
      "redis://127.0.0.1:6379/2?prefix=x",
      "rediss://ann@[::1]/0",
      "postgres://ann@localhost:5432/db?schema=s",
      "s3://b/p?endpoint=http://127.0.0.1:9000&region=here",
    ])
      expect([store, await trusted(store)]).toEqual([store, true]);
  });

  test("names a store elsewhere, which a reader reports and does not open", async () => {
    const given = await settings();
    await collectRollouts(given);
    const file = given.out.replace(".jsonl", "_run.json");
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(String(request.url));
      response.end("{}");
    });
    await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
    onTestFinished(() => void server.close());
    const url = `s3://b/p?endpoint=http://0.0.0.0:${(server.address() as AddressInfo).port}`;
    vi.stubEnv("AWS_ACCESS_KEY_ID", "id");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
    onTestFinished(() => void vi.unstubAllEnvs());
    await writeFile(file, JSON.stringify({ ...readRecord(file), store: url }));
    const notes: string[] = [];
    const { store } = await openCollections([given.out], undefined, (text) => void notes.push(text));
    expect(store).toBeUndefined();
    expect(asked).toEqual([]);
    expect(notes).toEqual([
      `sessions are not shown: the run record of ${given.out} names the store ${url}; a record may come from another person, so that store is opened only if you name it with --store`,
    ]);
  });
});

test("an empty tasks file is refused", async () => {
  const given = await settings();
  await writeFile(given.tasks, "\n");
  await expect(collectRollouts(given)).rejects.toThrow(/tasks.jsonl has no tasks/);
});
