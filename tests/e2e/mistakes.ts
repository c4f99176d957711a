// Mistakes of authors and users, each with a part of the message it gets. The test runs every one.

/** One mistake: files that replace those of a working project, the command, and its message. */
export interface Mistake {
  mistake: string;
  /** Replaces a text of environment.ts by another. */
  edit?: [from: string, to: string];
  /** Files to add or to replace, by name. */
  files?: Record<string, string>;
  /** The arguments of `holdfast`. The test replaces SERVER and PORT by those of a server that is not Holdfast. */
  command: string[];
  /** The address of the model. */
  model?: string;
  says: string[];
}

const collect = ["collect", ".", "--model", "scripted", "--out", "out.jsonl"];

const withModel = ["collect", ".", "--model", "chat:m", "--out", "out.jsonl"];
const ask = ["run", "agent.ts", "--replay", "queries.json"];

/** The working project. */
export const project: Record<string, string> = {
  "environment.ts": `import { defineEnvironment, tool } from "holdfast";
import { z } from "zod";

export default defineEnvironment({
  name: "till",
  state: z.object({ cash: z.int().default(0) }),
  task: z.object({ goal: z.int() }),
  seed: () => ({ cash: 0 }),
  tools: {
    pay: tool({
      description: "Pay into the till.",
      input: z.object({ amount: z.int() }),
      run: ({ state }, { amount }) => (state.cash += amount),
    }),
  },
  verify: ({ state, task }) => Number(state.cash === task.goal),
});
`,
  "solution.ts": `export default function* solution({ goal }: { goal: number }) {
  yield { tool: "pay", input: { amount: goal } };
  return "Done.";
}
`,
  "tasks.jsonl": `{"responses_create_params":{"input":[{"role":"user","content":"Pay 3."}]},"goal":3}\n`,
  "queries.json": `{"queries":["Hello?"]}\n`,
  "agent.ts": `import { defineAgent, scriptedModel } from "holdfast";
export default defineAgent({ name: "clerk", model: scriptedModel(() => "Hello.") });
`,
};

