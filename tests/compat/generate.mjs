// Makes the fixtures of an earlier version, with that version's own build: node tests/compat/generate.mjs ITS_DIST OUT
//
// v0.1 was made by commit 69c0fcd: `git worktree add OLD 69c0fcd`, there `npm ci && npm run build`, and here
// `node tests/compat/generate.mjs OLD/dist tests/compat/v0.1`. Ids, times and the moments of kills differ each time, so a
// fixture that was released stays as it is. A later version adds a folder beside it and a run of the same tests.
//
// All of it is made in a temporary folder with relative paths: no file may name the machine it was made on.
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createJiti } from "jiti";
import { kills, oldEngines, recording, scenarios } from "./scenarios.mjs";

const [dist, out] = process.argv.slice(2).map((path) => resolve(path));
if (dist === undefined || out === undefined) throw new Error("node tests/compat/generate.mjs ITS_DIST OUT");
const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const work = mkdtempSync(join(tmpdir(), "holdfast-compat-"));
const at = (...path) => join(work, ...path);

const holdfast = await import(`${dist}/index.js`);
const { sqliteStore } = await import(`${dist}/stores/sqlite.js`);
const jiti = createJiti(import.meta.url);
const { define } = await jiti.import("./definitions.ts");
const { byRollout, rowOf } = await jiti.import("./rows.ts");
const { readJournal, fill, sessionsIn } = await jiti.import("./journal.ts");
const probe = await jiti.import("./probe.ts");
const engines = oldEngines(holdfast, define);

for (const folder of ["journals", "saved", "examples", "collections", "expected", "node_modules"])
  mkdirSync(at(folder));
symlinkSync(join(root, "node_modules/zod"), at("node_modules/zod"));
for (const name of ["counter", "blackjack", "concierge", "counter-agent", "session-state"]) {
  cpSync(join(dist, "../examples", name), at("examples", name), { recursive: true });
  for (const file of ["README.md", "generate.ts"]) rmSync(at("examples", name, file), { force: true });
}
// The digest of the tasks is part of a collection's record, so only the played tasks are kept.
for (const [name, count] of Object.entries({ counter: 6, blackjack: 1 })) {
  const file = at("examples", name, "tasks.jsonl");
  writeFileSync(
    file,
    readFileSync(file, "utf8")
      .split("\n")
      .slice(0, count)
      .map((line) => `${line}\n`)
      .join(""),
  );
}
mkdirSync(at("examples/clumsy"));
writeFileSync(
  at("examples/clumsy/agent.mjs"),
  `// Plays the counter. Where the task is to add 12 its model fails, until MENDED is set.
import { defineAgent, scriptedModel } from "holdfast";

export default defineAgent({
  name: "clumsy",
  model: scriptedModel(({ input }) => {
    const said = JSON.stringify(input[0].content);
    if (said.includes("12") && !process.env.MENDED) throw new Error("no GPU");
    const results = input.filter(({ type }) => type === "function_call_output").length;
    const numbers = (said.match(/-?\\d+/g) ?? []).map(Number);
    if (results > 0) return "Done.";
    return { calls: numbers.map((count) => ({ name: "increment_counter", arguments: { count } })) };
  }),
});
`,
);

/** Runs the old command. */
function command(args, { input = "", code = 0, env = {} } = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(dist, "cli/main.js"), ...args], {
    cwd: work,
    input,
    env: { ...process.env, ...env },
    encoding: "utf8",
  });
  if (status !== code) throw new Error(`holdfast ${args.join(" ")} ended with ${status}: ${stderr}${stdout}`);
  return stdout;
}

async function makeSessions() {
  for (const [name, run] of Object.entries(scenarios)) {
    const store = recording(sqliteStore({ file: at("sessions.db") }), at("journals", `${name}.jsonl`));
    await run({ holdfast, engines, store, definitions: engines.define({ effect: () => undefined }) });
    await store.close();
  }
  for (const index of kills.keys()) {
    const given = JSON.stringify({ dist, file: at("sessions.db"), folder: at("journals"), index });
    const { signal, stderr } = spawnSync(process.execPath, [join(here, "kill-child.mjs"), given], { encoding: "utf8" });
    if (signal !== "SIGKILL") throw new Error(`${kills[index].session} was not killed: ${stderr}`);
  }
  const { queries } = JSON.parse(readFileSync(at("examples/concierge/input.json"), "utf8"));
  const lasting = ["--session", "concierge", "--user", "ann", "--store", "sqlite:sessions.db"];
  command(["run", "examples/concierge", ...lasting, "--save", "saved/concierge.json"], { input: queries.join("\n") });
  for (const name of ["counter-agent", "session-state"]) {
    command(["run", `examples/${name}`, "--replay", `examples/${name}/input.json`, "--save", `saved/${name}.json`]);
  }
  for (const name of ["concierge", "counter-agent", "session-state"]) {
    command(["run", `examples/${name}`, "--replay", `saved/${name}.json`]);
  }
  await closeWell("sessions.db");
}

