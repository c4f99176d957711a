// The player of harnesses, with a server of the test: failures that are not the model's are not scored.
import { createSessions, HoldfastError, memoryStore, scriptedModel } from "holdfast";
import type { Json, Model, ModelRequest, Sessions, Store } from "holdfast";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { toolSchema } from "../../src/agent/list-tools.ts";
import { createHarnessPlayer } from "../../src/rollout/harness/player.ts";
import { gate } from "../agent/engine.ts";
import { counter } from "../protocols/proxy-client.ts";

const rollout = {
  task: 0,
  repeat: 0,
  attempt: 0,
  random: 1,
  session: "one",
  row: { responses_create_params: { input: "Count." }, goal: 2 },
};

interface Options {
  /** How often a call fails, because the store is busy. */
  busy?: number;
  /** How often the call is sent. */
  calls?: number;
  /** Calls wait for it. */
  released?: Promise<void>;
  /** Gets the sessions that the harness reaches, and a function that returns whether it still runs. */
  serve?(sessions: Sessions, session: string, isRunning: () => boolean): void;
  /** How often the model is asked. */
  asks?: number;
  /** The number of the model request that fails, that never ends, or that is refused at a limit. */
  fails?: number;
  hangs?: number;
  refused?: number;
  /** What the harness does after its requests have ended. */
  harness?: string;
  maxSteps?: number;
  limits?: { tokens?: number; cost?: number };
  store?: Store;
  /** Default: the environment's own verify. */
  verify?: typeof counter.verify;
  /** The content of the task's message. */
  content?: Json;
}

async function play(options: Options) {
  const { calls = 0, released, serve, asks = 1, fails, hangs, refused, store = memoryStore() } = options;
  const { harness = "true", maxSteps, limits = {} } = options;
  const folder = mkdtempSync(join(tmpdir(), "holdfast-asked-"));
  const file = join(folder, "asked");
  vi.stubEnv("ASKED", file);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });
  let { busy = 0 } = options;
  const scripted = scriptedModel(() => ({ calls: [{ name: "add", arguments: { by: 2 } }] }));
  let asked = 0;
  const respond: Model["respond"] = async (...given) => {
    const number = ++asked;
    await sleep(20);
    if (number === fails) throw new HoldfastError("model_failed", "the server broke");
    return number === hangs ? new Promise(() => undefined) : scripted.respond(...given);
  };
  const sessions: Sessions = createSessions({
    environment: options.verify ? { ...counter, verify: options.verify } : counter,
    store,
  });
  const call: Sessions["call"] = async (...given) => {
    if (busy-- > 0) throw new HoldfastError("store_busy", "it is locked");
    await released;
    return sessions.call(...given);
  };
  let sent = 0;
  const atLimit = new HoldfastError("limit_reached", "it has used up its limit", { detail: { limit: "steps" } });
  const askModel: Sessions["askModel"] = (...given) =>
    ++sent === refused ? Promise.reject(atLimit) : sessions.askModel(...given);
  const { play: player } = createHarnessPlayer({
    harness: `until [ -e "$ASKED" ]; do sleep 0.02; done; ${harness}`,
    passed: ["ASKED"],
    episodes: { ...sessions, call, askModel },
    store,
    maxSteps,
    limits,
    modelFor: () => ({ name: scripted.name, respond }),
    server: async ({ sessions: served, modelFor }) => ({
      address(session) {
        serve?.(served, session, () => modelFor(session) !== undefined);
        const { model, limits } = modelFor(session)!;
        const options = { model: model.name, respond: (asked: ModelRequest) => model.respond(asked), limits };
        const ask = (number: number) => {
          const input = [{ type: "message" as const, role: "user" as const, content: `Count ${number}.` }];
          // Only the first request belongs to the main conversation.
          const tools = number === 1 ? [toolSchema("add", counter.definitions.get("add")!)] : [];
          return served.askModel(session, { input, tools }, options).catch(() => undefined);
        };
        void (async () => {
          for (let number = 1; number <= asks; number++) {
            const answer = ask(number);
            if (number !== hangs) await answer;
          }
          writeFileSync(file, "");
        })();
        for (let sent = 0; sent < calls; sent++)
          served.call(session, "add", { by: 2 }, { call: "c1" }).catch(() => undefined);
        return { mcp: "none", model: "none", key: "none" };
      },
      close: () => Promise.resolve(),
    }),
  });
  const input = [{ type: "message", role: "user", content: options.content ?? "Count." }];
  const row = { ...rollout.row, responses_create_params: { input } };
  return player({ ...rollout, row }, new AbortController().signal);
}

