// Runs an agent in a process that kills itself before or after its n-th commit. Started by crash.test.ts.
import { writeSync } from "node:fs";
import { crashAgent } from "./crash-agent.mjs";

const { built, file, session, message, lease, commit, when } = JSON.parse(process.argv[2]);
const { sqliteStore } = await import(`${built}/stores/sqlite.js`);

const inner = sqliteStore({ file });
let commits = 0;

function die() {
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => undefined);
}

// How often a run renews its lease depends on the machine's load. Kills count the other commits, which every run makes.
const isRenewal = (together) =>
  together.some(({ entries }) => entries.some(({ body }) => JSON.parse(body).type === "turn.renewed"));

const store = {
  ...inner,
  append: async (...together) => {
    if (isRenewal(together)) return inner.append(...together);
    if (when === "before" && commits === commit - 1) return die();
    const result = await inner.append(...together);
    // A refused commit is not progress.
    if (result === "ok") commits++;
    return when === "after" && commits === commit ? die() : result;
  },
};

// One write per report, so that it is whole or missing, and present before the next action.
const report = (...words) => writeSync(1, `${words.join(" ")}\n`);
const { agent, holdfast } = await crashAgent(built, store, report);
const sessions = holdfast.createSessions({ app: "crash", store, lease });
for await (const event of holdfast.run(agent, { sessions, session, message, call: "m1" }))
  report("event", event.type, event.version);
report("commits", commits);
await store.close();
