// Commits as fast as it can and reports each answer, until it is killed. Started by crash.test.ts.
import { appendFileSync, writeSync } from "node:fs";

const { built, file, effects, name, durability, sessions: ids } = JSON.parse(process.argv[2]);
const { createSessions } = await import(`${built}/index.js`);
const { sqliteStore } = await import(`${built}/stores/sqlite.js`);
const { ledger } = await import("./crash-ledger.mjs");

const environment = await ledger(built, (call) => appendFileSync(effects, `${call}\n`));
const sessions = createSessions({ environment, store: sqliteStore({ file, durability }) });

// One write per report, so that it is whole or missing, and present before the next action.
const report = (...words) => writeSync(1, `${words.join(" ")}\n`);

async function work(session) {
  for (let n = 0; ; n++) {
    const call = `${name}-${n}`;
    const tool = n % 10 === 9 ? "send" : n % 3 === 0 ? "gather" : "add";
    report("calling", session, tool, call);
    const answer = await sessions.call(session, tool, { n: 1 }, { call });
    report(answer.ok ? "answered" : "failed", session, tool, call, answer.version);
  }
}

await Promise.all(ids.map(work));
