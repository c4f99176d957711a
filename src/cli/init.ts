// holdfast init: creates a new environment or agent, with a test.
import { Option, type Command } from "commander";

const kinds = {
  stateless: "an environment whose tools only return data; it scores the calls",
  stateful: "an environment whose tools change a state; it scores the state",
  "multi-step": "an environment whose tools need results from earlier calls",
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

Without --kind, init asks for the kind. If the input is not a terminal, the kind
is stateful.`;

export function add(program: Command): void {
  program
    .command("init")
    .description("Create an environment or agent: a folder with a test and a README.")
    .argument("<name>", "name for the folder, the package, and the environment or agent")
    .addOption(new Option("--kind <kind>", "kind of project").choices(names))
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

/** Asks for a kind, by number or name, on a terminal. If the input is not a terminal, returns "stateful". */
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
    process.stdout.write(`"${answer}" is not a kind; type a number from 1 to ${names.length}, or a name\n`);
  }
}

function inWords({ name, kind, files, next }: { name: string; kind: string; files: string[]; next: string[] }): string {
  return [
    `Created ${name}, ${kind === "agent" ? "an agent" : `a ${kind} environment`}:`,
    ...files.map((file) => `  ${name}/${file}`),
    "",
    "Next:",
    ...next.map((command) => `  ${command}`),
    "",
    `Next, edit ${kind === "agent" ? "agent" : "environment"}.ts. README.md explains each file.`,
    "",
  ].join("\n");
}
