// holdfast run as a process: its output, where it resumes, its refusals and exit codes.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { ask, echoAgent, newFile, newFolder, start } from "./run-process.ts";

interface Line {
  type: string;
  version: number;
}

const jsonLines = (text: string): Line[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);

const echo = (): Promise<string> => newFile("agent.mjs", echoAgent);

describe("queries come from", () => {
  test("a pipe: every line is one, up to the end or exit, and nothing else is printed", async () => {
    const agent = await echo();
    const { code, stdout, stderr } = await ask("hello\n\n  there\r\nlast", agent);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe("[echo]: You said hello\n[echo]: You said there\n[echo]: You said last\n");
    expect((await ask("one\nexit\ntwo\n", agent)).stdout).toBe("[echo]: You said one\n");
    expect(await ask("", agent)).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("a file, with the session's initial state", async () => {
    const queries = { state: { start: 5, "user:name": "ann", "app:name": "demo" }, queries: ["hi", "state"] };
    const { code, stdout } = await ask("not read\n", await echo(), "--replay", await newFile("input.json", queries));
    expect(stdout).toBe("[user]: hi\n[echo]: You said hi\n[user]: state\n[echo]: 2 5 ann demo\n");
    expect(code).toBe(0);
  });
});

test("an agent outside the repository can import the whole package, with its models", async () => {
  const agent = `
    import { defineAgent } from "holdfast";
    import { chatModel } from "holdfast/models/chat";
    import { randomModel } from "holdfast/models/random";
    const models: object[] = [chatModel({ model: "m", baseUrl: "http://127.0.0.1:1" }), randomModel()];
    export default defineAgent({ name: "typed", model: randomModel({ seed: models.length }) });`;
  const { code, stdout } = await ask("hello\n", await newFile("agent.ts", agent));
  expect(stdout).toMatch(/^\[typed\]: .+\n$/);
  expect(code).toBe(0);
});

describe("a failing turn", () => {
  const error = "[echo] error: model_failed: the script failed: out of order\n    in the model (agent.mjs:6)\n";

  test("ends a run from a pipe, with exit code 1", async () => {
    const { code, stdout, stderr } = await ask("one\nfail\ntwo\n", await echo());
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: "[echo]: You said one\n", stderr: error });
  });

  test("ends a run from a file, with exit code 1, and saves the session", async () => {
    const [input, saved] = [
      await newFile("input.json", { queries: ["fail", "two"] }),
      join(await newFolder(), "s.json"),
    ];
    const { code, stdout, stderr } = await ask("", await echo(), "--replay", input, "--save", saved);
    expect({ code, stderr }).toEqual({ code: 1, stderr: error });
    expect(stdout).toBe(`[user]: fail\nSession saved to ${saved}\n`);
    // It was reported, so it is not tried again.
    expect(await ask("two\n", await echo(), "--resume", saved)).toEqual({
      code: 0,
      stdout: "[user]: fail\n[echo]: You said two\n",
      stderr: error,
    });
  });
});

