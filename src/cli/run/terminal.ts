// Where a run prints: what is said, what went wrong, and the prompt, each on its stream.

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
  return (text) => void stream.write(stream.isTTY ? harmless(text) : text);
}

/** What a model writes must not move the cursor, change the title or answer questions of the terminal. */
function harmless(text: string): string {
  // eslint-disable-next-line no-control-regex -- these are what is looked for
  return text.replaceAll("\r\n", "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}
