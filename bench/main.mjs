// Runs one bench and prints its table: `npm run bench -- NAME [--quick] [--json]`. Without a name: lists them.
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { printed } from "./table.mjs";

/** @type {Record<string, { question: string, load: () => Promise<{ run: (options: import("./table.mjs").Options) => Promise<import("./table.mjs").Result> }> }>} */
const benches = {
  calls: {
    question: "How many calls per second, on each store, with 1 and with 1,000 busy sessions?",
    load: () => import("./calls.mjs"),
  },
  stores: {
    question: "How many commits per second does each store take, and how long does one take, beside the bare client?",
    load: () => import("./stores.mjs"),
  },
  growth: {
    question: "Does a commit cost more with a longer history, a larger state, more sessions?",
    load: () => import("./growth.mjs"),
  },
  http: {
    question: "How many requests per CPU-second does the server take, beside a bare node:http server?",
    load: () => import("./http.mjs"),
  },
  mcp: {
    question: "How many calls per CPU-second over MCP, beside the gym protocol and a server of the official SDK?",
    load: () => import("./mcp.mjs"),
  },
  wires: {
    question: "How many calls per CPU-second does the server take over each wire?",
    load: () => import("./wires.mjs"),
  },
  sessions: {
    question: "Does a request take longer when the server has 100,000 open sessions instead of 100?",
    load: () => import("./sessions.mjs"),
  },
  memory: {
    question: "How many bytes does an idle session take beyond its own state and events?",
    load: () => import("./memory.mjs"),
  },
  sizing: {
    question: "How many bytes does a session take in Redis, Postgres, SQLite and S3?",
    load: () => import("./sizing.mjs"),
  },
  agent: {
    question:
      "What does a turn of an agent cost with 10 and with 10,000 events of history? And the import, the install?",
    load: () => import("./agent.mjs"),
  },
  rollout: {
    question: "What does collecting cost: a thousand episodes at once beside their latencies, and CPU per step?",
    load: () => import("./rollout.mjs"),
  },
  requests: {
    question: "How many short episodes per second does a rollout request hand out, and what do 2,048 in flight cost?",
    load: () => import("./requests.mjs"),
  },
  viewer: {
    question:
      "How soon does the viewer show the first row of 1,000 to 100,000 rollouts, and how smoothly does it scroll?",
    load: () => import("./viewer.mjs"),
  },
  drafts: {
    question: "What do two changes to a state cost, on our drafts, mutative's and a clone?",
    load: () => import("./drafts.mjs"),
  },
};

const usage = `npm run bench -- NAME [--quick] [--json]

${Object.entries(benches)
  .map(([name, { question }]) => `  ${name.padEnd(10)}${question}`)
  .join("\n")}

  --quick   smaller sizes, in seconds; a missed bar is shown and is no failure
  --json    for machines`;

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`${message}\n\n${usage}`);
  process.exit(1);
}

function parsed() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (thrown) {
    return fail(thrown instanceof Error ? thrown.message : String(thrown));
  }
}

const { values, positionals } = parsed();
const { quick, json } = values;
const [name, ...rest] = positionals;
if (name === undefined || values.help) {
  console.log(usage);
} else {
  const bench = Object.hasOwn(benches, name) ? benches[name] : undefined;
  if (!bench) fail(`there is no bench "${name}"`);
  if (rest.length > 0) fail(`one bench at a time; what is "${rest.join(" ")}"?`);
  const { question, load } = bench;
  const { run } = await load();
  const start = performance.now();
  const progress = (/** @type {string} */ what) => {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${what}`);
  };
  const { rows, notes = [] } = await run({ quick, progress });
  progress("");
  const seconds = Math.round((performance.now() - start) / 1000);
  const processor = cpus();
  const machine = `${processor.length} x ${processor[0]?.model ?? "?"}, Node ${process.versions.node}`;
  const met = rows.every((row) => row.met !== false);
  const date = new Date().toISOString();
  if (json) console.log(JSON.stringify({ bench: name, question, quick, machine, date, seconds, met, rows, notes }));
  else {
    const how = `${machine}, ${date.slice(0, 10)}, ${seconds} s${quick ? ", quick" : ""}`;
    console.log([`${name}: ${question}`, how, "", printed(rows), ...notes.map((note) => `\n${note}`)].join("\n"));
    if (!met) console.log("\nA bar was missed.");
  }
  if (!met && !quick) process.exitCode = 1;
}