describe("a conversation resumes", () => {
  test("from a file, with its state, initial state and shared state, and is shown first", async () => {
    const [agent, saved] = [await echo(), join(await newFolder(), "session.json")];
    const state = { start: "early", "user:name": "ann", "app:name": "demo" };
    const input = await newFile("input.json", { state, queries: ["hello"] });
    const first = await ask("", agent, "--replay", input, "--user", "ann", "--save", saved);
    expect(first).toMatchObject({
      code: 0,
      stdout: `[user]: hello\n[echo]: You said hello\nSession saved to ${saved}\n`,
    });
    const text = await readFile(saved, "utf8");
    expect(text).toBe(`${JSON.stringify(JSON.parse(text), null, 2)}\n`);

    const second = await ask("state\n", agent, "--resume", saved, "--save", saved);
    expect(second.stdout.split("\n").slice(0, 3)).toEqual([
      "[user]: hello",
      "[echo]: You said hello",
      "[echo]: 2 early ann demo",
    ]);
    expect((await ask("state\n", agent, "--resume", saved)).stdout).toContain("[echo]: 3 early ann demo\n");
  });

  test("in a store: a session is opened, found again, and printed if no name was given", async () => {
    const [agent, store] = [await echo(), `sqlite:${join(await newFolder(), "echo.db")}`];
    const one = await ask("hello\n", agent, "--store", store, "--session", "one", "--user", "ann");
    expect(one).toEqual({ code: 0, stdout: "[echo]: You said hello\n", stderr: "" });
    const more = await ask("state\n", agent, "--store", store, "--session", "one");
    expect(more.stdout).toMatch(/^\[echo\]: 2 /);
    const other = await ask("state\n", agent, "--store", store, "--session", "one", "--user", "bob");
    expect(other).toMatchObject({
      code: 1,
      stderr: "invalid_option: session one belongs to the user ann, not to bob\n",
    });
    const input = await newFile("input.json", { state: { start: 1 }, queries: ["x"] });
    const late = await ask("", agent, "--store", store, "--session", "one", "--replay", input);
    expect(late).toMatchObject({ code: 1, stderr: expect.stringMatching(/^session_exists: /) as string });
    const unnamed = await ask("hello\n", agent, "--store", store);
    const [, session = ""] = /^Session (\S+)\n$/.exec(unnamed.stderr) ?? [];
    expect((await ask("state\n", agent, "--store", store, "--session", session)).stdout).toMatch(/^\[echo\]: 2 /);
  });

  test("after a killed process: the interrupted turn comes first", async () => {
    const folder = await newFolder();
    const store = `sqlite:${join(folder, "echo.db")}`;
    const hanging = await newFile("agent.mjs", echoAgent);
    const killed = await start(hanging, "--store", store, "--session", "one", "--json");
    killed.process.stdin?.write("slow\n");
    await killed.printed("agent.began");
    killed.process.kill("SIGKILL");
    await killed.ended;
    const quick = await newFile("agent.mjs", echoAgent.replace("600_000", "1"));
    expect(await ask("state\n", quick, "--store", store, "--session", "one")).toEqual({
      code: 0,
      stdout: "[echo]: You said slow\n[echo]: 2   \n",
      stderr: expect.stringMatching(
        /^Resuming an interrupted turn: slow\nWaiting: another process is running a turn in session one. If that process has died, this takes at most \d+ s\.\n$/,
      ) as string,
    });
  });
});

test("with --json every committed event is a line, and nothing else is printed", async () => {
  const [agent, saved] = [await echo(), join(await newFolder(), "s.json")];
  const { code, stdout, stderr } = await ask("hello\n", agent, "--json", "--stream", "--save", saved);
  expect({ code, stderr }).toEqual({ code: 0, stderr: `Session saved to ${saved}\n` });
  const types = ["invocation.began", "agent.began", "model.answered", "agent.ended"];
  expect(jsonLines(stdout).map(({ type }) => type)).toEqual(types);
  const resumed = await ask("", agent, "--json", "--resume", saved);
  expect(jsonLines(resumed.stdout).map(({ type, version }) => `${version} ${type}`)).toEqual(
    ["session.opened", ...types].map((type, at) => `${at + 1} ${type}`),
  );
});

test("--model replaces the model of every agent, also of agents used as tools", async () => {
  const family = `
    import { defineAgent, scriptedModel, sequence } from "holdfast";
    const model = scriptedModel(["mine"]);
    const helper = defineAgent({ name: "helper", model });
    const first = defineAgent({ name: "first", model, tools: { helper } });
    export default sequence({ name: "both", agents: [first, defineAgent({ name: "second", model })] });`;
  const agent = await newFile("agent.mjs", family);
  expect((await ask("hello\n", agent)).stdout).toBe("[first]: mine\n[second]: mine\n");
  expect((await ask("hello\n", agent, "--model", "scripted")).stdout).toBe("[first]: mine\n[second]: mine\n");
  const { code, stdout } = await ask("hello\n", agent, "--model", "random:3", "--json");
  expect(code).toBe(0);
  const models = jsonLines(stdout).flatMap((line) => ("model" in line ? [line["model"]] : []));
  expect(models.length).toBeGreaterThan(1);
  expect(new Set(models)).toEqual(new Set(["random"]));
});

