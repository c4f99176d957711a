// The streams of a run: for the conversation, for errors, and for the prompt.
import { plain } from "../plain.ts";

export interface Terminal {
  /** Prints the conversation. */
  out(text: string): void;
  /** Prints errors, and other text that is not part of the conversation. */
  error(text: string): void;
  /** Prints notes about the run: with JSON to the error stream, because the output has only JSON. */
  note(text: string): void;
  /** Whether the output is a terminal. */
  readonly isWatched: boolean;
  /** The stream of the prompt: never a file or a pipe for the conversation. */
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
