// Requests for rollouts: played once, handed out line by line, and continued by any process.
import { createSessions, defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { createPlaces, createRolloutRequests } from "holdfast/rollout";
import type { RequestInfo, RolloutRequests, RolloutRequestsOptions } from "holdfast/rollout";
import { faultyStore } from "holdfast/testing";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { failedRollout, type Play, type TaskRow } from "../../src/core/rollout.ts";
import { createRequestLog } from "../../src/rollout/requests/log.ts";
import { everyStore } from "../every-store.ts";
import { chatServer, completion, type ChatRequest } from "./chat-server.ts";
import { keysOf, newFolder } from "./folder.ts";

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ bricks: z.array(z.string()).default([]) }),
  task: z.object({ n: z.number(), fail: z.boolean().optional() }),
  seed: () => ({ bricks: [] }),
  tools: {
    stack: tool({
      description: "Stack.",
      input: z.object({ brick: z.string() }),
      run: ({ state }, { brick }) => state.bricks.push(brick),
    }),
    look: tool({ description: "Look.", run: ({ state }) => state.bricks.length }),
  },
  verify: ({ state, task }) => {
    if (task.fail) throw new Error("cannot judge");
    return state.bricks.length;
  },
});

interface Line {
  type: string;
  index?: number;
  row?: TaskRow;
  rows?: TaskRow[];
  [field: string]: unknown;
}

const taskOf = (n: number, more: TaskRow = {}): TaskRow => ({
  n,
  ...more,
  _ng_task_index: n,
  responses_create_params: { input: "Stack." },
});
const tasksOf = (count: number): TaskRow[] => Array.from({ length: count }, (_, n) => taskOf(n));

/** Stacks two bricks, looks, and says so. */
function answer({ messages }: ChatRequest): unknown {
  const turn = messages.filter(({ role }) => role === "assistant").length;
  if (turn === 2) return completion({ name: "look", arguments: {} });
  return turn < 2 ? completion({ name: "stack", arguments: { brick: `b${turn}` } }) : completion("Done.");
}

function requestsOn(store: Store, given: Partial<RolloutRequestsOptions> = {}): RolloutRequests {
  const episodes = createSessions({ environment: pile, store });
  const sessions = createSessions({ app: "rollouts", store });
  const requests = createRolloutRequests({ store, episodes, sessions, ...given });
  onTestFinished(async () => {
    await requests.stop();
    // A dead process never stops.
    await Promise.race([Promise.all([episodes.stop({ within: 0 }), sessions.stop({ within: 0 })]), sleep(500)]);
  });
  return requests;
}

async function readAll(requests: RolloutRequests, request: string, after = 0): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const line of await requests.lines(request, { after })) lines.push(JSON.parse(line) as Line);
  return lines.filter(({ type }) => type !== "waiting");
}

async function listed(requests: RolloutRequests): Promise<RequestInfo[]> {
  const all: RequestInfo[] = [];
  for await (const info of requests.list()) all.push(info);
  return all;
}

const rowsIn = (lines: Line[]): TaskRow[] => lines.flatMap(({ row, rows }) => rows ?? (row ? [row] : []));

/** Waits for a promise to fail, and returns the code of the error. */
const codeOf = (failing: Promise<unknown>): Promise<unknown> =>
  failing.then(
    () => "no error",
    (thrown: { code?: unknown }) => thrown.code,
  );

