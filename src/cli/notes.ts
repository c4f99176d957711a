// Reports about the files that a command reads, on standard error.
import { plain } from "../io/plain.ts";
import type { OnBad } from "../rollout/tasks.ts";

const mostNotes = 10;

/** Reports invalid lines on standard error. The rest of the file is read, and the exit code is 1. */
export function createComplaints(): OnBad {
  let count = 0;
  return ({ line, problem }, file) => {
    process.exitCode = 1;
    if (++count <= mostNotes) note(`line ${line} of ${file} is ignored: ${problem}`);
    else if (count === mostNotes + 1) note("further invalid lines are not listed");
  };
}

/** Prints a note to standard error. Control characters are escaped, because the text may come from a file. */
export function note(text: string): void {
  process.stderr.write(`${plain(text)}\n`);
}
