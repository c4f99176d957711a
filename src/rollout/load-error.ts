// explainLoadError(): says where an author's file could not be loaded: file, line and column.
import { existsSync, readFileSync } from "node:fs";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import { authorsLine, shortenPath } from "../session/thrown.ts";

const parseError = /^ParseError: (.*?)\s*\n\s*(\S.*):(\d+):(\d+)\s*$/s;

/** Returns the place and the message of an error, as in "environment.ts:12:5: Unexpected token". */
export function explainLoadError(thrown: unknown, target: string): string {
  const [, problem, file = "", line, column] = parseError.exec(messageOf(thrown)) ?? [];
  if (problem !== undefined) return `${shortenPath(file)}:${line}:${Number(column) + 1}: ${problem}`;
  const [message = ""] = messageOf(thrown).split("\n");
  const found = authorsLine(thrown);
  if (!found) return `cannot load ${target}: ${message}`;
  const name = thrown instanceof Error && thrown.name !== "Error" && !isHoldfastError(thrown) ? `${thrown.name}: ` : "";
  return `${shortenPath(found.path)}:${found.line}${importColumn(found, message)}: ${name}${message}`;
}

/** Returns the column of a missing import, as in ":19". */
function importColumn({ path, line }: { path: string; line: number }, message: string): string {
  const [, specifier] = /^Cannot find (?:module|package) '([^']+)'/.exec(message) ?? [];
  if (specifier === undefined || !existsSync(path)) return "";
  const at = readFileSync(path, "utf8").split("\n")[line - 1]?.indexOf(specifier) ?? -1;
  return at < 0 ? "" : `:${at + 1}`;
}

/** Tells whether a module does not parse, so that none of its code has run. */
export const isUnparsed = (thrown: unknown): boolean => thrown instanceof SyntaxError && !authorsLine(thrown);