for (const kind of everyStore) {
  const newStore = async (): Promise<Store> => {
    const { store, dispose } = await kind.open();
    onTestFinished(dispose);
    return store;
  };

  describe(kind.name, { tags: kind.tags, timeout: 60_000 }, () => {
    test("hands out every row once, with an index, between `begun` and `end`", async () => {
      const { url, asked } = await chatServer(answer);
      const requests = requestsOn(await newStore());
      const model = { url, name: "policy", temperature: 0.5, request: { return_token_ids: true } };
      const request = await requests.start({ request: "iter-1", tasks: tasksOf(5), repeats: 3, model });
      const lines = await readAll(requests, request);
      expect(lines.map(({ index }) => index)).toEqual(Array.from({ length: 17 }, (_, at) => at + 1));
      expect(lines[0]).toEqual({ type: "begun", index: 1, done: 0, failed: 0, request: "iter-1", rollouts: 15 });
      expect(lines.at(-1)).toEqual({ type: "end", index: 17, done: 15, failed: 0, cancelled: false });
      const rows = rowsIn(lines);
      expect(new Set(keysOf(rows)).size).toBe(15);
      expect(rows[0]).toMatchObject({ reward: 2, session_id: expect.any(String), seconds: expect.any(Number) });
      expect(asked).toHaveLength(15 * 4);
      expect(asked[0]).toMatchObject({ model: "policy", temperature: 0.5, return_token_ids: true });
    });

    test("returns the rows of a task together, failed ones included, and the rewards of every step", async () => {
      const { url } = await chatServer(answer);
      const requests = requestsOn(await newStore());
      const tasks = [taskOf(0), taskOf(1, { fail: true })];
      const asked = { tasks, repeats: 2, groups: true, stepRewards: true, attempts: 1, labels: { policy: "7" } };
      const lines = await readAll(requests, await requests.start({ ...asked, model: { url, name: "policy" } }));
      expect(lines.map(({ type, index }) => [type, index])).toEqual([
        ["begun", 1],
        ["group", 2],
        ["group", 3],
        ["end", 4],
      ]);
      const groups = lines.filter(({ type }) => type === "group").sort((a, b) => Number(a["task"]) - Number(b["task"]));
      expect(groups.map(({ rows = [] }) => keysOf(rows))).toEqual([
        ["0-0", "0-1"],
        ["1-0", "1-1"],
      ]);
      expect(groups[0]?.rows?.[0]).toMatchObject({
        reward: 2,
        _holdfast_labels: { policy: "7" },
        step_rewards: [
          { version: expect.any(Number), reward: 0 },
          { reward: 1, call: expect.stringMatching(/^c/) },
          { reward: 2, call: expect.stringMatching(/^c/) },
        ],
      });
      expect(groups[1]?.rows).toMatchObject([{ reward: null, failure_kind: "verify" }, { mask_sample: true }]);
      expect(lines.at(-1)).toMatchObject({ done: 4, failed: 2 });
    });

    test("forks episodes, and a group has all continuations", async () => {
      const { url } = await chatServer(answer);
      const requests = requestsOn(await newStore());
      const branch = [{ ways: 3, step: 1 }];
      const asked = { tasks: tasksOf(2), repeats: 2, groups: true, branch, model: { url, name: "policy" } };
      const lines = await readAll(requests, await requests.start(asked));
      expect(lines[0]).toMatchObject({ rollouts: 12 });
      const groups = lines.filter(({ type }) => type === "group");
      expect(groups.map(({ rows = [] }) => rows.length)).toEqual([6, 6]);
      expect(groups[0]?.rows?.[4]).toMatchObject({
        branch: "1",
        parent: expect.any(String),
        forked_at: expect.any(Number),
      });
    });

    test("a repeated request joins the first one, and another body with its id is refused", async () => {
      const { url, asked } = await chatServer(answer);
      const requests = requestsOn(await newStore());
      const body = { request: "same", tasks: tasksOf(3), model: { url, name: "policy" } };
      const [first, second] = await Promise.all([requests.start(body), requests.start(body)]);
      const [a, b] = await Promise.all([readAll(requests, first), readAll(requests, second)]);
      expect(a).toEqual(b);
      expect(asked).toHaveLength(3 * 4);
      expect(await codeOf(requests.start({ ...body, repeats: 2 }))).toBe("call_conflict");
      await requests.start(body);
      expect(await readAll(requests, "same", 4)).toEqual(a.slice(4));
      expect(await readAll(requests, "same", 5)).toEqual([]);
      expect(await codeOf(readAll(requests, "same", 6))).toBe("version_not_found");
      expect(await codeOf(readAll(requests, "other"))).toBe("not_found");
    });

    test("a process that dies or stands still is replaced after its lease: no row is lost, and none has two indexes", async () => {
      let isDead = false;
      const { url } = await chatServer(async (request) => {
        await sleep(5);
        return answer(request);
      });
      const store = await newStore();
      // A process that stands still writes nothing. Later it continues, and has missed the time between.
      const held: (() => void)[] = [];
      const append: Store["append"] = (...commits) =>
        isDead
          ? new Promise((resolve) => held.push(() => resolve(store.append(...commits))))
          : store.append(...commits);
      const dying = requestsOn({ ...store, append }, { lease: 300 });
      const model = { url, name: "policy" };
      await dying.start({ request: "r", tasks: tasksOf(6), repeats: 4, concurrency: 4, groups: true, model });
      const before: Line[] = [];
      for await (const line of await dying.lines("r")) {
        before.push(JSON.parse(line) as Line);
        if (before.length === 3) break;
      }
      isDead = true;
      const after = await readAll(requestsOn(store, { lease: 300 }), "r", 3);
      const lines = [...before, ...after];
      expect(lines.map(({ index }) => index)).toEqual(Array.from({ length: 8 }, (_, at) => at + 1));
      const keys = keysOf(rowsIn(lines));
      expect(new Set(keys).size).toBe(24);
      expect(keys).toHaveLength(24);
      expect(lines.at(-1)).toMatchObject({ type: "end", done: 24, failed: 0 });
      isDead = false;
      for (const go of held) go();
      await sleep(300);
      expect(await readAll(requestsOn(store), "r")).toEqual(lines);
    });

    test("of two processes on one store only one plays, and both hand out the same lines", async () => {
      const { url, asked } = await chatServer(answer);
      const store = await newStore();
      const [a, b] = [requestsOn(store), requestsOn(store)];
      const body = { request: "both", tasks: tasksOf(10), repeats: 2, model: { url, name: "policy" } };
      await Promise.all([a.start(body), b.start(body)]);
      const [first, second] = await Promise.all([readAll(a, "both"), readAll(b, "both")]);
      expect(first).toEqual(second);
      expect(asked).toHaveLength(20 * 4);
    });

    test.for(["this", "another"])("a request cancelled in %s process ends early and keeps its rows", async (where) => {
      let count = 0;
      const { url } = await chatServer((request) => (++count > 8 ? new Promise(() => undefined) : answer(request)));
      const store = await newStore();
      const requests = requestsOn(store, { lease: 600 });
      const canceller = where === "this" ? requests : requestsOn(store);
      await requests.start({ request: "c", tasks: tasksOf(4), concurrency: 1, model: { url, name: "policy" } });
      const lines: Line[] = [];
      for await (const line of await requests.lines("c")) {
        lines.push(JSON.parse(line) as Line);
        if (lines.length !== 3) continue;
        expect(await canceller.delete("c")).toBe(false);
        expect(await canceller.cancel("c")).toBe(true);
      }
      expect(lines.at(-1)).toEqual({ type: "end", index: 4, done: 2, failed: 0, cancelled: true });
      expect(await requests.cancel("c")).toBe(false);
      expect(await listed(requests)).toEqual([
        { request: "c", state: "ended", opened: expect.any(Number), done: 2, failed: 0 },
      ]);
      expect(await codeOf(requests.cancel("none"))).toBe("not_found");
      expect(await canceller.delete("c")).toBe(true);
      expect(await listed(requests)).toEqual([]);
      expect(await codeOf(requests.delete("c"))).toBe("not_found");
    });
  });
}

