// holdfast view: serving files and stores, bundles, and refusals.
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { About, RowSummary, CollectionDetails } from "../../src/rollout/collection-view.ts";
import { keysFromStore } from "../../src/server/tokens.ts";
import { createSessions } from "../../src/session/sessions.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { run, start, type Ended } from "../e2e/serve-process.ts";
import { collectCounter, collectTally, newFolder, writeRows, writeTally } from "./rollout-files.ts";

interface Viewing {
  url: string;
  printed(): string;
  get<T>(path: string): Promise<T>;
  end(): Promise<Ended>;
}

/** Starts `holdfast view …` and waits until it listens. */
async function view(args: string[], cwd?: string): Promise<Viewing> {
  const running = await start(["view", ...args], cwd === undefined ? {} : { cwd });
  const ended = running.ended.then(({ code, stderr }) => Promise.reject(new Error(`it ended with ${code}: ${stderr}`)));
  ended.catch(() => undefined);
  let found: string | undefined;
  while (found === undefined) {
    await Promise.race([sleep(20), ended]);
    found = /^viewer at (\S+)\/view\/\S*$/m.exec(running.printed())?.[1];
  }
  const url = found;
  return {
    url,
    printed: running.printed,
    get: async <T>(path: string) => (await (await fetch(url + path)).json()) as T,
    end() {
      running.process.kill("SIGINT");
      return running.ended;
    },
  };
}

async function rowsOf({ url }: Viewing, at = 0): Promise<RowSummary[]> {
  const text = await (await fetch(`${url}/v1/runs/${at}/rows`)).text();
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith(":"));
  return lines.flatMap((line) => JSON.parse(line) as RowSummary[]);
}

