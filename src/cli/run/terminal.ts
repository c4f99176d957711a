// Where a run prints: what is said, what went wrong, and the prompt, each on its stream.
import { plain } from "../plain.ts";

export interface Terminal {
  /** What is said. */
  out(text: string): void;
  /** What went wrong, and what else is not part of the conversation. */
  error(text: string): void;
  /** What is said about the run. With JSON, lines of which are on the output, it goes where errors go. */
  note(text: string): void;
  /** Whether somebody reads the output as it comes. */
  readonly isWatched: boolean;
  /** Where the prompt goes: not into a file or a pipe that is to hold the conversation. */
  readonly screen: NodeJS.WriteStream;
}

export function createTerminal(json: boolean): Terminal {
  const { stdout, stderr } = process;
  const out = printTo(stdout);
  const error = printTo(stderr);
  const isWatched = stdout.isTTY;
  return { out, error, note: json ? error : out, isWatched, screen: isWatched && !json ? stdout : stderr };
}

function printTo(stream: NodeJS.WriteStream): (text: string) => void {
  return (text) => void stream.write(stream.isTTY ? plain(text) : text);
}
