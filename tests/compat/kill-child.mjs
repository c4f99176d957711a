// A process that makes one of the fixtures' runs and is killed in the middle of it. Started by generate.mjs.
import { createJiti } from "jiti";
import { kills, oldEngines, recording } from "./scenarios.mjs";

const { dist, file, folder, index } = JSON.parse(process.argv[2]);
const holdfast = await import(`${dist}/index.js`);
const { sqliteStore } = await import(`${dist}/stores/sqlite.js`);
const { define } = await createJiti(import.meta.url).import("./definitions.ts");

function die() {
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => undefined);
}

const { journal, session, call, turn, at } = kills[index];
let seen = 0;
const onCommit = (body) => (JSON.parse(body).type === at[0] && ++seen === at[1] ? die() : undefined);
const store = recording(sqliteStore({ file }), `${folder}/${journal}.jsonl`, { onCommit });
const engines = oldEngines(holdfast, define);
const definitions = engines.define({ effect: () => (at === "effect" ? die() : undefined) });
const episodes = engines.episodes(store, definitions.ledger);
const task = { start: 1, goal: 10 };

if (call) {
  const [tool, input, id] = call;
  await episodes.open({ session, task, random: 6 });
  await episodes.call(session, "add", { n: 1 }, { call: "a-1" });
  await episodes.call(session, tool, input, { call: id });
} else {
  const sessions = engines.conversations(store, journal);
  const name = journal.split("-")[0];
  const agent = name === "desk" ? definitions.agents.desk(episodes) : definitions.agents[name];
  await sessions.open({ session, user: session, state: { task } });
  await engines.turn(sessions, agent, session, { message: turn });
}
throw new Error(`${session} came to its end without being killed`);
