#!/usr/bin/env node
// The command line: lists the commands, and turns whatever goes wrong into one line and an exit code.
import { Command } from "commander";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import { addCheck } from "./check.ts";
import { addServe } from "./serve.ts";
import { addSessions } from "./sessions.ts";

const program = new Command("holdfast")
  .description("Stateful environments for language models: state that survives restarts, replicas and retries.")
  .showHelpAfterError("(--help says what there is)")
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "invalid_option: ")) });

addServe(program);
addCheck(program);
addSessions(program);

try {
  await program.parseAsync();
} catch (thrown) {
  const code = isHoldfastError(thrown) ? thrown.code : (thrown as { code?: unknown } | null)?.code;
  const line = `${typeof code === "string" ? code : "error"}: ${messageOf(thrown)}\n`;
  process.stderr.write(line, () => process.exit(1));
}
