#!/usr/bin/env node
// The command line: lists the commands, and turns errors into one line and an exit code.
import { inspect } from "node:util";
import { Command } from "commander";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import { addCheck } from "./check.ts";
import { addCollect } from "./collect.ts";
import { addErrors } from "./errors.ts";
import { addExport } from "./export.ts";
import { addInit } from "./init.ts";
import { addMetrics } from "./metrics.ts";
import { packageVersion } from "../server/version.ts";
import { assertRequired, fitHelp, helpWidth } from "./help.ts";
import { plain, print } from "./plain.ts";
import { addQueue } from "./queue.ts";
import { addReplay } from "./replay.ts";
import { addReverify } from "./reverify.ts";
import { addRun } from "./run.ts";
import { addRuns } from "./runs.ts";
import { addServe } from "./serve.ts";
import { addSessions } from "./sessions.ts";
import { addShow } from "./show.ts";
import { addTasks } from "./tasks.ts";
import { addView } from "./view.ts";
import { addWorker } from "./worker.ts";

const program = new Command("holdfast")
  .description(
    "Stateful environments and agents for language models: state that survives restarts, replicas and retries.",
  )
  .option("--debug", "print the stacks of errors")
  .configureHelp({ showGlobalOptions: true, minWidthToWrap: 20 })
  .showHelpAfterError("(--help lists the options)")
  .configureOutput({
    outputError: (text, write) => write(text.replace(/^error: /, "invalid_option: ")),
    getOutHelpWidth: helpWidth,
    // Commander wraps the usage and the options. The examples after them are written separately.
    writeOut: (text) => process.stdout.write(text.startsWith("Usage:") ? text : fitHelp(text, helpWidth())),
  })
  .hook("preAction", (_, command) => assertRequired(command));

addInit(program);
addServe(program);
addRun(program);
addCollect(program);
addWorker(program);
addQueue(program);
addRuns(program);
addMetrics(program);
addShow(program);
addView(program);
addTasks(program);
addExport(program);
addReverify(program);
addReplay(program);
addCheck(program);
addSessions(program);
addErrors(program);
program
  .command("version")
  .description("Print the version, as --version does.")
  .action(() => print(packageVersion()));

// The reader of the output may have read enough, as in `| head -1`.
const unread = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") process.exit(1);
  // The result of a collection is its files, and a worker serves others: both continue without a reader.
  if (!["collect", "worker"].includes(process.argv[2] ?? "")) process.exit(0);
};
process.stdout.on("error", unread);
process.stderr.on("error", unread);

try {
  // Not an option of the program, because subcommands have their own --version.
  if (process.argv[2] === "--version") print(packageVersion());
  else await program.parseAsync();
} catch (thrown) {
  const code = isHoldfastError(thrown) ? thrown.code : (thrown as { code?: unknown } | null)?.code;
  const line = `${typeof code === "string" ? code : "error"}: ${messageOf(thrown)}\n`;
  const stack = program.opts<{ debug?: boolean }>().debug ? `${inspect(thrown)}\n` : "";
  process.stderr.write(plain(line + stack), () => process.exit(1));
}