test("nothing is written after a request's end, and a cancellation that comes too late is refused", async () => {
  const store = memoryStore();
  const log = createRequestLog({ store, environment: "pile", request: "r", mayWrite: () => true, onWritten: () => {} });
  await log.write({ type: "begun", request: "r", rollouts: 0 });
  const end = { type: "end", cancelled: false } as const;
  const written = await Promise.allSettled([log.write(end), log.write({ type: "cancelled" })]);
  expect(written.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(await codeOf(log.write({ type: "cancelled" }))).toBe("turn_lost");
  await log.refresh();
  expect(log.state).toMatchObject({ version: 2, isEnded: true, isCancelled: false });
});

describe("the rollouts of a request that run elsewhere", () => {
  const untilAborted: Play = ({ session }, signal) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve(failedRollout(session, "internal", "cancelled")));
    });
  const refused: Play = ({ session }) =>
    Promise.resolve({
      outcome: "failed",
      session,
      fields: {},
      failure: { kind: "model", code: "model_refused", reason: "status 401" },
    });
  /** Requests whose players record how they are stopped. */
  function recording(store: Store, play: Play) {
    const stops: boolean[] = [];
    const stop = (isOver = false): Promise<void> => Promise.resolve(void stops.push(isOver));
    const requests = requestsOn(store, { lease: 300, playerFor: () => Promise.resolve({ play, stop }) });
    return { requests, stops };
  }
  const asked = { request: "r", tasks: tasksOf(6), attempts: 1, model: { name: "random" } };

  test("end when it is cancelled", async () => {
    const { requests, stops } = recording(memoryStore(), untilAborted);
    await requests.start(asked);
    await requests.cancel("r");
    expect((await readAll(requests, "r")).at(-1)).toMatchObject({ type: "end", cancelled: true });
    expect(stops.at(-1)).toBe(true);
  });

  test("end when it fails", async () => {
    const { requests, stops } = recording(memoryStore(), refused);
    await requests.start(asked);
    expect((await readAll(requests, "r")).at(-1)).toMatchObject({ error: { code: "model_refused" } });
    expect(stops.at(-1)).toBe(true);
  });

  test("continue when the server stops, and end when the request is cancelled elsewhere", async () => {
    const store = memoryStore();
    const [first, second] = [recording(store, untilAborted), recording(store, untilAborted)];
    await first.requests.start(asked);
    await sleep(50);
    await first.requests.stop();
    expect(first.stops).toEqual([false]);
    expect(await second.requests.cancel("r")).toBe(true);
    expect((await readAll(second.requests, "r")).at(-1)).toMatchObject({ type: "end", cancelled: true });
    expect(second.stops).toEqual([true]);
  });
});