/** Opens and closes a database, so that nothing is left in its write-ahead log. */
async function closeWell(file) {
  const store = sqliteStore({ file: at(file) });
  for await (const _ of store.list()) break;
  await store.close();
  if (existsSync(at(`${file}-wal`))) throw new Error(`${file} has a write-ahead log`);
}

/**
 * How each collection is made, beside `--out`. An interrupted one is killed with some rollouts done and some running.
 */
const words = (text) => text.split(" ");
const collections = {
  finished: words("examples/counter --model scripted --repeats 2 --limit 2"),
  failed: words("examples/counter --agent examples/clumsy --limit 3 --attempts 2"),
  half: words("examples/counter --model scripted --repeats 2 --concurrency 2"),
  "half-branched": words("examples/blackjack --model random:1 --branch 2@1 --max-steps 5 --repeats 5 --concurrency 2"),
};
const cutShort = { half: 12, "half-branched": 10 };

async function makeCollections() {
  for (const [name, args] of Object.entries(collections)) {
    const out = ["--out", `collections/${name}.jsonl`];
    if (name in cutShort) await collectHalf(name, cutShort[name], [...args, ...out]);
    else command(["collect", ...args, ...out], { code: name === "failed" ? 1 : 0 });
    await closeWell(`collections/${name}.db`);
  }
}

/** Kills a collection once it has some rows. Tries again if it had finished, or if no episode was running. */
async function collectHalf(name, total, args) {
  const rows = at("collections", `${name}.jsonl`);
  const done = () => (existsSync(rows) ? readFileSync(rows, "utf8").split("\n").length - 1 : 0);
  for (let tries = 0; tries < 50; tries++) {
    const of = new RegExp(`^${name}[._]`);
    for (const file of readdirSync(at("collections")).filter((file) => of.test(file))) rmSync(at("collections", file));
    const all = [join(dist, "cli/main.js"), "collect", ...args];
    const child = spawn(process.execPath, all, { cwd: work, stdio: "ignore" });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    while (child.exitCode === null && done() < 3) await delay(1);
    child.kill("SIGKILL");
    await ended;
    if (done() < 3 || done() > total - 4) continue;
    const store = sqliteStore({ file: at("collections", `${name}.db`) });
    let opened = 0;
    for await (const { environment } of store.list()) if (!environment.startsWith("agent:")) opened++;
    await store.close();
    if (opened > done()) return;
  }
  throw new Error(`the collection ${name} was never killed half-way`);
}

const journals = [...Object.keys(scenarios), ...new Set(kills.map(({ journal }) => journal))];
const linesOf = (name) => readJournal(at("journals", `${name}.jsonl`));
const appOf = (environment) => /^agent:(.*)$/.exec(environment)?.[1];

/** The old version's answers about the sessions. */
async function expectSessions() {
  const apps = journals.filter((name) => !name.startsWith("ledger"));
  const list = { ledger: await onCopy(probe.listEpisodes), ended: await onCopy(probe.listEnded) };
  for (const app of apps) list[`agent:${app}`] = await onCopy((place) => probe.listConversations(place, app));
  const [read, repeated, continued] = [{}, {}, {}];
  for (const { session, environment } of journals.flatMap((name) => sessionsIn(linesOf(name)))) {
    const app = appOf(environment);
    if (app === undefined && environment !== "ledger") continue;
    read[session] = await onCopy((place) =>
      app === undefined ? probe.readEpisode(place, session) : probe.readConversation(place, app, session),
    );
    if (app === undefined) repeated[session] = await onCopy((place) => probe.repeatEpisode(place, session));
    continued[session] = await onCopy((place) =>
      app === undefined ? probe.continueEpisode(place, session) : probe.continueConversation(place, app, session),
    );
  }
  write("list", list);
  write("read", read);
  write("repeated", repeated);
  write("continued", continued);
}