describe("files", () => {
  test("a run is served with its sessions and the code of --environment", async () => {
    const folder = await newFolder();
    const file = await collectCounter(folder, "scripted");
    const viewing = await view([file, "--environment", "examples/counter"]);
    expect(viewing.printed()).toContain(`${file}, with states\ncounter, with the code in examples/counter\n`);
    expect(viewing.printed()).toMatch(/\/view\/#at=runs\/0\n$/);
    const about = await viewing.get<About>("/v1/about");
    expect(about).toMatchObject({
      environments: [{ name: "counter", at: "/counter", bare: false }],
      agents: [],
      models: ["scripted", "random"],
      runs: [{ run: "0", name: "scripted", file, environment: "counter" }],
    });
    const details = await viewing.get<CollectionDetails>("/v1/runs/0");
    expect(details).toMatchObject({ sessions: true, settings: { model: "scripted", repeats: 2 } });
    const rows = await rowsOf(viewing);
    expect(rows).toHaveLength(10);
    const { session } = rows[3] as RowSummary;
    const { row } = await viewing.get<{ row: object }>("/v1/runs/0/rows/3");
    expect(row).toMatchObject({ session_id: session });
    const events = await viewing.get<{ events: object[] }>(`/counter/v1/sessions/${session}/events`);
    expect(events.events[0]).toMatchObject({ type: "session.opened" });
    expect((await fetch(`${viewing.url}/view/`)).status).toBe(200);
    expect(await viewing.end()).toMatchObject({ code: 0, stderr: "" });
    // Viewing leaves nothing in a store, not even a key.
    const store = sqliteStore({ file: join(folder, "scripted.db") });
    const kinds = new Set<string>();
    for await (const { environment } of store.list()) kinds.add(environment);
    await store.close();
    expect([...kinds].filter((kind) => kind.startsWith("holdfast:"))).toEqual([]);
  });

  test("several are served together, each with the store beside it and without its other files", async () => {
    const folder = await newFolder();
    const files = [await collectCounter(folder, "scripted"), await collectCounter(folder, "random")];
    const all = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    expect(all.length).toBeGreaterThan(files.length);
    const viewing = await view(all.sort().map((name) => join(folder, name)));
    const { runs, environments } = await viewing.get<About>("/v1/about");
    expect([runs.map(({ name }) => name), environments.length]).toEqual([["random", "scripted"], 1]);
    for (const at of [0, 1]) {
      const [first] = await rowsOf(viewing, at);
      expect(await viewing.get(`/counter/v1/sessions/${first?.session}`)).toMatchObject({ session: first?.session });
    }
  });

  test("no code runs that is not named, and the line of its environment says how to name it", async () => {
    const folder = await newFolder();
    const file = await collectTally(folder, await writeTally(folder));
    const code = readFileSync(join(folder, "environment.mjs"), "utf8");
    const ran = join(folder, "ran");
    const attack = `import { writeFileSync } from "node:fs";\nwriteFileSync(${JSON.stringify(ran)}, "");\n`;
    writeFileSync(join(folder, "environment.mjs"), attack + code);
    const viewing = await view([basename(file)], folder);
    expect(viewing.printed()).toContain(
      "tally: its code is not loaded, so episodes cannot be continued; add --environment",
    );
    expect(viewing.printed()).toContain(" --environment environment.mjs\n");
    const { environments, models } = await viewing.get<About>("/v1/about");
    expect({ environments, models }).toMatchObject({ environments: [{ name: "tally", bare: true }], models: [] });
    const [first] = await rowsOf(viewing);
    const forked = await fetch(`${viewing.url}/tally/v1/sessions/${first?.session}/fork`, { method: "POST" });
    expect(forked.status).toBe(201);
    expect(await viewing.end()).toMatchObject({ code: 0, stderr: "" });
    expect(existsSync(ran)).toBe(false);
    const named = await view([basename(file), "--environment", "environment.mjs"], folder);
    expect(named.printed()).toContain("tally, with the code in environment.mjs\n");
    expect(existsSync(ran)).toBe(true);
  });

  test("the text of a record that could harm a shell is not printed", async () => {
    const folder = await newFolder();
    const file = basename(await collectTally(folder, await writeTally(folder)));
    const record = join(folder, "tally_run.json");
    const { target, ...rest } = JSON.parse(readFileSync(record, "utf8")) as { target: string };
    expect(target).toBe("./environment.mjs");
    writeFileSync(record, JSON.stringify({ ...rest, target: "./$(touch x)" }));
    const viewing = await view([file], folder);
    expect(viewing.printed()).toContain("add --environment TARGET\n");
  });

  test("the code of other environments can be named too", async () => {
    const folder = await newFolder();
    const file = basename(await collectTally(folder, await writeTally(folder)));
    const given = await view([join(folder, file), "--environment", "examples/counter"]);
    expect(await given.get("/v1/about")).toMatchObject({
      environments: [
        { name: "counter", bare: false },
        { name: "tally", bare: true },
      ],
    });
  });

  test("without a store there are rows and no sessions; a run without rows may get some", async () => {
    const folder = await newFolder();
    const file = await writeRows(join(folder, "a.jsonl"), { _ng_task_index: 0, reward: 1, session_id: "s" }, "oops");
    const viewing = await view([file]);
    expect(viewing.printed()).toContain(`${file}, without states (its sessions were not found)\n`);
    expect(await viewing.get("/v1/about")).toMatchObject({
      environments: [],
      models: [],
      runs: [{ environment: null }],
    });
    expect(await viewing.get("/v1/runs/0")).toMatchObject({ sessions: false, settings: {} });
    expect(await rowsOf(viewing)).toMatchObject([{ task: 0, session: "s" }]);
    const begun = join(await newFolder(), "begun.jsonl");
    const made = await collectCounter(folder, "scripted");
    writeFileSync(begun, "");
    copyFileSync(made.replace(".jsonl", "_run.json"), begun.replace(".jsonl", "_run.json"));
    const waiting = await view([begun, "--store", `sqlite:${made.replace(".jsonl", ".db")}`]);
    expect(await waiting.get("/v1/runs/0")).toMatchObject({ sessions: true, environment: "counter" });
  });
});

test("a store alone shows the environments of its sessions", async () => {
  const folder = await newFolder();
  await collectCounter(folder, "scripted");
  const store = `sqlite:${join(folder, "scripted.db")}`;
  const bare = await view(["--store", store]);
  expect(await bare.get("/v1/about")).toMatchObject({ environments: [{ name: "counter", bare: true }], runs: [] });
  const whole = await view(["--store", store, "--environment", "examples/counter", "--host", "0.0.0.0"]);
  const [, token] = /^bearer token (\S+)$/m.exec(whole.printed()) ?? [];
  const authorization = `Bearer ${token}`;
  const ask = (headers: Record<string, string>) => fetch(`${whole.url}/v1/about`, { headers });
  expect((await ask({})).status).toBe(401);
  expect(await (await ask({ authorization })).json()).toMatchObject({
    environments: [{ name: "counter", bare: false }],
  });
});

test("a bundle has the rows and the logs of their sessions, and its location is printed", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "scripted");
  const site = join(folder, "site");
  const { code, stdout, stderr } = await run("view", "--bundle", site, file);
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stderr: "",
    stdout: `${file}: 10 rows\nOpen ${join(site, "index.html")} in a browser\n`,
  });
  expect(readFileSync(join(site, "data/runs/0/part-0.js"), "utf8")).toContain("session.seeded");
  const bare = await writeRows(join(folder, "bare.jsonl"), { reward: 1 }, "oops");
  const again = await run("view", "--bundle", site, bare);
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("line 2 of ") as string });
  expect(again.stdout).toContain(`${bare}: 1 rows, without states (the sessions were not found)\n`);
});

