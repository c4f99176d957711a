// holdfast init: makes a new environment, with a solution, tasks and a test.
import { Option, type Command } from "commander";

const kinds = {
  stateless: "tools that only answer; what was asked is scored",
  stateful: "a state that tools change, and that is scored in the end",
  "multi-step": "tools that need each other's results, on a state with structure",
};
type KindName = keyof typeof kinds;
const names = Object.keys(kinds) as KindName[];

interface Flags {
  kind?: KindName;
  json?: boolean;
}

const example = `
Kinds:
${names.map((name) => `  ${name.padEnd(10)}  ${kinds[name]}`).join("\n")}

Examples:
  $ holdfast init thermostat
  $ holdfast init mail-room --kind multi-step

Without --kind it asks on a terminal, and makes a stateful one elsewhere.`;

export function addInit(program: Command): void {
  program
    .command("init")
    .description("Make a new environment: a folder with a solution, tasks, a test and a README.")
    .argument("<name>", "of the folder, the package and the environment")
    .addOption(new Option("--kind <kind>", "what to start from").choices(names))
    .option("--json", "print what was made as JSON")
    .addHelpText("after", example)
    .action(run);
}

async function run(name: string, flags: Flags): Promise<void> {
  const { createProject, refuseName } = await import("./init/create.ts");
  refuseName(name);
  const chosen = flags.kind ?? (await askedKind(flags.json ?? false));
  const files = await createProject(name, name, chosen);
  const next = nextCommands(name);
  if (flags.json) process.stdout.write(`${JSON.stringify({ name, kind: chosen, files, next }, null, 2)}\n`);
  else process.stdout.write(inWords({ name, kind: chosen, files, next }));
}

/** Asks for a kind by number or name on a terminal. Elsewhere it is stateful. */
async function askedKind(json: boolean): Promise<KindName> {
  if (json || !process.stdin.isTTY || !process.stdout.isTTY) return "stateful";
  const { createInterface } = await import("node:readline/promises");
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C and the end of the input leave without a folder.
  reader.on("close", () => process.exit(130));
  for (const [at, name] of names.entries()) {
    process.stdout.write(`  ${at + 1}  ${name.padEnd(10)}  ${kinds[name]}\n`);
  }
  for (;;) {
    const answer = (await reader.question("Which kind? (2) ")).trim() || "stateful";
    const chosen = names[Number(answer) - 1] ?? names.find((name) => name === answer);
    if (chosen) {
      reader.removeAllListeners("close").close();
      return chosen;
    }
  }
}

function nextCommands(name: string): string[] {
  const hasSqlite = process.getBuiltinModule?.("node:sqlite") !== undefined;
  // SQLite, where collect and serve keep their sessions, is in Node from 22.13 on.
  return [`cd ${name}`, `npm install${hasSqlite ? "" : " better-sqlite3"}`, "npm test", "npm run collect"];
}

function inWords({ name, kind, files, next }: { name: string; kind: string; files: string[]; next: string[] }): string {
  return [
    `Made ${name}, a ${kind} environment:`,
    ...files.map((file) => `  ${name}/${file}`),
    "",
    "Next:",
    ...next.map((command) => `  ${command}`),
    "",
    "Then make environment.ts your own. README.md says what each file is for.",
    "",
  ].join("\n");
}