export const authors: Mistake[] = [
  {
    mistake: "a tool reads a field of undefined",
    edit: ["(state.cash += amount)", "(state.cash += (undefined as any).price)"],
    command: collect,
    says: ["1 × TypeError: Cannot read properties of undefined (reading 'price') in pay (environment.ts:13)", "exit 0"],
  },
  {
    mistake: "a tool reads a field of undefined, and is checked",
    edit: ["(state.cash += amount)", "(state.cash += (undefined as any).price)"],
    command: ["check", "."],
    says: [
      "pay {\"amount\":3} failed: TypeError: Cannot read properties of undefined (reading 'price') in pay (environment.ts:13)",
      "exit 1",
    ],
  },
  {
    mistake: "the solution earns less than the best reward",
    edit: ["Number(state.cash === task.goal)", "0.42 * Number(state.cash === task.goal)"],
    command: ["check", "."],
    says: [
      "task 0: the solution earns 0.42, but the best reward is 1; correct the solution, or set `bestReward`",
      "skipped  verify reads its caller's session",
      "1 failed",
      "exit 1",
    ],
  },
  {
    mistake: "seed throws, and is checked",
    edit: ["() => ({ cash: 0 })", "() => { throw new Error('no cash'); }"],
    command: ["check", "."],
    says: ["fail     every task can be used as a seed", "× Error: no cash in seed (environment.ts:8)", "exit 1"],
  },
  {
    mistake: "the solution throws, and is checked",
    files: { "solution.ts": "export default function* solution() {\n  throw new Error('no plan');\n}\n" },
    command: ["check", "."],
    says: ["Error: no plan in the solution (solution.ts:2)", "skipped  the checks over HTTP", "exit 1"],
  },
  {
    mistake: "a tool calls Math.random()",
    edit: ["(state.cash += amount)", "(state.cash += amount + Math.floor(1000 * Math.random()))"],
    command: ["check", "."],
    says: [
      "environment.ts:13 calls Math.random(), so the code is not deterministic; use random() from the context instead",
      "pass     ISOLATION",
      "exit 1",
    ],
  },
  {
    mistake: "a required option is misspelt",
    command: ["collect", ".", "--ouput", "out.jsonl"],
    says: ["invalid_option: unknown option '--ouput'\n(Did you mean --out?)", "exit 1"],
  },
  {
    mistake: "a tool ends the process",
    edit: ["(state.cash += amount)", "process.exit(3)"],
    command: collect,
    says: [
      "environment.ts:13 ended the process with exit code 3 before",
      "continue with: npx holdfast collect",
      "exit 3",
    ],
  },
  {
    mistake: "there is no verify",
    edit: ["  verify: ({ state, task }) => Number(state.cash === task.goal),\n", ""],
    command: collect,
    says: ["till has no verify; add one to defineEnvironment", "exit 1"],
  },
  {
    mistake: "verify throws",
    edit: ["Number(state.cash === task.goal)", "{ throw new RangeError('no goal'); }"],
    command: collect,
    says: ["1 × RangeError: no goal in verify (environment.ts:16)", "exit 1"],
  },
  {
    mistake: "seed throws",
    edit: ["() => ({ cash: 0 })", "() => { throw new Error('no cash'); }"],
    command: collect,
    says: ["1 × Error: no cash in seed (environment.ts:8)", "exit 1"],
  },
  {
    mistake: "a comma is missing",
    edit: ['name: "till",', 'name: "till"'],
    command: collect,
    says: ['cannot_load: environment.ts:6:3: Unexpected token, expected ","', "exit 1"],
  },
  {
    mistake: "an import names a file that is not there",
    edit: ['import { z } from "zod";', 'import { z } from "zod";\nimport { prices } from "./prices.ts";\nvoid prices;'],
    command: collect,
    says: ["cannot_load: environment.ts:3:25: Cannot find module './prices.ts'", "exit 1"],
  },
  {
    mistake: "a package is not installed",
    edit: ['import { z } from "zod";', 'import { z } from "zod";\nimport pad from "pad-left-and-right";\nvoid pad;'],
    command: collect,
    says: ["cannot_load: environment.ts:3:18: Cannot find module 'pad-left-and-right'", "exit 1"],
  },
  {
    mistake: "the file exports nothing",
    edit: ["export default defineEnvironment", "defineEnvironment"],
    command: collect,
    says: [
      "cannot_load: environment.ts has no default export; write `export default defineEnvironment({ … })`",
      "exit 1",
    ],
  },
  {
    mistake: "an option of the environment is misspelt",
    edit: ["  tools: {", "  tolls: {"],
    command: collect,
    says: ['cannot_load: environment.ts:4: the environment till has no option "tolls"; did you mean tools?', "exit 1"],
  },
  {
    mistake: "an option of a tool is misspelt",
    edit: ['description: "Pay', 'concurent: true,\n      description: "Pay'],
    command: collect,
    says: ['cannot_load: environment.ts:10: a tool has no option "concurent"; did you mean concurrent?', "exit 1"],
  },
  {
    mistake: "a callback of an agent is misspelt",
    files: {
      "queries.json": `{"queries":["Hello?"]}\n`,
      "agent.ts": `import { defineAgent, scriptedModel } from "holdfast";
export default defineAgent({ name: "clerk", model: scriptedModel(() => "Hi."), callbacks: { beforeAgnet: () => {} } } as never);
`,
    },
    command: ask,
    says: ['`callbacks` of clerk has no option "beforeAgnet"; did you mean beforeAgent?', "exit 1"],
  },
  {
    mistake: "a callback throws",
    files: {
      "queries.json": `{"queries":["Hello?"]}\n`,
      "agent.ts": `import { defineAgent, scriptedModel } from "holdfast";
export default defineAgent({
  name: "clerk",
  model: scriptedModel(() => "Hi."),
  callbacks: { beforeModel: () => { throw new TypeError("no prompt"); } },
});
`,
    },
    command: ask,
    says: [
      "callback_failed: beforeModel of agent clerk failed: no prompt",
      "in beforeModel of agent clerk (agent.ts:5)",
      "exit 1",
    ],
  },
  {
    mistake: "an agent has no model",
    files: {
      "agent.ts": `import { defineAgent } from "holdfast";\nexport default defineAgent({ name: "clerk" } as never);\n`,
    },
    command: ask,
    says: ["the agent clerk needs a model", "exit 1"],
  },
  {
    mistake: "a tool writes a state that breaks the schema",
    edit: ["(state.cash += amount)", "(state.cash += amount / 2)"],
    command: collect,
    says: ["1 × state_invalid: cash: Invalid input: expected int, received number in pay", "exit 0"],
  },
  {
    mistake: "seed returns a state that breaks the schema",
    edit: ["() => ({ cash: 0 })", "() => ({ cash: 0.5 })"],
    command: collect,
    says: [
      "seed of till failed: it returned an invalid state: cash: Invalid input: expected int, received number",
      "exit 1",
    ],
  },
  {
    mistake: "verify returns NaN",
    edit: ["Number(state.cash === task.goal)", "Number(state.cash / 0 - task.goal / 0)"],
    command: collect,
    says: ["verify of till failed: it must return a finite reward, not NaN", "exit 1"],
  },
  {
    mistake: "verify returns a text",
    edit: ["Number(state.cash === task.goal)", "(String(state.cash === task.goal) as never)"],
    command: collect,
    says: ["verify of till failed: it must return a finite reward, not string", "exit 1"],
  },
  {
    mistake: "a tool returns a function",
    edit: ["(state.cash += amount)", "((() => amount) as never)"],
    command: collect,
    says: ["1 × not_json: the output of pay is a function; only JSON can be kept", "exit 0"],
  },
  {
    mistake: "a tool keeps a Date in the state",
    edit: ["(state.cash += amount)", "{ (state as any).cash = new Date(amount); }"],
    command: collect,
    says: ["1 × not_json: state/cash is a Date; only JSON can be kept", "exit 0"],
  },
  {
    mistake: "a tool takes too long",
    edit: [
      "run: ({ state }, { amount }) => (state.cash += amount)",
      "timeout: 50,\n      run: () => new Promise<number>(() => {})",
    ],
    command: collect,
    says: ["1 × tool_timeout: pay did not return within 50 ms", "exit 0"],
  },
  {
    mistake: "a tool has a name that models refuse",
    edit: ["    pay: tool", '    "pay it": tool'],
    command: collect,
    says: ['invalid tool name "pay it" in till: use 1 to 64 letters, digits, "-" and "_"', "exit 1"],
  },
  {
    mistake: "a tool has the name of a route",
    edit: ["    pay: tool", "    seed_session: tool"],
    command: collect,
    says: ['the tool name "seed_session" in till is reserved', "exit 1"],
  },
  {
    mistake: "the input of a tool is not a schema",
    edit: ["z.object({ amount: z.int() })", "{ amount: 1 } as never"],
    command: collect,
    says: ["cannot_load: environment.ts:10: a tool's `input` must be a schema", "exit 1"],
  },
  {
    mistake: "two environments have one name",
    command: ["serve", "environment.ts", "environment.ts", "--port", "0"],
    says: ["invalid_option: two environments are called till", "exit 1"],
  },
];

