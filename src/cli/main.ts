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
import { plain } from "./plain.ts";
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
  .option("--debug", "print the stack of an error")
  .addHelpText("after", "\n`holdfast --version` prints the version.")
  .configureHelp({ showGlobalOptions: true })
  .showHelpAfterError("(--help lists the options)")
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "invalid_option: ")) });

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

// The reader of the output may have read enough, as in `| head -1`.
const unread = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") process.exit(1);
  // The result of a collection is its files, and a worker serves others: both continue without a reader.
  if (!["collect", "worker"].includes(process.argv[2] ?? "")) process.exit(0);
};
process.stdout.on("error", unread);
process.stderr.on("error", unread);

try {
  // Not an option of the program: subcommands have a --version of their own.
  if (process.argv[2] === "--version") process.stdout.write(`${packageVersion()}\n`);
  else await program.parseAsync();
} catch (thrown) {
  const code = isHoldfastError(thrown) ? thrown.code : (thrown as { code?: unknown } | null)?.code;
  const line = `${typeof code === "string" ? code : "error"}: ${messageOf(thrown)}\n`;
  const stack = program.opts<{ debug?: boolean }>().debug ? `${inspect(thrown)}\n` : "";
  process.stderr.write(plain(line + stack), () => process.exit(1));
}