test("requests share the places in turn: a small one does not wait for a large one that came first", async () => {
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const { url, asked } = await chatServer(async (request) => {
    await begun;
    return answer(request);
  });
  const requests = requestsOn(memoryStore(), { places: createPlaces(4) });
  const start = (name: string, count: number) =>
    requests.start({ request: name, tasks: tasksOf(count), model: { url, name } });
  await start("large", 60);
  await start("small", 10);
  begin();
  await Promise.all(["large", "small"].map((request) => readAll(requests, request)));
  const firsts = asked.filter(({ messages }) => messages.every(({ role }) => role !== "assistant"));
  expect(firsts).toHaveLength(70);
  // While the small one began its 10 episodes, the large one began about as many.
  expect(firsts.findLastIndex(({ model }) => model === "small")).toBeLessThan(30);
});

test("the step rewards of a continuation begin at the root of its tree", async () => {
  const { url } = await chatServer(answer);
  const requests = requestsOn(memoryStore());
  const branch = [
    { ways: 2, step: 1 },
    { ways: 1, step: 2 },
  ];
  const asked = { tasks: tasksOf(1), branch, stepRewards: true, model: { url, name: "policy" } };
  const rows = rowsIn(await readAll(requests, await requests.start(asked)));
  expect(rows).toHaveLength(2);
  for (const { step_rewards: steps, response, parent } of rows) {
    const { output } = response as { output: { type: string; call_id: string }[] };
    const [first, second] = output.filter(({ type }) => type === "function_call").map(({ call_id }) => call_id);
    expect(steps).toEqual([
      { session: expect.any(String), version: 2, reward: 0 },
      { session: expect.any(String), version: 3, reward: 1, call: first },
      { session: parent, version: 2, reward: 2, call: second },
    ]);
  }
});

test("a model on another machine is refused unless it is allowed, and the key of this process goes to allowed ones only", async () => {
  const { url, headers } = await chatServer(answer);
  process.env["OPENAI_API_KEY"] = "sk-secret-of-the-server";
  onTestFinished(() => void delete process.env["OPENAI_API_KEY"]);
  const refused = ["http://169.254.169.254/latest", "http://10.0.0.5:8000/v1", "http://127.0.0.1.evil.example/v1"];
  const requests = requestsOn(memoryStore());
  for (const other of [...refused, "file:///etc/passwd", "not a url"]) {
    expect(await codeOf(requests.start({ tasks: tasksOf(1), model: { url: other, name: "p" } })), other).toBe(
      "invalid_option",
    );
  }
  await readAll(requests, await requests.start({ tasks: tasksOf(1), model: { url, name: "p" } }));
  expect(headers.every(({ authorization }) => authorization === undefined)).toBe(true);
  const allowing = requestsOn(memoryStore(), { models: [url.replace("/v1", "")] });
  await readAll(allowing, await allowing.start({ tasks: tasksOf(1), model: { url, name: "p" } }));
  expect(headers.at(-1)).toMatchObject({ authorization: "Bearer sk-secret-of-the-server" });
});

