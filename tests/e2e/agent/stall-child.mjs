// Runs a turn in a process whose event loop stands still before its external tool. Started by stall.test.ts.
import { writeSync } from "node:fs";

const { built, file, session, lease, stall } = JSON.parse(process.argv[2]);
const { createSessions, defineAgent, run, scriptedModel, tool } = await import(`${built}/index.js`);
const { sqliteStore } = await import(`${built}/stores/sqlite.js`);

const report = (line) => writeSync(1, `${line}\n`);
const agent = defineAgent({
  name: "payer",
  model: scriptedModel([{ calls: [{ name: "pay" }] }, "Paid."]),
  callbacks: {
    beforeTool() {
      report("stalled");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stall);
      report("awake");
    },
  },
  tools: { pay: tool({ description: "Pays.", effects: "external", run: () => report("paid") }) },
});
const store = sqliteStore({ file });
const sessions = createSessions({ app: "stall", store, lease });
try {
  for await (const _ of run(agent, { sessions, session, message: "pay", call: "m1" })) continue;
  report("answered");
} catch (thrown) {
  report(thrown.code);
}
await store.close();