export const users: Mistake[] = [
  {
    mistake: "a folder with an environment is run as an agent",
    files: { "other/environment.ts": "export {};\n" },
    command: ["run", "other"],
    says: [
      "the folder other has no agent.ts, .js or .mjs; it has an environment: use holdfast collect or serve",
      "exit 1",
    ],
  },
  {
    mistake: "a file that is not code",
    files: { "README.md": "# Till\n" },
    command: ["collect", "README.md", "--out", "out.jsonl"],
    says: ["cannot_load: README.md is not a TypeScript or JavaScript file", "exit 1"],
  },
  {
    mistake: "a server without http://",
    command: ["collect", "--server", "localhost:8080", "--tasks", "tasks.jsonl", "--out", "out.jsonl"],
    says: [
      'invalid_option: "localhost:8080" is not a valid server URL; use a URL such as http://localhost:8080',
      "exit 1",
    ],
  },
  {
    mistake: "show of a repeat that was not played",
    files: { "out.jsonl": '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1}\n' },
    command: ["show", "out.jsonl", "--repeat", "9"],
    says: ["out.jsonl has no rollout with repeat 9", "exit 1"],
  },
  {
    mistake: "every row of the tasks is invalid",
    files: { "tasks.jsonl": "{}\n{\n" },
    command: ["tasks", "check", "tasks.jsonl", "--environment", "."],
    says: ["2 rows: 0 valid, 2 invalid", "exit 1"],
  },
  {
    mistake: "a command is misspelt",
    command: ["colect", "."],
    says: ["unknown command 'colect'", "Did you mean collect?", "exit 1"],
  },
  {
    mistake: "a command is misspelt after help",
    command: ["help", "colect"],
    says: ["unknown command 'colect'", "Did you mean collect?", "exit 1"],
  },
  {
    mistake: "a flag is misspelt",
    command: [...collect, "--repeat", "2"],
    says: ["unknown option '--repeat'", "Did you mean --repeats?", "exit 1"],
  },
  {
    mistake: "the folder does not exist",
    command: ["collect", "nowhere", "--model", "scripted", "--out", "out.jsonl"],
    says: ["cannot_load: nowhere is not a folder, a file or an installed package", "exit 1"],
  },
  {
    mistake: "the model has no provider",
    command: ["collect", ".", "--model", "gpt-4o", "--out", "out.jsonl"],
    says: ['"gpt-4o" is not a model; choose one of scripted, random, random:SEED, openai:NAME', "exit 1"],
  },
  {
    mistake: "the model refuses the key",
    command: withModel,
    model: "SERVER/401",
    says: ["refused the request with status 401: Incorrect API key; check OPENAI_API_KEY", "exit 1"],
  },
  {
    mistake: "the model does not exist",
    command: withModel,
    model: "SERVER/404",
    says: ["refused the request with status 404: unknown model m", "exit 1"],
  },
  {
    mistake: "nothing listens at the model's address",
    command: withModel,
    model: "http://127.0.0.1:1/v1",
    says: ["could not be reached: connect ECONNREFUSED 127.0.0.1:1", "exit 1"],
  },
  {
    mistake: "nothing listens at the model's address, and there are many rollouts",
    command: [...withModel, "--repeats", "40", "--attempts", "1", "--concurrency", "4"],
    model: "http://127.0.0.1:1/v1",
    says: ["Stopped: 3 rollouts in a row failed for the same reason", "ECONNREFUSED", "exit 1"],
  },
  {
    mistake: "the store URL is not one",
    command: [...collect, "--store", "mysql://localhost"],
    says: ['"mysql://localhost" is not a valid store URL', "exit 1"],
  },
  {
    mistake: "nothing listens at the store's address",
    command: [...collect, "--store", "redis://127.0.0.1:1"],
    says: ["store_busy: the Redis store redis://127.0.0.1:1 cannot be reached: connect ECONNREFUSED", "exit 1"],
  },
  {
    mistake: "the SQLite file is another file",
    command: [...collect, "--store", "sqlite:tasks.jsonl"],
    says: ["store_corrupt", "is damaged or not a database", "exit 1"],
  },
  {
    mistake: "there are no tasks",
    files: { "tasks.jsonl": "" },
    command: collect,
    says: ["tasks.jsonl has no tasks; write one JSON object per line", "exit 1"],
  },
  {
    mistake: "a line of the tasks is not JSON",
    files: { "tasks.jsonl": `${project["tasks.jsonl"]}{"goal": 4,}\n` },
    command: collect,
    says: ["1 × invalid task: line 2: it is not JSON", "exit 1"],
  },
  {
    mistake: "a task has a field of the wrong type",
    files: { "tasks.jsonl": project["tasks.jsonl"]!.replace('"goal":3', '"goal":"3"') },
    command: ["tasks", "check", "tasks.jsonl", "--environment", "."],
    says: ["tasks.jsonl:1: it is invalid for till: goal: Invalid input: expected number, received string", "exit 1"],
  },
  {
    mistake: "the output exists already",
    files: { "out.jsonl": "{}\n" },
    command: collect,
    says: ["out.jsonl already exists; continue it with --resume, or choose another --out", "exit 1"],
  },
  {
    mistake: "the request is not JSON",
    command: [...collect, "--request", "{temperature: 1}"],
    says: ["'--request <json>' argument '{temperature: 1}' is invalid. The value is not JSON", "exit 1"],
  },
  {
    mistake: "a duration has no unit",
    command: ["serve", ".", "--port", "0", "--idle", "5"],
    says: ["Use a number and a unit, as in 500ms, 30s, 10m, 1h or 7d.", "exit 1"],
  },
  {
    mistake: "the port is taken",
    command: ["serve", ".", "--port", "PORT"],
    says: ["another program uses port", "choose another --port, or --port 0 for a free one", "exit 1"],
  },
  {
    mistake: "nothing listens at the address to check",
    command: ["check", "http://127.0.0.1:1"],
    says: ["no server answers at http://127.0.0.1:1: connection refused", "exit 1"],
  },
  {
    mistake: "the tasks file to check with is missing",
    command: ["check", ".", "--tasks", "task.jsonl"],
    says: ["cannot_load: cannot read task.jsonl", "exit 1"],
  },
  ...[
    [...collect, "--tasks", "."],
    ["collect", ".", "--model", "recorded:.", "--out", "out.jsonl"],
    ["check", ".", "--tasks", "."],
    ["tasks", "render", "tasks.jsonl", "--prompt-file", "."],
    ["export", "tasks.jsonl", "--format", "sft", "--out", ".", "--force"],
  ].map((command) => ({
    mistake: `a folder instead of a file: ${command.join(" ")}`,
    command,
    says: ["cannot_load: . is a folder, not a file", "exit 1"],
  })),
  {
    mistake: "a file is named as an output folder",
    command: ["tasks", "split", "tasks.jsonl", "--parts", "a=0.5,b=0.5", "--out", "tasks.jsonl"],
    says: ["cannot_load: tasks.jsonl is not a folder", "exit 1"],
  },
  {
    mistake: "the tasks file was saved with a byte order mark",
    files: { "tasks.jsonl": `\uFEFF${project["tasks.jsonl"]}` },
    command: ["check", "."],
    says: ["0 failed", "exit 0"],
  },
  {
    mistake: "another program listens at the address to check",
    command: ["check", "SERVER"],
    says: ["does not list its tools; name one with --tool", "exit 1"],
  },
  {
    mistake: "metrics of a tasks file",
    command: ["metrics", "tasks.jsonl"],
    says: ["tasks.jsonl has no rollouts: its rows have no reward and no response. Is it a tasks file?", "exit 1"],
  },
  ...[
    ["show", "tasks.jsonl"],
    ["view", "tasks.jsonl", "--no-open"],
    ["export", "tasks.jsonl", "--format", "grpo"],
    ["export", "tasks.jsonl", "--format", "sft"],
  ].map((command) => ({
    mistake: `a tasks file instead of rollouts: ${command.join(" ")}`,
    command,
    says: ["tasks.jsonl has no rollouts: its rows have no reward and no response. Is it a tasks file?", "exit 1"],
  })),
  {
    mistake: "the folder of ADK's web UI is not one",
    command: ["serve", ".", "--port", "0", "--adk-web", "nowhere"],
    says: ["invalid_option: nowhere has no index.html; --adk-web names the folder dist/browser", "exit 1"],
  },
  {
    mistake: "show gets two choices that exclude each other",
    files: { "out.jsonl": '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1}\n' },
    command: ["show", "out.jsonl", "--failed", "--worst"],
    says: ["invalid_option: pass --failed or --worst, not both: a failed rollout has no reward", "exit 1"],
  },
  {
    mistake: "check gets arguments without a tool",
    command: ["check", ".", "--input", "{}"],
    says: ["invalid_option: each --input needs a --tool, in the same order", "exit 1"],
  },
  {
    mistake: "metrics of a file that is missing",
    command: ["metrics", "rollouts.jsonl"],
    says: ["the file rollouts.jsonl does not exist", "exit 1"],
  },
  {
    mistake: "show of a task that was not played",
    files: { "out.jsonl": '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1}\n' },
    command: ["show", "out.jsonl", "--task", "9"],
    says: ["out.jsonl has no rollout of task 9", "exit 1"],
  },
  {
    mistake: "a session that the store does not have",
    command: ["sessions", "show", "nobody", "--store", "sqlite:new.db"],
    says: ["new.db does not exist", "exit 1"],
  },
  {
    mistake: "init into a folder with files",
    files: { "mine/notes.txt": "x" },
    command: ["init", "mine"],
    says: ["the folder mine already exists and contains notes.txt", "exit 1"],
  },
  {
    mistake: "an error code that does not exist",
    command: ["errors", "tool_fail"],
    says: ['there is no error code "tool_fail"; did you mean tool_failed?', "exit 1"],
  },
];