test("a model that refuses every request ends the request early, with the reason", async () => {
  const { url } = await chatServer(() => ({ status: 404, error: { message: "no such model" } }));
  const requests = requestsOn(memoryStore());
  const asked = { tasks: tasksOf(50), concurrency: 1, model: { url, name: "p" } };
  const lines = await readAll(requests, await requests.start(asked));
  const error = { code: "model_refused", message: expect.stringContaining("no such model") as string };
  expect(lines.at(-1)).toEqual({ type: "end", index: 5, done: 3, failed: 3, cancelled: false, error });
});

test("a request with a scored row is not ended by refused requests after another process continues it", async () => {
  let kill = (): void => undefined;
  const killed = new Promise<void>((resolve) => (kill = resolve));
  const { url } = await chatServer(async ({ messages }) => {
    if (JSON.stringify(messages).includes("Say hello.")) return completion("Hello.");
    await killed;
    return { status: 400, error: { message: "the conversation is too long" } };
  });
  const store = memoryStore();
  const tasks = [{ ...taskOf(0), responses_create_params: { input: "Say hello." } }, ...tasksOf(5).slice(1)];
  const first = requestsOn(store);
  await first.start({ request: "r", tasks, model: { url, name: "p" } });
  for await (const line of await first.lines("r")) if ((JSON.parse(line) as Line).type === "row") break;
  await first.stop();
  kill();
  const end = (await readAll(requestsOn(store), "r")).at(-1);
  expect(end).toEqual({ type: "end", index: 7, done: 5, failed: 4, cancelled: false });
});

test("a reader that stops reading makes nothing wait: its request is played to the end", async () => {
  const { url } = await chatServer(answer);
  const requests = requestsOn(memoryStore());
  const request = await requests.start({ tasks: tasksOf(20), model: { url, name: "policy" } });
  const slow = (await requests.lines(request))[Symbol.asyncIterator]();
  await slow.next();
  expect(await readAll(requests, request)).toHaveLength(22);
  expect(JSON.parse((await slow.next()).value as string)).toMatchObject({ type: "row", index: 2 });
});

