// Fits help texts to the width of the terminal, and checks required options.
import { Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";

/** The width that help texts are written for. */
const written = 80;

/** Returns the width of the terminal, or COLUMNS; undefined if the output is not a terminal. */
export function terminalWidth(): number | undefined {
  const given = Number(process.env["COLUMNS"]);
  return given > 0 ? given : process.stdout.columns;
}

export const helpWidth = (): number => Math.max(40, terminalWidth() ?? written);

const required = new WeakSet<Option>();

/**
 * Creates a required option, which `assertRequired` checks. Commander's own check would report a missing option before a
 * misspelt one.
 */
export function requiredOption(flags: string, description: string, parse?: (text: string) => unknown): Option {
  const option = new Option(flags, `${description} (required)`);
  if (parse) option.argParser(parse);
  required.add(option);
  return option;
}

export function assertRequired(command: Command): void {
  const missing = command.options.find(
    (option) => required.has(option) && command.getOptionValue(option.attributeName()) === undefined,
  );
  if (missing) throw invalidOption(`${missing.flags} is required (--help lists the options)`);
}

/** Wraps the lines of examples and paragraphs again if the terminal is narrower than `written`. */
export function fitHelp(text: string, width: number): string {
  if (width >= written) return text;
  // Joins a command that continues on the next line after a backslash.
  const lines = text.replaceAll(/ \\\n\s+/g, " ").split("\n");
  const blocks: string[] = [];
  for (const line of lines) {
    const before = blocks.at(-1);
    const isText = (one: string | undefined): boolean => one !== undefined && /^\S.*[^:]$/.test(one);
    if (isText(line) && isText(before)) blocks[blocks.length - 1] = `${before} ${line}`;
    else blocks.push(line);
  }
  return blocks.map((block) => (block.startsWith("  $") ? breakCommand(block, width) : wrap(block, width))).join("\n");
}

function breakCommand(line: string, width: number): string {
  const words = line.match(/'[^']*'|"[^"]*"|[^\s'"]+/g) ?? [];
  return breakWords(words, width - 2, "  ", " \\\n      ");
}

/** Breaks a line between words. In a list line ("name  description"), further lines align with the description. */
export function wrap(line: string, width: number): string {
  const [start = ""] = /^\s*\S+\s{2,}|^\s*/.exec(line) ?? [];
  return breakWords(line.slice(start.length).split(" "), width, start, `\n${" ".repeat(start.length)}`);
}

function breakWords(words: string[], width: number, start: string, lineBreak: string): string {
  const indent = lineBreak.length - 1 - lineBreak.indexOf("\n");
  let [text, length] = [start, start.length];
  let isFirst = true;
  for (const word of words) {
    if (!isFirst && length + 1 + word.length > width) {
      text += lineBreak + word;
      length = indent + word.length;
    } else {
      text += isFirst ? word : ` ${word}`;
      length += word.length + (isFirst ? 0 : 1);
    }
    isFirst = false;
  }
  return text;
}