test("a row that names something other than an episode brings nothing of the store into a bundle", async () => {
  const folder = await newFolder();
  const file = await collectCounter(folder, "scripted");
  const store = sqliteStore({ file: join(folder, "scripted.db") });
  const [key] = await keysFromStore(store);
  const { session } = await createSessions({ app: "hotel", store }).open({ state: { pin: "of Ann" } });
  await store.close();
  await writeRows(file, { session_id: session }, { session_id: "holdfast:keys" }, readFileSync(file, "utf8").trim());
  const site = join(folder, "site");
  expect(await run("view", "--bundle", site, file)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(": 12 rows\n") as string,
  });
  const text = readFileSync(join(site, "data/runs/0/part-0.js"), "utf8");
  expect(text).toContain("session.seeded");
  expect([key as string, "of Ann"].filter((secret) => text.includes(secret))).toEqual([]);
  // Nor does a conversation count as the environment of the run.
  const viewing = await view([file]);
  expect(await viewing.get<CollectionDetails>("/v1/runs/0")).toMatchObject({ environment: "counter", sessions: true });
  await viewing.end();
});

test("a folder stands for the collections in it, and a bundle has them all", async () => {
  const folder = await newFolder();
  const target = await writeTally(folder);
  await collectTally(folder, target);
  const site = join(folder, "site");
  const { code, stdout } = await run("view", folder, "--bundle", site);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: `${join(folder, "tally.jsonl")}: 2 rows\nOpen ${join(site, "index.html")} in a browser\n`,
  });
  const { stderr } = await run("view", site);
  expect(stderr).toBe(
    `invalid_option: the folder ${site} has no collections (pairs of files NAME.jsonl and NAME_run.json) and no metrics.jsonl of a trainer\n`,
  );
});

describe("refusals", () => {
  test.each<[string, (folder: string) => string[], string]>([
    ["nothing to look at", () => [], "invalid_option: name rollout files, a folder of collections, or a store"],
    ["a file that is not there", (at) => [join(at, "no.jsonl")], "cannot_load: the file "],
    ["an empty file that no collection writes", (at) => [join(at, "empty.jsonl")], "empty.jsonl has no rollouts\n"],
    ["a trainer's metrics file", (at) => [join(at, "metrics.jsonl")], "metrics.jsonl is a trainer's metrics file, "],
    ["a file that is no JSON lines", (at) => [join(at, "words.md")], "cannot_load: "],
    ["a store that is not there", (at) => ["--store", `sqlite:${at}/no.db`], "invalid_option: the file "],
    ["a store without sessions", () => ["--store", "memory:"], "invalid_option: the store has no sessions"],
    [
      "an environment that is not there",
      (at) => ["--store", "memory:", "--environment", join(at, "no")],
      "cannot_load: ",
    ],
    [
      "a bundle of no file",
      (at) => ["--bundle", join(at, "site"), "--store", "memory:"],
      "invalid_option: --bundle needs rollout files",
    ],
    ["a bundle where something is", (at) => ["--bundle", at, join(at, "a.jsonl")], "invalid_option: "],
    [
      "a model that is none",
      (at) => [join(at, "a.jsonl"), "--environment", "examples/counter", "--model", "no"],
      'invalid_option: "no" is not a model',
    ],
  ])("%s", async (_, args, message) => {
    const folder = await newFolder();
    writeFileSync(join(folder, "words.md"), "# Words\n");
    await writeRows(join(folder, "a.jsonl"), { reward: 1 });
    await writeRows(join(folder, "empty.jsonl"));
    await writeRows(join(folder, "metrics.jsonl"), { iteration: 0, reward: 1 });
    const { code, stderr } = await run("view", ...args(folder));
    expect(code).toBe(1);
    expect(stderr).toContain(message);
    expect(stderr.trim().split("\n")).toHaveLength(1);
  });
});