test.for(["refused", "unanswered", "overdue"] as const)(
  "a write of the log that is %s once loses no row, and asks the model nothing again",
  async (fault) => {
    const { url, asked } = await chatServer(answer);
    const inner = memoryStore();
    const faulty = faultyStore(inner, { rate: 1, faults: [fault] });
    let writes = 0;
    const append: Store["append"] = (...commits) =>
      commits[0].session.startsWith("holdfast:rollouts:") && ++writes === 4
        ? faulty.append(...commits)
        : inner.append(...commits);
    const errors: unknown[] = [];
    const requests = requestsOn({ ...inner, append }, { onError: (thrown) => errors.push(thrown) });
    const body = { tasks: tasksOf(6), concurrency: 2, groups: true, repeats: 2, model: { url, name: "policy" } };
    const lines = await readAll(requests, await requests.start(body));
    expect(faulty.injected).toBe(1);
    expect(errors).toEqual([]);
    expect(lines.map(({ index }) => index)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(new Set(keysOf(rowsIn(lines))).size).toBe(12);
    expect(rowsIn(lines)).toHaveLength(12);
    expect(asked).toHaveLength(12 * 4);
  },
);

test("a store that fails for longer is reported, and the request continues without waiting for its own lease", async () => {
  const { url } = await chatServer(answer);
  const inner = memoryStore();
  const faulty = faultyStore(inner, { rate: 1, faults: ["refused"] });
  let writes = 0;
  const append: Store["append"] = (...commits) => {
    const isFailing = commits[0].session.startsWith("holdfast:rollouts:") && ++writes >= 4 && writes < 8;
    return (isFailing ? faulty : inner).append(...commits);
  };
  const errors: unknown[] = [];
  const requests = requestsOn({ ...inner, append }, { lease: 60_000, onError: (thrown) => errors.push(thrown) });
  const body = { tasks: tasksOf(6), concurrency: 1, model: { url, name: "policy" } };
  const lines = await readAll(requests, await requests.start(body));
  expect(errors).toMatchObject([{ code: "store_busy" }]);
  expect(keysOf(rowsIn(lines)).toSorted()).toEqual(["0-0", "1-0", "2-0", "3-0", "4-0", "5-0"]);
});

/** Plays this many small requests. */
async function playMany(requests: RolloutRequests, count: number, isRead: boolean): Promise<void> {
  for (let at = 0; at < count; at++) {
    const request = await requests.start({ request: `many-${at}`, tasks: tasksOf(1), model: { name: "random" } });
    if (isRead) await readAll(requests, request);
  }
}

test("a store in memory keeps a request while a client reads it", async () => {
  const requests = requestsOn(memoryStore());
  const request = await requests.start({ tasks: tasksOf(100), groups: true, model: { name: "random" } });
  const slow = (await requests.lines(request))[Symbol.asyncIterator]();
  await slow.next();
  expect(await readAll(requests, request)).toHaveLength(102);
  await playMany(requests, 12, true);
  let count = 1;
  while (!(await slow.next()).done) count++;
  expect(count).toBe(102);
  expect(await listed(requests)).toHaveLength(8);
});

test("a store in memory keeps 64 ended requests that nobody has read, and a reader of an older one is told", async () => {
  const requests = requestsOn(memoryStore());
  const request = await requests.start({ tasks: tasksOf(100), model: { name: "random" } });
  const slow = (await requests.lines(request))[Symbol.asyncIterator]();
  await slow.next();
  await readAll(requests, request);
  await playMany(requests, 64, false);
  await expect
    .poll(async () => (await listed(requests)).filter(({ state }) => state === "ended").length, { timeout: 20_000 })
    .toBe(64);
  const rest = (async () => {
    while (!(await slow.next()).done);
  })();
  await expect(rest).rejects.toMatchObject({
    code: "not_found",
    message: expect.stringContaining("are no longer available"),
  });
});

test("a split is a file beside the environment; `offset` and `limit` select its rows", async () => {
  const { url } = await chatServer(answer);
  const folder = newFolder();
  writeFileSync(join(folder, "environment.mjs"), "");
  const rows = (count: number): string =>
    tasksOf(count)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join("");
  writeFileSync(join(folder, "tasks.jsonl"), rows(2));
  writeFileSync(join(folder, "tasks_train.jsonl"), rows(9));
  const requests = requestsOn(memoryStore(), { target: folder });
  const model = { url, name: "policy" };
  const played = async (asked: object): Promise<string[]> =>
    keysOf(rowsIn(await readAll(requests, await requests.start({ ...asked, model }))));
  expect(await played({})).toEqual(["0-0", "1-0"]);
  expect(await played({ split: "train", offset: 6, limit: 2 })).toEqual(["6-0", "7-0"]);
  expect(await codeOf(requests.start({ split: "train", offset: 9, model }))).toBe("invalid_task");
  expect(await codeOf(requests.start({ split: "test", model }))).toBe("cannot_load");
});

test("a limit ends an episode, which is scored; a request whose tasks file changes ends with the reason", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "environment.mjs"), "");
  const write = (n: number): void => writeFileSync(join(folder, "tasks.jsonl"), `${JSON.stringify(taskOf(n))}\n`);
  write(0);
  const { url } = await chatServer(answer);
  const store = memoryStore();
  const first = requestsOn(store, { target: folder, lease: 300 });
  const limited = await first.start({ limits: { steps: 2 }, model: { url, name: "p" } });
  expect(rowsIn(await readAll(first, limited))).toMatchObject([{ reward: 2, stopped: "steps" }]);
  const { url: silent } = await chatServer(() => new Promise(() => undefined));
  const late = { url: silent, name: "p" };
  const failing = await first.start({ timeout: 0.05, attempts: 1, model: late });
  expect(rowsIn(await readAll(first, failing))).toMatchObject([{ reward: null, failure_kind: "timeout" }]);
  await first.start({ request: "changed", model: late });
  await first.stop();
  write(1);
  const lines = await readAll(requestsOn(store, { target: folder }), "changed");
  expect(lines.at(-1)).toMatchObject({ type: "end", done: 0, error: { code: "invalid_task" } });
});
