#!/usr/bin/env node
// The command line: lists the commands, and turns errors into one line and an exit code.
import { inspect } from "node:util";
import { Command } from "commander";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import { packageVersion } from "../server/version.ts";
import { assertRequired, fitHelp, helpWidth } from "./help.ts";
import { hideSecretsInWord } from "../io/hide-secrets.ts";
import { plain, print } from "../io/plain.ts";
import { surviveStrayErrors } from "../rollout/stray-errors.ts";

const commands = new Map([
  ["init", () => import("./init.ts")],
  ["serve", () => import("./serve.ts")],
  ["run", () => import("./run-agent.ts")],
  ["collect", () => import("./collect.ts")],
  ["worker", () => import("./worker.ts")],
  ["queue", () => import("./queue.ts")],
  ["runs", () => import("./runs.ts")],
  ["metrics", () => import("./metrics.ts")],
  ["show", () => import("./show.ts")],
  ["view", () => import("./view.ts")],
  ["tasks", () => import("./tasks.ts")],
  ["export", () => import("./export.ts")],
  ["reverify", () => import("./reverify.ts")],
  ["replay", () => import("./replay.ts")],
  ["check", () => import("./check.ts")],
  ["sessions", () => import("./sessions.ts")],
  ["token", () => import("./token.ts")],
  ["errors", () => import("./errors.ts")],
]);

const program = new Command("holdfast")
  .description("Stateful environments and agents for language models. State survives restarts, replicas and retries.")
  .option("--debug", "print stack traces of errors")
  .configureHelp({ showGlobalOptions: true, minWidthToWrap: 20 })
  .showHelpAfterError("(--help lists the options)")
  .configureOutput({
    outputError: (text, write) => write(withoutSecrets(text.replace(/^error: /, "invalid_option: "))),
    getOutHelpWidth: helpWidth,
    // Commander wraps the usage and the options itself, but not the examples, which it writes separately.
    writeOut: (text) => process.stdout.write(text.startsWith("Usage:") ? text : fitHelp(text, helpWidth())),
  })
  .hook("preAction", (_, command) => assertRequired(command));

/** Hides the secrets of typed URLs in an error, because output is kept in logs. */
function withoutSecrets(text: string): string {
  const typed = process.argv.slice(2).map((word) => word.replace(/^--[\w-]+=/, ""));
  // Some commands remove slashes from the end of a URL.
  const urls = typed.flatMap((word) => [word, word.replace(/\/+$/, "")]);
  return urls.reduce((shown, url) => (url === "" ? shown : shown.replaceAll(url, () => hideSecretsInWord(url))), text);
}

/** Loads only the command that is used, because each command loads much code. Help and suggestions need all commands. */
async function addCommands(): Promise<void> {
  const used = commands.get(process.argv.slice(2).find((word) => !word.startsWith("-")) ?? "");
  for (const load of used ? [used] : commands.values()) (await load()).add(program);
  program
    .command("version")
    .description("Print the version, as --version does.")
    .action(() => print(packageVersion()));
}

// The reader of the output may stop early, as in `| head -1`.
const unread = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") {
    process.stderr.write(`cannot write the output: ${error.message}\n`);
    process.exit(1);
  }
  // A collection writes files, and a worker serves others, so both continue without a reader.
  if (!["collect", "worker"].includes(process.argv[2] ?? "")) process.exit(0);
};
process.stdout.on("error", unread);
process.stderr.on("error", unread);

const isDebugging = (): boolean => program.opts<{ debug?: boolean }>().debug === true;
surviveStrayErrors(isDebugging);

try {
  // --version is not a global option of Commander, because subcommands have their own --version.
  if (process.argv[2] === "--version") print(packageVersion());
  else {
    // Commander's `help` ignores an unknown command. Without the word `help`, the command is refused with a suggestion.
    const [first, topic = "-"] = process.argv.slice(2);
    if (first === "help" && /^[^-]/.test(topic) && ![...commands.keys(), "version", "help"].includes(topic))
      process.argv.splice(2, 1);
    await addCommands();
    await program.parseAsync();
  }
} catch (thrown) {
  const code = isHoldfastError(thrown) ? thrown.code : (thrown as { code?: unknown } | null)?.code;
  const line = `${typeof code === "string" ? code : "error"}: ${messageOf(thrown)}\n`;
  const stack = isDebugging() ? `${inspect(thrown)}\n` : "";
  process.stderr.write(plain(withoutSecrets(line + stack)), () => process.exit(1));
}