test("SCORED: a call that the store failed has no reward, unless a later attempt succeeded", async () => {
  expect(await play({ busy: 1, calls: 1 })).toMatchObject({
    outcome: "failed",
    failure: { kind: "store", reason: "it is locked" },
  });
  expect(await play({ busy: 1, calls: 2 })).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
});

test("a verify that failed is tried again without the harness", async () => {
  const store = memoryStore();
  let started = 0;
  const serve = (): void => void started++;
  const verify = (): number => {
    throw new Error("no judge");
  };
  const failure = { kind: "verify", isPlayed: true };
  expect(await play({ calls: 1, store, serve, verify })).toMatchObject({ outcome: "failed", failure });
  expect(await play({ store, serve })).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
  expect(started).toBe(1);
});

test("SCORED: a task with an image is refused, because a harness gets only its text", async () => {
  const image = { type: "input_image", image_url: "data:image/png;base64,AA" };
  expect(await play({ content: [{ type: "input_text", text: "What is it?" }, image] })).toMatchObject({
    outcome: "failed",
    failure: { kind: "task", reason: expect.stringContaining("input_image") },
  });
});

test("SCORED: an episode without an answer of the model has no reward, also at a limit", async () => {
  expect(await play({ limits: { cost: 0 } })).toMatchObject({ outcome: "failed", failure: { kind: "agent" } });
});

test("SCORED: a lost model request has no reward, also at a limit", async () => {
  const lost = { outcome: "failed", failure: { kind: "model", reason: "the server broke" } };
  expect(await play({ asks: 4, fails: 2, maxSteps: 2 })).toMatchObject(lost);
  expect(await play({ asks: 3, fails: 2, maxSteps: 2, refused: 3 })).toMatchObject(lost);
});

test("SCORED: a limit excuses the exit code only if the recorded answers reach it", async () => {
  const harness = "exit 3";
  expect(await play({ asks: 3, maxSteps: 2, harness })).toMatchObject({ outcome: "scored", stopped: "steps" });
  expect(await play({ asks: 3, hangs: 2, maxSteps: 2, refused: 3, harness })).toMatchObject({
    outcome: "failed",
    failure: { kind: "agent", reason: "the harness ended with exit code 3" },
  });
});

test("SCORED: the verdict includes calls that run when the harness ends, and all later calls are refused", async () => {
  let late: () => Promise<unknown> = () => Promise.resolve();
  const { opened: released, open: release } = gate();
  const serve: Options["serve"] = (sessions, session, isRunning) => {
    late = () => sessions.call(session, "add", { by: 1 });
    // A process that left the harness's group calls a tool between the end of the harness and the verdict.
    const call = (): void => void late().catch(() => undefined);
    void expect.poll(isRunning).toBe(false).then(call).then(release);
  };
  expect(await play({ calls: 1, released, serve })).toMatchObject({ outcome: "scored", fields: { reward: 1 } });
  await expect(late()).rejects.toMatchObject({ code: "episode_over" });
});

test("SCORED: an episode is scored if its folder cannot be deleted, and a warning names the folder", async () => {
  const parent = mkdtempSync(join(tmpdir(), "holdfast-player-test-"));
  vi.stubEnv("TMPDIR", parent);
  const warnings: string[] = [];
  const note = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", note);
  onTestFinished(() => {
    process.off("warning", note);
    vi.unstubAllEnvs();
    execFileSync("rm", ["-rf", parent]);
  });
  // Node cannot delete a folder whose path is longer than 4,096 characters.
  const nest = `const { mkdirSync: make } = require("fs"), { chdir, env } = process; chdir(env.HOLDFAST_FOLDER);
    for (let depth = 0; depth < 30; depth++) make("x".repeat(200)), chdir("x".repeat(200));`;
  expect(await play({ harness: `"${process.execPath}" -e '${nest}'` })).toMatchObject({ outcome: "scored" });
  await expect.poll(() => warnings).toEqual([expect.stringContaining(`cannot delete ${parent}/holdfast-harness-`)]);
});

test("RESUME: an episode that was played has the limit that stopped it", async () => {
  const store = memoryStore();
  const first = await play({ asks: 2, limits: { tokens: 1 }, store });
  expect(first).toMatchObject({ outcome: "scored", stopped: "tokens" });
  expect(await play({ limits: { tokens: 1 }, store })).toEqual(first);
});