describe("a saved session given to --replay", () => {
  async function savedSession(agent: string): Promise<string> {
    const saved = join(await newFolder(), "s.json");
    const input = await newFile("input.json", { state: { start: 1, "user:name": "ann" }, queries: ["hello", "state"] });
    expect((await ask("", agent, "--replay", input, "--save", saved)).code).toBe(0);
    return saved;
  }

  test("is run again with the same result", async () => {
    const agent = await echo();
    const saved = await savedSession(agent);
    expect(await ask("", agent, "--replay", saved)).toEqual({
      code: 0,
      stdout: "9 events, all identical\n",
      stderr: "",
    });
    const { stdout } = await ask("", agent, "--replay", saved, "--json");
    expect(JSON.parse(stdout)).toEqual({ same: true, events: 9 });
    const refused = await ask("", agent, "--replay", saved, "--model", "random");
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^invalid_option: --model cannot/) as string,
    });
  });

  test("is run again, and the first different event is named, with exit code 1", async () => {
    const saved = await savedSession(await echo());
    const changed = await newFile("agent.mjs", echoAgent.replace("?? 0) + 1", "?? 0) + 2"));
    const { code, stdout } = await ask("", changed, "--replay", saved);
    expect(code).toBe(1);
    expect(stdout).toBe("event 3 (agent.began of echo): /delta/0/value was 1 in the recording and is now 2\n");
    const { stdout: json } = await ask("", changed, "--replay", saved, "--json");
    expect(JSON.parse(json)).toMatchObject({ same: false, version: 3 });
  });
});

describe("a run ends", () => {
  test("by SIGTERM in the middle of a turn: the session is saved, and the next run resumes that turn", async () => {
    const saved = join(await newFolder(), "s.json");
    const running = await start(await echo(), "--save", saved, "--json");
    running.process.stdin?.write("slow\n");
    await running.printed("agent.began");
    running.process.kill("SIGTERM");
    const { code, stderr } = await running.ended;
    expect({ code, stderr }).toEqual({ code: 143, stderr: `Session saved to ${saved}\n` });
    const quick = await newFile("agent.mjs", echoAgent.replace("600_000", "1"));
    expect((await ask("", quick, "--resume", saved)).stdout).toBe("[user]: slow\n[echo]: You said slow\n");
  });

  test("by a second signal if an agent does not end", async () => {
    const stuck = echoAgent.replace("void (state.count", "new Promise(() => undefined) ?? (state.count");
    const running = await start(await newFile("agent.mjs", `setInterval(() => undefined, 1000);${stuck}`), "--json");
    running.process.stdin?.write("hello\n");
    await running.printed("invocation.began");
    running.process.kill("SIGINT");
    // Two signals in quick succession count as one.
    const again = setInterval(() => running.process.kill("SIGINT"), 200);
    onTestFinished(() => clearInterval(again));
    expect((await running.ended).code).toBe(130);
  });

  test("even if an agent has left a timer behind", async () => {
    const agent = await newFile("agent.mjs", `setInterval(() => undefined, 1000);${echoAgent}`);
    expect((await ask("hello\n", agent)).stdout).toBe("[echo]: You said hello\n");
  });

  test("silently if the output pipe is closed", async () => {
    const running = await start(await echo());
    running.process.stdin?.write("hello\n");
    await running.printed("You said hello");
    running.process.stdout?.destroy();
    running.process.stdin?.write("more\n");
    expect((await running.ended).stderr).toBe("");
  });
});

