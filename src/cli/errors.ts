// holdfast errors: explains error codes.
import type { Command } from "commander";
import { errorTable, invalidOption, type ErrorCode } from "../core/errors.ts";
import { suggest } from "../core/suggest.ts";
import { terminalWidth, wrap } from "./help.ts";
import { print } from "../io/plain.ts";

export function add(program: Command): void {
  program
    .command("errors")
    .description("Explain an error code, or list all codes.")
    .argument("[code]", "an error code, as in session_busy")
    .addHelpText("after", "\nExamples:\n  $ npx holdfast errors\n  $ npx holdfast errors session_busy")
    .action(explain);
}

function explain(code: string | undefined): void {
  const codes = Object.keys(errorTable) as ErrorCode[];
  const widest = Math.max(...codes.map(({ length }) => length));
  if (code === undefined) {
    const width = terminalWidth() ?? Infinity;
    for (const each of codes) print(wrap(`${each.padEnd(widest)}  ${errorTable[each].meaning}`, width));
    print("\nExplain a code: npx holdfast errors CODE");
    return;
  }
  if (!Object.hasOwn(errorTable, code)) throw invalidOption(`there is no error code "${code}"${hint(code, codes)}`);
  const { status, meaning } = errorTable[code as ErrorCode];
  print(`${code} (HTTP ${status})\n${meaning[0]?.toUpperCase()}${meaning.slice(1)}.`);
}

function hint(code: string, codes: string[]): string {
  const suggested = suggest(code, codes);
  return suggested.includes("did you mean") ? suggested : "; `holdfast errors` lists the codes";
}