/** Asks on a copy of the store, for what changes it. */
async function onCopy(ask) {
  cpSync(at("sessions.db"), at("copy.db"));
  const store = sqliteStore({ file: at("copy.db") });
  const result = await ask(probe.placeOn(engines, store));
  await store.close();
  rmSync(at("copy.db"));
  return result;
}

/** The sessions that a line of a journal writes to. Logs of shared state are not sessions. */
const writtenBy = ({ commits }) => commits.map(({ session }) => session).filter((id) => !id.startsWith("holdfast:"));

/** The old version's view of each journal, cut after each line. */
async function expectCuts() {
  const cuts = {};
  for (const name of journals) {
    if (/-(long|ended)$/.test(name)) continue;
    const lines = linesOf(name);
    const environments = new Map(sessionsIn(lines).map(({ session, environment }) => [session, environment]));
    const results = [];
    for (const [index, line] of lines.entries()) {
      const cut = async () => {
        const place = probe.placeOn(engines, engines.newStore());
        await fill(place.store, lines.slice(0, index + 1));
        return place;
      };
      for (const session of writtenBy(line)) {
        const app = appOf(environments.get(session));
        results.push(
          app === undefined
            ? { line: index + 1, session, ...(await probe.cutEpisode(await cut(), session)) }
            : {
                line: index + 1,
                session,
                ...(await probe.cutConversation(await cut(), await cut(), app, session)),
              },
        );
      }
    }
    cuts[name] = results;
  }
  write("cuts", cuts);
}

/** The old command's output for the collections. */
function expectCollections() {
  const linesIn = (text) => text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
  const rowsIn = (file) => linesIn(readFileSync(at(file), "utf8"));
  const expected = {};
  for (const [name, args] of Object.entries(collections)) {
    cpSync(at("collections"), at("resumed"), { recursive: true });
    const [file, again] = [`resumed/${name}.jsonl`, `resumed/${name}_again.jsonl`];
    command(["collect", ...args, "--out", file, "--resume"], { env: { MENDED: "1" } });
    const rows = rowsIn(file).map(rowOf).sort(byRollout);
    command(["reverify", file, "--environment", args[0], "--every-step", "--out", again]);
    const reverified = rowsIn(again).map(rowOf).sort(byRollout);
    const { pass_metrics: metrics } = JSON.parse(command(["metrics", file, "--json"]));
    const { steps } = JSON.parse(command(["show", file, "--task", "0", "--json"]));
    expected[name] = { args, rows, reverified, metrics, steps };
    rmSync(at("resumed"), { recursive: true });
  }
  write("collections", expected);
}

/** One line for each entry, so that it can be read. */
function write(name, entries) {
  const line = (value) =>
    Array.isArray(value)
      ? `[\n  ${value.map((each) => JSON.stringify(each)).join(",\n  ")}\n ]`
      : JSON.stringify(value);
  const lines = Object.entries(entries).map(([key, value]) => ` ${JSON.stringify(key)}: ${line(value)}`);
  writeFileSync(at("expected", `${name}.json`), `{\n${lines.join(",\n")}\n}\n`);
}

/** Every type of event that version 0.1 knows is there. */
function assertComplete() {
  const types = new Set(
    journals.flatMap((name) =>
      linesOf(name).flatMap(({ commits = [] }) =>
        commits.flatMap(({ entries }) => entries.map(({ body }) => JSON.parse(body).type)),
      ),
    ),
  );
  if (types.size !== 16) throw new Error(`there are events of ${types.size} types: ${[...types].join(", ")}`);
}

try {
  await makeSessions();
  assertComplete();
  await makeCollections();
  // By then the claim of the call that was killed has lapsed.
  await delay(2000);
  await expectSessions();
  await expectCuts();
  expectCollections();
  rmSync(at("node_modules"), { recursive: true });
  const found = spawnSync("grep", ["-rlaF", "-e", work, "-e", root, "-e", join(dist, ".."), work], {
    encoding: "utf8",
  });
  if (found.stdout !== "") throw new Error(`these files name folders of this machine: ${found.stdout}`);
  rmSync(out, { recursive: true, force: true });
  cpSync(work, out, { recursive: true });
} finally {
  rmSync(work, { recursive: true, force: true });
}