describe("errors are reported in one line, with exit code 1:", () => {
  const at = async (content: unknown): Promise<string> => newFile("given.json", content);
  const concierge = "examples/concierge";
  const refusals: [string, () => Promise<string[]>, RegExp][] = [
    ["no agent", async () => ["nowhere"], /^cannot_load: nowhere is not a folder, a file or an installed package/],
    ["no such file", async () => ["./nowhere.ts"], /^cannot_load: \.\/nowhere\.ts does not exist\n/],
    [
      "a folder without one",
      async () => ["examples/counter"],
      /^cannot_load: the folder examples\/counter has no agent\.ts/,
    ],
    [
      "a file without one",
      async () => [await newFile("a.mjs", "export const x = 1;")],
      /exports no agent; write `export default/,
    ],
    [
      "something else",
      async () => [await newFile("a.mjs", "export const agent = 1;")],
      /the export `agent` of .* is not an agent/,
    ],
    [
      "a default that is something else",
      async () => [await newFile("a.ts", "export default 1;")],
      /the default export of .* is not an agent/,
    ],
    [
      "both files",
      async () => [concierge, "--replay", "a", "--resume", "b"],
      /^invalid_option: --replay and --resume cannot/,
    ],
    [
      "no such queries",
      async () => [concierge, "--replay", "a.json"],
      /^cannot_load: cannot read a\.json \(--replay\): it does not exist\n/,
    ],
    [
      "a folder of queries",
      async () => [concierge, "--replay", "src"],
      /^cannot_load: cannot read src \(--replay\): it is a folder\n/,
    ],
    ["no JSON", async () => [concierge, "--replay", await at("{")], /^cannot_load: .* is not valid JSON: /],
    ["a list", async () => [concierge, "--replay", await at([])], /does not contain a JSON object/],
    [
      "no queries",
      async () => [concierge, "--replay", await at({ state: {} })],
      /must contain a list of queries, as in /,
    ],
    [
      "queries of another kind",
      async () => [concierge, "--replay", await at({ queries: [1] })],
      /must contain a list of queries/,
    ],
    [
      "a state of another kind",
      async () => [concierge, "--replay", await at({ queries: [], state: [] })],
      /must be an object/,
    ],
    [
      "half a session",
      async () => [concierge, "--replay", await at({ events: [] })],
      /is not a saved session: it must have/,
    ],
    ["queries to resume", async () => [concierge, "--resume", await at({ queries: [] })], /use it with --replay\n/],
    [
      "nowhere to save",
      async () => [concierge, "--save", "nowhere/s.json"],
      /^invalid_option: .* its folder does not exist\n/,
    ],
    [
      "a folder to save to",
      async () => [concierge, "--save", "src"],
      /^invalid_option: .* it is a folder; add the name of a file\n/,
    ],
    [
      "no such model",
      async () => [concierge, "--model", "gpt"],
      /^invalid_option: "gpt" is not a model; choose one of scripted, random/,
    ],
    [
      "half a model",
      async () => [concierge, "--model", "chat:"],
      /^invalid_option: the model chat: needs a name after the colon, as in chat:/,
    ],
    [
      "no seed",
      async () => [concierge, "--model", "random:x"],
      /^invalid_option: the seed in random:x must be a whole number/,
    ],
    [
      "no recording",
      async () => [concierge, "--model", "recorded:x"],
      /^cannot_load: the recording x does not exist\n/,
    ],
    [
      "no script",
      async () => [await newFile("a.mjs", unscripted), "--model", "scripted"],
      /the agent a has no scripted model: its model is mine/,
    ],
    ["no such store", async () => [concierge, "--store", "x"], /^invalid_option: "x" is not a valid store URL/],
    ["no such user", async () => [concierge, "--user", ""], /^invalid_option: the user must be/],
  ];
  const unscripted = `import { defineAgent } from "holdfast";
    export default defineAgent({ name: "a", model: { name: "mine", respond: async () => ({ output: [] }) } });`;
  test.each(refusals)("%s", async (_, args, message) => {
    const { code, stdout, stderr } = await ask("hello\n", ...(await args()));
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain("\n");
  });
});

test("its help has examples, and names the models", async () => {
  const { code, stdout } = await ask("", "--help");
  expect(code).toBe(0);
  expect(stdout).toContain("$ npx holdfast run . --replay queries.json\n");
  expect(stdout).toContain("recorded:FILE");
});
