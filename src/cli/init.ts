// holdfast init: creates a new environment or agent, with a test.
import { Option, type Command } from "commander";

const kinds = {
  stateless: "an environment whose tools only answer; the calls are scored",
  stateful: "an environment whose tools change a state; the state is scored",
  "multi-step": "an environment whose tools need each other's results",
  agent: "an agent with tools, callbacks and a state",
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
  $ npx holdfast init thermostat
  $ npx holdfast init mail-room --kind multi-step
  $ npx holdfast init shopping-list --kind agent

Without --kind, init asks for it on a terminal. Elsewhere it is stateful.`;

export function addInit(program: Command): void {
  program
    .command("init")
    .description("Create an environment or agent: a folder with a test and a README.")
    .argument("<name>", "name of the folder, the package and the environment or agent")
    .addOption(new Option("--kind <kind>", "what to make").choices(names))
    .option("--json", "print the created files and the next commands as JSON")
    .addHelpText("after", example)
    .action(run);
}

async function run(name: string, flags: Flags): Promise<void> {
  const { createProject, refuseName } = await import("./init/create.ts");
  refuseName(name);
  const chosen = flags.kind ?? (await askedKind(flags.json ?? false));
  const files = await createProject(name, name, chosen);
  const next = [`cd ${name}`, "npm install", "npm test", chosen === "agent" ? "npm start" : "npm run collect"];
  if (flags.json) process.stdout.write(`${JSON.stringify({ name, kind: chosen, files, next }, null, 2)}\n`);
  else process.stdout.write(inWords({ name, kind: chosen, files, next }));
}

/** Asks for a kind by number or name on a terminal. Elsewhere it is stateful. */
async function askedKind(json: boolean): Promise<KindName> {
  if (json || !process.stdin.isTTY || !process.stdout.isTTY) return "stateful";
  const { createInterface } = await import("node:readline/promises");
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C and the end of the input exit without creating a folder.
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

function inWords({ name, kind, files, next }: { name: string; kind: string; files: string[]; next: string[] }): string {
  return [
    `Made ${name}, ${kind === "agent" ? "an agent" : `a ${kind} environment`}:`,
    ...files.map((file) => `  ${name}/${file}`),
    "",
    "Next:",
    ...next.map((command) => `  ${command}`),
    "",
    `Then change ${kind === "agent" ? "agent" : "environment"}.ts. README.md says what each file is for.`,
    "",
  ].join("\n");
}
