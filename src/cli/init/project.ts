// The files around an environment that are the same for every kind: the package, its test, its README.
import type { Kind } from "./kind.ts";

/** What the new package asks for: the versions that this one is tested with. A test compares them. */
export const versions = {
  holdfast: "^0.1.0",
  zod: "^4.6.7",
  typescript: "^6.0.3",
  "@types/node": "^20.19.43",
};

/** All files but tasks.jsonl, which generate.ts prints. */
export function projectFiles(name: string, kind: Kind): Map<string, string> {
  return new Map([
    ["package.json", packageJson(name)],
    ["tsconfig.json", tsconfig],
    [".gitignore", ignored],
    ["README.md", readme(name, kind)],
    ["environment.ts", kind.environment.replace('"NAME"', JSON.stringify(name))],
    ["solution.ts", kind.solution],
    ["generate.ts", kind.generate],
    ["environment.test.ts", testFile],
  ]);
}

function packageJson(name: string): string {
  const { holdfast, zod, ...dev } = versions;
  const made = {
    name,
    version: "0.1.0",
    private: true,
    type: "module",
    engines: { node: ">=20.19" },
    scripts: {
      test: "tsc && node --test dist/environment.test.js",
      check: "holdfast check .",
      tasks: "tsc && node dist/generate.js > tasks.jsonl",
      collect: "holdfast collect . --model scripted --out runs/scripted.jsonl --resume",
      serve: "holdfast serve . --port 8080 --store sqlite:sessions.db",
    },
    dependencies: { holdfast, zod },
    devDependencies: dev,
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

const tsconfig = `{
  "compilerOptions": {
    "target": "es2023",
    "lib": ["es2023"],
    "module": "nodenext",
    "types": ["node"],
    "rootDir": ".",
    "outDir": "dist",
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "rewriteRelativeImportExtensions": true,
    "skipLibCheck": true
  },
  "include": ["*.ts"]
}
`;

const ignored = `node_modules/
dist/
runs/
*.db
*.db-wal
*.db-shm
`;

const testFile = `// The solution wins every task, doing nothing wins none, and the environment keeps what every environment promises.
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createSessions, memoryStore, type Json } from "holdfast";
import { environmentCases, solutionCases } from "holdfast/testing";
import environment from "./environment.ts";
import solution from "./solution.ts";

const lines = readFileSync("tasks.jsonl", "utf8").trim().split("\\n");
const tasks = lines.map((line) => JSON.parse(line) as Json);
// Each case opens sessions on a store of its own, and stops them.
const open = () => createSessions({ environment, store: memoryStore() });

for (const { name, run } of environmentCases) test(name, () => run({ open, tasks }));
for (const { name, run } of solutionCases) test(name, () => run({ open, tasks, solution }));
`;

const readme = (name: string, { parts }: Kind): string => `# ${name}

An environment for language models, made by \`holdfast init\`.

\`environment.ts\` is what you change first. It is made of
${parts}

| file | what it is |
| --- | --- |
| \`environment.ts\` | the environment: state, seed, tools, verify |
| \`solution.ts\` | the calls that win a task; \`--model scripted\` plays them |
| \`tasks.jsonl\` | the tasks, one a line; a row is the prompt and what the environment's \`task\` takes |
| \`generate.ts\` | makes the tasks: \`npm run tasks\` |
| \`environment.test.ts\` | every task can be won, none by doing nothing |

\`\`\`sh
npm install
npm test
npm run check
npm run collect
\`\`\`

Before Node 22.13 sessions are kept in a file with \`npm install better-sqlite3\`; newer versions of Node have SQLite.

\`npm run check\` tries the environment in the process and over HTTP. \`npm run collect\` plays the solution over all tasks and
writes scored transcripts to \`runs/\`. With a model of yours, and a server that speaks the API of OpenAI:

\`\`\`sh
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 npx holdfast collect . --model chat:NAME --repeats 4 --out runs/NAME.jsonl
npx holdfast metrics runs/scripted.jsonl runs/NAME.jsonl
\`\`\`

\`npm run serve\` serves it on port 8080, for agents and trainers that speak the gym protocol. \`npx holdfast --help\` lists the
rest.
`;
